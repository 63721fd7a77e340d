// How contenders are drawn: a colour, a marker and a dash each, in all suites of its family; and who is lit in a crowd.

// Okabe and Ito's colours, then those of Tol's muted set that stay apart from them; yellow, faint on white, comes last.
const PALETTE = [
  "#D55E00",
  "#0072B2",
  "#009E73",
  "#CC79A7",
  "#56B4E9",
  "#E69F00",
  "#AA4499",
  "#117733",
  "#999933",
  "#CC6677",
  "#44AA99",
  "#F0E442",
];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "star", "pentagon", "hexagon"];
const GREY = "#888888"; // the reference's
const STYLES = new Map();
{
  // A contender takes the first of the colours that the fewest of those it meets in a suite have: so colours repeat in a
  // suite only where it has more contenders than there are colours.
  const known = [...SUITES.values()].flatMap((s) => s.contenders.map((c) => ({ ...c, family: s.family, suite: s.id })));
  const seen = CELLS.map((c) => ({
    id: c.contender,
    origin: c.origin,
    reference: c.reference,
    label: c.label,
    family: c.family,
    suite: c.suite,
  }));
  const suites = new Map();
  const members = new Map();
  const add = (map, key, value) => (map.has(key) ? map : map.set(key, new Set())).get(key).add(value);
  const everyone = new Map();
  for (const one of [...known, ...seen]) {
    const key = one.family + KEY + one.id;
    if (!everyone.has(key)) everyone.set(key, one);
    add(suites, key, one.suite);
    add(members, one.suite, key);
  }
  const taken = new Map();
  for (const [key, one] of everyone) {
    const ours = one.origin === "bancada";
    const style = { ours, label: one.label || one.id, reference: !!one.reference };
    STYLES.set(key, style);
    if (one.reference) {
      Object.assign(style, { color: GREY, symbol: "x", dash: "solid" });
      continue;
    }
    const mates = new Set([...suites.get(key)].flatMap((suite) => [...members.get(suite)]));
    const uses = PALETTE.map((color) => [...mates].filter((mate) => STYLES.get(mate)?.color === color).length);
    const place = uses.indexOf(Math.min(...uses));
    const turn = taken.get(one.family + KEY + place) || 0;
    taken.set(one.family + KEY + place, turn + 1);
    Object.assign(style, {
      color: PALETTE[place],
      symbol: SYMBOLS[(place + turn) % SYMBOLS.length],
      dash: ours ? "solid" : turn ? "dot" : "dash",
    });
  }
}
const styleOf = (cell) => STYLES.get(cell.family + KEY + cell.contender);

function mix(color, other, share) {
  const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const a = parse(color),
    b = parse(other);
  return `#${a
    .map((v, i) =>
      Math.round(v * (1 - share) + b[i] * share)
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}
const textColor = (color, look) => mix(color, look.dark ? "#ffffff" : "#000000", look.dark ? 0.35 : 0.3);
const fade = (color, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16)).join(",")},${alpha})`;

// A legend's mark: a piece of the line, and the marker as plotly draws it.

const CORNERS = {
  circle: 24,
  square: 4,
  diamond: 4,
  "triangle-up": 3,
  "triangle-down": 3,
  pentagon: 5,
  hexagon: 6,
  star: 10,
};
const TURN = { square: Math.PI / 4, "triangle-down": Math.PI, hexagon: Math.PI / 6 };
const DASHES = { solid: "", dash: "5 3", dot: "2 2" };
function markerPoints(symbol, x, y, radius) {
  const number = CORNERS[symbol];
  return Array.from({ length: number }, (_, i) => {
    const angle = (TURN[symbol] || 0) + (2 * Math.PI * i) / number;
    const r = symbol === "star" && i % 2 ? radius * 0.45 : radius;
    return `${(x + r * Math.sin(angle)).toFixed(1)},${(y - r * Math.cos(angle)).toFixed(1)}`;
  }).join(" ");
}
function swatchOf({ color, symbol, dash }) {
  const picture = svg("svg", { class: "swatch", viewBox: "0 0 24 12", "aria-hidden": "true" });
  picture.append(svg("path", { d: "M0 6H24", stroke: color, "stroke-width": 2, "stroke-dasharray": DASHES[dash] }));
  if (symbol === "x") picture.append(svg("path", { d: "M8.5 2.5l7 7m0-7l-7 7", stroke: color, "stroke-width": 2.5 }));
  else
    picture.append(
      svg("polygon", { points: markerPoints(symbol, 12, 6, symbol === "square" ? 5.4 : 4.8), fill: color }),
    );
  return picture;
}

// A crowd: where a chart holds more contenders than can be told apart, those that matter are lit and named, the others
// grey; or those that a reader has chosen in the legend.

const CROWD = 8;
const MOST_LIT = 7;
const litKey = (cell) => `${cell.family}/${cell.contender}`;
const crowded = (cells) => new Set(cells.map(litKey)).size > CROWD;

function litAmong(cells, worth, most = MOST_LIT) {
  // The contenders to light among these cells, as keys; `worth` are cells in the order in which they matter.
  const all = new Set(cells.map(litKey));
  const chosen = [...all].filter((key) => STATE.lit.has(key));
  if (chosen.length) return new Set(chosen);
  if (!crowded(cells)) return all;
  const first = [...worth, ...cells.filter((c) => c.reference)].map(litKey);
  return new Set(unique(first).slice(0, most));
}
function lookOf(cell, lit, look) {
  // Its style, or a grey one where others are lit.
  const style = styleOf(cell);
  return lit.has(litKey(cell)) ? style : { ...style, color: mix(look.muted, look.paper, 0.62), grey: true };
}
const greyLast = (lit) => (a, b) => lit.has(litKey(a)) - lit.has(litKey(b)); // what is lit is drawn on top

function crowdLegend(cells) {
  // A chip each: pressed, it lights its contender (and others pressed) in all charts of the family.
  const contenders = groups(measured(cells), litKey).map(([first]) => first); // the others are in no chart
  if (!crowded(contenders)) return null;
  const toggle = (key) => {
    if (!STATE.lit.delete(key)) STATE.lit.add(key);
    relight();
  };
  const chips = contenders.map((cell) =>
    button(chip(cell), () => toggle(litKey(cell)), { class: "lightable", "data-lit": litKey(cell) }),
  );
  const reset = button("as at first", () => {
    for (const cell of contenders) STATE.lit.delete(litKey(cell));
    relight();
  });
  reset.className = "quiet unlight";
  const box = el("div", { class: "legend lights", role: "group", "aria-label": "contenders to light in the charts" }, [
    el("span", { class: "note" }, "Light in the charts:"),
    ...chips,
    reset,
  ]);
  showLit(box);
  return box;
}
function showLit(within) {
  for (const one of within.querySelectorAll("[data-lit]"))
    one.setAttribute("aria-pressed", String(STATE.lit.has(one.dataset.lit)));
  for (const one of within.querySelectorAll(".unlight"))
    one.hidden = ![...one.parentNode.querySelectorAll("[data-lit]")].some((other) => STATE.lit.has(other.dataset.lit));
}
function relight() {
  writeFragment();
  showLit(document);
  repaint();
}

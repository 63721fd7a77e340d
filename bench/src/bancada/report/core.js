"use strict";
// The page's data, its words and numbers, the filters' state. Every text from the data reaches the page through
// textContent, or through `plain` where plotly draws it (plotly reads some HTML in its labels).

const DATA = JSON.parse(document.getElementById("bancada-data").textContent);
const STATUS = {
  ok: ["", "measured"],
  unsupported: ["–", "unsupported"],
  incorrect: ["×", "incorrect"],
  out_of_memory: ["M", "out of memory"],
  timeout: ["T", "timeout"],
  crashed: ["!", "crashed"],
  unstable: ["~", "unstable"],
  "not measured": ["?", "not measured"],
};
const KEY = "\u0001"; // joins parts of a key; no name holds it
const LEVEL = "too close to call";
const WORTH_NAMING = 1.05; // level: a difference as large as this is excluded; else nothing is decided

function decode(table) {
  const out = Array.from({ length: table.n }, () => ({}));
  for (const [name, column] of Object.entries(table.c)) {
    if ("k" in column)
      out.forEach((row) => {
        row[name] = column.k;
      });
    else if ("i" in column)
      column.i.forEach((place, i) => {
        if (place >= 0) out[i][name] = column.d[place];
      });
    else if ("s" in column)
      column.s.forEach((row, i) => {
        out[row][name] = column.v[i];
      });
    else
      column.v.forEach((value, i) => {
        if (value !== null) out[i][name] = value;
      });
  }
  return out;
}

const CELLS = decode(DATA.cells);
const PAIRS = new Map();
for (const p of decode(DATA.pairs)) {
  const turned = { faster: "slower", slower: "faster" }[p.verdict] || p.verdict;
  PAIRS.set([p.run, p.device, p.suite, p.case, p.a, p.b].join(KEY), p);
  PAIRS.set([p.run, p.device, p.suite, p.case, p.b, p.a].join(KEY), {
    ...p,
    a: p.b,
    b: p.a,
    ratio: 1 / p.ratio,
    low: 1 / p.high,
    high: 1 / p.low,
    verdict: turned,
  });
}
CELLS.forEach((cell, i) => {
  cell.index = i;
  cell.axes = {};
  for (const name in cell) if (name.startsWith("axis.")) cell.axes[name.slice(5)] = cell[name];
  cell.label = cell.label || cell.contender;
  cell.ours = cell.origin === "bancada";
  cell.caseKey = [cell.run, cell.device, cell.suite, cell.case].join(KEY);
});

const SUITES = new Map(DATA.catalogue.suites.map((suite) => [suite.id, suite]));
for (const cell of CELLS) {
  if (!SUITES.has(cell.suite))
    SUITES.set(cell.suite, { id: cell.suite, title: cell.suite, family: cell.family, contenders: [], axes: [] });
}
const axisInfo = (suite, name) =>
  (SUITES.get(suite)?.axes || []).find((axis) => axis.name === name) || { name, unit: "", scale: "" };

const pairOf = (a, b) => PAIRS.get([a.run, a.device, a.suite, a.case, a.contender, b.contender].join(KEY));
function compare(a, b) {
  // time(a)/time(b) of two cells of one case: their paired rounds, else their two intervals.
  const found = pairOf(a, b);
  if (found || a === b) return found;
  const low = (a.time_low_s ?? a.time_s) / (b.time_high_s ?? b.time_s),
    high = (a.time_high_s ?? a.time_s) / (b.time_low_s ?? b.time_s);
  const verdict = high < 0.99 ? "faster" : low > 1.01 ? "slower" : LEVEL;
  return { ratio: a.time_s / b.time_s, low, high, verdict, rounds: 0 };
}

// Words and numbers

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [property, setting] of Object.entries(value)) node.style.setProperty(property, setting);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== ""));
  return node;
}
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const markOf = (status) => (STATUS[status] || ["?"])[0];
const words = (status) => (STATUS[status] || ["?", String(status)])[1];
const median = (values) => {
  const v = [...values].sort((a, b) => a - b),
    m = v.length >> 1;
  return v.length ? (v.length % 2 ? v[m] : (v[m - 1] + v[m]) / 2) : null;
};
const group = (items, key) => {
  const out = new Map();
  for (const item of items) {
    const k = key(item);
    if (!out.has(k)) out.set(k, []);
    out.get(k).push(item);
  }
  return out;
};
const groups = (items, key) => [...group(items, key).values()];
const unique = (values) => [...new Set(values)];
function inOrder(values) {
  return [...values].sort((a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)),
  );
}
const NUMBER = new Intl.NumberFormat("en-US");
const sayValue = (value) => (typeof value === "number" ? NUMBER.format(value) : String(value));
// An axis at 0 is one that this case does not set (as many K/V heads as heads): nothing is said of it.
const sayAxis = (name, value) =>
  value === 0
    ? ""
    : value === true
      ? name
      : value === false
        ? `not ${name}`
        : name === "dtype"
          ? String(value)
          : `${name} ${sayValue(value)}`;

const FORMATS = []; // making one takes longer than a hundred uses
const fixed = (places) =>
  (FORMATS[places] ||= new Intl.NumberFormat("en-US", {
    minimumFractionDigits: places,
    maximumFractionDigits: places,
  }));
function digits(value, n = 3) {
  // n significant digits, without exponents in the usual range: 0.0523, 1.23, 12.3, 4,120.
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(n)))));
  if (size < -4 || size > 8)
    return value
      .toExponential(n - 1)
      .replace("e-", "e−")
      .replace("e+", "e");
  const places = Math.max(0, n - 1 - size);
  return fixed(places).format(Number(value.toPrecision(n)));
}
function scaled(value, units) {
  const [size, name] = units.find(([unit]) => Math.abs(value) >= unit) || units[units.length - 1];
  return [size, name];
}
const TIME = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const BYTES = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];
const RATE = [
  [1e15, "PFLOP/s"],
  [1e12, "TFLOP/s"],
  [1e9, "GFLOP/s"],
  [1e6, "MFLOP/s"],
  [1, "FLOP/s"],
];
const SPEED = [
  [1e12, "TB/s"],
  [1e9, "GB/s"],
  [1e6, "MB/s"],
  [1, "B/s"],
];
const human = (value, units) => {
  if (value == null) return "not measured";
  if (value === 0) return `0 ${units[units.length - 1][1]}`;
  const [size, name] = scaled(value, units);
  return `${digits(value / size)} ${name}`;
};
const sayTime = (s) => human(s, TIME),
  sayBytes = (b) => human(b, BYTES);
const sayRatio = (r) => `${r < 1.995 ? r.toFixed(2) : r < 9.95 ? r.toFixed(1) : digits(r, 3)}x`;
const sayError = (e) =>
  e == null ? "not measured" : e === 0 ? "0" : e.toExponential(1).replace("e-", "e−").replace("e+", "e");
const sayShare = (s) => (s == null ? "not measured" : `${s >= 0.1 ? (s * 100).toFixed(0) : (s * 100).toPrecision(2)}%`);
const sayInterval = (say, value, low, high) => `${say(value)} [${say(low ?? value)}, ${say(high ?? value)}]`;
const sayTiming = (cell) => sayInterval(sayTime, cell.time_s, cell.time_low_s, cell.time_high_s);
const undecided = (pair) => pair.verdict === LEVEL && !(pair.low > 1 / WORTH_NAMING && pair.high < WORTH_NAMING);
const linked = (pair) => (pair.verdict !== LEVEL ? "than" : undecided(pair) ? "against" : "with");
function sayVerdict(pair) {
  // "1.60x faster", of a against b.
  if (pair.verdict === LEVEL) return undecided(pair) ? "not decided" : "level";
  return pair.ratio < 1 ? `${sayRatio(1 / pair.ratio)} faster` : `${sayRatio(pair.ratio)} slower`;
}

// Colours: one a contender in all suites of its family. The reference is grey; yellow, faint on white, comes last.

const PALETTE = ["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "star", "pentagon", "hexagon"];
const STYLES = new Map();
{
  const orders = new Map();
  const known = [...SUITES.values()].flatMap((s) => s.contenders.map((c) => ({ ...c, family: s.family })));
  const seen = CELLS.map((c) => ({
    id: c.contender,
    origin: c.origin,
    reference: c.reference,
    label: c.label,
    family: c.family,
  }));
  for (const one of [...known, ...seen]) {
    const key = one.family + KEY + one.id;
    if (STYLES.has(key)) continue;
    const place = orders.get(one.family) || 0;
    if (!one.reference) orders.set(one.family, place + 1);
    const ours = one.origin === "bancada";
    STYLES.set(key, {
      color: one.reference ? "#888888" : PALETTE[place % PALETTE.length],
      symbol: one.reference ? "x" : SYMBOLS[(place + Math.floor(place / PALETTE.length)) % SYMBOLS.length],
      dash: one.reference ? "solid" : ours ? "solid" : place < PALETTE.length ? "dash" : "dot",
      ours,
      label: one.label || one.id,
      reference: !!one.reference,
    });
  }
}
const styleOf = (cell) => STYLES.get(cell.family + KEY + cell.contender);

// Filters: a Map from a dimension to the chosen values (as text); a dimension that is not there lets all through.

const STATE = { filters: new Map(), y: "time" };
const DIMENSIONS = [];
{
  const add = (name, title, get) => {
    const values = inOrder(unique(CELLS.map(get).filter((value) => value !== undefined && value !== "")));
    DIMENSIONS.push({ name, title, get, values });
  };
  add("run", "run", (cell) => cell.run);
  add("family", "family", (cell) => cell.family);
  add("suite", "suite", (cell) => cell.suite);
  add("device", "device", (cell) => cell.device_name);
  for (const axis of unique(CELLS.flatMap((cell) => Object.keys(cell.axes))))
    add(axis, axis, (cell) => cell.axes[axis]);
  add("contender", "contender", (cell) => cell.label);
}
function visible() {
  const active = DIMENSIONS.filter((dimension) => STATE.filters.has(dimension.name));
  return CELLS.filter((cell) =>
    active.every((dimension) => {
      const value = dimension.get(cell);
      return value === undefined || STATE.filters.get(dimension.name).has(String(value));
    }),
  );
}
function writeFragment() {
  const parts = [...STATE.filters].map(
    ([name, chosen]) => `${encodeURIComponent(name)}=${[...chosen].map(encodeURIComponent).join(",")}`,
  );
  if (STATE.y !== "time") parts.push(`y=${STATE.y}`);
  history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
}
function readFragment() {
  STATE.filters.clear();
  STATE.y = "time";
  for (const part of location.hash.slice(1).split("&").filter(Boolean)) {
    try {
      const [name, values = ""] = part.split("=");
      const dimension = DIMENSIONS.find((one) => one.name === decodeURIComponent(name));
      if (name === "y" && ["time", "speed"].includes(values)) STATE.y = values;
      if (!dimension) continue;
      const known = new Set(dimension.values.map(String));
      const chosen = values
        .split(",")
        .map(decodeURIComponent)
        .filter((value) => known.has(value));
      if (chosen.length) STATE.filters.set(dimension.name, new Set(chosen));
    } catch (error) {
      if (!(error instanceof URIError)) throw error; // a fragment somebody mistyped filters nothing
    }
  }
}

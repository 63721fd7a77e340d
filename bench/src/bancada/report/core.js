"use strict";
// The page's data, its words and numbers, the filters' state. Every text from the data reaches the page through
// textContent, or through `plain` where plotly draws it (plotly reads some HTML in its labels).

const DATA = JSON.parse(document.getElementById("bancada-data").textContent);
const STATUS = {
  ok: ["", "measured"],
  compiled: ["", "compiled"],
  unsupported: ["–", "unsupported"],
  incorrect: ["×", "incorrect"],
  out_of_memory: ["M", "out of memory"],
  timeout: ["T", "timeout"],
  crashed: ["!", "crashed"],
  unstable: ["~", "unstable"],
  "not measured": ["?", "not measured"],
};
const DONE = ["ok", "compiled"]; // their rows have figures; what is compiled was never timed
const KEY = "\u0001"; // joins parts of a key; no name holds it
const LEVEL = "too close to call";
const BAND = 1.01; // a ratio is decided where its whole interval lies beyond this, or below its inverse
const sideOf = (low, high) => (low > BAND ? 1 : high < 1 / BAND ? -1 : 0);
const WORTH_NAMING = 1.05; // level: a difference as large as this is excluded; else nothing is decided

function decode(table) {
  // Row by row, so that rows with the same fields get them in the same order: engines keep such objects small and fast.
  const readers = Object.entries(table.c).map(([name, column]) => {
    if ("k" in column) return [name, () => column.k];
    if ("i" in column) return [name, (row) => column.d[column.i[row]]];
    if ("v" in column && !("s" in column)) return [name, (row) => column.v[row]];
    const places = new Map(column.s.map((row, i) => [row, column.v[i]]));
    return [name, (row) => places.get(row)];
  });
  return Array.from({ length: table.n }, (_, row) => {
    const out = {};
    for (const [name, read] of readers) {
      const value = read(row);
      if (value != null) out[name] = value;
    }
    return out;
  });
}

const CELLS = decode(DATA.cells);
const AXES = Object.keys(DATA.cells.c).filter((name) => name.startsWith("axis."));
CELLS.forEach((cell, i) => {
  cell.index = i;
  cell.axes = {};
  for (const name of AXES) if (name in cell) cell.axes[name.slice(5)] = cell[name];
  cell.label = cell.label || cell.contender;
  cell.ours = cell.origin === "bancada";
  cell.caseKey = [cell.run, cell.device, cell.suite, cell.case].join(KEY);
});

const TURNED = { faster: "slower", slower: "faster" };
let pairs = null; // by case and contenders, both ways round; made when first asked for
function pairsByKey() {
  if (pairs) return pairs;
  pairs = new Map();
  for (const p of decode(DATA.pairs)) {
    const place = [p.run, p.device, p.suite, p.case].join(KEY);
    pairs.set([place, p.a, p.b].join(KEY), p);
    const verdict = TURNED[p.verdict] || p.verdict;
    const back = { ...p, a: p.b, b: p.a, ratio: 1 / p.ratio, low: 1 / p.high, high: 1 / p.low, verdict };
    pairs.set([place, p.b, p.a].join(KEY), back);
  }
  return pairs;
}

const SUITES = new Map(DATA.catalogue.suites.map((suite) => [suite.id, suite]));
for (const cell of CELLS) {
  if (!SUITES.has(cell.suite))
    SUITES.set(cell.suite, { id: cell.suite, title: cell.suite, family: cell.family, contenders: [], axes: [] });
}
const axisInfo = (suite, name) =>
  (SUITES.get(suite)?.axes || []).find((axis) => axis.name === name) || { name, unit: "", scale: "" };

const pairOf = (a, b) => pairsByKey().get([a.caseKey, a.contender, b.contender].join(KEY));
function compare(a, b) {
  // time(a)/time(b) of two cells of one case: their paired rounds, else their two intervals.
  const found = pairOf(a, b);
  if (found || a === b) return found;
  const low = (a.time_low_s ?? a.time_s) / (b.time_high_s ?? b.time_s),
    high = (a.time_high_s ?? a.time_s) / (b.time_low_s ?? b.time_s);
  const verdict = { "-1": "faster", 1: "slower" }[sideOf(low, high)] || LEVEL;
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
const counted = (number, what) => `${sayValue(number)} ${what}${number === 1 ? "" : "s"}`;
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
  value === 0 || value === undefined
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

// Where cells were measured. Machines stand side by side; a run tells more than its machine only where one has several.

const SEVERAL_RUNS = unique(CELLS.map((c) => c.run)).length > 1;
const PLACES =
  unique(CELLS.map((c) => c.run)).length > unique(CELLS.map((c) => c.device_name)).length
    ? { device_name: "device", run: "run" }
    : { device_name: "device" };
const placeOf = (cell) => (SEVERAL_RUNS ? Object.keys(PLACES).map((name) => cell[name]) : []).join(", ");

// What a reader has chosen, kept in the page's address. Filters are a Map from a dimension to the chosen values (as
// text); a dimension that is not there lets all through. Views are what selects show, by the select's name; `at` is the
// answer or section that the address names.

const STATE = { filters: new Map(), y: "time", views: new Map(), lit: new Set(), at: "" };
const VIEW = "v."; // views stand in the fragment under names of their own
const DIMENSIONS = [];
{
  const add = (name, title, get) => {
    const values = inOrder(unique(CELLS.map(get).filter((value) => value !== undefined && value !== "")));
    DIMENSIONS.push({ name, title, get, values });
  };
  if (PLACES.run) add("run", "run", (cell) => cell.run);
  add("family", "family", (cell) => cell.family);
  add("suite", "suite", (cell) => cell.suite);
  add("device", "device", (cell) => cell.device_name);
  for (const axis of AXES.map((name) => name.slice("axis.".length))) add(axis, axis, (cell) => cell.axes[axis]);
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
  const list = (values) => [...values].map(encodeURIComponent).join(",");
  const parts = [...STATE.filters].map(([name, chosen]) => `${encodeURIComponent(name)}=${list(chosen)}`);
  if (STATE.y !== "time") parts.push(`y=${STATE.y}`);
  if (STATE.lit.size) parts.push(`lit=${list(STATE.lit)}`);
  for (const [name, value] of STATE.views)
    parts.push(`${encodeURIComponent(VIEW + name)}=${encodeURIComponent(value)}`);
  if (STATE.at) parts.push(encodeURIComponent(STATE.at));
  history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : location.pathname + location.search);
}
function readFragment() {
  Object.assign(STATE, { filters: new Map(), y: "time", views: new Map(), lit: new Set(), at: "" });
  for (const part of location.hash.slice(1).split("&").filter(Boolean)) {
    try {
      const [coded, values = ""] = part.split("=");
      const name = decodeURIComponent(coded);
      const given = values.split(",").map(decodeURIComponent);
      if (!part.includes("=")) STATE.at = name;
      else if (name === "y" && ["time", "speed"].includes(values)) STATE.y = values;
      else if (name === "lit") STATE.lit = new Set(given.filter((key) => LITKEYS.has(key)));
      else if (name.startsWith(VIEW)) STATE.views.set(name.slice(VIEW.length), decodeURIComponent(values));
      else readFilter(name, given);
    } catch (error) {
      if (!(error instanceof URIError)) throw error; // a fragment somebody mistyped filters nothing
    }
  }
}
function readFilter(name, given) {
  const dimension = DIMENSIONS.find((one) => one.name === name);
  if (!dimension) return;
  const known = new Set(dimension.values.map(String));
  const chosen = given.filter((value) => known.has(value));
  if (chosen.length) STATE.filters.set(name, new Set(chosen));
}

const LITKEYS = new Set(CELLS.map(litKey));
function viewOf(name, options, usual) {
  // What the select of this name shows: one of the options' keys, else the usual one.
  const chosen = STATE.views.get(name);
  return options.find(({ key }) => key === chosen) || options.find(({ key }) => key === usual) || options[0];
}
function setView(name, key, usual) {
  if (key === usual) STATE.views.delete(name);
  else STATE.views.set(name, key);
  writeFragment();
}
function viewSelect(name, label, options, usual, changed) {
  // A select whose choice stands in the address; options are {key, title}.
  const shown = viewOf(name, options, usual);
  const list = options.map(({ key, title }) => el("option", { value: key, selected: key === shown.key }, title));
  const select = el("select", { "aria-label": label, "data-view": name }, list);
  select.addEventListener("change", () => {
    setView(name, select.value, usual);
    changed();
    refocus(`select[data-view="${CSS.escape(name)}"]`);
  });
  return select;
}
function refocus(selector) {
  // What was pressed has been made anew: the Tab and arrow keys go on from its successor.
  document.querySelector(selector)?.focus({ preventScroll: true });
}

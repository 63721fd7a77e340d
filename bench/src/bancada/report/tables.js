// Tables: figures aligned at the decimal point, columns that sort, more rows on request.

const FIGURE = "\u2007"; // as wide as a digit
const POINT = "\u2008"; // as wide as a point

function aligned(values, n = 3) {
  // Texts of n significant digits, padded so that their decimal points stand under one another.
  const texts = values.map((value) => (value == null ? "" : digits(value, n)));
  const after = (text) => (text.includes("e") || !text.includes(".") ? 0 : text.length - text.indexOf(".") - 1);
  const most = Math.max(0, ...texts.map(after));
  return texts.map((text) => {
    if (!text || !most) return text;
    return text + (after(text) ? "" : POINT) + FIGURE.repeat(most - after(text));
  });
}

const scrolling = (label, table) =>
  el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
const kindOf = (column) => (column.figures ? "number" : column.beside ? "beside" : "");
const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

function withAlignedTexts(columns, rows) {
  return columns.map((column) => {
    if (!column.figures) return column;
    const values = rows.map(column.value);
    const texts = column.whole
      ? values.map((v) => (v == null ? "" : sayValue(v)))
      : aligned(values.map((value) => (value == null ? null : value / (column.size || 1))));
    const byRow = new Map(rows.map((row, i) => [row, texts[i]]));
    return { ...column, show: (row) => byRow.get(row) };
  });
}
function sorted(rows, column, down) {
  return [...rows].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x == null || y == null) return (x == null) - (y == null); // what is missing comes last, either way
    const numbers = typeof x === "number" && typeof y === "number";
    const order = numbers ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return down ? -order : order;
  });
}

function sortable(given, rows, { first = 14, caption = "", open = null } = {}) {
  // Columns: {title, unit, value(row), show(row) -> node or text, figures, whole, size, beside}.
  const columns = withAlignedTexts(given, rows);
  const state = { by: null, down: false, shown: first };
  const body = el("tbody");
  const more = el("div", { class: "more" });
  const sortBy = (column) => {
    state.down = state.by === column && !state.down;
    state.by = column;
    fill();
  };
  const heads = columns.map((column) => {
    const name = [column.title, column.unit ? el("small", {}, ` ${column.unit}`) : null];
    const inside = column.beside ? column.title : el("button", { type: "button", onclick: () => sortBy(column) }, name);
    return el("th", { scope: "col", class: kindOf(column) }, inside);
  });
  const opening = (row) => (event) => {
    event.stopPropagation(); // the row would open it again
    open(row);
  };
  const line = (row) => {
    const cells = columns.map((column, i) => {
      const shown = column.show(row) ?? "";
      const inside = open && !i ? button(shown, opening(row), { class: "link" }) : shown; // so that a key opens it too
      return el(i ? "td" : "th", { scope: i ? null : "row", class: kindOf(column) }, inside);
    });
    return el("tr", open ? { onclick: () => open(row), class: "opens" } : {}, cells);
  };
  function fill() {
    const order = state.by ? sorted(rows, state.by, state.down) : rows;
    const direction = state.down ? "descending" : "ascending";
    heads.forEach((head, i) => head.setAttribute("aria-sort", state.by === columns[i] ? direction : "none"));
    body.replaceChildren(...order.slice(0, state.shown).map(line));
    const left = rows.length - state.shown;
    const offer = left > 200 ? `Show 200 more of ${rows.length} rows` : `Show all ${rows.length} rows`;
    const show = () => {
      const next = state.shown;
      state.shown += 200;
      fill();
      body.children[next].tabIndex = -1;
      body.children[next].focus({ preventScroll: true }); // the first of the new rows: the button is gone or another one
    };
    more.replaceChildren(...(left > 0 ? [button(offer, show, { class: "quiet" })] : []));
  }
  fill();
  const table = el(
    "table",
    { class: "data" },
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, heads)),
    body,
  );
  return el("div", { class: "tablebox" }, scrolling(caption || "table", table), more);
}

function simpleTable(caption, heads, rows) {
  const head = heads.map((text) => el("th", { scope: "col" }, text));
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      row.map((cell, i) => el(i ? "td" : "th", { scope: i ? null : "row" }, cell)),
    ),
  );
  return scrolling(
    caption,
    el(
      "table",
      { class: "data" },
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, body),
    ),
  );
}

function chip(cell) {
  return el("span", { class: "chip" }, swatchOf(styleOf(cell)), cell.label);
}
const statusClass = (status) => `s-${status.replace(/[^a-z]/g, "-")}`;
function statusMark(cell) {
  const text = cell.status === "ok" ? "measured" : `${markOf(cell.status)} ${words(cell.status)}`;
  return el("span", { class: `status ${statusClass(cell.status)}`, title: cell.reason || "" }, text);
}

const CONTENDER_COLUMN = { title: "contender", value: (c) => c.label, show: chip };
const STATUS_COLUMN = { title: "status", value: (c) => c.status, show: statusMark };
function amount(title, cells, get, units) {
  // A column of figures: `units` is the one they are in, or a list from which their median chooses.
  const value = (c) => (DONE.includes(c.status) ? get(c) : null);
  const values = cells.map(value).filter((v) => v > 0);
  const [size, unit] = Array.isArray(units) ? scaled(median(values) || 1, units) : [1, units];
  return { title, unit, figures: true, size, value };
}
const intervalColumn = (show) => ({ title: "interval", beside: true, value: () => null, show });
const between = (low, high, size = 1) => (low == null ? "" : `[${digits(low / size)}, ${digits(high / size)}]`);
function timeColumns(title, cells) {
  const time = amount(title, cells, (c) => c.time_s, TIME);
  return [time, intervalColumn((c) => (c.status === "ok" ? between(c.time_low_s, c.time_high_s, time.size) : ""))];
}

const startOf = (c) => (c.build_s || 0) + (c.first_call_s || 0); // until a first result is there
const compiles = (c) => !!SUITES.get(c.suite).contenders.find((one) => one.id === c.contender)?.compiles;
function repaid(cell, reference, usual) {
  // Calls after which a compiling contender has won back what its start took beyond the usual one, against the
  // reference; Infinity where it is not faster, null where it compiles nothing.
  if (!compiles(cell) || cell.status !== "ok" || !reference || cell.first_call_s == null) return null;
  const found = compare(cell, reference);
  if (found.verdict !== "faster") return Infinity;
  return Math.ceil(Math.max(0, startOf(cell) - usual) / (reference.time_s * (1 - found.ratio)) - 1e-6);
}
function repaidColumn(cells, reference) {
  // Where a contender compiles before its first result: when that pays.
  const byCase = new Map(
    groups(measured(cells), (c) => c.caseKey).map((one) => {
      // The least of the others' starts: the first to import a library pays for all of them.
      const usual = Math.min(...one.filter((c) => !compiles(c)).map(startOf));
      return [one[0].caseKey, { plain: one.find((c) => c.reference), usual }];
    }),
  );
  const value = (c) => {
    const { plain, usual } = byCase.get(c.caseKey) || {};
    return repaid(c, plain, usual);
  };
  return payingColumn("compiling pays", `calls, against ${reference}`, cells, value, "never: not faster");
}
function payingColumn(title, unit, cells, value, never) {
  // After how many calls or runs something has paid; `never` is said of Infinity. Null where it concerns nobody.
  if (!cells.some((c) => value(c) != null)) return null;
  const say = (number) => (number === Infinity ? never : sayValue(number));
  return { title, unit, value, show: (c) => (value(c) == null ? "" : say(value(c))) };
}

// What was measured comes first: rows without a figure would fill the first screen of a table.
const measuredFirst = (cells) => [...cells].sort((a, b) => DONE.includes(b.status) - DONE.includes(a.status));
function cellTable(cells, varying, reference) {
  // Every figure of a suite, a row each cell.
  const error = (title, unit, get) => ({
    title,
    unit,
    value: get,
    show: (c) => (get(c) == null ? "" : sayError(get(c))),
  });
  const several = Object.keys(PLACES).filter((name) => unique(cells.map((c) => c[name])).length > 1);
  const columns = [
    CONTENDER_COLUMN,
    ...several.map((name) => ({ title: PLACES[name], value: (c) => c[name], show: (c) => c[name] })),
    ...varying.map((name) => ({ title: name, value: (c) => c.axes[name], show: (c) => sayValue(c.axes[name] ?? "") })),
    ...timeColumns("time", cells),
    ...otherwiseColumns(cells),
  ];
  if (reference) {
    columns.push({ title: "speed", unit: `x ${reference}`, figures: true, value: (c) => c.speed?.value });
    columns.push(intervalColumn((c) => (c.speed && !c.reference ? between(c.speed.low, c.speed.high) : "")));
  }
  columns.push(
    amount("peak memory", cells, (c) => c.peak_bytes, BYTES),
    ...spentColumns(cells),
  );
  columns.push(...measureColumns(SUITES.get(cells[0].suite), cells));
  columns.push(error("error", "max |x − ref|", (c) => c.error_max));
  if (cells.some((c) => c.grad_error_max != null))
    columns.push(error("gradient error", "max", (c) => c.grad_error_max));
  columns.push({ ...amount("rate", cells, (c) => c.flops_per_s, "GFLOP/s"), size: 1e9 });
  columns.push(amount("first result", cells, startOf, "s"));
  columns.push(...[repaidColumn(cells, reference), STATUS_COLUMN].filter(Boolean));
  return sortable(columns, measuredFirst(cells), {
    first: 12,
    caption: `${counted(cells.length, "cell")}; click a row for its samples and command`,
    open: showCell,
  });
}

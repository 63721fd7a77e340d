// Tables: sortable ones with figures aligned at the decimal point, who wins where, pairs, coverage.

const FIGURE = "\u2007", POINT = "\u2008"; // as wide as a digit, and as a point

function aligned(values, n = 3) {
  // Texts of n significant digits, padded so that their decimal points stand under one another.
  const texts = values.map((value) => (value == null ? "" : digits(value, n)));
  const after = (text) => (text.includes("e") ? 0 : text.includes(".") ? text.length - text.indexOf(".") - 1 : 0);
  const most = Math.max(0, ...texts.map(after));
  return texts.map((text) => (text ? text + (most ? (after(text) ? "" : POINT) : "") + FIGURE.repeat(most - after(text)) : ""));
}

function status(cell) {
  const [mark] = STATUS[cell.status] || ["?"];
  return el("span", { class: `status s-${cell.status.replace(/[^a-z]/g, "-")}`, title: cell.reason || "" }, cell.status === "ok" ? "measured" : `${mark} ${words(cell.status)}`);
}

function sortable(columns, rows, { first = 14, caption = "", open = null } = {}) {
  // columns: {title, unit, value(row), show(row) -> node or text, figures}. Shows the first rows, then more on request.
  const state = { by: null, down: false, shown: first };
  const table = el("table", { class: "data" }, caption ? el("caption", {}, caption) : null), body = el("tbody");
  const prepared = columns.map((column) => {
    if (!column.figures) return column;
    const texts = aligned(rows.map((row) => { const v = column.value(row); return v == null ? null : v / (column.size || 1); }));
    const byRow = new Map(rows.map((row, i) => [row, texts[i]]));
    return { ...column, show: (row) => byRow.get(row) };
  });
  const heads = prepared.map((column) => el("th", { scope: "col", class: column.figures ? "number" : column.beside ? "beside" : "" },
    column.beside ? column.title : el("button", { type: "button", onclick: () => { state.down = state.by === column ? !state.down : false; state.by = column; fill(); } }, column.title, column.unit ? el("small", {}, ` ${column.unit}`) : null)));
  const more = el("div", { class: "more" });
  function fill() {
    const order = [...rows];
    if (state.by) {
      const rank = (row) => state.by.value(row);
      order.sort((a, b) => {
        const x = rank(a), y = rank(b);
        if (x == null || y == null) return (x == null) - (y == null); // what is missing comes last, either way
        const sign = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
        return state.down ? -sign : sign;
      });
    }
    heads.forEach((head, i) => head.setAttribute("aria-sort", state.by === prepared[i] ? (state.down ? "descending" : "ascending") : "none"));
    body.replaceChildren(...order.slice(0, state.shown).map((row) => el("tr", open ? { onclick: () => open(row), class: "opens" } : {},
      prepared.map((column, i) => el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: column.figures ? "number" : column.beside ? "beside" : "" }, column.show(row) ?? "")))));
    const left = rows.length - state.shown;
    more.replaceChildren();
    if (left > 0) more.append(el("button", { type: "button", class: "quiet", onclick: () => { state.shown += Math.max(200, first); fill(); } }, left > 200 ? `Show 200 more of ${rows.length} rows` : `Show all ${rows.length} rows`));
  }
  table.append(el("thead", {}, el("tr", {}, heads)), body);
  fill();
  return el("div", { class: "tablebox" }, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || "table" }, table), more);
}

function cellTable(cells, varying, reference) {
  const shown = [...cells];
  const ok = shown.filter((c) => c.status === "ok");
  const [timeSize, timeUnit] = ok.length ? scaled(median(ok.map((c) => c.time_s)), TIME) : [1, "s"];
  const memories = ok.map((c) => c.peak_bytes).filter((b) => b > 0), [byteSize, byteUnit] = memories.length ? scaled(median(memories), BYTES) : [1, "B"];
  const measured = (get) => (cell) => (cell.status === "ok" ? get(cell) : null);
  const between = (low, high, size) => (low == null ? "" : `[${digits(low / size)}, ${digits(high / size)}]`);
  const opener = (cell) => el("button", { type: "button", class: "link", onclick: (event) => { event.stopPropagation(); showCell(cell); } }, chip(cell));
  const columns = [
    { title: "contender", value: (c) => c.label, show: opener },
    ...varying.map((name) => ({ title: name, value: (c) => c.axes[name], show: (c) => (c.axes[name] === undefined ? "" : sayValue(c.axes[name])) })),
    { title: "time", unit: timeUnit, figures: true, size: timeSize, value: measured((c) => c.time_s) },
    { title: "interval", beside: true, value: () => null, show: (c) => (c.status === "ok" ? between(c.time_low_s, c.time_high_s, timeSize) : "") },
  ];
  if (reference) {
    columns.push({ title: "speed", unit: `x ${reference}`, figures: true, value: (c) => c.speed?.value });
    columns.push({ title: "interval", beside: true, value: () => null, show: (c) => (c.speed && !c.reference ? between(c.speed.low, c.speed.high, 1) : "") });
  }
  columns.push({ title: "peak memory", unit: byteUnit, figures: true, size: byteSize, value: measured((c) => c.peak_bytes) });
  columns.push({ title: "error", unit: "max |x − ref|", value: (c) => c.error_max, show: (c) => (c.error_max == null ? "" : sayError(c.error_max)) });
  if (shown.some((c) => c.grad_error_max != null)) columns.push({ title: "gradient error", unit: "max", value: (c) => c.grad_error_max, show: (c) => (c.grad_error_max == null ? "" : sayError(c.grad_error_max)) });
  if (ok.some((c) => c.flops_per_s)) columns.push({ title: "rate", unit: "GFLOP/s", figures: true, size: 1e9, value: measured((c) => c.flops_per_s) });
  columns.push({ title: "first call", unit: "s", figures: true, value: measured((c) => c.first_call_s) });
  columns.push({ title: "status", value: (c) => c.status, show: status });
  return sortable(columns, shown, { first: 12, caption: `${shown.length} cells; click a row for its samples and command`, open: showCell });
}

function chip(cell) {
  const style = styleOf(cell);
  return el("span", { class: "chip" }, el("span", { class: `swatch${style.ours || style.reference ? "" : " peer"}`, style: { "--c": style.color } }), cell.label);
}

function winners(cells) {
  // The measured cells of one case that no other beats, fastest first, and the runner-up's distance where one is alone.
  const ok = cells.filter((c) => c.status === "ok").sort((a, b) => a.time_s - b.time_s);
  const best = ok.filter((a) => !ok.some((b) => a !== b && compare(a, b)?.verdict === "slower"));
  const next = best.length === 1 ? ok.find((c) => c !== best[0]) : null;
  return { ok, best, lead: next ? compare(next, best[0]) : null, next };
}

function winMap(facets, xs, xName, pick) {
  const width = Math.max(1, xs.length);
  const corner = el("th", { scope: "col" }, width > 1 || xName ? `${xName || "case"}` : "");
  const head = el("tr", {}, corner, xs.map((x) => el("th", { scope: "col", class: "at" }, x === null ? "" : sayValue(x))));
  const rows = facets.map(({ title, byX }) => el("tr", {}, el("th", { scope: "row" }, title || "all"), xs.map((x) => winCell(byX.get(x), pick))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "who is fastest where" }, el("table", { class: "wins" }, el("thead", {}, head), el("tbody", {}, rows)));
}
function winCell(cells, pick) {
  if (!cells) return el("td", { class: "none" }, el("span", { class: "muted" }, "not planned"));
  const { ok, best, lead, next } = winners(cells);
  if (!ok.length) return el("td", {}, el("button", { type: "button", class: "win", onclick: () => pick(cells) }, el("b", {}, "none ran"), el("small", {}, unique(cells.map((c) => words(c.status))).join(", "))));
  const style = styleOf(best[0] || ok[0]);
  const name = best.length === 1 ? best[0].label : best.length ? best.map((c) => c.label).join(" = ") : "unclear";
  const note = ok.length === 1 ? "alone" : best.length === 1 ? `${sayRatio(lead.ratio)} ahead` : "level";
  const title = next ? `next: ${next.label}, ${sayRatio(lead.ratio)} [${sayRatio(lead.low)}, ${sayRatio(lead.high)}] of its time` : "";
  return el("td", {}, el("button", { type: "button", class: `win${best.length === 1 ? "" : " level"}`, style: { "--c": style.color }, title, onclick: () => pick(cells) }, el("b", {}, name), el("small", {}, note)));
}

function pairTable(cells) {
  const ok = cells.filter((c) => c.status === "ok").sort((a, b) => a.time_s - b.time_s);
  if (ok.length < 2) return null;
  const head = el("tr", {}, el("th", {}, ""), ok.map((c) => el("th", { scope: "col" }, c.label)));
  const rows = ok.map((a) => el("tr", {}, el("th", { scope: "row" }, chip(a)), ok.map((b) => {
    if (a === b) return el("td", { class: "self", "aria-label": "itself" }, "·");
    const pair = compare(a, b);
    const kind = pair.verdict === "too close to call" ? "level" : pair.verdict;
    const from = pair.rounds ? `${pair.rounds} paired rounds` : "two separate intervals";
    return el("td", { class: `pair ${kind}`, title: `time ratio ${digits(pair.ratio)} [${digits(pair.low)}, ${digits(pair.high)}], ${from}` }, sayVerdict(pair));
  })));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "each against each" }, el("table", { class: "pairs" }, el("caption", {}, "Each against each: the row is … than the column"), el("thead", {}, head), el("tbody", {}, rows)));
}

function squares(cells, label) {
  // One square a case; a single stop of the Tab key, arrows go on from there.
  const box = el("div", { class: `squares${cells.length > 150 ? " many" : ""}`, role: "group", "aria-label": label });
  cells.forEach((cell, i) => {
    const [mark] = STATUS[cell.status] || ["?"];
    box.append(el("button", { type: "button", tabindex: i ? "-1" : "0", class: `sq s-${cell.status.replace(/[^a-z]/g, "-")}`, title: `${cell.case}: ${words(cell.status)}`, "aria-label": `${cell.label}, ${cell.case}: ${words(cell.status)}`, "data-cell": cell.index }, mark));
  });
  box.addEventListener("click", (event) => { const index = event.target.dataset?.cell; if (index !== undefined) showCell(CELLS[index]); });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (!step) return;
    const all = [...box.children], here = all.indexOf(document.activeElement), next = all[Math.min(Math.max(here + step, 0), all.length - 1)];
    event.preventDefault();
    all[here].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return box;
}

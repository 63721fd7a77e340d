// The panel that traces one figure: everything its row holds, its samples, the command that measures it again.

const empty = (text) => el("p", { class: "empty" }, text);
const factList = (entries) =>
  el(
    "dl",
    { class: "facts" },
    entries
      .filter(([, value]) => value !== "" && value != null)
      .flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );

function copyable(text) {
  const copy = button(
    "copy",
    async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "copied";
      } catch {
        copy.textContent = "select it by hand"; // a page opened from a file may not write to the clipboard
      }
    },
    { class: "quiet copy" },
  );
  return el("div", { class: "code" }, el("pre", { tabindex: "0" }, text), copy);
}
const commandLine = (command) => el("div", {}, el("h5", {}, "The command"), copyable(command));

function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
function strip(cell) {
  // All samples of a cell, in the order they were taken (or their quantiles).
  const values = DATA.samples.v[cell.index] || [];
  if (values.length < 2) return "";
  const [width, height, edge] = [680, 90, 6];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const order = DATA.samples.raw ? "in order" : "by quantile, least to most";
  const caption = `${DATA.samples.n[cell.index]} samples ${order}, ${sayTime(low)} to ${sayTime(high)}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": caption });
  values.forEach((value, i) => {
    const cx = edge + (i * (width - 2 * edge)) / (values.length - 1);
    const cy = height - edge - ((value - low) / (high - low || 1)) * (height - 2 * edge);
    picture.append(svg("circle", { cx, cy, r: 3 }));
  });
  return el("figure", { class: "strip" }, el("figcaption", {}, caption), picture);
}

function rivalsOf(cell) {
  const others = measured(CELLS.filter((c) => c.caseKey === cell.caseKey && c !== cell));
  if (cell.status !== "ok") return "";
  return others.map((c) => `${sayVerdict(compare(cell, c))} ${linked(compare(cell, c))} ${c.label}`).join("; ");
}
const sayMeasure = (name, value) =>
  typeof value !== "number" ? value : /bytes/.test(name) ? sayBytes(value) : digits(value, 4);
function factsOf(cell) {
  const some = (value, say) => (value == null ? "" : say(value));
  const named = (prefix, say) =>
    Object.entries(cell)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, value]) => say(name.slice(prefix.length), value))
      .join(", ");
  const blocks = cell.isolate === "process" ? `, each the median of ${cell.block_rounds} in a process of its own` : "";
  const time = () => `${sayTiming(cell)}, ${cell.rounds ?? "?"} samples of ${cell.loops ?? "?"} calls${blocks}`;
  const clock = (mhz) =>
    `${Math.round(mhz)} MHz, ${Math.round(cell.clock_low_mhz)} to ${Math.round(cell.clock_high_mhz)} over the rounds` +
    some(cell.temperature_c, (heat) => `, ${Math.round(heat)} °C`) +
    some(cell.slowed_by, (what) => `; slowed by ${what}`);
  const share = cell.status === "ok" ? attained(cell) : null;
  return [
    ["suite", cell.suite],
    ["case", cell.case],
    ["status", words(cell.status)],
    ["reason", cell.reason],
    ["time", some(cell.time_s, time)],
    ["against the others", rivalsOf(cell)],
    ["peak memory above the inputs", some(cell.peak_bytes, sayBytes)],
    ["process's high-water mark rose by", some(cell.host_peak_bytes || null, sayBytes)],
    ["built in", some(cell.build_s, sayTime)],
    ["first call", some(cell.first_call_s, sayTime)],
    ["last third of rounds against the first", some(cell.drift_share, saySigned)],
    ["energy a call", some(cell.energy_j, (joules) => human(joules, ENERGY))],
    ["cost of a million calls", some(costOf(cell, 1e6 * cell.time_s), digits)],
    ["clock", some(cell.clock_mhz, clock)],
    [
      "rate",
      some(
        cell.flops_per_s,
        (rate) => `${human(rate, RATE)}${share == null ? "" : `, ${sayShare(share)} of its limit`}`,
      ),
    ],
    ["error, max |x − ref|", some(cell.error_max, sayError)],
    ["error, relative", some(cell.error_rel, sayError)],
    ["share of the tolerance used", some(cell.error_limit_share, sayShare)],
    ["errors by name", named("error.", (name, value) => `${name} ${sayError(value)}`)],
    ["figures of its own", named("measure.", (name, value) => `${name} ${sayMeasure(name, value)}`)],
    ["tuned to", named("hyper.", (name, value) => `${name} ${typeof value === "number" ? digits(value) : value}`)],
    ["notes", named("note.", (name, value) => `${name}: ${value}`)],
    ["precision", cell.precision],
    ["backend", cell.backend],
    [
      "device",
      [cell.device_name, cell.threads ? `${cell.threads} threads` : "", cell.driver ? `driver ${cell.driver}` : ""]
        .filter(Boolean)
        .join(", "),
    ],
    ["versions", cell.versions],
    ["commit", cell.commit],
    ["run", cell.of_run || cell.run],
    ["row", cell.row_id || "none was written"],
  ];
}

function showCell(cell) {
  const dialog = document.getElementById("detail");
  const close = button("close", () => dialog.close(), { class: "quiet", autofocus: true });
  const head = el("div", { class: "rowhead" }, el("h3", {}, chip(cell)), close);
  dialog.replaceChildren(head, strip(cell), factList(factsOf(cell)), cell.command ? commandLine(cell.command) : "");
  if (!dialog.open) dialog.showModal();
}

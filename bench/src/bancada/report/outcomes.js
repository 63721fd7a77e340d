// Figures beside time and memory: the metrics that a suite declares, as charts and as columns of its tables.

const metricsOf = (suite) => suite.metrics || [];
const finalOf = (name) => `measure.final.${name}`; // where a training suite keeps it

function measureOf(metric, field, say = (v) => digits(v)) {
  // A declared metric in the form that panels take.
  return {
    get: (c) => c[field],
    low: (c) => c[`${field}.low`] ?? c[field],
    high: (c) => c[`${field}.high`] ?? c[field],
    tick: metric.unit === "bytes" ? tickBytes : (v) => digits(v, 3),
    base: metric.unit === "bytes" ? 2 : 10,
    say: metric.unit === "bytes" ? sayBytes : say,
    linear: metric.scale !== "log" && metric.unit !== "bytes",
    higher: metric.better === "higher",
  };
}
const wayOf = (metric) => `${metric.better} is better`;
const titleOf = (metric) =>
  `${capital(metric.title)}${metric.unit && metric.unit !== "bytes" ? `, ${metric.unit}` : ""}`;

function linearSpan(values, margin = 0.08) {
  const shown = values.filter(Number.isFinite);
  if (!shown.length) return [0, 1];
  const [low, high] = [Math.min(...shown), Math.max(...shown)];
  const room = (high - low) * margin || Math.abs(high) * 0.05 || 1;
  return [low - room, high + room];
}
const rangeOf = (cells, metric) => {
  const values = cells.flatMap((c) => [metric.low(c), metric.get(c), metric.high(c)]).filter((v) => v != null);
  return metric.linear ? linearSpan(values) : span(values, 0.5, 0.12);
};
const has = (cells, metric) =>
  measured(cells).filter((c) => Number.isFinite(metric.get(c)) && (metric.linear || metric.get(c) > 0));

function inBoth(x, y) {
  // Whether a is nowhere worse than b in x (lower is better) and y, and somewhere better.
  const gain = (metric, a, b) => (metric.higher ? metric.get(a) - metric.get(b) : metric.get(b) - metric.get(a));
  return (a, b) => gain(x, a, b) >= 0 && gain(y, a, b) >= 0 && gain(x, a, b) + gain(y, a, b) > 0;
}
function scatterFigure(cells, x, y, caption, xTitle, yTitle) {
  // Two figures of a case; filled are those whom nobody beats in both.
  const figure = el("figure", {}, el("figcaption", {}, caption));
  const shown = has(has(cells, x), y);
  if (!shown.length) {
    figure.append(empty("No row here carries both figures."));
    return figure;
  }
  const better = inBoth(x, y);
  const draw = scatter(shown, x, y, {
    xRange: rangeOf(shown, x),
    yRange: rangeOf(shown, y),
    best: new Set(shown.filter((c) => !shown.some((other) => other !== c && better(other, c)))),
    xTitle,
    say: (c) => [`${xTitle}: ${x.say(x.get(c))}`, `${yTitle}: ${y.say(y.get(c))}`],
  });
  addChart(figure, { height: 290, label: `${caption} at ${cells[0].case}`, draw });
  return figure;
}

function measurePanels(suite, cells) {
  // For a kernel suite with figures of its own: each against time and against size, a row for each case and figure.
  const carried = (inside) =>
    metricsOf(suite).filter((m) => m.drawn !== false && measured(inside).some((c) => c[`measure.${m.name}`] != null));
  const cases = groups(cells, (c) => c.caseKey);
  const items = cases.flatMap((inside) => carried(inside).map((metric) => [inside, metric]));
  if (!items.length) return null;
  const row = ([inside, metric]) => {
    const y = measureOf(metric, `measure.${metric.name}`);
    const caption = `${titleOf(metric)} (${wayOf(metric)})`;
    const figures = [scatterFigure(inside, METRICS.time, y, `${caption}, and time`, "time a call", metric.title)];
    if (metric.name !== "bytes" || !ownBytes(inside))
      figures.push(
        scatterFigure(inside, sizeMetric(inside), y, `${caption}, and size`, sizeTitle(inside), metric.title),
      );
    const title = cases.length > 1 ? el("h5", {}, caseWords(suite, inside)) : null;
    return el("div", { class: "facet" }, title, el("div", { class: "two" }, figures));
  };
  const note = "Filled: no other contender is as good or better in both. Hollow: another one is.";
  return el(
    "div",
    { class: "measures" },
    el("h4", {}, "Figures of its own"),
    moreOf(items, MOST_PANELS, "charts", (some) => el("div", {}, some.map(row))),
    el("p", { class: "note" }, note),
  );
}
const BYTE_FIGURE = { title: "bytes", unit: "bytes", better: "lower", scale: "log" };
const ownBytes = (cells) => measured(cells).some((c) => c["measure.bytes"] > 0);
const sizeMetric = (cells) => (ownBytes(cells) ? measureOf(BYTE_FIGURE, "measure.bytes") : METRICS.memory);
const sizeTitle = (cells) => (ownBytes(cells) ? "bytes of the model" : "peak memory above the inputs");

function measureColumns(suite, cells) {
  // The columns of a suite's own figures, for the table of all its cells.
  return metricsOf(suite)
    .filter((m) => cells.some((c) => c[`measure.${m.name}`] != null))
    .map((m) => amount(m.title, cells, (c) => c[`measure.${m.name}`], m.unit === "bytes" ? BYTES : m.unit));
}

// The section of a training suite: curves with bands, quality against time and memory, outcomes with intervals.

const CONTRASTS = new Map();
for (const one of decode(DATA.contrasts)) {
  const turned = { better: "worse", worse: "better" }[one.verdict] || one.verdict;
  const place = [one.run, one.device, one.suite, one.case, one.measure];
  CONTRASTS.set([...place, one.a, one.b].join(KEY), one);
  const back = { ...one, a: one.b, b: one.a, difference: -one.difference, low: -one.high, high: -one.low };
  CONTRASTS.set([...place, one.b, one.a].join(KEY), { ...back, verdict: turned });
}
const contrast = (a, b, measureName) =>
  CONTRASTS.get([a.run, a.device, a.suite, a.case, measureName, a.contender, b.contender].join(KEY));
const CURVES = group(DATA.curves, (one) => [one.run, one.device, one.suite, one.case, one.contender].join(KEY));
const curvesOf = (cell) =>
  (CURVES.get([cell.run, cell.device, cell.suite, cell.case, cell.contender].join(KEY)) || []).filter(
    (one) => one.status === "ok",
  );

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
function alongTheWay(cell, field, clock) {
  // Over the seeds of a contender, at each evaluation: where, the mean, the least and the most.
  const runs = curvesOf(cell).filter((one) => one[field]?.length);
  const length = Math.min(...runs.map((one) => one[field].length));
  if (!runs.length || !length) return [];
  return Array.from({ length }, (_, i) => {
    const values = runs.map((one) => one[field][i]);
    const at = runs.map((one) => (clock === "seconds" ? secondsAt(one, one.evaluated[i]) : one.evaluated[i]));
    return { x: mean(at), mean: mean(values), low: Math.min(...values), high: Math.max(...values) };
  });
}
function secondsAt(run, update) {
  // Seconds of updates until then: `seconds` are kept at the updates of `updates`.
  if (!update) return 0;
  const place = run.updates.findIndex((one) => one >= update);
  return run.seconds[place < 0 ? run.seconds.length - 1 : place];
}

function curveTraces(cell, points, small, { color, dash, ours, symbol, grey }) {
  const xs = points.map((p) => p.x);
  const area = band(
    xs,
    points.map((p) => p.low),
    points.map((p) => p.high),
    color,
  );
  const line = {
    x: xs,
    y: points.map((p) => p.mean),
    mode: small || grey ? "lines" : "lines+markers",
    line: { color, width: grey ? 1.25 : ours ? 2.5 : 1.75, dash },
    marker: { color, symbol, size: 6 },
    customdata: points.map(() => cell.index),
    text: points.map((p) =>
      hover(cell, [`${digits(p.mean, 4)} [${digits(p.low, 4)}, ${digits(p.high, 4)}] at ${digits(p.x)}`]),
    ),
    hovertemplate: "%{text}<extra></extra>",
  };
  return grey ? [line] : [area, line];
}

function curves(cells, metric, clock, small = false) {
  // A metric on the held-out split against updates, or against seconds of updates.
  const series = measured(cells)
    .map((cell) => ({ cell, points: alongTheWay(cell, `metric.${metric.name}`, clock) }))
    .filter((one) => one.points.length);
  const last = Math.max(...series.map((one) => one.points[one.points.length - 1].x));
  const settled = series.flatMap((one) => one.points.slice(Math.min(1, one.points.length - 1)));
  const range = linearSpan(settled.flatMap((p) => [p.low, p.high])); // the untrained start would flatten all the rest
  const target = cells.find((c) => c["measure.target"] != null)?.["measure.target"];
  const drawn = series.map((one) => one.cell);
  const worth = worthOf(drawn, judgedOf(metric));
  return (width, height, look) => {
    const lit = litAmong(drawn, worth);
    const named = series.filter((one) => lit.has(litKey(one.cell)));
    const room = labelRoom(
      named.map((one) => one.cell.label),
      width,
    );
    const layout = baseLayout(look, { margin: { l: 58, r: room, t: 8, b: small ? 38 : 44 } });
    const inner = height - layout.margin.t - layout.margin.b;
    const ends = named.map(({ cell, points }) => {
      const end = points[points.length - 1];
      return { cell, name: cell.label, x: clock === "seconds" ? last : end.x, y: end.mean };
    });
    layout.annotations = endLabels(ends, range, inner, room, look);
    const title = clock === "seconds" ? "seconds of updates" : "updates";
    layout.xaxis = axis(look, {
      range: [0, last],
      title: axisTitle(title, look),
      nticks: 6,
      showgrid: false,
      tickangle: 0,
    });
    layout.yaxis = axis(look, { range, nticks: 7 });
    if (target != null)
      layout.shapes = [
        {
          type: "line",
          xref: "paper",
          x0: 0,
          x1: 1,
          y0: target,
          y1: target,
          line: { color: look.muted, width: 1, dash: "dot" },
        },
      ];
    const order = [...series].sort((a, b) => greyLast(lit)(a.cell, b.cell));
    const traces = order.flatMap(({ cell, points }) => curveTraces(cell, points, small, lookOf(cell, lit, look)));
    return { traces, layout };
  };
}
const anyCurve = (cells, metric) =>
  measured(cells).some((c) => alongTheWay(c, `metric.${metric.name}`, "updates").length);
function curveFigure(cells, metric, clock) {
  const caption = `${titleOf(metric)}, against ${clock === "seconds" ? "time" : "updates"} (${wayOf(metric)})`;
  const figure = el("figure", {}, el("figcaption", {}, caption));
  if (anyCurve(cells, metric))
    addChart(figure, {
      height: Math.max(310, 70 + 14 * Math.min(measured(cells).length, CROWD)),
      label: `${caption}, ${cells[0].case}`,
      draw: curves(cells, metric, clock),
    });
  else figure.append(empty("No run here left a curve."));
  return figure;
}

function trainedCase(suite, cells) {
  // Everything of one case: curves by update and by second, quality against time and memory, the outcomes.
  const [judged] = metricsOf(suite);
  const ok = measured(cells);
  const seeds = Math.max(0, ...ok.map((c) => c["measure.seeds"] || 0));
  const target = ok.find((c) => c["measure.target"] != null)?.["measure.target"];
  const facts = [
    `${seeds} seed${seeds === 1 ? "" : "s"}; bands reach from the lowest to the highest of them`,
    target == null ? "" : `dotted: the target, ${digits(target)}`,
    "solid lines are ours, dashed ones peers, grey is the reference",
  ];
  return [
    el("div", { class: "two" }, curveFigure(cells, judged, "updates"), curveFigure(cells, judged, "seconds")),
    el("p", { class: "note" }, `${capital(facts.filter(Boolean).join("; "))}.`),
    ...(paretoPair(suite, cells) || []),
    gaps(cells, ""),
    outcomeTable(suite, cells),
  ];
}

function sayContrast(cell, reference, name) {
  const found = cell === reference ? null : contrast(cell, reference, name);
  if (!found) return "";
  // Level is said only where the interval holds nothing beyond 1% of the value itself.
  const near = Math.max(Math.abs(found.low), Math.abs(found.high)) <= 0.01 * Math.abs(cell[`measure.${name}`]);
  const said = found.verdict !== LEVEL ? found.verdict : near ? "level" : "not decided";
  const sign = (v) => `${v < 0 ? "−" : "+"}${digits(Math.abs(v), 2)}`;
  return `${said}: ${sign(found.difference)} [${sign(found.low)}, ${sign(found.high)}]`;
}
function tuningColumn(cells, reference) {
  // When tuning has paid: runs to the target until what it took is won back by being there before the reference.
  const value = (c) => {
    const found = c["measure.tuning_s"] > 0 && c !== reference ? contrast(c, reference, "seconds_to_target") : null;
    if (!found) return null; // not both were there in every seed
    return found.verdict === "better" ? Math.ceil(c["measure.tuning_s"] / -found.difference) : Infinity;
  };
  const unit = `runs to the target, against ${reference.label}`;
  return payingColumn("tuning pays", unit, cells, value, "not shown to be sooner there");
}
function outcomeTable(suite, cells) {
  // A row each contender: what it reached, against the reference, when it reached the target, what it cost.
  const ok = measured(cells);
  const reference = ok.find((c) => c.reference) || ok[0];
  const number = (title, name, units) => amount(title, cells, (c) => c[name], units);
  const columns = [CONTENDER_COLUMN];
  for (const metric of metricsOf(suite)) {
    const name = finalOf(metric.name);
    if (!ok.some((c) => c[name] != null)) continue;
    columns.push(number(metric.title, name, metric.unit));
    columns.push(intervalColumn((c) => between(c[`${name}.low`], c[`${name}.high`])));
    columns.push({
      title: `against ${reference.label}`,
      value: (c) => contrast(c, reference, `final.${metric.name}`)?.difference,
      show: (c) => sayContrast(c, reference, `final.${metric.name}`),
    });
  }
  if (ok.some((c) => c["measure.seeds_on_target"] != null)) {
    columns.push(number("to target", "measure.updates_to_target", "updates"));
    columns.push(number("to target", "measure.seconds_to_target", "s"));
    columns.push({
      title: "on target",
      unit: "seeds",
      value: (c) => c["measure.seeds_on_target"],
      show: (c) =>
        c["measure.seeds_on_target"] == null ? "" : `${c["measure.seeds_on_target"]} of ${c["measure.seeds"]}`,
    });
  }
  columns.push(number("update", "time_s", TIME), ...runCostColumns(cells), number("peak memory", "peak_bytes", BYTES));
  for (const [name, kind] of fieldsOf(cells, "measure.bytes.")) columns.push(number(kind, name, BYTES));
  const hyper = (c) =>
    Object.entries(c)
      .filter(([name]) => name.startsWith("hyper."))
      .map(([name, value]) => `${name.slice(6)} ${typeof value === "number" ? digits(value, 2) : value}`)
      .join(", ");
  columns.push({ title: "tuned to", value: hyper, show: hyper });
  const trials = (c) => c["measure.tuning_trials"];
  columns.push({ title: "trials", value: trials, show: (c) => String(trials(c) ?? "") });
  columns.push(number("tuning", "measure.tuning_s", "s"), tuningColumn(cells, reference), STATUS_COLUMN);
  return sortable(columns.filter(Boolean), measuredFirst(cells), {
    caption: "Outcomes; click a row for its samples and command",
    open: showCell,
  });
}

function trainingSection(suite, cells) {
  const section = sectionOf(suite, cells);
  if (!measured(cells).length) return section;
  const parts = [
    casesMap(section, suite, cells, `final.${metricsOf(suite)[0]?.name}`),
    crowdLegend(cells),
    caseByCase(suite, cells, (one) => trainedCase(suite, one)),
    equalWork(suite, cells),
  ];
  section.append(...parts.filter(Boolean));
  return section;
}

function trainingCard(host, suite, cells) {
  // The judged metric by update, at the case with most to say.
  const [one] = fullestFirst(cells);
  const [judged] = metricsOf(suite);
  if (!judged || !anyCurve(one, judged)) return;
  const caption = `${titleOf(judged)}, against updates (${wayOf(judged)})`;
  host.append(el("figcaption", {}, caption));
  addChart(host, {
    height: Math.max(210, 60 + 14 * Math.min(measured(one).length, CROWD)),
    label: caption,
    draw: curves(one, judged, "updates", true),
  });
}

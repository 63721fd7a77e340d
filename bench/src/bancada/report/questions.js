// The answers' charts, each made when its answer is first opened: points that name the rows they come from.

const ANSWERS = new Map(DATA.questions.map((one) => [one.id, one.charts]));
const ROWS = new Map(CELLS.filter((c) => c.row_id).map((c) => [c.run + KEY + c.row_id, c]));

const ANSWER_UNITS = {
  s: { tick: tickTime, base: 10, say: sayTime },
  bytes: { tick: tickBytes, base: 2, say: sayBytes },
  x: { tick: tickTimes, base: 10, say: sayRatio },
};
function answerMetric(of, title, unit, linear, way) {
  // A figure of an answer's points (`of` is x or y), in the form that panels take.
  const say = (v) => `${digits(v)} ${unit}`.trim();
  return {
    ...(ANSWER_UNITS[unit] || { tick: tickPlain, base: 10, say }),
    title,
    linear,
    higher: way === "higher",
    get: (c) => c.answer[of],
    low: (c) => c.answer[`${of}_low`] ?? c.answer[of],
    high: (c) => c.answer[`${of}_high`] ?? c.answer[of],
  };
}

function answerCells(chart) {
  // A cell for each point: that of its row, with the point's own figures.
  return chart.points
    .map((point) => [point, ROWS.get(chart.run + KEY + point.row)])
    .filter(([, cell]) => cell)
    .map(([point, cell]) => ({
      ...cell,
      ...point.parts,
      label: point.label || cell.label,
      axes: { ...cell.axes, ...(point.x === undefined ? {} : { [chart.axis]: point.x }) },
      answer: {
        x: point.x,
        x_low: point.x_low,
        x_high: point.x_high,
        y: point.y,
        y_low: point.low,
        y_high: point.high,
      },
    }));
}

function levelled(draw, level, upright) {
  // The same chart with a line where both are equal.
  const [from, to] = upright ? ["x", "y"] : ["y", "x"];
  return (width, height, look) => {
    const { traces, layout } = draw(width, height, look);
    const line = { color: look.muted, width: 1 };
    const even = { type: "line", [`${to}ref`]: "paper", [`${to}0`]: 0, [`${to}1`]: 1, line };
    layout.shapes = [...(layout.shapes || []), { ...even, [`${from}0`]: level, [`${from}1`]: level }];
    return { traces, layout };
  };
}

const ANSWER_DRAWINGS = {
  lines(figure, chart, cells) {
    const metric = answerMetric("y", chart.title, chart.unit, false);
    const level = chart.level == null ? [] : [chart.level];
    const range = span([...cells.flatMap((c) => [metric.low(c), metric.get(c), metric.high(c)]), ...level]);
    const several = chart.axis && unique(cells.map((c) => c.axes[chart.axis])).length > 1;
    const made = panel(cells, chart.axis, metric, range);
    const draw = level.length ? levelled(made.draw, chart.level, !several) : made.draw;
    addChart(figure, { ...made, draw, label: chart.title });
  },
  bars(figure, chart, cells) {
    const { say } = answerMetric("y", chart.title, chart.unit, true);
    figure.replaceChildren(barFigure(cells, chart.parts, chart.title, say));
  },
  scatter(figure, chart, cells) {
    const x = answerMetric("x", chart.axis, chart.x_unit, chart.linear, chart.better[0]);
    const y = answerMetric("y", chart.title, chart.unit, chart.linear, chart.better[1]);
    figure.append(...paretoBody(cells, { title: x.title, metric: x }, { title: y.title, metric: y }));
  },
  curves(figure, chart, cells) {
    const [judged] = metricsOf(SUITES.get(cells[0].suite));
    if (!judged || !anyCurve(cells, judged)) figure.append(empty("The curves of these runs were not kept."));
    else addChart(figure, { height: 270, label: chart.title, draw: curves(cells, judged, chart.axis) });
  },
};

function showAnswer(box) {
  for (const figure of box.querySelectorAll("figure[data-chart]")) {
    const [id, place] = figure.dataset.chart.split("/");
    const chart = ANSWERS.get(id)[Number(place)];
    if (!chart || figure.childElementCount) continue;
    const cells = answerCells(chart);
    figure.append(el("figcaption", {}, chart.kind === "scatter" ? `${chart.title} beside ${chart.axis}` : chart.title));
    if (cells.length) ANSWER_DRAWINGS[chart.kind](figure, chart, cells);
    else figure.append(empty("The rows of this chart are not on the page."));
  }
  count();
}

const answerBoxes = () => document.querySelectorAll("details[data-question]");
addEventListener("beforeprint", () => {
  // Before the charts' own listener, which paints what is there.
  openToPrint(answerBoxes());
  answerBoxes().forEach(showAnswer);
});
function openAnswers() {
  // Charts when an answer is opened.
  for (const box of answerBoxes()) box.addEventListener("toggle", () => box.open && showAnswer(box));
}

// What it costs: any two figures of a case against each other, those that nothing beats in both joined and named.

const MARGINS = { l: 66, r: 16, t: 10, b: 44 };

function scatter(shown, x, y, { xRange, yRange, best, xTitle, say = () => [] }) {
  // Each contender a point with its intervals, filled and joined where it is among `best`.
  const at = (value, metric) => (metric.linear ? value : log(value)); // in the axis's own units
  const share = (value, metric, range) => (at(value, metric) - range[0]) / (range[1] - range[0]);
  const joined = new Set(best);
  const steps = stairs(best, x, y);
  const uncertain = (cell, metric, color) =>
    metric.high(cell) > metric.low(cell) ? interval([cell], metric, color) : undefined;
  return (width, height, look) => {
    const lit = litAmong(shown, best);
    const inner = [width - MARGINS.l - MARGINS.r, height - MARGINS.t - MARGINS.b];
    const names = shown.map((c) => (lit.has(litKey(c)) ? c.label : ""));
    const across = (value) => inside(inner[0] * share(value, x, xRange), inner[0]);
    const down = (value) => inside(inner[1] * (1 - share(value, y, yRange)), inner[1]);
    const places = shown.map((c, i) => [across(x.get(c)), down(y.get(c)), names[i] ? measure(names[i]) : 0]);
    const strokes = strokesOf(shown, steps, x, y, (a, b) => [across(a), down(b)]);
    const spots = labelSpots(places, inner, strokes);
    const traces = [...shown].sort(greyLast(lit)).map((cell) => {
      const { color, symbol, grey } = lookOf(cell, lit, look);
      return {
        x: [x.get(cell)],
        y: [y.get(cell)],
        mode: "markers",
        marker: {
          color: joined.has(cell) ? color : look.paper,
          symbol,
          size: grey ? 9 : 11,
          line: { color, width: 2 },
        },
        error_x: uncertain(cell, x, color),
        error_y: uncertain(cell, y, color),
        customdata: [cell.index],
        hovertext: [hover(cell, say(cell))],
        hoverinfo: "text",
      };
    });
    const layout = baseLayout(look, { margin: MARGINS });
    layout.annotations = shown
      .map((cell, i) => ({
        x: at(x.get(cell), x),
        y: at(y.get(cell), y),
        text: plain(names[i]),
        showarrow: false,
        xshift: spots[i][0],
        yshift: -spots[i][1],
        font: { size: 12, color: textColor(styleOf(cell).color, look) },
      }))
      .filter((_, i) => names[i]);
    layout.xaxis = valueAxis(look, x, xRange, Math.floor(inner[0] / 62), { title: axisTitle(xTitle, look) });
    layout.yaxis = valueAxis(look, y, yRange, 7);
    const line = { color: look.muted, width: 1.5, shape: "hv" };
    const edge = { x: steps.map(x.get), y: steps.map(y.get), mode: "lines", line, hoverinfo: "skip" };
    return { traces: [edge, ...traces], layout };
  };
}
function stairs(best, x, y) {
  // The corners of the line on whose far side every point is beaten: level from each of the best to the next, then up
  // or down to it.
  const steps = [];
  for (const cell of [...best].sort(better(x))) {
    const last = steps[steps.length - 1];
    if (!last || better(y)(cell, last) < 0) steps.push(cell); // those level with one another can lie behind it
  }
  return steps;
}
// The box of a line that no label should stand on, in pixels; and a place kept within the picture.
const stroke = ([x0, y0], [x1, y1]) => [
  Math.min(x0, x1),
  Math.min(y0, y1) - 2,
  Math.max(x0, x1) + 2,
  Math.max(y0, y1) + 2,
];
function strokesOf(shown, steps, x, y, at) {
  // The intervals of all points, and the line along the best.
  const bars = shown.flatMap((c) => [
    stroke(at(x.low(c), y.get(c)), at(x.high(c), y.get(c))),
    stroke(at(x.get(c), y.low(c)), at(x.get(c), y.high(c))),
  ]);
  const line = steps.slice(1).flatMap((to, i) => {
    const corner = at(x.get(to), y.get(steps[i]));
    return [stroke(at(x.get(steps[i]), y.get(steps[i])), corner), stroke(corner, at(x.get(to), y.get(to)))];
  });
  return [...bars, ...line];
}
const inside = (pixels, most) => Math.min(Math.max(pixels || 0, 0), most);
function valueAxis(look, metric, range, most, more = {}) {
  // A linear or logarithmic axis of a metric.
  if (metric.linear) return axis(look, { range, nticks: most, tickangle: 0, ...more });
  return axis(look, { type: "log", range, ...ticks(range, metric.tick, metric.base, most), tickangle: 0, ...more });
}

function overlap(a, b) {
  const wide = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const high = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  return Math.max(0, wide) * Math.max(0, high);
}
function labelSpots(points, [width, height], strokes) {
  // For each [x, y, label width]: a shift of the label's middle that keeps it clear of markers, lines and other labels.
  const taken = [...points.map(([x, y]) => [x - 9, y - 9, x + 9, y + 9]), ...strokes];
  return points.map(([x, y, w]) => {
    if (!w) return [0, 0]; // no label
    let best = null;
    for (const away of [0, 15, 30, 45]) {
      const beside = w / 2 + 12;
      const shifts = [
        [beside, away],
        [-beside, away],
        [beside, -away],
        [-beside, -away],
        [0, -17 - away],
        [0, 17 + away],
      ];
      for (const [dx, dy] of shifts) {
        const box = [x + dx - w / 2 - 1, y + dy - 7, x + dx + w / 2 + 1, y + dy + 7];
        const beyond = [-box[0], box[2] - width - 14, -box[1] - 6, box[3] - height];
        const outside = beyond.reduce((sum, pixels) => sum + Math.max(0, pixels), 0);
        const cost = taken.reduce((sum, other) => sum + overlap(box, other), 0) + outside * 20 + away * 0.3;
        if (!best || cost < best.cost) best = { cost, dx, dy, box };
      }
    }
    taken.push(best.box);
    return [best.dx, best.dy];
  });
}

// Two figures of a case, chosen by selects

function paretoFigure(suite, cells, slot, usual) {
  // `usual` are the keys of the figures on x and y where the reader has chosen none.
  const options = figuresOf(suite, cells);
  const figure = el("figure", { class: "pareto", "data-pareto": slot });
  const name = (axisName) => `${suite.id}.${slot}.${axisName}`;
  const draw = () => {
    forgetCharts(figure);
    const [x, y] = ["x", "y"].map((axisName, i) => viewOf(name(axisName), options, usual[i]));
    const selects = [
      viewSelect(name("y"), "what stands upright", options, usual[1], draw),
      el("span", {}, "against"),
      viewSelect(name("x"), "what lies across", options, usual[0], draw),
    ];
    const caption = el("figcaption", { class: "axes" }, selects);
    figure.replaceChildren(caption, ...paretoBody(cells, x, y));
  };
  draw();
  return figure;
}
const betterWay = ({ metric }) => (metric.higher ? "higher" : "lower");
function frontOf(cells, x, y, more) {
  // Those that carry both figures, who of them is not beaten, and the picture of all that can be drawn: what is 0 has
  // no place on a logarithmic axis, and beats others all the same.
  const metrics = unique([x.metric, y.metric]);
  const known = measured(cells).filter((c) => metrics.every((metric) => Number.isFinite(metric.get(c))));
  const shown = has(has(known, x.metric), y.metric);
  const best = front(known, metrics).sort(better(x.metric));
  const drawn = best.filter((c) => shown.includes(c));
  const ranges = { xRange: rangeOf(shown, x.metric), yRange: rangeOf(shown, y.metric) };
  return { known, shown, best, draw: scatter(shown, x.metric, y.metric, { ...ranges, best: drawn, ...more }) };
}
function paretoBody(cells, x, y) {
  const say = (c) => unique([x, y]).map((one) => `${one.title}: ${one.metric.say(one.metric.get(c))}`);
  const { known, shown, best, draw } = frontOf(cells, x, y, { xTitle: `${x.title} (${betterWay(x)} is better)`, say });
  if (!shown.length) return [empty("No row here carries both figures.")];
  const label = `${y.title} against ${x.title} at ${cells[0].case}`;
  const box = el("div");
  addChart(box, { height: shown.length > CROWD ? 340 : 280, label, draw });
  return [box, frontWords(known, best, x, y), zeroWords(cells, unique([x, y]))].filter(Boolean);
}
function frontWords(known, best, x, y) {
  // Who is not beaten, in words: the picture's line for those who cannot see it.
  const each = (c) =>
    `${c.label} (${unique([x, y])
      .map(({ metric }) => metric.say(metric.get(c)))
      .join(", ")})`;
  const others = known.length - best.length;
  const rest = others
    ? ` The other ${others === 1 ? "one is" : `${others} are`} beaten by one that is nowhere worse.`
    : "";
  const way = `${y.title}: ${betterWay(y)} is better. `;
  return el("p", { class: "note" }, capital(way), el("b", {}, "Not beaten: "), `${best.map(each).join("; ")}.${rest}`);
}
function zeroWords(cells, figures) {
  // Who is missing from the picture because nothing is at 0 on a logarithmic axis.
  const zeros = figures.flatMap(({ title, metric }) =>
    metric.linear
      ? []
      : measured(cells)
          .filter((c) => metric.get(c) === 0)
          .map((c) => `${c.label} (${title})`),
  );
  return zeros.length
    ? el("p", { class: "gaps" }, `Exactly 0, so not on a logarithmic axis: ${zeros.join("; ")}.`)
    : null;
}
function weighedCard(host, suite, cells) {
  // The figures that decide in place of time, at the case with most to say: one as dots, two against each other.
  const [chosen] = fullestFirst(cells);
  const figures = figuresOf(suite, chosen);
  const weighed = suite.weighs
    .map((name) => figures.find(({ key }) => key === `m.${name}`))
    .filter((one) => one && has(chosen, one.metric).length > 1);
  if (!weighed.length) return;
  const [x, y] = weighed;
  const shown = has(has(chosen, x.metric), (y || x).metric);
  const caption = y ? `${capital(y.title)} against ${x.title}` : capital(x.title);
  const across = betterWay(x);
  const ways = y && betterWay(y) !== across ? `${betterWay(y)} against ${across} is better` : `${across} is better`;
  host.append(el("figcaption", {}, `${caption}, ${chosen[0].case} (${ways})`));
  if (!y) {
    addChart(host, { ...panel(shown, "", x.metric, rangeOf(shown, x.metric), true), label: caption });
    return;
  }
  addChart(host, { height: 230, label: caption, draw: frontOf(chosen, x, y, { xTitle: x.title }).draw });
}

const PARETO_NOTE =
  "Filled and joined: nobody is shown to be better in one of the two figures and no worse in the other. Hollow: somebody is.";
function paretoPair(suite, cells) {
  // The two views of a case that say most at first; null where there are not two figures to set against each other.
  const figures = figuresOf(suite, cells);
  if (figures.length < 2) return null;
  const apart = figures.filter(({ metric }) => {
    const values = has(cells, metric).map(metric.get);
    return !same(Math.min(...values), Math.max(...values));
  });
  const options = (apart.length < 2 ? figures : apart).map(({ key }) => key); // what is one for all tells nothing
  const [one, other] = usualViews(suite, options);
  const views = one.join() === other.join() ? [one] : [one, other];
  const pair = views.map((usual, i) => paretoFigure(suite, cells, i ? "second" : "first", usual));
  return [el("div", { class: "two" }, pair), el("p", { class: "note" }, PARETO_NOTE)];
}

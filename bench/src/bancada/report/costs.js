// What it costs: time against memory or error at one case. And the roofline: rate against work a byte.

const MARGINS = { l: 66, r: 16, t: 10, b: 44 };

function scatter(shown, x, y, { xRange, yRange, best, xTitle, say = () => [] }) {
  // Each contender a point with its intervals, filled where it is among `best`.
  const at = (value, metric) => (metric.linear ? value : log(value)); // in the axis's own units
  const share = (cell, metric, range) => (at(metric.get(cell), metric) - range[0]) / (range[1] - range[0]);
  const uncertain = (cell, metric) =>
    metric.high(cell) > metric.low(cell) ? interval([cell], metric, styleOf(cell).color) : undefined;
  return (width, height, look) => {
    const inner = [width - MARGINS.l - MARGINS.r, height - MARGINS.t - MARGINS.b];
    const places = shown.map((c) => [
      inner[0] * share(c, x, xRange),
      inner[1] * (1 - share(c, y, yRange)),
      measure(c.label),
    ]);
    const spots = labelSpots(places, inner);
    const traces = shown.map((cell) => {
      const { color, symbol } = styleOf(cell);
      return {
        x: [x.get(cell)],
        y: [y.get(cell)],
        mode: "markers",
        marker: { color: best.has(cell) ? color : look.paper, symbol, size: 11, line: { color, width: 2 } },
        error_x: uncertain(cell, x),
        error_y: uncertain(cell, y),
        customdata: [cell.index],
        hovertext: [hover(cell, say(cell))],
        hoverinfo: "text",
      };
    });
    const layout = baseLayout(look, { margin: MARGINS });
    layout.annotations = shown.map((cell, i) => ({
      x: at(x.get(cell), x),
      y: at(y.get(cell), y),
      text: plain(cell.label),
      showarrow: false,
      xshift: spots[i][0],
      yshift: -spots[i][1],
      font: { size: 12, color: textColor(styleOf(cell).color, look) },
    }));
    layout.xaxis = valueAxis(look, x, xRange, Math.floor(inner[0] / 62), { title: axisTitle(xTitle, look) });
    layout.yaxis = valueAxis(look, y, yRange, 7);
    return { traces, layout };
  };
}
function valueAxis(look, metric, range, most, more = {}) {
  // A linear or logarithmic axis of a metric.
  if (metric.linear) return axis(look, { range, nticks: most, tickangle: 0, ...more });
  return axis(look, { type: "log", range, ...ticks(range, metric.tick, metric.base, most), tickangle: 0, ...more });
}

function costs(cells, yMetric) {
  // Filled where nothing else is as good in time, memory and error at once.
  const shown = drawable(cells, yMetric);
  const times = shown.flatMap((c) => [METRICS.time.low(c), METRICS.time.high(c)]);
  return scatter(shown, METRICS.time, yMetric, {
    xRange: span(times, 0.5, 0.14),
    yRange: span(shown.map(yMetric.get), yMetric === METRICS.error ? 1.2 : 0.6, 0.16),
    best: front(measured(cells)),
    xTitle: "time a call (further left is better)",
  });
}

function overlap(a, b) {
  const wide = Math.min(a[2], b[2]) - Math.max(a[0], b[0]);
  const high = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  return Math.max(0, wide) * Math.max(0, high);
}
function labelSpots(points, [width, height]) {
  // For each [x, y, label width]: a shift of the label's middle that keeps it clear of all markers and other labels.
  const taken = points.map(([x, y]) => [x - 9, y - 9, x + 9, y + 9]);
  return points.map(([x, y, w]) => {
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

function ceilingsOf(cell) {
  // The better of the measurements before and after: a ceiling is what can be reached.
  const out = {};
  for (const row of DATA.ceilings) {
    if (row.run !== cell.run || row.device !== cell.device || row.dtype !== cell.axes.dtype) continue;
    out[row.name] = Math.max(out[row.name] || 0, row.value);
  }
  return out;
}
function attained(cell) {
  // The share of its limit; the copy ceiling counts only where the harness judged bandwidth (data beyond the caches).
  const { matmul = Infinity, copy = Infinity } = ceilingsOf(cell);
  const limit = Math.min(matmul, "bandwidth_share" in cell ? copy * (cell.flops / cell.bytes) : Infinity);
  return Number.isFinite(limit) && cell.flops_per_s ? cell.flops_per_s / limit : null;
}

function rooflinePoints(cells) {
  return groups(cells, (c) => c.contender).map((one) => ({
    x: one.map((c) => c.flops / c.bytes),
    y: one.map((c) => c.flops_per_s),
    mode: "markers",
    marker: { color: fade(styleOf(one[0]).color, 0.75), symbol: styleOf(one[0]).symbol, size: 6.5 },
    customdata: one.map((c) => c.index),
    text: one.map((c) => hover(c, [`${human(c.flops_per_s, RATE)}, ${sayShare(attained(c))} of its limit`])),
    hovertemplate: "%{text}<extra></extra>",
  }));
}
function roofline(cells, { matmul: peak, copy }) {
  // FLOP/s against FLOPs a byte, under what this machine was measured to reach.
  const shown = cells.filter((c) => c.flops_per_s > 0 && c.bytes > 0);
  const corner = peak && copy ? peak / copy : null;
  const xRange = span([...shown.map((c) => c.flops / c.bytes), corner].filter(Boolean), 1);
  const yRange = span([...shown.map((c) => c.flops_per_s), peak].filter(Boolean), 1);
  return (width, height, look) => {
    const traces = rooflinePoints(shown);
    const layout = baseLayout(look, { margin: { l: 84, r: 16, t: 12, b: 44 } });
    if (corner) {
      const xs = [10 ** xRange[0], Math.min(Math.max(corner, 10 ** xRange[0]), 10 ** xRange[1]), 10 ** xRange[1]];
      const ys = xs.map((x) => Math.min(peak, x * copy));
      traces.unshift({ x: xs, y: ys, mode: "lines", line: { color: look.ink, width: 2 }, hoverinfo: "skip" });
      const text = plain(`matmul ${human(peak, RATE)}`);
      const font = { color: look.ink, size: 12 };
      layout.annotations = [
        { x: xRange[1], y: log(ys[2]), xanchor: "right", yanchor: "bottom", yshift: 2, showarrow: false, text, font },
      ];
    }
    const sayIntensity = (v) => sayValue(Number(v.toPrecision(2)));
    const title = axisTitle("FLOPs a byte moved at least", look);
    layout.xaxis = axis(look, {
      type: "log",
      range: xRange,
      ...ticks(xRange, sayIntensity, 10, Math.floor((width - 100) / 62)),
      title,
      tickangle: 0,
    });
    layout.yaxis = axis(look, { type: "log", range: [yRange[0], yRange[1] + 0.12], ...ticks(yRange, tickRate) });
    return { traces, layout };
  };
}

// The charts themselves: lines against an axis, dots where there is one case only, costs, the roofline.

const METRICS = {
  time: {
    title: "Time a call", get: (c) => c.time_s, low: (c) => c.time_low_s ?? c.time_s, high: (c) => c.time_high_s ?? c.time_s, tick: tickTime, base: 10, say: sayTime,
  },
  memory: { title: "Peak memory above the inputs", get: (c) => c.peak_bytes, low: (c) => c.peak_bytes, high: (c) => c.peak_bytes, tick: tickBytes, base: 2, say: sayBytes },
  speed: { title: "Speed", get: (c) => c.speed?.value, low: (c) => c.speed?.low, high: (c) => c.speed?.high, tick: tickTimes, base: 10, say: sayRatio },
};

function withSpeed(cells) {
  // Speed against the case's reference, from the paired rounds: 2x means half the time.
  const references = new Map(cells.filter((c) => c.reference && c.status === "ok").map((c) => [c.caseKey, c]));
  for (const cell of cells) {
    const reference = references.get(cell.caseKey);
    cell.speed = null;
    if (!reference || cell.status !== "ok") continue;
    const pair = cell === reference ? { ratio: 1, low: 1, high: 1 } : compare(cell, reference);
    if (pair) cell.speed = { value: 1 / pair.ratio, low: 1 / pair.high, high: 1 / pair.low };
  }
  return references.size ? [...references.values()][0].label : "";
}

function metricSpan(cells, metric) {
  const ok = cells.filter((cell) => cell.status === "ok");
  return span(ok.flatMap((cell) => [metric.low(cell), metric.get(cell), metric.high(cell)]));
}

function lines(cells, xName, metric, range, small = false) {
  // One line a contender, labelled at its end.
  return (width, height, look) => {
    const info = axisInfo(cells[0].suite, xName), isLog = info.scale === "log" || (info.scale !== "linear" && metricX(cells, xName));
    const xs = inOrder(unique(cells.filter((c) => c.status === "ok").map((cell) => cell.axes[xName]))), at = (x) => (isLog ? x : xs.indexOf(x));
    const series = [...group(cells.filter((c) => c.status === "ok" && metric.get(c) > 0), (c) => c.contender).values()];
    const ended = (c) => c.axes[xName] !== xs[xs.length - 1];
    const last = (one) => one.reduce((a, b) => (xs.indexOf(b.axes[xName]) > xs.indexOf(a.axes[xName]) ? b : a));
    const nameOf = (c) => (ended(c) ? `${c.label}, to ${sayValue(c.axes[xName])}` : c.label);
    const names = series.map((one) => nameOf(last(one))), room = Math.min(Math.max(...names.map((n) => measure(n)), 20) + 16, width * 0.36);
    const layout = baseLayout(look, { margin: { l: 58, r: room, t: 8, b: small ? 38 : 44 } });
    const inner = height - layout.margin.t - layout.margin.b;
    const traces = [], ends = [];
    for (const one of series) {
      const style = styleOf(one[0]), points = [...one].sort((a, b) => xs.indexOf(a.axes[xName]) - xs.indexOf(b.axes[xName]));
      const x = points.map((c) => at(c.axes[xName])), back = [...points].reverse();
      traces.push({
        x: [...x, ...[...x].reverse()], y: [...points.map(metric.high), ...back.map(metric.low)], type: "scatter", mode: "lines", fill: "toself", fillcolor: fade(style.color, 0.18), line: { width: 0 }, hoverinfo: "skip",
      });
      traces.push({
        x, y: points.map(metric.get), type: "scatter", mode: "lines+markers", line: { color: style.color, width: style.ours ? 2.5 : 1.75, dash: style.dash }, marker: { color: style.color, symbol: style.symbol, size: small ? 5 : 7 },
        error_y: { type: "data", symmetric: false, array: points.map((c) => metric.high(c) - metric.get(c)), arrayminus: points.map((c) => metric.get(c) - metric.low(c)), color: style.color, thickness: 1.2, width: 3 },
        customdata: points.map((c) => c.index), text: points.map((c) => hover(c, metric === METRICS.speed ? [`${sayRatio(c.speed.value)} [${sayRatio(c.speed.low)}, ${sayRatio(c.speed.high)}] the reference's speed`] : [])), hovertemplate: "%{text}<extra></extra>",
      });
      const end = points[points.length - 1];
      ends.push({ style, label: nameOf(end), y: inner * (1 - (log(metric.get(end)) - range[0]) / (range[1] - range[0])), value: metric.get(end) });
    }
    const heights = apart(ends.map((end) => end.y), 14, 6, inner - 4);
    layout.annotations = ends.map((end, i) => ({
      x: isLog ? log(at(xs[xs.length - 1])) : at(xs[xs.length - 1]), y: log(end.value), xref: "x", yref: "y", text: plain(fit(end.label, room - 12)), showarrow: false, xanchor: "left", xshift: 9, yshift: end.y - heights[i], font: { size: 12, color: textColor(end.style.color, look) },
    }));
    const shown = thin(xs, isLog, (width - 58 - room), look);
    layout.xaxis = axis(look, { type: isLog ? "log" : "linear", tickvals: shown.map(at), ticktext: shown.map((x) => plain(sayValue(x))), title: axisTitle(info.unit ? `${xName}, ${info.unit}` : xName, look), showgrid: false, ticks: "outside", ticklen: 4, tickcolor: look.line, tickangle: 0 });
    layout.xaxis.range = edge(xs.map((x) => (isLog ? log(x) : at(x))));
    layout.yaxis = axis(look, { type: "log", range, ...ticks(range, metric.tick, metric.base) });
    if (metric === METRICS.speed) layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: look.muted, width: 1 } }];
    return { traces, layout };
  };
}
const metricX = (cells, xName) => cells.every((cell) => typeof cell.axes[xName] === "number" && cell.axes[xName] > 0);
const edge = (places) => { const low = Math.min(...places), high = Math.max(...places), room = (high - low) * 0.04 || 0.5; return [low - room, high + room]; };
function thin(xs, isLog, width) {
  const each = Math.max(...xs.map((x) => measure(sayValue(x), 11.5))) + 14, step = Math.max(1, Math.ceil((xs.length * each) / Math.max(width, 1)));
  return xs.filter((_, i) => (xs.length - 1 - i) % step === 0);
}

const dotsHeight = (cells) => 52 + 34 * unique(cells.filter((c) => c.status === "ok").map((c) => c.contender)).length;
function dots(cells, metric, range) {
  // One case only: there is no line to draw. Each contender is a dot with its interval, the best on top.
  return (width, height, look) => {
    const shown = cells.filter((c) => c.status === "ok" && metric.get(c) > 0).sort((a, b) => (metric === METRICS.speed ? 1 : -1) * (metric.get(a) - metric.get(b)));
    const room = Math.min(Math.max(...shown.map((c) => measure(c.label)), 20) + 14, width * 0.42);
    const traces = shown.map((cell, place) => {
      const style = styleOf(cell);
      return {
        x: [metric.get(cell)], y: [place], type: "scatter", mode: "markers+text", marker: { color: style.color, symbol: style.symbol, size: 10 }, text: [plain(metric.say(metric.get(cell)))], textposition: "top center",
        textfont: { color: look.ink, size: 12 }, error_x: { type: "data", symmetric: false, array: [metric.high(cell) - metric.get(cell)], arrayminus: [metric.get(cell) - metric.low(cell)], color: style.color, thickness: 1.5, width: 4 }, customdata: [cell.index], hovertext: [hover(cell)], hoverinfo: "text", cliponaxis: false,
      };
    });
    const layout = baseLayout(look, { margin: { l: room, r: 20, t: 8, b: 34 } });
    layout.xaxis = axis(look, { type: "log", range, ...ticks(range, metric.tick, metric.base, Math.floor((width - room - 20) / 62)), tickangle: 0 });
    layout.yaxis = axis(look, { tickvals: shown.map((_, i) => i), ticktext: shown.map((c) => plain(fit(c.label, room - 14))), range: [-0.5, shown.length - 0.2], tickfont: { size: 12, color: look.ink } });
    return { traces, layout };
  };
}

function front(cells) {
  // Those that no other equals or beats in time, memory and error at once (within 2%).
  const costs = (c) => [c.time_s, c.peak_bytes, c.error_max].map((value) => (value == null ? null : value));
  const beats = (a, b) => {
    let better = false;
    for (let i = 0; i < 3; i++) {
      const [x, y] = [costs(a)[i], costs(b)[i]];
      if (x == null || y == null) continue;
      if (x > y * 1.02) return false;
      if (x < y * 0.98) better = true;
    }
    return better;
  };
  return new Set(cells.filter((cell) => !cells.some((other) => other !== cell && beats(other, cell))));
}

function costs(cells, yMetric) {
  // Time against memory or error at one case; filled where nothing else is better in all three.
  return (width, height, look) => {
    const shown = cells.filter((c) => c.status === "ok" && yMetric.get(c) > 0), best = front(cells.filter((c) => c.status === "ok"));
    const xRange = span(shown.flatMap((c) => [METRICS.time.low(c), METRICS.time.high(c)]), 0.5, 0.14), yRange = span(shown.map(yMetric.get), yMetric.floor || 0.6, 0.16);
    const layout = baseLayout(look, { margin: { l: 58, r: 16, t: 10, b: 44 } });
    const inner = [width - 74, height - 54];
    const place = (c) => [(inner[0] * (log(c.time_s) - xRange[0])) / (xRange[1] - xRange[0]), inner[1] * (1 - (log(yMetric.get(c)) - yRange[0]) / (yRange[1] - yRange[0]))];
    const traces = shown.map((cell) => {
      const style = styleOf(cell);
      return {
        x: [cell.time_s], y: [yMetric.get(cell)], type: "scatter", mode: "markers", marker: { color: best.has(cell) ? style.color : look.paper, symbol: style.symbol, size: 11, line: { color: style.color, width: 2 } },
        error_x: { type: "data", symmetric: false, array: [METRICS.time.high(cell) - cell.time_s], arrayminus: [cell.time_s - METRICS.time.low(cell)], color: style.color, thickness: 1.5, width: 4 }, customdata: [cell.index], hovertext: [hover(cell)], hoverinfo: "text",
      };
    });
    const spots = labelSpots(shown.map((c) => [...place(c), measure(c.label)]), inner);
    layout.annotations = shown.map((cell, i) => ({ x: log(cell.time_s), y: log(yMetric.get(cell)), text: plain(cell.label), showarrow: false, xanchor: "center", yanchor: "middle", xshift: spots[i][0], yshift: -spots[i][1], font: { size: 12, color: textColor(styleOf(cell).color, look) } }));
    layout.xaxis = axis(look, { type: "log", range: xRange, ...ticks(xRange, METRICS.time.tick, 10, Math.floor(inner[0] / 62)), title: axisTitle("time a call (further left is better)", look), tickangle: 0 });
    layout.yaxis = axis(look, { type: "log", range: yRange, ...ticks(yRange, yMetric.tick, yMetric.base) });
    return { traces, layout };
  };
}
function labelSpots(points, [width, height]) {
  // For each [x, y, label width]: a shift of the label's middle that keeps it clear of all markers and other labels.
  const taken = points.map(([x, y]) => [x - 9, y - 9, x + 9, y + 9]);
  const crosses = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  return points.map(([x, y, w]) => {
    let best = null;
    for (const away of [0, 15, 30, 45]) {
      for (const [dx, dy] of [[w / 2 + 12, away], [-w / 2 - 12, away], [w / 2 + 12, -away], [-w / 2 - 12, -away], [0, -17 - away], [0, 17 + away]]) {
        const box = [x + dx - w / 2 - 1, y + dy - 7, x + dx + w / 2 + 1, y + dy + 7];
        const outside = Math.max(0, -box[0]) + Math.max(0, box[2] - width - 14) + Math.max(0, -box[1] - 6) + Math.max(0, box[3] - height);
        const cost = taken.reduce((sum, other) => sum + crosses(box, other), 0) + outside * 20 + away * 0.3;
        if (!best || cost < best.cost) best = { cost, dx, dy, box };
      }
    }
    taken.push(best.box);
    return [best.dx, best.dy];
  });
}
METRICS.error = { title: "Largest error against float64", get: (c) => c.error_max, tick: (e) => sayError(e), base: 10, say: sayError, floor: 1.2 };

function roofline(cells, ceilings) {
  // FLOP/s against FLOPs a byte, under what this machine was measured to reach.
  return (width, height, look) => {
    const peak = ceilings.matmul, bandwidth = ceilings.copy;
    const shown = cells.filter((c) => c.flops_per_s > 0 && c.bytes > 0), intensity = (c) => c.flops / c.bytes;
    const xRange = span([...shown.map(intensity), peak && bandwidth ? peak / bandwidth : null].filter(Boolean), 1), yRange = span([...shown.map((c) => c.flops_per_s), peak].filter(Boolean), 1);
    const traces = [...group(shown, (c) => c.contender).values()].map((one) => {
      const style = styleOf(one[0]);
      return { x: one.map(intensity), y: one.map((c) => c.flops_per_s), type: "scatter", mode: "markers", marker: { color: fade(style.color, 0.75), symbol: style.symbol, size: 6.5 }, customdata: one.map((c) => c.index), text: one.map((c) => hover(c, [`${human(c.flops_per_s, RATE)}, ${sayShare(attained(c, ceilings))} of its limit`])), hovertemplate: "%{text}<extra></extra>" };
    });
    const ends = [10 ** xRange[0], 10 ** xRange[1]], corner = peak && bandwidth ? peak / bandwidth : null;
    const roof = corner ? [[ends[0], Math.min(peak, ends[0] * bandwidth)], [Math.min(Math.max(corner, ends[0]), ends[1]), Math.min(peak, ends[1] * bandwidth)], [ends[1], Math.min(peak, ends[1] * bandwidth)]] : [];
    traces.unshift({ x: roof.map((p) => p[0]), y: roof.map((p) => p[1]), type: "scatter", mode: "lines", line: { color: look.ink, width: 2 }, hoverinfo: "skip" });
    const layout = baseLayout(look, { margin: { l: 84, r: 16, t: 12, b: 44 } });
    layout.annotations = corner ? [{ x: xRange[1], y: log(Math.min(peak, ends[1] * bandwidth)), xanchor: "right", yanchor: "bottom", yshift: 2, showarrow: false, text: plain(`matmul ${human(peak, RATE)}`), font: { color: look.ink, size: 12 } }] : [];
    layout.xaxis = axis(look, { type: "log", range: xRange, ...ticks(xRange, (v) => sayValue(Number(v.toPrecision(2))), 10, Math.floor((width - 100) / 62)), title: axisTitle("FLOPs a byte moved at least", look), tickangle: 0 });
    layout.yaxis = axis(look, { type: "log", range: [yRange[0], yRange[1] + 0.12], ...ticks(yRange, (v) => { const [size, name] = scaled(v * 1.0000001, RATE); return `${Number((v / size).toPrecision(2))} ${name}`; }) });
    return { traces, layout };
  };
}
function attained(cell, ceilings) {
  const limit = Math.min(ceilings.matmul ?? Infinity, ceilings.copy && cell.bytes ? ceilings.copy * (cell.flops / cell.bytes) : Infinity);
  return Number.isFinite(limit) && cell.flops_per_s ? cell.flops_per_s / limit : null;
}

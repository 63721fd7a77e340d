// One measure against an axis, a line each contender; or dots, where there is one case only.

function horizontal(cells, xName) {
  // The x axis of a panel: the values of what is drawn in order, and where plotly puts them.
  const info = axisInfo(cells[0].suite, xName);
  const xs = inOrder(unique(cells.map((cell) => cell.axes[xName])));
  const numbers = xs.every((x) => typeof x === "number" && x > 0);
  const isLog = numbers && info.scale !== "linear" && info.scale !== "category";
  const at = (x) => (isLog || (numbers && info.scale === "linear") ? x : xs.indexOf(x));
  const place = (x) => (isLog ? log(x) : at(x)); // in the axis's own units, for ranges and annotations
  return {
    xs,
    at,
    place,
    isLog,
    title: info.unit && info.unit !== xName ? `${xName}, ${info.unit}` : xName,
    last: xs[xs.length - 1],
  };
}

function xAxis({ xs, at, place, isLog, title }, width, look) {
  const each = Math.max(...xs.map((x) => measure(sayValue(x), 11.5))) + 14;
  const step = Math.max(1, Math.ceil((xs.length * each) / Math.max(width, 1)));
  const shown = xs.filter((_, i) => (xs.length - 1 - i) % step === 0);
  const low = place(xs[0]);
  const high = place(xs[xs.length - 1]);
  const room = (high - low) * 0.04 || 0.5;
  return axis(look, {
    type: isLog ? "log" : "linear",
    range: [low - room, high + room],
    tickvals: shown.map(at),
    ticktext: shown.map((x) => plain(sayValue(x))),
    title: axisTitle(title, look),
    showgrid: false,
    ticks: "outside",
    ticklen: 4,
    tickcolor: look.line,
    tickangle: 0,
  });
}

function lineTraces(points, x, metric, small, style) {
  // A contender's line, broken where a size is missing, and a band for each unbroken stretch.
  const stretches = [[]];
  points.forEach((cell) => (cell ? stretches[stretches.length - 1].push(cell) : stretches.push([])));
  const bands = stretches
    .filter((stretch) => stretch.length > 1)
    .map((stretch) => {
      const places = stretch.map((c) => x.at(c.axes[x.name]));
      return band(places, stretch.map(metric.low), stretch.map(metric.high), style.color);
    });
  const speed = ({ speed: { value, low, high } }) => [
    `${sayInterval(sayRatio, value, low, high)} the reference's speed`,
  ];
  const line = {
    x: x.xs.map(x.at),
    y: points.map((c) => (c ? metric.get(c) : null)),
    mode: style.grey ? "lines" : "lines+markers",
    connectgaps: false,
    line: { color: style.color, width: style.grey ? 1.25 : style.ours ? 2.5 : 1.75, dash: style.dash },
    marker: { color: style.color, symbol: style.symbol, size: small ? 5 : 7 },
    error_y: style.grey ? undefined : interval(points, metric, style.color),
    customdata: points.map((c) => (c ? c.index : null)),
    text: points.map((c) => (c ? hover(c, metric === METRICS.speed ? speed(c) : []) : "")),
    hovertemplate: "%{text}<extra></extra>",
  };
  return style.grey ? [line] : [...bands, line];
}

function lines(cells, xName, metric, range, small = false, crossed = []) {
  const shown = drawable(cells, metric);
  const x = { ...horizontal(shown, xName), name: xName };
  const series = groups(shown, (c) => c.contender).map((one) =>
    x.xs.map((value) => one.find((c) => c.axes[xName] === value)),
  );
  const ends = series.map((points) => points.filter(Boolean).pop());
  const endOf = new Map(ends.map((cell, i) => [cell, series[i]]));
  const whole = (c) => (c.axes[xName] === x.last ? c.label : `${c.label}, to ${sayValue(c.axes[xName])}`);
  const worth = x.xs.flatMap((value) => winners(cells.filter((c) => c.axes[xName] === value)).best);
  const rest = worthOf(ends, metric);
  return (width, height, look) => {
    const lit = litAmong(ends, [...worth, ...rest]);
    const named = ends.filter((cell) => lit.has(litKey(cell)));
    const room = labelRoom(named.map(whole), width);
    const name = (c) => (measure(whole(c)) > room - 12 ? c.label : whole(c)); // who it is comes before how far it goes
    const layout = baseLayout(look, { margin: { l: 58, r: room, t: crossed.length ? 20 : 8, b: small ? 38 : 44 } });
    const inner = height - layout.margin.t - layout.margin.b;
    const placed = named.map((cell) => ({ cell, name: name(cell), x: x.place(x.last), y: log(metric.get(cell)) }));
    layout.annotations = [...endLabels(placed, range, inner, room, look), ...crossingNames(crossed, x, look)];
    layout.xaxis = xAxis(x, width - 58 - room, look);
    layout.yaxis = axis(look, { type: "log", range, ...ticks(range, metric.tick, metric.base) });
    const even = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: look.muted, width: 1 } };
    layout.shapes = [...(metric === METRICS.speed ? [even] : []), ...crossingLines(crossed, look)];
    const order = [...ends].sort(greyLast(lit));
    const traces = order.flatMap((cell) => lineTraces(endOf.get(cell), x, metric, small, lookOf(cell, lit, look)));
    return { traces, layout };
  };
}

const dotsHeight = (cells) => 52 + (crowded(measured(cells)) ? 27 : 34) * groups(measured(cells), litKey).length;

function dots(cells, metric, range) {
  // Each contender is a dot with its interval, the best on top.
  const worstFirst = metric === METRICS.speed ? 1 : -1;
  const shown = drawable(cells, metric).sort((a, b) => worstFirst * (metric.get(a) - metric.get(b)));
  return (width, height, look) => {
    const room = nameRoom(shown, width);
    const lit = litAmong(shown, shown, shown.length); // all have their names beside them
    const color = (cell) => lookOf(cell, lit, look).color;
    const traces = shown.map((cell, place) => ({
      x: [metric.get(cell)],
      y: [place],
      mode: "markers+text",
      marker: { color: color(cell), symbol: styleOf(cell).symbol, size: 10 },
      text: [plain(metric.say(metric.get(cell)))],
      textposition: "top center",
      textfont: { color: look.ink, size: 12 },
      error_x: interval([cell], metric, color(cell)),
      customdata: [cell.index],
      hovertext: [hover(cell)],
      hoverinfo: "text",
      cliponaxis: false,
    }));
    const layout = baseLayout(look, { margin: { l: room, r: 20, t: 8, b: 34 } });
    const most = Math.floor((width - room - 20) / 62);
    layout.xaxis = axis(look, { type: "log", range, ...ticks(range, metric.tick, metric.base, most), tickangle: 0 });
    layout.yaxis = nameAxis(look, shown, room, { range: [-0.5, shown.length - 0.2] });
    return { traces, layout };
  };
}

function panel(cells, xName, metric, range, small = false, crossed = []) {
  // What fits these cells of one panel: lines where x varies, dots where it does not.
  const several = xName && unique(drawable(cells, metric).map((c) => c.axes[xName])).length > 1;
  if (several) return { height: small ? 190 : 290, draw: lines(cells, xName, metric, range, small, crossed) };
  return { height: dotsHeight(cells), draw: dots(cells, metric, range) };
}

// Charts: placeholders that are drawn when they come into view, and the parts all of them share.

const CHARTS = new Set();
window.bancadaDrawn = 0; // charts now on the page that have been drawn
let watcher = null;

function count() {
  const here = [...CHARTS];
  window.bancadaDrawn = here.filter((chart) => chart.drawn).length;
  document.documentElement.dataset.charts = here.length;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    ink: get("--ink"),
    muted: get("--muted"),
    line: get("--line"),
    paper: get("--paper"),
    panel: get("--panel"),
    dark: get("--dark") === "1",
  };
}

function addChart(host, { height, label, draw }) {
  // `draw(width, height, look)` gives {traces, layout}; `traces[].customdata` holds the indexes of cells.
  const box = el("div", {
    class: "chart",
    role: "group",
    tabindex: "0",
    "aria-label": `Chart: ${label}. Arrow keys go through its points, Enter opens one.`,
    style: { height: `${height}px` },
  });
  const chart = { box, height, draw, drawn: false, point: -1 };
  CHARTS.add(chart);
  box.bancada = chart;
  box.addEventListener("keydown", (event) => walkPoints(chart, event));
  box.addEventListener("blur", () => chart.drawn && Plotly.Fx.unhover(box));
  host.append(box);
  watcher.observe(box);
  return box;
}

const pointsOf = (box) =>
  box.data.flatMap((trace, curveNumber) =>
    (trace.customdata || [])
      .map((index, pointNumber) => ({ curveNumber, pointNumber, index }))
      .filter(({ index }) => typeof index === "number"),
  );
function walkPoints(chart, event) {
  // What the mouse can do, by keys.
  if (!chart.drawn) return;
  const points = pointsOf(chart.box);
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step && points.length) {
    chart.point = chart.point < 0 ? (step > 0 ? 0 : points.length - 1) : chart.point + step;
    chart.point = (chart.point + points.length) % points.length;
    const { curveNumber, pointNumber } = points[chart.point];
    Plotly.Fx.hover(chart.box, [{ curveNumber, pointNumber }]);
  } else if ((event.key === "Enter" || event.key === " ") && points[chart.point])
    showCell(CELLS[points[chart.point].index]);
  else return;
  event.preventDefault();
}

function paint(chart) {
  const { box, height, draw } = chart;
  const width = box.clientWidth;
  if (!width) return;
  const { traces, layout } = draw(width, height, theme());
  const hadClick = chart.drawn;
  Plotly.react(box, traces, { ...layout, width, height }, { displayModeBar: false });
  if (!hadClick) {
    box.on("plotly_click", (event) => {
      const index = event.points[0]?.customdata;
      if (typeof index === "number") showCell(CELLS[index]);
    });
  }
  chart.drawn = true;
  chart.point = -1;
  chart.width = width;
  count();
}
function repaint(changed = () => true) {
  for (const chart of CHARTS) if (chart.drawn && changed(chart)) paint(chart);
}

function forgetCharts(within) {
  for (const chart of [...CHARTS]) {
    if (!within.contains(chart.box)) continue;
    watcher.unobserve(chart.box);
    if (chart.drawn) Plotly.purge(chart.box);
    CHARTS.delete(chart);
  }
  count();
}

const OPENED = []; // for the printer, to be closed again
function openToPrint(boxes) {
  for (const box of boxes) {
    if (!box.open) OPENED.push(box);
    box.open = true;
  }
}
function watchCharts() {
  watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const chart = entry.target.bancada;
        if (entry.isIntersecting && chart && !chart.drawn) paint(chart);
      }
    },
    { rootMargin: "250px" },
  );
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint());
  let waiting = 0;
  const resized = () => repaint((chart) => chart.box.clientWidth !== chart.width);
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(resized, 150);
  });
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing"); // as wide as a sheet, and light
    openToPrint(document.querySelectorAll("details.equal"));
    for (const chart of CHARTS) paint(chart);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    for (const box of OPENED.splice(0)) box.open = false;
    repaint();
  });
}

// Axes

const log = Math.log10;
function span(values, floor = 0.35, margin = 0.07) {
  // The range of a logarithmic axis (in powers of ten) that holds all values, with some room.
  const shown = values.filter((value) => value > 0 && Number.isFinite(value)).map(log);
  if (!shown.length) return [0, 1];
  let low = Math.min(...shown),
    high = Math.max(...shown);
  if (high - low < floor) {
    const middle = (high + low) / 2;
    low = middle - floor / 2;
    high = middle + floor / 2;
  }
  const room = (high - low) * margin;
  return [low - room, high + room];
}

function ticks([low, high], say, base = 10, most = 7) {
  // Round values, as many as there is room for: powers of two, or powers of ten with others between.
  let values = [];
  if (base === 2) {
    const from = Math.ceil(low / log(2)),
      to = Math.floor(high / log(2)),
      step = Math.max(1, Math.ceil((to - from + 1) / most));
    for (let power = from; power <= to; power += step) values.push(2 ** power);
  } else {
    const sets = [[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];
    for (const [steps, stride] of [...sets.map((set) => [set, 1]), [[1], 2], [[1], 3], [[1], 5]]) {
      values = [];
      for (let power = Math.ceil(low / stride - 1) * stride; power <= high; power += stride) {
        for (const step of steps)
          if (log(step) + power >= low && log(step) + power <= high) values.push(step * 10 ** power);
      }
      if (values.length <= most) break;
    }
  }
  return { tickvals: values, ticktext: values.map((value) => plain(say(value))) };
}

const tickTime = (s) => {
  const [size, name] = scaled(s * 1.0000001, TIME);
  return `${Number((s / size).toPrecision(3))} ${name}`;
};
const tickBytes = (b) => {
  const [size, name] = scaled(b * 1.0000001, BYTES);
  return `${Number((b / size).toPrecision(3))} ${name}`;
};
const tickRate = (v) => {
  const [size, name] = scaled(v * 1.0000001, RATE);
  return `${Number((v / size).toPrecision(2))} ${name}`;
};
const tickPlain = (v) => (v < 1000 ? String(Number(v.toPrecision(3))) : sayValue(v));
const tickTimes = (r) => `${Number(r.toPrecision(3))}x`;

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
function baseLayout(look, more = {}) {
  return {
    margin: { l: 58, r: 16, t: 8, b: 42 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: "closest",
    dragmode: false,
    font: { family: FONT, size: 12, color: look.muted },
    hoverlabel: {
      bgcolor: look.panel,
      bordercolor: look.line,
      font: { family: FONT, color: look.ink, size: 12.5 },
      align: "left",
    },
    ...more,
  };
}
function axis(look, more) {
  return {
    gridcolor: look.line,
    gridwidth: 1,
    zeroline: false,
    fixedrange: true,
    showline: false,
    ticks: "",
    tickfont: { size: 11.5 },
    ...more,
  };
}
const axisTitle = (text, look) => ({ text: plain(text), font: { size: 12, color: look.muted }, standoff: 6 });

function measure(text, size = 12) {
  measure.context ||= document.createElement("canvas").getContext("2d");
  measure.context.font = `${size}px system-ui, 'Liberation Sans', sans-serif`;
  return measure.context.measureText(text).width;
}
function fit(text, width, size = 12) {
  if (measure(text, size) <= width) return text;
  let short = text;
  while (short.length > 3 && measure(`${short}…`, size) > width) short = short.slice(0, -1);
  return `${short.trimEnd()}…`;
}
function apart(wanted, gap, low, high) {
  // Heights near the wanted ones, at least `gap` apart, inside [low, high].
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
  const placed = order.map(([y]) => Math.min(Math.max(y, low), high));
  for (let i = 1; i < placed.length; i++) placed[i] = Math.max(placed[i], placed[i - 1] + gap);
  for (let i = placed.length - 1, roof = high; i >= 0; i--) {
    placed[i] = Math.min(placed[i], roof);
    roof = placed[i] - gap;
  }
  const out = [];
  order.forEach(([, i], place) => {
    out[i] = placed[place];
  });
  return out;
}

const labelRoom = (names, width) => Math.min(Math.max(...names.map((name) => measure(name)), 20) + 16, width * 0.36);
function endLabels(ends, range, inner, room, look) {
  // Names at the right ends of lines, kept apart: `ends` are {cell, name, x, y}, x and y in their axes' own units.
  const wanted = ends.map(({ y }) => inner * (1 - (y - range[0]) / (range[1] - range[0])));
  const placed = apart(wanted, 14, 6, inner - 4);
  return ends.map(({ cell, name, x, y }, i) => ({
    x,
    y,
    text: plain(fit(name, room - 12)),
    showarrow: false,
    xanchor: "left",
    xshift: 9,
    yshift: wanted[i] - placed[i],
    font: { size: 12, color: textColor(styleOf(cell).color, look) },
  }));
}
function band(xs, lows, highs, color) {
  // The area between two lines.
  return {
    x: [...xs, ...[...xs].reverse()],
    y: [...highs, ...[...lows].reverse()],
    mode: "lines",
    fill: "toself",
    fillcolor: fade(color, 0.18),
    line: { width: 0 },
    hoverinfo: "skip",
  };
}
const nameRoom = (cells, width) => Math.min(Math.max(...cells.map((c) => measure(c.label)), 20) + 14, width * 0.42);
function nameAxis(look, cells, room, more) {
  // A vertical axis with a contender's name at each whole number.
  return axis(look, {
    tickvals: cells.map((_, i) => i),
    ticktext: cells.map((c) => plain(fit(c.label, room - 14))),
    tickfont: { size: 12, color: look.ink },
    ...more,
  });
}

function hover(cell, extra = []) {
  // What a point says: who, where, how much, from how many samples, which row.
  const lines = [`<b>${plain(cell.label)}</b>`, plain(cell.case)];
  if (cell.time_s != null) lines.push(plain(`${sayTiming(cell)}, ${cell.rounds ?? "?"} samples`));
  if (cell.peak_bytes != null) lines.push(plain(`${sayBytes(cell.peak_bytes)} peak memory`));
  if (cell.error_max != null) lines.push(plain(`error ${sayError(cell.error_max)}`));
  lines.push(...extra.map(plain), plain(`row ${cell.row_id || "none"}`), "click: samples and command");
  return lines.join("<br>");
}

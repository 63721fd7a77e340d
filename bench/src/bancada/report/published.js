// Figures from papers and projects, never measured here: a table with source and device; and, where this machine's
// architecture is theirs, beside what was measured at the same case.

const FITS = (figure, cell) =>
  cell.suite === figure.suite &&
  DATA.published.devices[cell.device_name] === figure.device_family &&
  cell[figure.measure] > 0 &&
  Object.entries(figure.axes).every(([name, value]) => cell.axes[name] === value || (name === "dtype" && half(cell)));
const half = (cell) => ["fp16", "bf16"].includes(cell.axes.dtype); // both at the same rate on every architecture here
const sayFigure = ({ value, high }) => (high == null ? sayValue(value) : `${sayValue(value)} to ${sayValue(high)}`);

function publishedDots(figures, cells) {
  // One case: published figures as open marks, measured ones as everywhere; the highest on top.
  const field = figures[0].measure;
  const rows = [
    ...figures.map((f) => ({ value: f.value * f.scale, name: `${f.system} (published, ${f.device})`, figure: f })),
    ...cells.map((cell) => ({ value: cell[field], name: `${cell.label} (here)`, cell })),
  ].sort((a, b) => a.value - b.value);
  const draw = (width, height, look) => {
    const room = Math.min(Math.max(...rows.map(({ name }) => measure(name))) + 14, width * 0.55);
    const traces = rows.map(({ value, cell, figure }, place) => ({
      x: [value],
      y: [place],
      mode: "markers+text",
      marker: cell
        ? { color: styleOf(cell).color, symbol: styleOf(cell).symbol, size: 10 }
        : { color: look.muted, symbol: "diamond-open", size: 10, line: { width: 2 } },
      text: [plain(human(value, RATE))],
      textposition: "middle right",
      textfont: { color: look.ink, size: 12 },
      customdata: [cell ? cell.index : null],
      hovertext: [cell ? hover(cell) : plain(`${figure.system}: ${figure.what}, ${figure.source}`)],
      hoverinfo: "text",
      cliponaxis: false,
    }));
    const layout = baseLayout(look, { margin: { l: room, r: 84, t: 4, b: 34 } });
    const most = rows[rows.length - 1].value;
    layout.xaxis = axis(look, {
      range: [0, most * 1.04],
      nticks: Math.max(2, Math.floor((width - room - 84) / 70)),
      tickangle: 0,
      tickformat: ".2s",
      title: axisTitle("FLOP/s", look),
    });
    layout.yaxis = axis(look, {
      range: [-0.6, rows.length - 0.4],
      tickvals: rows.map((_, i) => i),
      ticktext: rows.map(({ name }) => plain(fit(name, room - 12))),
      tickfont: { size: 12, color: look.ink },
    });
    return { traces, layout };
  };
  return { height: 46 + 26 * rows.length, draw };
}

function publishedCharts(figures, cells) {
  const cases = groups(
    figures.filter((f) => f.suite),
    (f) => [f.suite, f.device_family, f.what].join(KEY),
  );
  return cases
    .map((same) => [same, measured(cells).filter((cell) => FITS(same[0], cell))])
    .filter(([, mine]) => mine.length)
    .map(([same, mine]) => {
      const types = unique(mine.map((c) => c.axes.dtype)).join(", ");
      const title = `${capital(same[0].what)}; here in ${types} on ${unique(mine.map((c) => c.device_name)).join(", ")}`;
      const figure = el("figure", {}, el("figcaption", {}, title));
      addChart(figure, { ...publishedDots(same, mine), label: title });
      return figure;
    });
}

function publishedTable(figures) {
  const columns = [
    { title: "system", value: (f) => f.system, show: (f) => f.system },
    { title: "what", value: (f) => f.what, show: (f) => el("span", { class: "reason" }, f.what) },
    { title: "figure", value: (f) => f.value, show: (f) => `${sayFigure(f)} ${f.unit}` },
    { title: "device", value: (f) => f.device, show: (f) => f.device || "not stated" },
    { title: "source", value: (f) => f.source, show: (f) => f.source },
    { title: "note", value: (f) => f.note, show: (f) => (f.note ? el("span", { class: "reason" }, f.note) : "") },
  ];
  const caption = `${counted(figures.length, "figure")} as published; nothing of this was measured here`;
  return sortable(columns, figures, { first: 8, caption });
}

function publishedParts(cells) {
  // Those of the families in view.
  const shown = new Set(cells.map((c) => c.family));
  const figures = DATA.published.figures.filter((f) => shown.has(f.family));
  return groups(figures, (f) => f.family).map((mine) => {
    const charts = publishedCharts(mine, cells);
    const other = mine.some((f) => f.suite) && !charts.length;
    const why = "No case here is on such a device at such a size, so none is drawn beside a measured one.";
    return el(
      "div",
      { "data-published": mine[0].family },
      el("h4", {}, `Published: ${mine[0].family}`),
      other ? el("p", { class: "note" }, why) : "",
      charts.length ? el("div", { class: "two" }, charts) : "",
      publishedTable(mine),
    );
  });
}

// How near each contender comes to what this machine was measured to reach.

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

function sharesOf(cells) {
  return groups(cells, (c) => c.suite + KEY + c.contender)
    .map((one) => ({
      cell: one[0],
      found: one
        .map((c) => ({ cell: c, share: attained(c) }))
        .filter(({ share }) => share != null)
        .sort((a, b) => a.share - b.share),
    }))
    .filter(({ found }) => found.length);
}
function shareTable(shares) {
  const top = ({ found }) => found[found.length - 1];
  const percent = (title, unit, value) => ({ title, unit, figures: true, size: 0.01, value });
  const columns = [
    { title: "contender", value: ({ cell }) => cell.label, show: ({ cell }) => chip(cell) },
    { title: "suite", value: ({ cell }) => cell.suite, show: ({ cell }) => cell.suite },
    percent("median", "% of its limit", ({ found }) => median(found.map(({ share }) => share))),
    percent("least", "%", ({ found }) => found[0].share),
    percent("most", "%", (row) => top(row).share),
    { title: "cells", value: ({ found }) => found.length, show: ({ found }) => String(found.length) },
    {
      title: "nearest at",
      value: (row) => top(row).cell.case,
      show: (row) => button(top(row).cell.case, () => showCell(top(row).cell), { class: "link" }),
    },
  ];
  const caption =
    "Share of the limit: the matrix-product ceiling, and the copy ceiling where data exceed four times the last cache";
  return sortable(columns, shares, { first: 20, caption });
}

function limitsSection(cells) {
  const host = document.getElementById("limits-body");
  forgetCharts(host);
  const ok = measured(cells).filter((c) => c.flops_per_s);
  const places = groups(ok, (c) => [c.family, c.run, c.device_name, c.axes.dtype].join(KEY)).filter(
    (one) => Object.keys(ceilingsOf(one[0])).length,
  );
  if (!places.length) {
    const why = ok.length
      ? "This run measured no ceilings, so no share of them can be told."
      : "No measured cell here carries a count of its work.";
    host.replaceChildren(empty(why));
    return;
  }
  const figures = places.map((one) => {
    const [cell, ceilings] = [one[0], ceilingsOf(one[0])];
    const place = [
      `${capital(cell.family)}, ${cell.axes.dtype}`,
      `on ${cell.device_name}`,
      SEVERAL_RUNS && PLACES.run ? cell.run : "",
    ]
      .filter(Boolean)
      .join(" ");
    const figure = el(
      "figure",
      {},
      el("figcaption", {}, `${place}: matmul ${human(ceilings.matmul, RATE)}, copy ${human(ceilings.copy, SPEED)}`),
      el(
        "div",
        { class: "legend" },
        groups(one, (c) => c.contender).map(([first]) => chip(first)),
      ),
    );
    addChart(figure, { height: 320, label: `roofline, ${place}`, draw: roofline(one, ceilings) });
    return figure;
  });
  const drawn = el("div", { class: places.length > 1 ? "two" : "" }, figures);
  host.replaceChildren(drawn, el("h4", {}, "How near each comes"), shareTable(sharesOf(places.flat())));
}

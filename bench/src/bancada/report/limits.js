// How near each contender comes to what this machine was measured to reach.

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
  const places = groups(ok, (c) => [c.run, c.device_name, c.axes.dtype].join(KEY)).filter(
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
    const place = [cell.axes.dtype, `on ${cell.device_name}`, DATA.runs.length > 1 ? cell.run : ""]
      .filter(Boolean)
      .join(" ");
    const figure = el(
      "figure",
      {},
      el("figcaption", {}, `${place}: matmul ${human(ceilings.matmul, RATE)}, copy ${human(ceilings.copy, SPEED)}`),
    );
    addChart(figure, { height: 320, label: `roofline, ${place}`, draw: roofline(one, ceilings) });
    return figure;
  });
  const legend = groups(places.flat(), (c) => c.family + KEY + c.contender).map((one) => chip(one[0]));
  const drawn = el("div", { class: places.length > 1 ? "two" : "" }, figures);
  host.replaceChildren(
    el("p", { class: "legend" }, legend),
    drawn,
    el("h4", {}, "How near each comes"),
    shareTable(sharesOf(places.flat())),
  );
}

// The section of a suite of ranks: what each rank keeps, what it sends, whether the result is one process's, step times.

function bars(cells, parts, say) {
  // A horizontal bar a contender, stacked by kind; `parts` are [name, title], the largest bar on top.
  const total = (c) => parts.reduce((sum, [name]) => sum + (c[name] || 0), 0);
  const shown = measured(cells).sort((a, b) => total(a) - total(b));
  const most = Math.max(...shown.map(total), 1);
  return (width, height, look) => {
    const room = Math.min(Math.max(...shown.map((c) => measure(c.label)), 20) + 14, width * 0.42);
    const traces = parts.map(([name, title], i) => ({
      type: "bar",
      orientation: "h",
      x: shown.map((c) => c[name] || 0),
      y: shown.map((_, place) => place),
      marker: { color: PALETTE[i % PALETTE.length], line: { color: look.paper, width: 1 } },
      customdata: shown.map((c) => c.index),
      hovertext: shown.map((c) => hover(c, [`${title}: ${say(c[name] || 0)}`])),
      hoverinfo: "text",
      textposition: "none",
    }));
    const layout = baseLayout(look, { margin: { l: room, r: 74, t: 6, b: 8 }, barmode: "stack", bargap: 0.35 });
    layout.annotations = shown.map((c, place) => ({
      x: total(c),
      y: place,
      text: plain(say(total(c))),
      showarrow: false,
      xanchor: "left",
      xshift: 4,
      font: { size: 12, color: look.ink },
    }));
    layout.xaxis = axis(look, { range: [0, most * 1.02], showticklabels: false, showgrid: false });
    layout.yaxis = axis(look, {
      tickvals: shown.map((_, i) => i),
      ticktext: shown.map((c) => plain(fit(c.label, room - 14))),
      tickfont: { size: 12, color: look.ink },
      showgrid: false,
      range: [-0.6, shown.length - 0.4],
    });
    return { traces, layout };
  };
}
function barFigure(cells, parts, caption) {
  const figure = el("figure", {}, el("figcaption", {}, caption));
  const shown = measured(cells).filter((c) => parts.some(([name]) => c[name] > 0));
  if (!shown.length) {
    figure.append(empty("No row here carries this figure."));
    return figure;
  }
  const swatch = (i) => el("span", { class: "block", style: { "--c": PALETTE[i % PALETTE.length] } });
  const legend = parts.map(([, title], i) => el("span", { class: "chip" }, swatch(i), title));
  figure.append(el("div", { class: "legend" }, legend));
  addChart(figure, {
    height: 20 + 30 * shown.length,
    label: `${caption}, ${cells[0].case}`,
    draw: bars(shown, parts, sayBytes),
  });
  return figure;
}
function partsOf(cells, prefix, suffix = "") {
  // The fields `prefix*suffix` that any of these rows carries above 0, as [name, title].
  const names = unique(
    measured(cells).flatMap((c) =>
      Object.keys(c).filter((n) => n.startsWith(prefix) && n.endsWith(suffix) && c[n] > 0),
    ),
  );
  return names
    .map((n) => [n, n.slice(prefix.length, n.length - suffix.length).replace(/_/g, "-")])
    .filter(([, title]) => title);
}

// What all ranks hand over together is a sum of the others, and no part beside them.
const commParts = (cells) =>
  partsOf(cells, "measure.comm.", ".bytes").filter(([name]) => name !== "measure.comm.all_ranks.bytes");

function rankedCase(suite, cells) {
  const ok = measured(cells);
  const box = el("div", { class: "facet", "data-case": cells[0].case }, el("h5", {}, caseWords(suite, cells)));
  if (!ok.length) return el("div", { class: "facet" }, box, gaps(cells, "", "Nothing was measured: "));
  box.append(
    el("div", { class: "two" }, [
      barFigure(cells, partsOf(cells, "measure.bytes."), "Held by the fullest rank"),
      barFigure(cells, commParts(cells), "Handed to collectives in a step, a rank"),
    ]),
  );
  const twins = groups(ok, (c) => c.technique).filter((one) => one.some((c) => c.ours) && one.some((c) => !c.ours));
  const said = twins.flatMap((one) =>
    one
      .filter((c) => c.ours)
      .flatMap((mine) =>
        one
          .filter((c) => !c.ours)
          .map((peer) => [
            mine,
            peer,
            PAIRS.get([mine.run, mine.device, mine.suite, mine.case, mine.contender, peer.contender].join(KEY)),
          ]),
      ),
  );
  const raced = said.filter(([, , pair]) => pair);
  if (raced.length)
    box.append(
      el(
        "p",
        { class: "note" },
        el("b", {}, "Step times, in the same rounds: "),
        raced
          .map(
            ([mine, peer, pair]) =>
              `${mine.label} ${sayInterval(sayRatio, pair.ratio, pair.low, pair.high)} ${peer.label}'s`,
          )
          .join("; "),
        ".",
      ),
    );
  box.append(...[gaps(cells, ""), rankTable(cells)].filter(Boolean));
  return box;
}

function rankTable(cells) {
  const ok = measured(cells);
  const [timeSize, timeUnit] = scaled(median(ok.map((c) => c.time_s)) || 1, TIME);
  const figure = (title, name, units) => {
    const values = ok.map((c) => c[name]).filter((v) => v > 0);
    const [size, unit] = units ? scaled(median(values) || 1, units) : [1, ""];
    return { title, unit, figures: true, size, value: (c) => (c.status === "ok" ? c[name] : null) };
  };
  const open = (cell) =>
    button(
      chip(cell),
      (event) => {
        event.stopPropagation();
        showCell(cell);
      },
      { class: "link" },
    );
  const calls = (c) =>
    partsOf([c], "measure.comm.", ".calls")
      .map(([name, title]) => `${c[name]} ${title}`)
      .join(", ");
  const peaks = ok.flatMap((c) => Object.keys(c).filter((n) => /^measure\.rank\d+\.peak_bytes$/.test(n)));
  const columns = [
    { title: "contender", value: (c) => c.label, show: open },
    {
      title: "difference to one process",
      unit: "of the norm",
      value: (c) => c.error_rel,
      show: (c) => (c.error_rel == null ? "" : sayError(c.error_rel)),
    },
    { ...figure("step, slowest rank", "time_s"), unit: timeUnit, size: timeSize },
    {
      title: "interval",
      beside: true,
      value: () => null,
      show: (c) =>
        c.status === "ok" ? `[${digits(c.time_low_s / timeSize)}, ${digits(c.time_high_s / timeSize)}]` : "",
    },
    figure("peak, fullest rank", "peak_bytes", BYTES),
    ...unique(peaks)
      .sort()
      .map((name) => figure(`peak, ${name.split(".")[1].replace("rank", "rank ")}`, name, BYTES)),
    figure("collectives", "measure.comm.bytes", BYTES),
    { title: "calls a step", value: calls, show: calls },
    { title: "status", value: (c) => c.status, show: statusMark },
  ];
  return sortable(columns, cells, {
    caption: `${cells.length} cells; click a row for its samples and command`,
    open: showCell,
  });
}

function ranksSection(suite, cells) {
  const section = el("section", { class: "suite", "data-suite": suite.id }, el("h3", {}, suite.title || suite.id));
  if (suite.question) section.append(el("p", { class: "question" }, suite.question));
  const shared = unique(
    measured(cells)
      .map((c) => c["note.ranks"])
      .filter(Boolean),
  );
  if (shared.length)
    section.append(
      el(
        "p",
        { class: "caution" },
        el("b", {}, "Not scaling: "),
        `${shared.join("; ")}. Step times compare ways of doing the same work in one race; they do not say what more devices bring.`,
      ),
    );
  if (!measured(cells).length) {
    section.append(empty("No cell of this suite was measured, so there is nothing to draw."), gaps(cells, "", "Why: "));
    return section;
  }
  const cases = groups(cells, (c) => c.caseKey).sort((a, b) => measured(b).length - measured(a).length);
  section.append(
    moreOf(cases, MOST_PANELS, "cases", (some) =>
      el(
        "div",
        {},
        some.map((one) => rankedCase(suite, one)),
      ),
    ),
  );
  return section;
}

function ranksCard(host, suite, cells) {
  // What the fullest rank keeps, at the case with most to say.
  const [one] = groups(cells, (c) => c.caseKey).sort((a, b) => measured(b).length - measured(a).length);
  const parts = partsOf(one, "measure.bytes.");
  if (parts.length) host.append(barFigure(one, parts, `Held by the fullest rank, ${one[0].case}`));
}

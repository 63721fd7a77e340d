// The section of a suite of ranks: what each rank keeps, what it sends, whether the result is one process's, step times.

function bars(cells, parts, say) {
  // A horizontal bar a contender, stacked by kind; `parts` are [name, title], the largest bar on top.
  const total = (c) => parts.reduce((sum, [name]) => sum + (c[name] || 0), 0);
  const shown = measured(cells).sort((a, b) => total(a) - total(b));
  const most = Math.max(...shown.map(total), 1);
  return (width, height, look) => {
    const room = nameRoom(shown, width);
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
    layout.yaxis = nameAxis(look, shown, room, { showgrid: false, range: [-0.6, shown.length - 0.4] });
    return { traces, layout };
  };
}
function barFigure(cells, parts, caption, say = sayBytes) {
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
    draw: bars(shown, parts, say),
  });
  return figure;
}
function fieldsOf(cells, prefix, suffix = "") {
  // The fields `prefix*suffix` that any of these rows carries, as [name, title].
  const names = measured(cells).flatMap((c) =>
    Object.keys(c).filter((n) => n.startsWith(prefix) && n.endsWith(suffix)),
  );
  return unique(names)
    .map((n) => [n, n.slice(prefix.length, n.length - suffix.length).replace(/_/g, "-")])
    .filter(([, title]) => title);
}
const partsOf = (cells, prefix, suffix) =>
  fieldsOf(cells, prefix, suffix).filter(([name]) => measured(cells).some((c) => c[name] > 0));

// What all ranks hand over together is a sum of the others, and no part beside them.
const commParts = (cells) =>
  partsOf(cells, "measure.comm.", ".bytes").filter(([name]) => name !== "measure.comm.all_ranks.bytes");

function stepTimes(ok) {
  // Ours against the peers of the same technique, where they were raced; null where none was.
  const said = ok
    .filter((mine) => mine.ours)
    .flatMap((mine) => ok.filter((peer) => !peer.ours && peer.technique === mine.technique).map((peer) => [mine, peer]))
    .map(([mine, peer]) => [mine, peer, pairOf(mine, peer)])
    .filter(([, , pair]) => pair)
    .map(([mine, peer, p]) => `${mine.label} ${sayInterval(sayRatio, p.ratio, p.low, p.high)} ${peer.label}'s`);
  if (!said.length) return null;
  return el("p", { class: "note" }, el("b", {}, "Step times, in the same rounds: "), `${said.join("; ")}.`);
}

const TRAFFIC_NOTE =
  "What is handed over is not what travels: in a ring of n ranks each sends 2 (n − 1) / n of an all-reduce's bytes, half " +
  "as much of any other collective's, and all of a message's. The verdict above tells what a rank sends that way. State " +
  "is what is held between two steps: who lets gradients go after each keeps none then.";
function rankedCase(suite, cells) {
  const figures = [
    [partsOf(cells, "measure.bytes."), "Held by the fullest rank"],
    [commParts(cells), "Handed to collectives in a step, a rank"],
  ]
    .filter(([parts]) => parts.length)
    .map(([parts, caption]) => barFigure(cells, parts, caption));
  return [
    el("div", { class: "two" }, figures),
    commParts(cells).length ? el("p", { class: "note" }, TRAFFIC_NOTE) : null,
    stepTimes(measured(cells)),
    ...(paretoPair(suite, cells) || []),
    gaps(cells, ""),
    rankTable(cells),
  ];
}

function rankTable(cells) {
  const number = (title, name, units) => amount(title, cells, (c) => c[name], units);
  const calls = (c) =>
    partsOf([c], "measure.comm.", ".calls")
      .map(([name, title]) => `${c[name]} ${title}`)
      .join(", ");
  const peaks = fieldsOf(cells, "measure.rank", ".peak_bytes").sort();
  const columns = [
    CONTENDER_COLUMN,
    {
      title: "difference to one process",
      unit: "of the norm",
      value: (c) => c.error_rel,
      show: (c) => (c.error_rel == null ? "" : sayError(c.error_rel)),
    },
    ...timeColumns("step, slowest rank", cells),
    number("peak, fullest rank", "peak_bytes", BYTES),
    ...peaks.map(([name, rank]) => number(`peak, rank ${rank}`, name, BYTES)),
    number("collectives", "measure.comm.bytes", BYTES),
    { title: "calls a step", value: calls, show: calls },
    STATUS_COLUMN,
  ];
  return sortable(columns, measuredFirst(cells), {
    caption: `${counted(cells.length, "cell")}; click a row for its samples and command`,
    open: showCell,
  });
}

function ranksSection(suite, cells) {
  const section = sectionOf(suite, cells);
  const ok = measured(cells);
  if (!ok.length) return section;
  const shared = unique(ok.map((c) => c["note.ranks"]).filter(Boolean));
  const said = `${shared.join("; ")}. Step times compare ways of doing the same work in one race; they do not say what more devices bring.`;
  if (shared.length) section.append(el("p", { class: "caution" }, el("b", {}, "Not scaling: "), said));
  const parts = [
    casesMap(section, suite, cells, "memory"),
    crowdLegend(cells),
    caseByCase(suite, cells, (one) => rankedCase(suite, one)),
    equalWork(suite, cells),
  ];
  section.append(...parts.filter(Boolean));
  return section;
}

function ranksCard(host, suite, cells) {
  // What the fullest rank holds, at the case with most to say.
  const [one] = fullestFirst(cells);
  const parts = partsOf(one, "measure.bytes.");
  if (parts.length) host.append(barFigure(one, parts, `Held by the fullest rank, ${one[0].case}`));
}

// Recorded runs beside this one, drawn apart: what was measured elsewhere or on another day is never mixed in.

const RECORDED = DATA.baselines.map((one) => ({ ...one, cells: decode(one.cells) }));

function beside(baseline, cells) {
  // The cells that both have, as [here, recorded].
  const known = new Map(baseline.cells.map((c) => [[c.suite, c.case, c.contender].join(KEY), c]));
  return measured(cells)
    .map((cell) => [cell, known.get([cell.suite, cell.case, cell.contender].join(KEY))])
    .filter(([, recorded]) => recorded);
}

function sameVerdict([here, recorded]) {
  // Whether the two runs say the same of a contender against its reference.
  if (!here.speed || here.reference || recorded.speed == null) return null;
  const [now, then] = [sideOf(here.speed.low, here.speed.high), sideOf(recorded.speed_low, recorded.speed_high)];
  return now === then ? "agree" : now && then ? "contradict" : "one is undecided";
}

function besideTable(pairs) {
  const finals = unique(pairs.flatMap(([c]) => Object.keys(c).filter((n) => /^measure\.final\.[^.]+$/.test(n))));
  const [size, unit] = scaled(median(pairs.map(([c]) => c.time_s)) || 1, TIME);
  const columns = [
    { title: "contender", value: ([c]) => c.label, show: ([c]) => chip(c) },
    { title: "suite", value: ([c]) => c.suite, show: ([c]) => c.suite },
    { title: "case", value: ([c]) => c.case, show: ([c]) => c.case },
    { title: "speed here", unit: "x reference", figures: true, value: ([c]) => (c.reference ? null : c.speed?.value) },
    intervalColumn(([c]) => (c.speed && !c.reference ? between(c.speed.low, c.speed.high) : "")),
    { title: "recorded", unit: "x reference", figures: true, value: ([, r]) => r.speed },
    intervalColumn(([, r]) => between(r.speed_low, r.speed_high)),
    { title: "the two", value: sameVerdict, show: (pair) => sameVerdict(pair) || "" },
    { title: "time here", unit, figures: true, size, value: ([c]) => c.time_s },
    { title: "recorded", unit, figures: true, size, value: ([, r]) => r.time_s },
  ];
  if (pairs.some(([, r]) => r.ratio != null))
    columns.splice(
      3, // of one machine, what became of the times comes first
      0,
      { title: "here / recorded", unit: "times", figures: true, value: ([, r]) => r.ratio },
      intervalColumn(([, r]) => between(r.ratio_low, r.ratio_high)),
      { title: "so here it is", value: ([, r]) => r.says, show: ([, r]) => r.says || "" },
    );
  for (const name of finals) {
    const title = name.slice("measure.final.".length);
    columns.push({ title: `${title} here`, figures: true, value: ([c]) => c[name] });
    columns.push({ title: "recorded", figures: true, value: ([, r]) => r[name] });
  }
  const order = { contradict: 0, "one is undecided": 1, agree: 2 };
  const changed = { slower: 0, "not decided": 1, faster: 2, level: 3 };
  const rank = (pair) => (order[sameVerdict(pair)] ?? 3) + 4 * (changed[pair[1].says] ?? 3);
  const rows = [...pairs].sort((a, b) => rank(a) - rank(b) || (b[1].ratio || 0) - (a[1].ratio || 0));
  return sortable(columns, rows, {
    first: 10,
    caption: `${counted(pairs.length, "cell")} that both runs hold; click one for its row here`,
    open: ([cell]) => showCell(cell),
  });
}

function comparedNote({ compared }) {
  // How the times of one machine changed from the recorded run to this one, and how wide the intervals had to be.
  if (!compared) return "";
  const told = ["slower", "faster", "level"].map((word) => `${compared[word]} ${word}`);
  const from = compared.controls
    ? `what the ${counted(compared.controls, "cell")} of peers with the same versions in both say`
    : "what runs of the same code usually ask for";
  const run = DATA.runs.length > 1 ? ` (run ${compared.run})` : "";
  return el(
    "p",
    { class: "note" },
    `Times here${run} against the recorded ones: ${told.join(", ")}, ${compared.open} not decided. The two runs are not `,
    `paired, so intervals are ${digits(compared.widening, 2)} times as wide as within a run, by ${from}.`,
  );
}

function baselinePart(baseline, cells) {
  const pairs = beside(baseline, cells);
  const { head } = baseline;
  const place = [
    head.device_name,
    head["env.cores"] ? `${head["env.cores"]} cores` : "",
    (head.time || "").slice(0, 10),
  ];
  const counts = group(pairs.map(sameVerdict).filter(Boolean), (word) => word);
  const tally = ["agree", "one is undecided", "contradict"].map(
    (word) => `${(counts.get(word) || []).length} ${word === "one is undecided" ? "undecided in one" : word}`,
  );
  const mine = cells.some((c) => c.device_name === head.device_name);
  const note = mine ? "" : " It is another machine: compare speeds against the reference, not times.";
  return el(
    "div",
    { "data-baseline": baseline.name },
    el("h4", {}, `Recorded: ${baseline.name}`),
    el("p", { class: "note" }, `${place.filter(Boolean).join(", ")}.${note}`),
    comparedNote(baseline),
    pairs.length
      ? el("p", { class: "note" }, `Faster or slower than the reference, here and there: ${tally.join(", ")}.`)
      : empty("It holds no cell that was measured here."),
    pairs.length ? besideTable(pairs) : "",
  );
}

function baselinesSection(cells) {
  const host = document.getElementById("baselines-body");
  forgetCharts(host);
  groups(measured(cells), (c) => c.suite).forEach(withSpeed);
  const parts = RECORDED.map((baseline) => baselinePart(baseline, cells));
  if (!parts.length) parts.push(empty("No recorded run holds a suite of this one."));
  host.replaceChildren(...parts, ...publishedParts(cells));
}

// Can these figures be trusted: false verdicts, noise, drift, equal work, the machine, and what each technique is.

const METHOD =
  "Contenders of a case are timed in paired rounds: each once a round, in shuffled order. A verdict needs the " +
  "interval of the per-round ratios wholly beyond 1% either way. Anything else is too close to call: level where the " +
  "interval excludes a difference of 5%, not decided where it does not. Rounds go on while something is undecided; so " +
  "that looking again makes no winners, intervals are wider where a race stops early than at its end. A " +
  "contender whose place among the others drifted, or whose times have two humps, is unstable and compared with " +
  "nobody. Errors are against " +
  "the same computation in float64. Operations and bytes are counted by one function a suite, the same for every " +
  "contender, so that rates compare equal work: each suite tells what is counted, and what its contenders compute in.";

function noiseRows(cells) {
  return groups(
    measured(cells).filter((c) => c.time_high_s),
    (c) => c.suite + KEY + placeOf(c),
  ).map((one) => {
    const halves = one.map((c) => (c.time_high_s - c.time_low_s) / 2 / c.time_s).sort((a, b) => a - b);
    const most = halves.length - 1;
    const drifts = one.filter((c) => c.drift_share != null).map((c) => Math.abs(c.drift_share));
    return [
      withPlace(one[0].suite, placeOf(one[0])),
      sayShare(median(halves)),
      sayShare(halves[Math.floor(0.9 * most)]),
      sayShare(halves[most]),
      String(median(one.map((c) => c.rounds || 0))),
      drifts.length ? sayShare(median(drifts)) : "",
    ];
  });
}
const withPlace = (what, place) => (place ? `${what}, ${place}` : what);
const saySigned = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}%`;
function driftRows() {
  const places = new Map(CELLS.map((c) => [c.run, placeOf(c)]));
  return groups(DATA.ceilings, (c) => [c.run, c.device, c.name, c.dtype].join(KEY)).map((one) => {
    const [before, after] = ["before", "after"].map((when) => one.find((c) => c.when === when)?.value);
    const units = one[0].name === "copy" ? SPEED : RATE;
    const change = before && after ? (after / before - 1) * 100 : null;
    const drift = change == null ? "" : saySigned(change / 100);
    const what = withPlace(`${one[0].name}, ${one[0].dtype}`, places.get(one[0].run));
    return [what, human(before, units), human(after, units), drift];
  });
}
function falseRows() {
  return DATA.runs.flatMap((run) =>
    run.aa.map((row) => {
      const rate = row.comparisons ? sayShare(row.false_verdicts / row.comparisons) : "";
      const what = withPlace(`${row.suite}, ${row.case}`, DATA.runs.length > 1 ? run.name : "");
      return [what, String(row.comparisons), String(row.false_verdicts), rate];
    }),
  );
}

function trainedRows(cells) {
  // The sizes that outcomes were measured at: no claim goes beyond them.
  const trained = measured(cells).filter((c) => c["measure.seeds"] != null);
  return groups(trained, (c) => c.caseKey).map((one) => {
    const size = Math.max(...one.map((c) => c["measure.bytes.parameters"] || 0));
    const updates = unique(one.map((c) => c["measure.updates"]).filter(Boolean));
    const seeds = unique(one.map((c) => c["measure.seeds"]));
    return [
      withPlace(one[0].suite, placeOf(one[0])),
      one[0].case,
      size ? sayBytes(size) : "not recorded",
      updates.map(sayValue).join(", "),
      seeds.join(", "),
    ];
  });
}

const titled = (title, content, missing) =>
  el("div", {}, el("h5", {}, title), content.length ? factList(content) : empty(missing));
const spaced = (name) => name.replace(/_/g, " ");
function runFacts(run) {
  const { head } = run;
  const fields = (prefix) =>
    Object.entries(head)
      .filter(([name, value]) => name.startsWith(prefix) && value !== 0)
      .map(([name, value]) => [name.slice(prefix.length), value]);
  const machine = fields("env.").map(([name, value]) =>
    name.endsWith("_bytes") ? [spaced(name.slice(0, -6)), sayBytes(value)] : [spaced(name), String(value)],
  );
  const versions = fields("version.").map(([name, value]) => [name, String(value)]);
  const parts = Object.entries(run.end)
    .filter(([name]) => name.endsWith("_s"))
    .map(([name, value]) => [
      name === "wall_s" ? "wall time" : spaced(name.replace(/^part\./, "").slice(0, -2)),
      sayTime(value),
    ]);
  const blocks = [
    el("h4", {}, DATA.runs.length > 1 ? `Run ${run.name}` : "This run"),
    el(
      "div",
      { class: "three" },
      titled(
        "Machine",
        [["device", head.device_name], ["commit", head.commit], ...machine].filter(([, value]) => value),
        "Not recorded.",
      ),
      titled("Versions", versions, "Not recorded."),
      titled("Where the time went", parts, "The sweep did not come to its end."),
    ),
  ];
  if (head.command) blocks.push(commandLine(head.command));
  if (run.problems.length) {
    blocks.push(el("h5", {}, `Met when reading the rows (${run.problems.length})`));
    blocks.push(
      el(
        "ul",
        { class: "problems" },
        run.problems.slice(0, 50).map((problem) => el("li", {}, problem)),
      ),
    );
  }
  return blocks;
}

function isolationSentences(cells) {
  // For cells that had processes of their own: how they were measured.
  const isolated = measured(cells).filter((c) => c.isolate === "process");
  if (!isolated.length) return [];
  const blocks = unique(isolated.map((c) => c.rounds)).join(" or ");
  const rounds = unique(isolated.map((c) => c.block_rounds)).join(" or ");
  return [
    `${isolated.length} of ${measured(cells).length} cells were measured with a fresh process for every contender and ` +
      `block of rounds: ${blocks} blocks of ${rounds} rounds, in turns and in shuffled order. What is compared there is ` +
      "the blocks' medians, so that nothing a process carries along favours anybody.",
  ];
}

function trustSection(cells) {
  const tables = [
    [
      "Noise: half-width of the interval of a median, of the time",
      ["suite", "median", "90% of cells within", "widest", "rounds", "drift in a race"],
      noiseRows(cells),
    ],
    ["Ceilings of this machine, before and after the sweep", ["ceiling", "before", "after", "drift"], driftRows()],
    ["The device along the races", ["suite", "clock", "warmest", "slowed down"], deviceRows(cells)],
  ];
  const wrong = falseRows();
  if (wrong.length)
    tables.unshift([
      "Identical contenders raced: every verdict is a false one",
      ["race", "comparisons", "false", "rate"],
      wrong,
    ]);
  const none = wrong.length
    ? []
    : [empty("This run raced no identical contenders, so how often its verdicts are false is not known.")];
  const small = [...none, ...tables.filter(([, , rows]) => rows.length).map((table) => simpleTable(...table))];
  const trained = trainedRows(cells);
  const training = trained.length
    ? [
        simpleTable(
          "Outcomes hold for these sizes and budgets, and nothing here says more",
          ["suite", "case", "parameters", "updates", "seeds"],
          trained,
        ),
      ]
    : [];
  const host = document.getElementById("trust-body");
  host.replaceChildren(
    ...[METHOD, ...isolationSentences(cells), ...spentSentences(cells)].map((text) => el("p", {}, text)),
    el("div", { class: "smalls" }, small),
    ...training,
    ...DATA.runs.flatMap(runFacts),
  );
}

function sayWon(mine, cases) {
  // Who of a technique's contenders is the fastest alone, and in how many of the cases that it ran.
  const counts = mine.map((c) => ({
    label: c.label,
    ran: cases.filter(({ ok }) => ok.some((other) => other.contender === c.contender)).length,
    alone: cases.filter(({ best }) => best.length === 1 && best[0].contender === c.contender).length,
  }));
  const won = counts.filter(({ alone }) => alone).map((one) => `${one.label}, alone in ${one.alone} of ${one.ran}`);
  if (won.length) return won.join("; ");
  return counts.some(({ ran }) => ran) ? "none of them alone in any case" : "";
}
function techniqueCard(technique, cells, cases) {
  const mine = groups(
    cells.filter((c) => c.technique === technique.id),
    (c) => c.contender,
  ).map((one) => one[0]);
  const names = (ours) =>
    mine
      .filter((c) => c.ours === ours)
      .map((c) => c.label)
      .join("; ");
  const facts = [
    ["paper", technique.paper],
    ["ours", names(true)],
    ["peers", names(false)],
    ["fastest", sayWon(mine, cases)],
    ["files", (technique.files || []).join("\n")],
  ];
  const portuguese = technique.title_pt ? el("span", { class: "pt", lang: "pt" }, ` ${technique.title_pt}`) : null;
  return el(
    "article",
    { class: "card technique" },
    el("h4", {}, technique.title, portuguese),
    el("p", {}, technique.summary),
    technique.formula ? el("p", { class: "formula" }, technique.formula) : null,
    factList(facts),
    technique.snippet ? el("details", {}, el("summary", {}, "Use it"), copyable(technique.snippet)) : null,
  );
}
function catalogueSection(cells) {
  const used = new Set(cells.map((c) => c.technique));
  const cases = groups(cells, (c) => c.caseKey)
    .map((one) => winners(one))
    .filter(({ ok }) => ok.length > 1);
  const cards = DATA.catalogue.techniques
    .filter(({ id }) => used.has(id))
    .map((technique) => techniqueCard(technique, cells, cases));
  const host = document.getElementById("catalogue-body");
  host.replaceChildren(...(cards.length ? cards : [empty("This run carries no technique cards.")]));
}

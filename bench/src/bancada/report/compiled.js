// The section of a compile suite: which configurations are worth a run on the GPU. Nothing in it was timed.

const configurationOf = (cell) => cell["note.configuration"] || cell.case;
const inOrderOfTrial = (cells) => cells.filter((c) => c.status === "compiled").sort((a, b) => a.rank - b.rank);
const leftToTry = (cells) => inOrderOfTrial(cells).filter((c) => !c.dominated_by);
const saySpills = (bytes) => (bytes ? `${sayValue(bytes)} B of stack` : "no stack");

function questionsOf(suite, cells) {
  // The cells by what is not to be chosen (contender, kernel, sizes, run), as {title, cells, byTarget}.
  const own = Object.keys(cells[0].axes).filter((name) => name !== "target" && !suite.configuration.includes(name));
  const varying = own.filter((name) => unique(cells.map((c) => c.axes[name])).length > 1);
  const [runs, contenders] = ["run", "contender"].map((name) => unique(cells.map((c) => c[name])).length > 1);
  const place = (n, value) => (typeof value === "string" ? value : sayAxis(n, value));
  const title = (c) =>
    [contenders ? c.label : "", ...varying.map((n) => place(n, c.axes[n])), runs ? c.run : ""]
      .filter(Boolean)
      .join(", ");
  const fixed = own.filter((name) => !varying.includes(name)).map((name) => place(name, cells[0].axes[name]));
  const found = groups(cells, (c) => [c.run, c.contender, ...varying.map((n) => c.axes[n])].join(KEY)).map(
    (inside) => ({
      title: title(inside[0]),
      cells: inside,
      byTarget: group(inside, (c) => c.axes.target),
    }),
  );
  return { found, fixed: fixed.filter(Boolean) };
}

function firstChoice(cells, pick) {
  if (!cells) return el("span", { class: "unplanned" }, "not planned");
  const [first] = inOrderOfTrial(cells); // where a filter hides what dominates them all, none is left to try
  const tile = (name, ...notes) =>
    el(
      "button",
      { type: "button", class: "win", onclick: () => pick(cells) },
      el("b", {}, name),
      notes.map((note) => el("small", {}, note, el("br"))),
    );
  if (!first) return tile("none compiled", unique(cells.map((c) => words(c.status))).join(", "));
  return tile(
    configurationOf(first),
    `${leftToTry(cells).length} of ${cells.length} left to try`,
    `${counted(first["measure.resident_warps"], "warp")} resident, ${saySpills(first["measure.stack_bytes"])}`,
  );
}

function firstChoices(questions, targets, pick) {
  const named = questions.flatMap((q) => q.cells).filter((c) => c["note.chip"]);
  const chips = new Map(named.map((c) => [c.axes.target, c["note.chip"]]));
  const heads = targets.map((target) =>
    el("th", { scope: "col", class: "at" }, target, el("small", {}, ` ${chips.get(target) || ""}`)),
  );
  const lines = questions.map(({ title, byTarget }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, title || "all"),
      targets.map((target) => el("td", {}, firstChoice(byTarget.get(target), pick))),
    ),
  );
  const head = el("thead", {}, el("tr", {}, el("th", { scope: "col" }, ""), heads));
  return scrolling("what to try first", el("table", { class: "wins" }, head, el("tbody", {}, lines)));
}

function configurationTable(suite, cells) {
  // Every configuration that compiled and fits, in the order in which to try them.
  const number = (title, name, units) => amount(title, cells, (c) => c[name], units);
  const open = (c) => {
    const show = (event) => {
      event.stopPropagation(); // the row would open it again
      showCell(c);
    };
    return button(configurationOf(c), show, { class: "link" });
  };
  const whole = (title, name, unit) => ({ ...number(title, name, unit), whole: true });
  const better = (c) => cells.find((one) => configurationOf(one) === c.dominated_by);
  const standing = (c) => (c.dominated_by ? `dominated by ${better(c)?.rank ?? c.dominated_by}` : "left to try");
  const share = (c) => `${sayShare(c["measure.occupancy"])}, by ${c["note.limit"]}`;
  const columns = [
    { title: "order", value: (c) => c.rank, show: (c) => String(c.rank) },
    { title: "configuration", value: configurationOf, show: open },
    { title: "standing", value: standing, show: standing },
    whole("warps", "measure.resident_warps", "resident"),
    { title: "of the most, limited", beside: true, value: () => null, show: share },
    whole("registers", "measure.registers", "a thread"),
    whole("stack", "measure.stack_bytes", "B a thread"),
    number("shared memory", "measure.shared_bytes", BYTES),
    number("instructions", "measure.instructions", `a ${suite.unit}`),
    { title: "matrix units", value: (c) => c["note.matrix"], show: (c) => c["note.matrix"] },
    number("loaded by all blocks", "measure.loaded_bytes", BYTES),
    number("lower bound", "measure.bound_s", TIME),
    number("compiled in", "measure.compile_s", "s"),
  ];
  return sortable(columns, inOrderOfTrial(cells), {
    first: Math.max(8, Math.min(leftToTry(cells).length, 16)),
    caption: "In the order in which to try them; click a row for all that is known of it and its command",
    open: showCell,
  });
}

const overLimit = (c) => c.status === "unsupported" && "measure.compile_s" in c; // compiled, and does not fit

function notTried(title, cells) {
  // A paragraph of configurations each with its reason; none where there are none.
  if (!cells.length) return [];
  const parts = cells.map((c, i) => [
    i ? "; " : "",
    button(configurationOf(c), () => showCell(c), { class: "link" }),
    ` (${words(c.status)}: ${c.reason})`,
  ]);
  return [el("p", { class: "gaps" }, el("b", {}, `${title}: `), parts.flat(), ".")];
}

function compiledSection(suite, cells) {
  const heading = [el("h3", {}, suite.title), el("p", { class: "question" }, suite.question)];
  const section = el("section", { class: "suite", "data-suite": suite.id }, heading);
  const { found, fixed } = questionsOf(suite, cells);
  const targets = unique(cells.map((c) => c.axes.target));
  const titles = (better) =>
    metricsOf(suite)
      .filter((m) => m.better === better)
      .map((m) => m.title)
      .join(", ");
  const rule =
    `One configuration dominates another of the same kernel, target and sizes where, at two digits, it is nowhere ` +
    `worse and somewhere better in ${titles("lower")} (less is better), ${titles("higher")} (more is better). ` +
    `A run on the GPU need only try those that nothing dominates; the order goes by the same figures.`;
  const box = el("div", { class: "configurations" });
  const name = (some) => {
    const question = found.find((one) => one.cells.includes(some[0]));
    return [some[0].axes.target, question.title].filter(Boolean).join(", ");
  };
  const show = (some) => {
    const lost = (over) => some.filter((c) => c.status !== "compiled" && overLimit(c) === over);
    const note = `${leftToTry(some).length} of ${counted(some.length, "configuration")} left to try.`;
    box.replaceChildren(
      el("h4", {}, `Configurations: ${name(some)}`),
      el("p", { class: "note" }, note),
      ...(inOrderOfTrial(some).length ? [configurationTable(suite, some)] : []),
      ...notTried("Ruled out", lost(true)),
      ...notTried("Not compiled", lost(false)),
    );
  };
  const jump = (some) => {
    show(some);
    focusOn(box);
  };
  const timed = "nothing here was timed, and no GPU was asked. Lower bounds follow from published rates of the chips.";
  section.append(
    el("p", { class: "caution" }, el("b", {}, "Compiled, not measured: "), timed),
    el("h4", {}, "What to try first"),
    moreOf(found, MOST_MAP_ROWS, "rows", (some) => firstChoices(some, targets, jump)),
    el("p", { class: "note" }, fixed.length ? `All with ${fixed.join(", ")}. ${rule}` : rule),
    box,
  );
  show([...found[0].byTarget.values()].find((some) => inOrderOfTrial(some).length) || found[0].cells);
  return section;
}

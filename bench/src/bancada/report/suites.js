// The section of a suite: who wins where, the charts, what it costs at one case, the table. And the cards' charts.

const MOST_PANELS = 3;
const MOST_MAP_ROWS = 8;

function facetsOf(cells, xName) {
  // Cells that differ only in x and contender belong together; any other axis that varies splits them, for two
  // configurations are never drawn as one line.
  const varies = (get) => unique(cells.map(get)).length > 1;
  const others = Object.keys(cells[0].axes).filter((name) => name !== xName);
  const varying = others.filter((name) => varies((c) => c.axes[name]));
  const places = Object.keys(PLACES).filter((name) => name !== xName && varies((c) => c[name]));
  const key = (c) => [...places.map((p) => c[p]), ...varying.map((n) => c.axes[n])].join(KEY);
  const facets = groups(cells, key).map((inside) => {
    const said = [...varying.map((n) => sayAxis(n, inside[0].axes[n])), ...places.map((p) => inside[0][p])];
    return {
      cells: inside,
      title: said.filter(Boolean).join(", "),
      byX: group(inside, (c) => (xName ? c.axes[xName] : null)),
    };
  });
  facets.sort((a, b) => measured(b.cells).length - measured(a.cells).length); // those with the most to say come first
  const fixed = others.filter((name) => !varying.includes(name)).map((name) => sayAxis(name, cells[0].axes[name]));
  return { facets, varying, fixed: fixed.filter(Boolean) };
}

function chooseX(suite, cells) {
  // The suite's own axis; where only one of its values is here, the first number axis that varies; else none.
  const several = (name) => unique(cells.map((c) => c.axes[name]).filter((value) => value !== undefined)).length > 1;
  if (suite.x_axis && several(suite.x_axis)) return suite.x_axis;
  const numbers = (name) => cells.every((c) => typeof c.axes[name] === "number");
  return Object.keys(cells[0].axes).find((name) => several(name) && numbers(name)) || "";
}

function sectionOf(suite, cells) {
  // A suite's heading; where nothing was measured, why, and then nothing can be drawn below it.
  const question = suite.question ? el("p", { class: "question" }, suite.question) : null;
  const heading = el("h3", {}, suite.title || suite.id);
  const section = el("section", { class: "suite", "data-suite": suite.id }, heading, question);
  if (!measured(cells).length)
    section.append(empty("No cell of this suite was measured, so there is nothing to draw."), gaps(cells, "", "Why: "));
  return section;
}
// The cells by case, the case with most to say first.
const fullestFirst = (cells) => groups(cells, (c) => c.caseKey).sort((a, b) => measured(b).length - measured(a).length);
const caseWords = (suite, cells) =>
  Object.entries(cells[0].axes)
    .map(([name, value]) => sayAxis(name, value))
    .filter(Boolean)
    .join(", ");
function caseByCase(suite, cells, draw) {
  // A facet for each case, with its heading; `draw` gives what is in it.
  const facet = (one) => {
    const heading = el("h5", {}, caseWords(suite, one));
    const inside = measured(one).length ? draw(one) : [gaps(one, "", "Nothing was measured: ")];
    return el("div", { class: "facet", "data-case": one[0].caseKey }, heading, inside);
  };
  return moreOf(fullestFirst(cells), MOST_PANELS, "cases", (some) => el("div", {}, some.map(facet)));
}

function suiteSection(suite, cells) {
  const section = sectionOf(suite, cells);
  if (!measured(cells).length) return section;
  const xName = chooseX(suite, cells);
  const { facets, varying, fixed } = facetsOf(cells, xName);
  const reference = withSpeed(cells);
  const cases = groups(cells, (c) => c.caseKey);
  const several = cases.length > 1 && cases.some((one) => measured(one).length > 1);
  const size = (one) => (xName ? one[0].axes[xName] : 0);
  const telling = cases.reduce((a, b) => ((measured(b).length - measured(a).length || size(b) - size(a)) > 0 ? b : a));
  const { box: cost, pick } = costOfOneCase(suite, cells, telling);
  section.append(
    ...[
      several ? regionMap(suite, cells, facets, xName, pick) : null,
      several ? summaryTables(cells) : null,
      crowdLegend(cells),
      panels(cells, facets, xName, fixed, reference),
      cost,
      el("h4", {}, "All figures"),
      el("div", { class: "cells" }, cellTable(cells, [xName, ...varying].filter(Boolean), reference)),
      equalWork(suite, cells),
    ].filter(Boolean),
  );
  return section;
}

function moreOf(items, first, what, make) {
  // The first few, and a button for all of them.
  const box = el("div");
  const show = (number) => {
    forgetCharts(box);
    box.replaceChildren(make(items.slice(0, number)));
    if (items.length <= number) return;
    const open = () => {
      show(items.length);
      box.tabIndex = -1;
      box.focus({ preventScroll: true }); // the button is gone
    };
    const all = button(`Show all ${items.length} ${what}`, open, { class: "quiet" });
    box.append(el("div", { class: "more" }, all));
  };
  show(first);
  return box;
}

function figureOf(cells, xName, metric, range, caption, title, crossed) {
  const figure = el("figure", {}, el("figcaption", {}, caption));
  const values = drawable(cells, metric).map(metric.get);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (metric === METRICS.memory && values.length > 2 && most <= least * (1 + SAME))
    figure.append(empty(`${metric.say(most)} for all of them here.`)); // a chart of it helps nobody to choose
  else if (values.length) {
    const label = [caption, xName ? `against ${xName}` : "", title].filter(Boolean).join(", ");
    addChart(figure, { ...panel(cells, xName, metric, range, false, crossed), label });
  } else if (measured(cells).some((c) => metric.get(c) === 0)) figure.append(empty("Zero for all contenders here."));
  else figure.append(empty(measured(cells).length ? "No row here carries this figure." : "Nothing measured."));
  return figure;
}

function panels(cells, facets, xName, fixed, reference) {
  const left = STATE.y === "speed" && reference ? METRICS.speed : METRICS.time;
  const shown = [
    [
      left,
      metricSpan(cells, left),
      left === METRICS.speed ? `Speed against ${reference}, same rounds` : "Time a call, median",
    ],
    [METRICS.memory, metricSpan(cells, METRICS.memory), "Peak memory above the inputs"],
  ];
  const choices = ["time", "speed"].map((y) => {
    const choose = () => {
      STATE.y = y;
      refresh();
      refocus(`[data-suite="${CSS.escape(cells[0].suite)}"] [data-y=${y}]`);
    };
    return button(y === "time" ? "time" : `speed against ${reference}`, choose, {
      "aria-pressed": String(STATE.y === y),
      "data-y": y,
    });
  });
  const toggle = reference
    ? el("span", { class: "toggle", role: "group", "aria-label": "what the left chart shows" }, choices)
    : null;
  const drawn =
    "Solid lines are ours, dashed ones peers, grey is the reference; bands and bars are the intervals of the medians.";
  const note = el("p", { class: "note" }, fixed.length ? `All with ${fixed.join(", ")}. ${drawn}` : drawn);
  const ran = new Set(measured(cells).map((c) => c.contender));
  const never = gaps(
    cells.filter((c) => !ran.has(c.contender)),
    "",
    "Never measured here: ",
  );
  const rows = moreOf(facets, MOST_PANELS, "panels", (some) => {
    return el(
      "div",
      {},
      some.map((facet) => {
        const title = panelTitle(facet, xName);
        const crossed = xName ? crossings(facet, xName) : [];
        const figures = shown.map(([metric, range, caption]) =>
          figureOf(facet.cells, xName, metric, range, caption, title, metric === left ? crossed : []),
        );
        const missing = gaps(
          facet.cells.filter((c) => ran.has(c.contender)),
          xName,
        );
        return el(
          "div",
          { class: "facet" },
          title ? el("h5", {}, title) : null,
          xName ? crossingWords(facet, xName, axisInfo(facet.cells[0].suite, xName).unit) : null,
          el("div", { class: "two" }, figures),
          missing,
        );
      }),
    );
  });
  return el("div", {}, el("div", { class: "rowhead" }, el("h4", {}, "Time and memory"), toggle), note, never, rows);
}
function panelTitle(facet, xName) {
  const xs = xName ? unique(facet.cells.map((c) => c.axes[xName])) : [];
  return [facet.title, xs.length === 1 ? sayAxis(xName, xs[0]) : ""].filter(Boolean).join(", ");
}

function gaps(cells, xName, title = "Not drawn: ") {
  // What has no point in the charts, and why: a reason once, with all contenders whose first reason it is.
  const missing = groups(
    cells.filter((c) => c.status !== "ok"),
    (c) => c.contender,
  );
  if (!missing.length) return null;
  const cases = unique(cells.map((c) => c.case)).length;
  const why = (c) => `${words(c.status)}: ${c.reason}`;
  const told = (one) => {
    const more = unique(one.map(why)).length - 1;
    return `${why(one[0])}${more ? `; ${counted(more, "more reason")} in other cases` : ""}`;
  };
  const name = (one, i) => {
    const xs = inOrder(unique(one.map((c) => c.axes[xName])));
    const at = xName && one.length < cases ? ` at ${xs.map(sayValue).join(", ")}` : "";
    return [i ? ", " : "", button(`${one[0].label}${at}`, () => showCell(one[0]), { class: "link" })];
  };
  const parts = groups(missing, told).map((same, i) => [i ? "; " : "", same.map(name), ` (${told(same[0])})`]);
  return el("p", { class: "gaps" }, el("b", {}, title), parts.flat(3), ".");
}

function costOfOneCase(suite, cells, usual) {
  // What each contender costs at one case, at first the usual one; `pick` shows another.
  const box = el("div", { class: "cost" });
  const view = `${suite.id}.case`;
  const name = (c) => [c.case, placeOf(c)].filter(Boolean).join(", ");
  const cases = group(cells, name);
  const options = [...cases.keys()].map((key) => ({ key, title: key }));
  const first = name(usual[0]);
  const draw = () => {
    forgetCharts(box);
    const chosen = cases.get(viewOf(view, options, first).key);
    const select = viewSelect(view, "case", options, first, draw);
    box.replaceChildren(el("div", { class: "rowhead" }, el("h4", {}, "What it costs, at one case"), select));
    box.append(...[paretoPair(suite, chosen), gaps(chosen, ""), pairTable(chosen)].flat().filter(Boolean));
  };
  const pick = ([cell]) => {
    setView(view, name(cell), first);
    draw();
    focusOn(box);
  };
  draw();
  return { box, pick };
}

function cardCharts() {
  document.querySelectorAll("[data-verdict]").forEach((card) => {
    const verdict = DATA.verdicts[Number(card.dataset.verdict)];
    const host = card.querySelector(".mini");
    forgetCharts(host);
    host.replaceChildren();
    const cells = visible().filter(
      (c) => c.suite === verdict.suite && c.run === verdict.run && c.device_name === verdict.device,
    );
    card.hidden = !cells.length;
    if (!measured(cells).length) return;
    const suite = SUITES.get(verdict.suite);
    const special = suite.weighs?.length ? weighedCard : { training: trainingCard, ranks: ranksCard }[suite.kind];
    if (special) {
      special(host, suite, cells);
      return;
    }
    const xName = chooseX(suite, cells);
    const { facets } = facetsOf(cells, xName);
    const [facet] = facets;
    const reference = withSpeed(facet.cells);
    const metric = reference ? METRICS.speed : METRICS.time;
    const what = reference ? `Speed against ${reference}` : "Time a call";
    const place = facet.title ? `; here ${facet.title}` : "";
    const caption = `${what}${place}${facets.length > 1 ? ` (1 of ${facets.length} panels)` : ""}`;
    if (!drawable(facet.cells, metric).length) return;
    host.append(el("figcaption", {}, caption));
    addChart(host, { ...panel(facet.cells, xName, metric, metricSpan(facet.cells, metric), true), label: caption });
  });
}

// Regions of win: who is best over any two axes, by how much, and why a place is empty.

const EACH = "each"; // rows that are all the other axes together, so that every tile is one case

const valueAt = (cell, name) => (name in PLACES ? cell[name] : cell.axes[name]);
function axesThatVary(cells) {
  const names = [...unique(cells.flatMap((c) => Object.keys(c.axes))), ...Object.keys(PLACES)];
  return names.filter((name) => unique(cells.map((c) => valueAt(c, name))).length > 1);
}
const sayPlace = (name, value) => (value === undefined ? "not set" : name in PLACES ? String(value) : sayValue(value));

function regionRows(cells, rowName, facets) {
  // The map's rows, as [heading, cells].
  if (rowName === EACH) return facets.map((facet) => [facet.title || "all", facet.cells]);
  const byValue = group(cells, (c) => valueAt(c, rowName));
  return inOrder(byValue.keys()).map((value) => [sayPlace(rowName, value), byValue.get(value)]);
}
function regionMap(suite, cells, facets, xName, pick, judged = "time") {
  // The map with its three selects: what is compared (at first `judged`), which axes lie across and stand upright.
  const varying = axesThatVary(cells);
  const axes = varying.map((name) => ({ key: name, title: PLACES[name] || name }));
  const across = axes.length ? axes : [{ key: xName, title: xName || "case" }];
  const upright = [{ key: EACH, title: "each of the other axes' cases" }, ...axes];
  const figures = figuresOf(suite, cells);
  const name = (what) => `${suite.id}.map.${what}`;
  const box = el("div", { class: "region" });
  const usual = xName && varying.includes(xName) ? xName : across[0].key;
  const draw = () => {
    const figure = viewOf(name("what"), figures, judged);
    const column = viewOf(name("across"), across, usual).key;
    const row = viewOf(name("upright"), upright, EACH).key;
    const rows =
      row === EACH && column !== xName
        ? regionRows(cells, EACH, facetsOf(cells, column).facets)
        : regionRows(cells, row, facets);
    const head = el("div", { class: "rowhead" }, [
      el("h4", {}, figure.metric === METRICS.time ? "Who is fastest where" : `Who is best where: ${figure.title}`),
      el("span", { class: "picks" }, [
        viewSelect(name("what"), "what is compared", figures, judged, draw),
        ...(axes.length > 1
          ? [
              "by",
              viewSelect(name("upright"), "which axis stands upright", upright, EACH, draw),
              "and",
              viewSelect(name("across"), "which axis lies across", across, usual, draw),
            ]
          : []),
      ]),
    ]);
    const map = moreOf(rows, MOST_MAP_ROWS, "rows", (some) => regionTable(some, column, figure, pick));
    box.replaceChildren(head, map, el("p", { class: "note" }, REGION_NOTE));
  };
  draw();
  return box;
}
const REGION_NOTE =
  "The stronger the colour, the further ahead of the next; “=” where they are level, “or” where nothing is decided. A " +
  "place that holds several cases names who is alone in front in two thirds of them, and the mean (geometric) of its " +
  "lead where the next ran too. Click a place to see what it costs.";

function regionTable(rows, column, figure, pick) {
  const columns = inOrder(unique(rows.flatMap(([, inside]) => inside.map((c) => valueAt(c, column)))));
  const head = el("tr", {}, [
    el("th", { scope: "col" }, PLACES[column] || column || "case"),
    ...columns.map((x) => el("th", { scope: "col", class: "at" }, x === undefined ? "" : sayPlace(column, x))),
  ]);
  const body = rows.map(([title, inside]) => {
    const byColumn = group(inside, (c) => valueAt(c, column));
    const tiles = columns.map((x) => el("td", {}, regionTile(byColumn.get(x), figure, pick)));
    return el("tr", {}, el("th", { scope: "row" }, title), tiles);
  });
  const table = el("table", { class: "wins" }, el("thead", {}, head), el("tbody", {}, body));
  return scrolling(`who is best where, by ${column || "case"}`, table);
}

function regionTile(cells, figure, pick) {
  if (!cells) return el("span", { class: "unplanned" }, "not planned");
  const cases = groups(cells, (c) => c.caseKey);
  const ran = cases.filter((one) => has(one, figure.metric).length);
  const tile = (text, note, attributes) =>
    el(
      "button",
      { type: "button", onclick: () => pick(ran[0] || cases[0]), ...attributes },
      el("b", {}, text),
      el("small", {}, note),
    );
  if (!ran.length) {
    const reasons = groups(cells, (c) => c.status + KEY + c.reason).map(
      (one) =>
        `${one.map((c) => c.label).join(", ")}: ${words(one[0].status)}, ${one[0].reason || "without this figure"}`,
    );
    const none = measured(cells).length ? "without this figure" : unique(cells.map((c) => words(c.status))).join(", ");
    return tile("none ran", none, { class: "win", title: reasons.join("\n") });
  }
  return ran.length === 1 ? caseTile(ran[0], figure.metric, tile) : casesTile(ran, figure.metric, tile);
}
const strength = (ratio) => `${Math.round(14 + 34 * Math.min(1, Math.log(Math.max(ratio, 1)) / Math.log(4)))}%`;
function leadOf(best, next, metric, lead) {
  // How far ahead the best is, as a ratio of at least 1 and in words.
  if (lead) return [lead.ratio, `${sayRatio(lead.ratio)} ahead`];
  const [a, b] = [metric.get(best), metric.get(next)];
  const ratio = a > 0 && b > 0 ? Math.max(a / b, b / a) : 1;
  return [ratio, metric.linear ? `${metric.say(Math.abs(a - b))} ahead` : `${sayRatio(ratio)} ahead`];
}
function caseTile(cells, metric, tile) {
  // One case.
  const { best, lead, next } = winners(cells, metric);
  if (best.length !== 1) {
    const timed = metric === METRICS.time;
    const open = timed && best.some((a, i) => best.slice(i + 1).some((b) => undecided(compare(a, b))));
    const names = best.map((c) => c.label).join(open ? " or " : " = ");
    return tile(names || "unclear", open ? "not decided" : "level", { class: "win level" });
  }
  const style = { "--c": styleOf(best[0]).color };
  if (!next) return tile(best[0].label, "alone", { class: "win", style });
  const [ratio, said] = leadOf(best[0], next, metric, lead);
  const interval = lead
    ? `${sayInterval(sayRatio, lead.ratio, lead.low, lead.high)} of its time`
    : metric.say(metric.get(next));
  const missing = cells.filter((c) => c.status !== "ok").map((c) => `${c.label}: ${words(c.status)}, ${c.reason}`);
  const title = [`next: ${next.label}, ${interval}`, ...missing].join("\n");
  return tile(best[0].label, said, { class: "win", style: { ...style, "--m": strength(ratio) }, title });
}
function casesTile(cases, metric, tile) {
  // Several cases, held by whoever leads alone in two thirds of them while another does so in one in twenty at most.
  const found = cases.map((one) => winners(one, metric));
  const alone = groups(
    found.filter(({ best }) => best.length === 1),
    ({ best }) => best[0].contender,
  ).sort((a, b) => b.length - a.length);
  const counts = alone.map((one) => `${one[0].best[0].label} ${one.length}`);
  const rest = cases.length - alone.reduce((sum, one) => sum + one.length, 0);
  const title = [...counts, rest ? `nobody alone ${rest}` : ""].filter(Boolean).join(", ");
  const [top] = alone;
  const others = alone.slice(1).reduce((sum, one) => sum + one.length, 0);
  const held = top && top.length >= (2 / 3) * cases.length && others <= 0.05 * cases.length;
  if (!held) return tile(alone.length ? "it depends" : "level or undecided", title, { class: "win level", title });
  const led = top.filter(({ next }) => next);
  const ratios = led.map(({ best, next, lead }) => leadOf(best[0], next, metric, lead)[0]);
  const ratio = ratios.length ? Math.exp(mean(ratios.map(Math.log))) : 1;
  const said = metric.linear ? "" : `${sayRatio(ratio)} ahead, `;
  const style = { "--c": styleOf(top[0].best[0]).color, "--m": strength(ratio) };
  return tile(top[0].best[0].label, `${said}${top.length} of ${cases.length} cases`, { class: "win", style, title });
}

function casesMap(section, suite, cells, judged) {
  // The same for a suite that is shown case by case: a place leads to its case below. Null of a single case.
  const cases = groups(cells, (c) => c.caseKey);
  if (cases.length < 2 || !cases.some((one) => measured(one).length > 1)) return null;
  withSpeed(cells);
  const xName = chooseX(suite, cells);
  const pick = ([cell]) => {
    const below = [...section.querySelectorAll("[data-case]")].find((one) => one.dataset.case === cell.caseKey);
    if (below) focusOn(below);
    else showCell(cell); // its case is among those that are not shown yet
  };
  return regionMap(suite, cells, facetsOf(cells, xName).facets, xName, pick, judged);
}

// Every planned cell, a square each, and the reasons of those without figures.

const FEW = 8;
function squares(cells, label) {
  // A single stop of the Tab key; arrows go on from there.
  const box = el("div", { class: `squares${cells.length > 150 ? " many" : ""}`, role: "group", "aria-label": label });
  cells.forEach((cell, i) => {
    const said = `${cell.case}: ${words(cell.status)}`;
    const attributes = {
      type: "button",
      tabindex: i ? "-1" : "0",
      class: `sq ${statusClass(cell.status)}`,
      title: said,
    };
    box.append(
      el(
        "button",
        { ...attributes, "aria-label": `${cell.label}, ${said}`, "data-cell": cell.index },
        markOf(cell.status),
      ),
    );
  });
  box.addEventListener("click", (event) => {
    const index = event.target.dataset?.cell;
    if (index !== undefined) showCell(CELLS[index]);
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (!step) return;
    const all = [...box.children];
    const here = all.indexOf(document.activeElement);
    const next = all[Math.min(Math.max(here + step, 0), all.length - 1)];
    event.preventDefault();
    all[here].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  return box;
}

function coverageGrid(inside) {
  const [cell] = inside;
  const place = placeOf(cell) && `, ${placeOf(cell)}`;
  const rows = groups(inside, (c) => c.contender).map((one) => {
    const name = el(
      "div",
      { class: "covname" },
      chip(one[0]),
      el("small", {}, `${one.filter((c) => DONE.includes(c.status)).length} of ${one.length}`),
    );
    return el("div", { class: "covrow" }, name, squares(one, one[0].label));
  });
  const few = inside.length <= FEW * rows.length ? " few" : ""; // then several contenders stand beside one another
  return el(
    "div",
    { class: `coverage${few}` },
    el("h4", {}, `${SUITES.get(cell.suite).title || cell.suite}${place}`),
    rows,
  );
}

function coverageSection(cells) {
  const host = document.getElementById("coverage-body");
  const used = Object.keys(STATUS).filter((status) => cells.some((c) => c.status === status));
  const legend = used.map((status) => {
    const square = el("span", { class: `sq ${statusClass(status)}` }, markOf(status));
    return el(
      "span",
      { class: "chip" },
      square,
      `${words(status)}: ${cells.filter((c) => c.status === status).length}`,
    );
  });
  const grids = groups(cells, (c) => [c.suite, c.run, c.device_name].join(KEY)).map(coverageGrid);
  const failed = groups(
    cells.filter((c) => !DONE.includes(c.status)),
    (c) => [c.suite, c.contender, c.status, c.reason].join(KEY),
  );
  failed.sort((a, b) => b.length - a.length);
  const columns = [
    { title: "contender", value: (g) => g[0].label, show: (g) => chip(g[0]) },
    { title: "suite", value: (g) => g[0].suite, show: (g) => g[0].suite },
    { title: "status", value: (g) => g[0].status, show: (g) => statusMark(g[0]) },
    { title: "cells", value: (g) => g.length, show: (g) => String(g.length) },
    { title: "reason", value: (g) => g[0].reason, show: (g) => el("span", { class: "reason" }, g[0].reason) },
  ];
  const caption = "What was planned and has no figures, by reason";
  const why = failed.length
    ? [el("h4", {}, "Why not"), sortable(columns, failed, { first: 12, caption, open: (g) => showCell(g[0]) })]
    : [el("p", {}, `Every planned cell here was ${unique(cells.map((c) => words(c.status))).join(" or ")}.`)];
  host.replaceChildren(el("p", { class: "legend" }, legend), ...grids, ...why);
}

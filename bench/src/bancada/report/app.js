// The filter bar, and putting the page together again whenever a filter changes.

const openMenus = () => [...document.querySelectorAll("details.filter[open]")];

function filterMenu(dimension) {
  const name = el("span", { class: "name" }, dimension.title);
  const summary = el("summary", {}, name, " ", el("span", { class: "chosen" }, "all"));
  const boxes = dimension.values.map((value) => {
    const attributes = { type: "checkbox", value: String(value), "data-filter": dimension.name };
    const box = el("input", { ...attributes, onchange: () => choose(dimension) });
    return el("label", {}, box, " ", sayValue(value));
  });
  const all = button("all", () => forget(dimension.name), { class: "quiet" });
  const inside = el("div", { class: "menu" }, boxes, all);
  const menu = el("details", { class: "filter", "data-dimension": dimension.name }, summary, inside);
  menu.addEventListener("toggle", () => {
    if (menu.open) for (const other of openMenus()) if (other !== menu) other.open = false;
  });
  return menu;
}

function filterBar() {
  const bar = document.getElementById("filters");
  const offered = DIMENSIONS.filter((dimension) => dimension.values.length > 1);
  const clear = button("clear", () => forget(...STATE.filters.keys()), { class: "quiet", id: "clear" });
  const csv = button("CSV", downloadCsv, {
    class: "quiet",
    id: "csv",
    title: "download the rows that pass the filters",
  });
  const shown = el("output", { id: "shown", "aria-live": "polite" });
  bar.append(...offered.map(filterMenu), clear, shown, csv);
  const opener = document.getElementById("openfilters"); // on narrow screens
  opener.addEventListener("click", () => {
    opener.setAttribute("aria-expanded", String(bar.classList.toggle("open")));
  });
  document.addEventListener("click", (event) => {
    for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of openMenus()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}

function forget(...names) {
  for (const name of names) STATE.filters.delete(name);
  refresh();
}

function choose(dimension) {
  const boxes = [...document.querySelectorAll("input[data-filter]")];
  const mine = boxes.filter((box) => box.dataset.filter === dimension.name);
  const chosen = mine.filter((box) => box.checked).map((box) => box.value);
  if (chosen.length && chosen.length < mine.length) STATE.filters.set(dimension.name, new Set(chosen));
  else STATE.filters.delete(dimension.name);
  refresh();
}

function showFilters(cells) {
  for (const box of document.querySelectorAll("input[data-filter]")) {
    box.checked = !!STATE.filters.get(box.dataset.filter)?.has(box.value);
  }
  for (const menu of document.querySelectorAll("details.filter")) {
    const chosen = STATE.filters.get(menu.dataset.dimension);
    const few = chosen && (chosen.size > 2 ? `${chosen.size} chosen` : [...chosen].join(", "));
    menu.classList.toggle("active", !!chosen);
    menu.querySelector(".chosen").textContent = few || "all";
  }
  document.getElementById("clear").hidden = !STATE.filters.size;
  document.getElementById("filtercount").textContent = STATE.filters.size ? ` (${STATE.filters.size})` : "";
  document.getElementById("shown").textContent = `${sayValue(cells.length)} of ${sayValue(CELLS.length)} cells`;
}

function refresh() {
  writeFragment();
  showFilters(visible());
  cardCharts();
  belowCards();
}

const SECTIONS = { kernel: suiteSection, training: trainingSection, ranks: ranksSection, compile: compiledSection };
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function familySection(family, cells) {
  const section = el("section", { class: "family", id: `family-${family}` }, el("h2", {}, capital(family)));
  for (const suite of SUITES.values()) {
    const mine = cells.filter((c) => c.suite === suite.id);
    if (mine.length) section.append((SECTIONS[suite.kind] || suiteSection)(suite, mine));
  }
  return section;
}

function belowCards() {
  const cells = visible();
  const host = document.getElementById("families");
  forgetCharts(host);
  const nothing = CELLS.length ? "No cell passes these filters." : "This run holds no cells: nothing was measured.";
  const sections = [...group(cells, (c) => c.family)].map(([family, inside]) => familySection(family, inside));
  host.replaceChildren(...(sections.length ? sections : [empty(nothing)]));
  limitsSection(cells);
  baselinesSection(cells);
  coverageSection(cells);
  trustSection(cells);
  catalogueSection(cells);
  count();
}

function focusOn(goal) {
  // Goes there, for the eye and for the Tab key.
  goal.scrollIntoView({ block: "start" });
  goal.tabIndex = -1;
  goal.focus({ preventScroll: true });
}
function goToNamed() {
  // To the answer or section that the address names; an answer is opened.
  const goals = [...document.querySelectorAll("section[id], details[data-question]")];
  const goal = goals.find((one) => one.id === STATE.at);
  if (!goal) return;
  if (goal.dataset.question) goal.open = true;
  focusOn(goal);
}
function navigation() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-go]");
    if (!link) return;
    event.preventDefault(); // the fragment holds the filters
    const suites = [...document.querySelectorAll("[data-suite]")];
    const goal =
      document.getElementById(link.dataset.go) || suites.find((one) => one.dataset.suite === link.dataset.go);
    if (!goal) return;
    if (goal.dataset.question) {
      STATE.at = goal.id; // a link to an answer is there to be copied
      writeFragment();
    }
    focusOn(goal);
  });
  const dialog = document.getElementById("detail");
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  addEventListener("hashchange", () => {
    readFragment();
    refresh();
    goToNamed();
  });
  const before = document.querySelector("nav [data-before]");
  for (const family of unique(CELLS.map((c) => c.family))) {
    const goal = `family-${family}`;
    before.before(el("li", {}, el("a", { href: `#${goal}`, "data-go": goal }, capital(family))));
  }
}

watchCharts();
filterBar();
navigation();
openAnswers();
readFragment();
showFilters(visible());
cardCharts();
// The cards come first: the long rest is made once what is in view has been drawn.
for (const chart of CHARTS) if (chart.box.getBoundingClientRect().top < innerHeight) paint(chart);
performance.mark("bancada-first-charts");
requestAnimationFrame(() =>
  setTimeout(() => {
    belowCards();
    goToNamed();
    document.documentElement.dataset.ready = "1";
  }),
);

// The filter bar, and putting the page together again whenever a filter changes.

function filterBar() {
  const bar = document.getElementById("filters");
  const offered = DIMENSIONS.filter((dimension) => dimension.values.length > 1);
  for (const dimension of offered) {
    const summary = el("summary", {}, el("span", { class: "name" }, dimension.title), " ", el("span", { class: "chosen" }, "all"));
    const boxes = dimension.values.map((value) => el("label", {}, el("input", { type: "checkbox", value: String(value), "data-filter": dimension.name, onchange: () => choose(dimension) }), " ", sayValue(value)));
    const menu = el("details", { class: "filter", "data-dimension": dimension.name }, summary, el("div", { class: "menu" }, boxes, el("button", { type: "button", class: "quiet", onclick: () => { STATE.filters.delete(dimension.name); refresh(); } }, "all")));
    menu.addEventListener("toggle", () => { if (menu.open) document.querySelectorAll("details.filter[open]").forEach((other) => { if (other !== menu) other.open = false; }); });
    bar.append(menu);
  }
  bar.append(el("button", { type: "button", class: "quiet", id: "clear", onclick: () => { STATE.filters.clear(); refresh(); } }, "clear"), el("output", { id: "shown", "aria-live": "polite" }));
  const opener = document.getElementById("openfilters"); // on narrow screens
  opener.addEventListener("click", () => { opener.setAttribute("aria-expanded", String(bar.classList.toggle("open"))); });
  document.addEventListener("click", (event) => { document.querySelectorAll("details.filter[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; }); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") document.querySelectorAll("details.filter[open]").forEach((menu) => { menu.open = false; menu.querySelector("summary").focus(); }); });
}

function choose(dimension) {
  const boxes = [...document.querySelectorAll("input[data-filter]")].filter((box) => box.dataset.filter === dimension.name);
  const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
  if (chosen.length && chosen.length < boxes.length) STATE.filters.set(dimension.name, new Set(chosen));
  else STATE.filters.delete(dimension.name);
  refresh();
}

function showFilters(cells) {
  for (const box of document.querySelectorAll("input[data-filter]")) box.checked = !!STATE.filters.get(box.dataset.filter)?.has(box.value);
  for (const menu of document.querySelectorAll("details.filter")) {
    const chosen = STATE.filters.get(menu.dataset.dimension);
    menu.classList.toggle("active", !!chosen);
    menu.querySelector(".chosen").textContent = chosen ? (chosen.size > 2 ? `${chosen.size} chosen` : [...chosen].join(", ")) : "all";
  }
  document.getElementById("clear").hidden = !STATE.filters.size;
  document.getElementById("filtercount").textContent = STATE.filters.size ? ` (${STATE.filters.size})` : "";
  document.getElementById("shown").textContent = `${cells.length.toLocaleString("en-US")} of ${CELLS.length.toLocaleString("en-US")} cells`;
}

function refresh() {
  writeFragment();
  showFilters(visible());
  cardCharts();
  belowCards();
}

function belowCards() {
  const cells = visible(), host = document.getElementById("families");
  forgetCharts(host);
  const families = [...group(cells, (c) => c.family)];
  host.replaceChildren(...families.map(([family, inside]) => el("section", { class: "family", id: `family-${family}` }, el("h2", {}, family.charAt(0).toUpperCase() + family.slice(1)), [...SUITES.values()].filter((suite) => inside.some((c) => c.suite === suite.id)).map((suite) => suiteSection(suite, inside.filter((c) => c.suite === suite.id))))));
  if (!cells.length) host.replaceChildren(el("p", { class: "empty" }, CELLS.length ? "No cell passes these filters." : "This run holds no cells: nothing was planned or measured."));
  limitsSection(cells);
  coverageSection(cells);
  trustSection(cells);
  catalogueSection(cells);
  count();
}

function navigation() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-go]");
    if (!link) return;
    event.preventDefault(); // the fragment holds the filters
    const goal = document.getElementById(link.dataset.go) || [...document.querySelectorAll("[data-suite]")].find((section) => section.dataset.suite === link.dataset.go);
    if (!goal) return;
    goal.scrollIntoView({ block: "start" });
    goal.tabIndex = -1;
    goal.focus({ preventScroll: true });
  });
  const dialog = document.getElementById("detail");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  addEventListener("hashchange", () => { readFragment(); refresh(); });
  const nav = document.querySelector("nav ul"), before = nav.querySelector("[data-before]");
  for (const family of unique(CELLS.map((c) => c.family))) before.before(el("li", {}, el("a", { href: `#family-${family}`, "data-go": `family-${family}` }, family.charAt(0).toUpperCase() + family.slice(1))));
}

watchCharts();
filterBar();
navigation();
readFragment();
showFilters(visible());
cardCharts();
// The cards come first: the long rest is made once what is in view has been drawn.
CHARTS.forEach((chart) => { if (chart.box.getBoundingClientRect().top < innerHeight) paint(chart); });
performance.mark("bancada-first-charts");
requestAnimationFrame(() => setTimeout(() => {
  belowCards();
  document.documentElement.dataset.ready = "1";
}));

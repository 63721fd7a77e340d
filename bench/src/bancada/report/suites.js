// The section of a suite: who wins where, the charts, what it costs at one case, the table.

const MOST_FACETS = 3;

function facetsOf(cells, xName) {
  // Cells that differ only in x and contender belong together; every other axis that varies splits them (never drawn as one line).
  const names = Object.keys(cells[0].axes).filter((name) => name !== xName && unique(cells.map((c) => c.axes[name])).length > 1);
  const places = ["run", "device_name"].filter((name) => unique(cells.map((c) => c[name])).length > 1);
  const facets = [...group(cells, (c) => [...places.map((p) => c[p]), ...names.map((n) => c.axes[n])].join(KEY)).values()].map((inside) => ({
    cells: inside, title: [...names.map((n) => sayAxis(n, inside[0].axes[n])), ...places.map((p) => inside[0][p])].filter(Boolean).join(", "), byX: group(inside, (c) => (xName ? c.axes[xName] : null)),
  }));
  const measured = (facet) => facet.cells.filter((c) => c.status === "ok").length;
  facets.sort((a, b) => measured(b) - measured(a)); // the panels with the most to say come first
  const fixed = Object.keys(cells[0].axes).filter((name) => name !== xName && !names.includes(name)).map((name) => sayAxis(name, cells[0].axes[name])).filter(Boolean);
  return { facets, varying: names, fixed };
}

function chooseX(suite, cells) {
  // The suite's own axis; where only one of its values is here, the first number axis that varies; else none.
  const several = (name) => name && unique(cells.map((c) => c.axes[name]).filter((v) => v !== undefined)).length > 1;
  if (several(suite.x_axis)) return suite.x_axis;
  const numbers = Object.keys(cells[0].axes).filter((name) => several(name) && cells.every((c) => typeof c.axes[name] === "number"));
  return numbers[0] || "";
}

function suiteSection(suite, cells) {
  const ok = cells.filter((c) => c.status === "ok");
  const section = el("section", { class: "suite", "data-suite": suite.id }, el("h3", {}, suite.title || suite.id), suite.question ? el("p", { class: "question" }, suite.question) : null);
  if (!ok.length) {
    section.append(el("p", { class: "empty" }, "No cell of this suite was measured, so there is nothing to draw."), gaps(cells, "", "Why: "));
    return section;
  }
  const xName = chooseX(suite, cells), { facets, varying, fixed } = facetsOf(cells, xName), reference = withSpeed(cells);
  const xs = xName ? inOrder(unique(cells.map((c) => c.axes[xName]))) : [null];
  const cost = el("div", { class: "cost" });
  const pick = (chosen, move = true) => { drawCost(cost, cells, chosen, pick); if (move) cost.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }); };
  const several = group(ok, (c) => c.caseKey);
  if (several.size > 1 && [...several.values()].some((c) => c.length > 1)) section.append(el("h4", {}, "Who is fastest where"), moreOf(facets, 8, "rows", (some) => winMap(some, xs, xName, pick)), el("p", { class: "note" }, "How far ahead of the next; “=” where the paired rounds cannot tell them apart. Click one to see what it costs."));
  section.append(chartRows(cells, facets, xName, fixed, reference), cost);
  const largest = [...group(cells, (c) => c.caseKey).values()].sort((a, b) => b.filter((c) => c.status === "ok").length - a.filter((c) => c.status === "ok").length || (xName ? b[0].axes[xName] - a[0].axes[xName] : 0));
  pick(largest[0], false);
  section.append(el("h4", {}, "All figures"), cellTable(cells, [...(xName ? [xName] : []), ...varying], reference));
  return section;
}

function reasonsOf(cells) {
  const found = [...group(cells.filter((c) => c.status !== "ok"), (c) => words(c.status) + KEY + c.reason).values()];
  return found.sort((a, b) => b.length - a.length).slice(0, 3).map((one) => `${one.length} ${words(one[0].status)} (${one[0].reason})`);
}

function moreOf(items, first, what, make) {
  // The first few, and a button for all of them.
  const box = el("div");
  const show = (number) => {
    forgetCharts(box);
    box.replaceChildren(make(items.slice(0, number)));
    if (items.length > number) box.append(el("div", { class: "more" }, el("button", { type: "button", class: "quiet", onclick: () => show(items.length) }, `Show all ${items.length} ${what}`)));
  };
  show(first);
  return box;
}

function chartRows(cells, facets, xName, fixed, reference) {
  const relative = STATE.y === "speed" && reference;
  const first = relative ? METRICS.speed : METRICS.time;
  const ranges = [metricSpan(cells, first), metricSpan(cells, METRICS.memory)];
  const captions = [relative ? `Speed against ${reference}, same rounds` : "Time a call, median", METRICS.memory.title];
  const toggle = reference ? el("span", { class: "toggle", role: "group", "aria-label": "what the left chart shows" }, ["time", "speed"].map((y) => el("button", { type: "button", "aria-pressed": String(STATE.y === y), "data-y": y, onclick: () => { STATE.y = y; refresh(); } }, y === "time" ? "time" : `speed against ${reference}`))) : null;
  const head = el("div", { class: "rowhead" }, el("h4", {}, "Time and memory"), toggle);
  const rest = fixed.length ? el("p", { class: "note" }, `All with ${fixed.join(", ")}. Solid lines are ours, dashed ones peers, grey is the reference; bands and bars are the intervals of the medians.`) : null;
  const never = new Set([...group(cells, (c) => c.contender)].filter(([, inside]) => !inside.some((c) => c.status === "ok")).map(([id]) => id));
  const rows = moreOf(facets, MOST_FACETS, "panels", (some) => el("div", {}, some.map((facet) => {
    const figures = [[first, ranges[0], captions[0]], [METRICS.memory, ranges[1], captions[1]]].map(([metric, range, caption]) => {
      const figure = el("figure", {}, el("figcaption", {}, caption));
      const has = facet.cells.some((c) => c.status === "ok" && metric.get(c) > 0);
      if (!has) figure.append(el("p", { class: "empty" }, facet.cells.some((c) => c.status === "ok") ? "No row here carries this figure." : `Nothing measured: ${reasonsOf(facet.cells).join("; ")}.`));
      else {
        const several = xName && unique(facet.cells.filter((c) => c.status === "ok").map((c) => c.axes[xName])).length > 1;
        const draw = several ? lines(facet.cells, xName, metric, range) : dots(facet.cells, metric, range);
        addChart(figure, { height: several ? 290 : dotsHeight(facet.cells), label: `${caption}${xName ? ` against ${xName}` : ""}, ${facet.title || facet.cells[0].case}`, draw });
      }
      return figure;
    });
    return el("div", { class: "facet" }, panelTitle(facet, xName) ? el("h5", {}, panelTitle(facet, xName)) : null, el("div", { class: "two" }, figures), gaps(facet.cells.filter((c) => !never.has(c.contender)), xName));
  })));
  return el("div", {}, head, rest, gaps(cells.filter((c) => never.has(c.contender)), xName, "Never measured here: "), rows);
}

function panelTitle(facet, xName) {
  const xs = xName ? unique(facet.cells.map((c) => c.axes[xName])) : [];
  return [facet.title, xs.length === 1 ? sayAxis(xName, xs[0]) : ""].filter(Boolean).join(", ");
}

function gaps(cells, xName, title = "Not drawn: ") {
  // What has no point in the charts, and why.
  const missing = [...group(cells.filter((c) => c.status !== "ok"), (c) => [c.contender, c.status, c.reason].join(KEY)).values()];
  if (!missing.length) return null;
  const total = unique(cells.map((c) => c.case)).length;
  return el("p", { class: "gaps" }, el("b", {}, title), missing.flatMap((one, i) => {
    const where = one.length === total ? "" : xName ? ` at ${inOrder(one.map((c) => c.axes[xName])).map(sayValue).filter((x, n, all) => all.indexOf(x) === n).join(", ")}` : "";
    return [i ? "; " : "", el("button", { type: "button", class: "link", onclick: () => showCell(one[0]) }, `${one[0].label}${where}`), ` (${words(one[0].status)}: ${one[0].reason})`];
  }), ".");
}

function drawCost(box, cells, chosen, pick) {
  forgetCharts(box);
  const cases = group(cells, (c) => c.caseKey), several = unique(cells.map((c) => `${c.run}${c.device}`)).length > 1;
  const select = el("select", { "aria-label": "case" }, [...cases].map(([key, inside]) => el("option", { value: key, selected: key === chosen[0].caseKey }, several ? `${inside[0].case}, ${inside[0].device_name}, ${inside[0].run}` : inside[0].case)));
  select.addEventListener("change", () => pick(cases.get(select.value), false));
  const ok = chosen.filter((c) => c.status === "ok");
  box.replaceChildren(el("div", { class: "rowhead" }, el("h4", {}, "What it costs, at one case"), select));
  if (!ok.length) { box.append(el("p", { class: "empty" }, `Nothing measured here: ${reasonsOf(chosen).join("; ")}.`)); return; }
  const figures = [[METRICS.memory, "Time and memory"], [METRICS.error, "Time and error against float64"]].map(([metric, caption]) => {
    const figure = el("figure", {}, el("figcaption", {}, caption));
    if (ok.some((c) => metric.get(c) > 0)) addChart(figure, { height: 270, label: `${caption} at ${chosen[0].case}`, draw: costs(chosen, metric) });
    else figure.append(el("p", { class: "empty" }, ok.some((c) => metric.get(c) === 0) ? "Zero for all contenders here." : "No row here carries this figure."));
    return figure;
  });
  const zero = ok.filter((c) => c.peak_bytes === 0 || c.error_max === 0);
  box.append(el("div", { class: "two" }, figures), el("p", { class: "note" }, "Filled: no other contender is as good or better in time, memory and error all at once. Hollow: another one is."));
  if (zero.length) box.append(el("p", { class: "gaps" }, `Exactly 0, so not on a logarithmic axis: ${zero.map((c) => `${c.label} (${[c.peak_bytes === 0 ? "0 B" : "", c.error_max === 0 ? "error 0" : ""].filter(Boolean).join(", ")})`).join("; ")}.`));
  const missing = gaps(chosen, "");
  if (missing) box.append(missing);
  const pairs = pairTable(chosen);
  if (pairs) box.append(pairs);
}

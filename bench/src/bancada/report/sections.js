// The other sections: the cards' charts, limits, coverage, trust, catalogue, and the panel that traces one figure.

function cardCharts() {
  document.querySelectorAll("[data-verdict]").forEach((card) => {
    const verdict = DATA.verdicts[Number(card.dataset.verdict)], host = card.querySelector(".mini");
    forgetCharts(host);
    host.replaceChildren();
    const cells = visible().filter((c) => c.suite === verdict.suite && c.run === verdict.run && c.device_name === verdict.device);
    card.hidden = !cells.length;
    if (!cells.some((c) => c.status === "ok")) return;
    const suite = SUITES.get(verdict.suite), xName = chooseX(suite, cells), reference = withSpeed(cells);
    const { facets } = facetsOf(cells, xName), facet = facets[0], metric = reference ? METRICS.speed : METRICS.time;
    const several = xName && unique(facet.cells.filter((c) => c.status === "ok").map((c) => c.axes[xName])).length > 1;
    const caption = `${reference ? `Speed against ${reference}` : "Time a call"}${facet.title ? `; here ${facet.title}` : ""}${facets.length > 1 ? ` (1 of ${facets.length} panels)` : ""}`;
    host.append(el("figcaption", {}, caption));
    addChart(host, { height: several ? 190 : dotsHeight(facet.cells), label: caption, draw: several ? lines(facet.cells, xName, metric, metricSpan(facet.cells, metric), true) : dots(facet.cells, metric, metricSpan(facet.cells, metric)) });
  });
}

function ceilingsOf(cell) {
  // The better of the measurements before and after: a ceiling is what can be reached.
  const out = {};
  for (const row of DATA.ceilings) if (row.run === cell.run && row.device === cell.device && row.dtype === cell.axes.dtype) out[row.name] = Math.max(out[row.name] || 0, row.value);
  return out;
}
const limitOf = (cell, ceilings) => attained(cell, "bandwidth_share" in cell ? ceilings : { matmul: ceilings.matmul });

function limitsSection(cells) {
  const host = document.getElementById("limits-body");
  forgetCharts(host);
  const ok = cells.filter((c) => c.status === "ok" && c.flops_per_s);
  const groups = [...group(ok, (c) => [c.run, c.device_name, c.axes.dtype].join(KEY)).values()].filter((one) => Object.keys(ceilingsOf(one[0])).length);
  if (!groups.length) { host.replaceChildren(el("p", { class: "empty" }, ok.length ? "This run measured no ceilings, so no share of them can be told." : "No measured cell here carries a count of its work.")); return; }
  const shares = [...group(groups.flat(), (c) => c.suite + KEY + c.contender).values()].map((one) => {
    const found = one.map((c) => ({ cell: c, share: limitOf(c, ceilingsOf(c)) })).filter((x) => x.share != null).sort((a, b) => a.share - b.share);
    return { one, found };
  }).filter(({ found }) => found.length);
  const columns = [
    { title: "contender", value: ({ one }) => one[0].label, show: ({ one }) => chip(one[0]) }, { title: "suite", value: ({ one }) => one[0].suite, show: ({ one }) => one[0].suite },
    { title: "median", unit: "% of its limit", figures: true, value: ({ found }) => 100 * median(found.map((x) => x.share)) }, { title: "least", unit: "%", figures: true, value: ({ found }) => 100 * found[0].share },
    { title: "most", unit: "%", figures: true, value: ({ found }) => 100 * found[found.length - 1].share }, { title: "cells", value: ({ found }) => found.length, show: ({ found }) => String(found.length) },
    { title: "nearest at", value: ({ found }) => found[found.length - 1].cell.case, show: ({ found }) => el("button", { type: "button", class: "link", onclick: () => showCell(found[found.length - 1].cell) }, found[found.length - 1].cell.case) },
  ];
  const figures = el("div", { class: groups.length > 1 ? "two" : "" }, groups.map((one) => {
    const ceilings = ceilingsOf(one[0]), figure = el("figure", {}, el("figcaption", {}, `${one[0].axes.dtype || "all"} on ${one[0].device_name}${DATA.runs.length > 1 ? `, ${one[0].run}` : ""}: matmul ${human(ceilings.matmul, RATE)}, copy ${human(ceilings.copy, SPEED)}`));
    addChart(figure, { height: 320, label: `roofline, ${one[0].axes.dtype}`, draw: roofline(one, ceilings) });
    return figure;
  }));
  const legend = el("p", { class: "legend" }, [...group(groups.flat(), (c) => c.family + KEY + c.contender).values()].map((one) => chip(one[0])));
  host.replaceChildren(legend, figures, el("h4", {}, "How near each comes"), sortable(columns, shares, { first: 20, caption: "Share of the limit: the matrix-product ceiling, and the copy ceiling where the data exceed four times the last cache" }));
}

function coverageSection(cells) {
  const host = document.getElementById("coverage-body");
  const failed = [...group(cells.filter((c) => c.status !== "ok"), (c) => [c.suite, c.contender, c.status, c.reason].join(KEY)).values()].sort((a, b) => b.length - a.length);
  const columns = [
    { title: "contender", value: (g) => g[0].label, show: (g) => chip(g[0]) }, { title: "suite", value: (g) => g[0].suite, show: (g) => g[0].suite }, { title: "status", value: (g) => g[0].status, show: (g) => status(g[0]) },
    { title: "cells", value: (g) => g.length, show: (g) => String(g.length) }, { title: "reason", value: (g) => g[0].reason, show: (g) => el("span", { class: "reason" }, g[0].reason) },
  ];
  const used = unique(cells.map((c) => c.status));
  const legend = el("p", { class: "legend" }, Object.keys(STATUS).filter((s) => used.includes(s)).map((s) => el("span", { class: "chip" }, el("span", { class: `sq s-${s.replace(/[^a-z]/g, "-")}` }, STATUS[s][0]), `${words(s)}: ${cells.filter((c) => c.status === s).length}`)));
  const grids = [...group(cells, (c) => [c.suite, c.run, c.device_name].join(KEY)).values()].map((inside) => {
    const several = DATA.runs.length > 1 ? `, ${inside[0].device_name}, ${inside[0].run}` : "";
    return el("div", { class: "coverage" }, el("h4", {}, `${SUITES.get(inside[0].suite).title || inside[0].suite}${several}`), [...group(inside, (c) => c.contender).values()].map((one) => el("div", { class: "covrow" }, el("div", { class: "covname" }, chip(one[0]), el("small", {}, `${one.filter((c) => c.status === "ok").length} of ${one.length}`)), squares(one, one[0].label))));
  });
  host.replaceChildren(legend, ...grids, ...(failed.length ? [el("h4", {}, "Why not"), sortable(columns, failed, { first: 12, caption: "What was planned and has no figures, by reason", open: (g) => showCell(g[0]) })] : [el("p", {}, "Every planned cell here was measured.")]));
}

function pairsOf(entries) {
  return el("dl", { class: "facts" }, entries.filter(([, value]) => value !== "" && value != null).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
function simpleTable(caption, heads, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", { class: "data" }, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))))));
}
const sayFact = (name, value) => (/_bytes$/.test(name) && value > 0 ? sayBytes(value) : value === 0 ? "" : String(value));

function trustSection(cells) {
  const host = document.getElementById("trust-body"), blocks = [];
  const noise = [...group(cells.filter((c) => c.status === "ok" && c.time_high_s), (c) => c.suite).values()].map((one) => {
    const halves = one.map((c) => (c.time_high_s - c.time_low_s) / 2 / c.time_s).sort((a, b) => a - b);
    return [one[0].suite, sayShare(median(halves)), sayShare(halves[Math.floor(0.9 * (halves.length - 1))]), sayShare(halves[halves.length - 1]), String(median(one.map((c) => c.rounds || 0)))];
  });
  const aa = DATA.runs.flatMap((run) => run.aa.map((row) => [`${row.suite}, ${row.case}`, String(row.comparisons), String(row.false_verdicts), row.comparisons ? sayShare(row.false_verdicts / row.comparisons) : ""]));
  const drift = [...group(DATA.ceilings, (c) => [c.run, c.device, c.name, c.dtype].join(KEY)).values()].map((one) => {
    const at = (when) => one.find((c) => c.when === when)?.value, [a, b] = [at("before"), at("after")], units = one[0].name === "copy" ? SPEED : RATE;
    return [`${one[0].name}, ${one[0].dtype}`, a ? human(a, units) : "not measured", b ? human(b, units) : "not measured", a && b ? `${b >= a ? "+" : "−"}${Math.abs((b / a - 1) * 100).toFixed(1)}%` : ""];
  });
  blocks.push(el("p", {}, "Contenders of a case are timed in paired rounds: each once a round, in shuffled order. A verdict needs the interval of the per-round ratios wholly beyond 1% either way; anything else is called level. Errors are against the same computation in float64. Operations and bytes are counted by one function a suite, the same for every contender, so that rates compare equal work."));
  const small = el("div", { class: "smalls" });
  blocks.push(small);
  if (aa.length) small.append(simpleTable("Identical contenders raced: every verdict is a false one", ["race", "comparisons", "false", "rate"], aa));
  else small.append(el("p", { class: "empty" }, "This run raced no identical contenders, so how often its verdicts are false is not known."));
  if (noise.length) small.append(simpleTable("Noise: half-width of the interval of a median, of the time", ["suite", "median", "90% of cells within", "widest", "rounds"], noise));
  if (drift.length) small.append(simpleTable("Ceilings of this machine, before and after the sweep", ["ceiling", "before", "after", "drift"], drift));
  const policies = [...group(cells, (c) => c.suite).values()].flatMap((one) => {
    const own = [...group(one, (c) => c.contender).values()].map((g) => { const known = SUITES.get(g[0].suite).contenders.find((c) => c.id === g[0].contender) || {}; return [g[0], g[0].precision || known.precision || "not stated", g.find((c) => c.backend)?.backend || known.backend || "", known.compiles ? "compiles at its first call" : ""]; });
    const counted = [...group(own, ([, precision]) => precision)].sort((a, b) => b[1].length - a[1].length);
    return own.map(([cell, precision, backend, compiles]) => [chip(cell), cell.suite, precision === counted[0][0] ? precision : `${precision} (not as the others of its suite)`, backend, compiles]);
  });
  const merged = [...group(policies, ([, , ...rest]) => rest.join(KEY)).values()].flatMap((same) => [...group(same, ([name]) => name.textContent).values()]).map((one) => [one[0][0], unique(one.map((row) => row[1])).join(", "), ...one[0].slice(2)]);
  if (merged.length) blocks.push(simpleTable("Equal work: what each contender computes in", ["contender", "suites", "precision", "backend", ""], merged));
  for (const run of DATA.runs) {
    const head = run.head, env = Object.entries(head).filter(([name]) => name.startsWith("env.")).map(([name, value]) => [name.slice(4).replace(/_bytes$/, "").replace(/_/g, " "), sayFact(name, value)]);
    const versions = Object.entries(head).filter(([name]) => name.startsWith("version.")).map(([name, value]) => [name.slice(8), String(value)]);
    const parts = Object.entries(run.end).filter(([name]) => /_s$/.test(name)).map(([name, value]) => [name === "wall_s" ? "wall time" : name.replace(/^part\./, "").replace(/_s$/, "").replace(/_/g, " "), sayTime(value)]);
    blocks.push(el("h4", {}, DATA.runs.length > 1 ? `Run ${run.name}` : "This run"));
    blocks.push(el("div", { class: "three" }, el("div", {}, el("h5", {}, "Machine"), pairsOf([["device", head.device_name], ["commit", head.commit], ...env])), el("div", {}, el("h5", {}, "Versions"), versions.length ? pairsOf(versions) : el("p", { class: "empty" }, "Not recorded.")), el("div", {}, el("h5", {}, "Where the time went"), parts.length ? pairsOf(parts) : el("p", { class: "empty" }, "The sweep did not come to its end."))));
    if (head.command) blocks.push(commandLine(head.command));
    if (run.problems.length) blocks.push(el("h5", {}, `Met when reading the rows (${run.problems.length})`), el("ul", { class: "problems" }, run.problems.slice(0, 50).map((problem) => el("li", {}, problem))));
  }
  host.replaceChildren(...blocks);
}

function catalogueSection(cells) {
  const host = document.getElementById("catalogue-body"), used = new Set(cells.map((c) => c.technique));
  const techniques = DATA.catalogue.techniques.filter((t) => used.has(t.id));
  if (!techniques.length) { host.replaceChildren(el("p", { class: "empty" }, "This run carries no technique cards.")); return; }
  const cases = [...group(cells, (c) => c.caseKey).values()].map(winners).filter(({ ok }) => ok.length > 1);
  host.replaceChildren(...techniques.map((t) => {
    const mine = [...group(cells.filter((c) => c.technique === t.id), (c) => c.contender).values()].map((g) => g[0]);
    const won = mine.map((c) => [c, cases.filter(({ best }) => best.length === 1 && best[0].contender === c.contender).length, cases.filter(({ ok }) => ok.some((o) => o.contender === c.contender)).length]).filter(([, , ran]) => ran);
    return el("article", { class: "card technique", id: `technique-${t.id}` }, el("h4", {}, t.title, t.title_pt ? el("span", { class: "pt", lang: "pt" }, ` ${t.title_pt}`) : null), el("p", {}, t.summary), t.formula ? el("p", { class: "formula" }, t.formula) : null,
      pairsOf([["paper", t.paper], ["ours", mine.filter((c) => c.ours).map((c) => c.label).join(", ")], ["peers", mine.filter((c) => !c.ours).map((c) => c.label).join(", ")], ["fastest", won.map(([c, wins, ran]) => `${c.label}: alone in ${wins} of ${ran} cases`).join("; ")], ["files", (t.files || []).join("\n")]]),
      t.snippet ? el("details", {}, el("summary", {}, "Use it"), copyable(t.snippet)) : null);
  }));
}

function copyable(text) {
  const button = el("button", { type: "button", class: "quiet copy", onclick: () => navigator.clipboard?.writeText(text).then(() => { button.textContent = "copied"; }, () => { button.textContent = "select it by hand"; }) }, "copy");
  return el("div", { class: "code" }, el("pre", { tabindex: "0" }, text), button);
}
const commandLine = (command) => el("div", {}, el("h5", {}, "The command"), copyable(command));

function strip(cell) {
  // All samples of a cell, in the order they were taken (or their quantiles).
  const values = DATA.samples.v[cell.index] || [], number = DATA.samples.n[cell.index] || 0;
  if (values.length < 2) return null;
  const low = Math.min(...values), high = Math.max(...values), w = 680, h = 90, ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${number} samples between ${sayTime(low)} and ${sayTime(high)}`);
  values.forEach((value, i) => {
    const dot = document.createElementNS(ns, "circle");
    for (const [name, setting] of [["cx", 6 + (i * (w - 12)) / (values.length - 1)], ["cy", h - 6 - ((value - low) / (high - low || 1)) * (h - 12)], ["r", 3]]) dot.setAttribute(name, setting);
    svg.append(dot);
  });
  return el("figure", { class: "strip" }, el("figcaption", {}, DATA.samples.raw ? `${number} samples in order, ${sayTime(low)} to ${sayTime(high)}` : `${number} samples by quantile (least to most), ${sayTime(low)} to ${sayTime(high)}`), svg);
}

function showCell(cell) {
  const dialog = document.getElementById("detail"), own = (prefix) => Object.entries(cell).filter(([name]) => name.startsWith(prefix));
  const opposed = CELLS.filter((c) => c.caseKey === cell.caseKey && c !== cell && c.status === "ok" && cell.status === "ok").map((c) => `${sayVerdict(compare(cell, c))}${compare(cell, c).verdict === "too close to call" ? " with" : " than"} ${c.label}`);
  const limit = limitOf(cell, ceilingsOf(cell));
  const facts = [
    ["suite", cell.suite], ["case", cell.case], ["status", words(cell.status)], ["reason", cell.reason], ["time", cell.time_s == null ? "" : `${sayTime(cell.time_s)} [${sayTime(cell.time_low_s ?? cell.time_s)}, ${sayTime(cell.time_high_s ?? cell.time_s)}], ${cell.rounds ?? "?"} samples of ${cell.loops ?? "?"} calls`], ["against the others", opposed.join("; ")],
    ["peak memory above the inputs", cell.peak_bytes == null ? "" : sayBytes(cell.peak_bytes)], ["high-water mark of the process", cell.host_peak_bytes == null ? "" : sayBytes(cell.host_peak_bytes)], ["first call", cell.first_call_s == null ? "" : sayTime(cell.first_call_s)],
    ["rate", cell.flops_per_s ? `${human(cell.flops_per_s, RATE)}${limit == null ? "" : `, ${sayShare(limit)} of its limit`}` : ""], ["error, max |x − ref|", cell.error_max == null ? "" : sayError(cell.error_max)], ["error, relative", cell.error_rel == null ? "" : sayError(cell.error_rel)], ["share of the tolerance used", cell.error_limit_share == null ? "" : sayShare(cell.error_limit_share)],
    ["errors by name", own("error.").map(([name, value]) => `${name.slice(6)} ${sayError(value)}`).join(", ")], ["notes", own("note.").map(([name, value]) => `${name.slice(5)}: ${value}`).join("; ")], ["precision", cell.precision], ["backend", cell.backend], ["device", `${cell.device_name}${cell.threads ? `, ${cell.threads} threads` : ""}${cell.driver ? `, driver ${cell.driver}` : ""}`], ["versions", cell.versions], ["commit", cell.commit], ["run", cell.run], ["row", cell.row_id || "none was written"],
  ];
  dialog.replaceChildren(el("div", { class: "rowhead" }, el("h3", {}, chip(cell)), el("button", { type: "button", class: "quiet", autofocus: true, onclick: () => dialog.close() }, "close")), strip(cell) || "", pairsOf(facts), cell.command ? commandLine(cell.command) : "");
  if (!dialog.open) dialog.showModal();
}

// Who wins where, and each contender against each.

function winMap(facets, xs, xName, pick) {
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, xName || "case"),
    xs.map((x) => el("th", { scope: "col", class: "at" }, x === null ? "" : sayValue(x))),
  );
  const rows = facets.map(({ title, byX }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, title || "all"),
      xs.map((x) => el("td", {}, winCell(byX.get(x), pick))),
    ),
  );
  return scrolling(
    "who is fastest where",
    el("table", { class: "wins" }, el("thead", {}, head), el("tbody", {}, rows)),
  );
}
function winCell(cells, pick) {
  if (!cells) return el("span", { class: "unplanned" }, "not planned");
  const { ok, best, lead, next } = winners(cells);
  const tile = (name, note, attributes) =>
    el(
      "button",
      { type: "button", onclick: () => pick(cells), ...attributes },
      el("b", {}, name),
      el("small", {}, note),
    );
  if (!ok.length) return tile("none ran", unique(cells.map((c) => words(c.status))).join(", "), { class: "win" });
  if (best.length !== 1) {
    const open = best.some((a, i) => best.slice(i + 1).some((b) => undecided(compare(a, b))));
    const names = best.map((c) => c.label).join(open ? " or " : " = ");
    return tile(names || "unclear", open ? "not decided" : "level", { class: "win level" });
  }
  const style = { "--c": styleOf(best[0]).color };
  if (!next) return tile(best[0].label, "alone", { class: "win", style });
  const title = `next: ${next.label}, ${sayInterval(sayRatio, lead.ratio, lead.low, lead.high)} of its time`;
  return tile(best[0].label, `${sayRatio(lead.ratio)} ahead`, { class: "win", style, title });
}

function pairTable(cells) {
  const { ok } = winners(cells);
  if (ok.length < 2) return null;
  const against = (a, b) => {
    if (a === b) return el("td", { class: "self", "aria-label": "itself" }, "·");
    const pair = compare(a, b);
    const from = pair.rounds ? `${pair.rounds} paired rounds` : "two separate intervals";
    const title = `time ratio ${digits(pair.ratio)} [${digits(pair.low)}, ${digits(pair.high)}], ${from}`;
    return el("td", { class: `pair ${pair.verdict === LEVEL ? "level" : pair.verdict}`, title }, sayVerdict(pair));
  };
  const head = el(
    "tr",
    {},
    el("th", {}, ""),
    ok.map((c) => el("th", { scope: "col" }, c.label)),
  );
  const rows = ok.map((a) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, chip(a)),
      ok.map((b) => against(a, b)),
    ),
  );
  const caption = el("caption", {}, "Each against each: the row is … than the column");
  return scrolling(
    "each against each",
    el("table", { class: "pairs" }, caption, el("thead", {}, head), el("tbody", {}, rows)),
  );
}

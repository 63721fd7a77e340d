// Each contender of a case against each.

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

// Where the answer changes along an axis: who is fastest from where to where, and at which size two of them cross.

function leaders(facet, xName) {
  // Of each size in order: the size, its cells' winners, and the one contender that is fastest there alone, if any.
  const numbers = [...facet.byX.keys()].filter((x) => typeof x === "number");
  return inOrder(numbers)
    .map((x) => ({ x, ...winners(facet.byX.get(x)) }))
    .filter(({ ok }) => ok.length > 1)
    .map((one) => ({ ...one, alone: one.best.length === 1 ? one.best[0] : null }));
}

function crossings(facet, xName) {
  // Between two sizes that different contenders lead alone: where the two are as fast, by the logarithms of both axes.
  const sure = leaders(facet, xName).filter(({ alone }) => alone);
  return sure.slice(1).flatMap((right, i) => {
    const left = sure[i];
    if (left.alone.contender === right.alone.contender) return [];
    const at = (where, contender) => where.ok.find((c) => c.contender === contender);
    const ratio = (where) => {
      const [a, b] = [at(where, left.alone.contender), at(where, right.alone.contender)];
      return a && b ? Math.log(compare(a, b).ratio) : null;
    };
    const found = { before: left.alone, after: right.alone, from: left.x, to: right.x, at: null };
    const [r, s] = [ratio(left), ratio(right)];
    if (r == null || s == null || left.x <= 0 || r === s) return [found];
    const share = Math.min(1, Math.max(0, r / (r - s)));
    return [{ ...found, at: left.x * (right.x / left.x) ** share }];
  });
}

const near = (value) => sayValue(Number(value.toPrecision(2)));
function crossingLines(crossed, look) {
  return crossed
    .filter(({ at }) => at != null)
    .map(({ at }) => ({
      type: "line",
      yref: "paper",
      y0: 0,
      y1: 1,
      x0: at,
      x1: at,
      line: { color: look.muted, width: 1, dash: "dot" },
    }));
}
function crossingNames(crossed, x, look) {
  return crossed
    .filter(({ at }) => at != null)
    .map(({ at }) => ({
      x: x.isLog ? log(at) : at,
      y: 1,
      yref: "paper",
      yanchor: "bottom",
      text: plain(`about ${near(at)}`),
      showarrow: false,
      font: { size: 11.5, color: look.muted },
    }));
}

const MOST_NAMED = 3;
const namesOf = (best) =>
  best.length > MOST_NAMED ? `${best.length} that are not told apart` : inOrder(best.map((c) => c.label)).join(" or ");
function crossingWords(facet, xName, unit) {
  // `Fastest: eager up to 256; SDPA from 512 on (seq_len, tokens). Crossing: eager and SDPA at about 340.`
  const found = leaders(facet, xName);
  if (found.length < 2) return null;
  const runs = [];
  for (const { x, best } of found) {
    const last = runs[runs.length - 1];
    if (last?.who === namesOf(best)) last.to = x;
    else runs.push({ who: namesOf(best), from: x, to: x });
  }
  const where = ({ from, to }, i) => {
    if (runs.length === 1) return `at every ${xName} measured, ${sayValue(from)} to ${sayValue(to)}`;
    if (i === 0) return from === to ? `at ${sayValue(to)}` : `up to ${sayValue(to)}`;
    if (i === runs.length - 1) return from === to ? `at ${sayValue(from)}` : `from ${sayValue(from)} on`;
    return from === to ? `at ${sayValue(from)}` : `from ${sayValue(from)} to ${sayValue(to)}`;
  };
  const parts = runs.map((run, i) => `${run.who} ${where(run, i)}`);
  const crossed = crossings(facet, xName).map(({ before, after, from, to, at }) =>
    at == null
      ? `${before.label} gives way to ${after.label} between ${sayValue(from)} and ${sayValue(to)}`
      : `${before.label} and ${after.label} at about ${near(at)}`,
  );
  const named = [runs.length > 1 ? xName : "", unit === xName ? "" : unit].filter(Boolean).join(", ");
  return el("p", { class: "note crossing" }, [
    el("b", {}, "Fastest: "),
    `${parts.join("; ")}${named ? ` (${named})` : ""}. `,
    ...(crossed.length ? [el("b", {}, "Crossing: "), `${crossed.join("; ")}.`] : []),
  ]);
}

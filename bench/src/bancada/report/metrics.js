// What charts show of a cell: time, memory, error, and speed against the case's reference.

const METRICS = {
  time: {
    title: "time a call",
    stands: (a, b) => ({ faster: -1, slower: 1 })[compare(a, b).verdict] || 0,
    get: (c) => c.time_s,
    low: (c) => c.time_low_s ?? c.time_s,
    high: (c) => c.time_high_s ?? c.time_s,
    tick: tickTime,
    base: 10,
    say: sayTime,
  },
  memory: {
    title: "peak memory above the inputs",
    get: (c) => c.peak_bytes,
    low: (c) => c.peak_bytes,
    high: (c) => c.peak_bytes,
    tick: tickBytes,
    base: 2,
    say: sayBytes,
  },
  error: {
    title: "error, max |x − ref|",
    get: (c) => c.error_max,
    low: (c) => c.error_max,
    high: (c) => c.error_max,
    tick: sayError,
    base: 10,
    say: sayError,
  },
  speed: {
    title: "speed",
    higher: true,
    get: (c) => c.speed?.value,
    low: (c) => c.speed?.low,
    high: (c) => c.speed?.high,
    tick: tickTimes,
    base: 10,
    say: sayRatio,
  },
};

const measured = (cells) => cells.filter((cell) => cell.status === "ok");
const drawable = (cells, metric) => measured(cells).filter((cell) => metric.get(cell) > 0); // all axes are logarithmic

function withSpeed(cells) {
  // Sets `speed` from the paired rounds with the case's reference (2x is half the time); gives the reference's label.
  const references = new Map(
    measured(cells)
      .filter((c) => c.reference)
      .map((c) => [c.caseKey, c]),
  );
  for (const cell of cells) {
    const reference = references.get(cell.caseKey);
    cell.speed = null;
    if (!reference || cell.status !== "ok") continue;
    const pair = cell === reference ? { ratio: 1, low: 1, high: 1 } : compare(cell, reference);
    cell.speed = { value: 1 / pair.ratio, low: 1 / pair.high, high: 1 / pair.low };
  }
  return references.size ? [...references.values()][0].label : "";
}

function metricSpan(cells, metric) {
  return span(measured(cells).flatMap((cell) => [metric.low(cell), metric.get(cell), metric.high(cell)]));
}

function interval(cells, metric, color) {
  // plotly's error bars for these cells.
  const array = cells.map((c) => (c ? metric.high(c) - metric.get(c) : null));
  const arrayminus = cells.map((c) => (c ? metric.get(c) - metric.low(c) : null));
  return { type: "data", symmetric: false, array, arrayminus, color, thickness: 1.3, width: 3 };
}

// Who is better

const SAME = 0.01; // figures without an interval are the same within this share, in the sentences too
const same = (a, b) => Math.abs(a - b) <= SAME * Math.max(Math.abs(a), Math.abs(b));
function stands(metric, a, b) {
  // -1 where a is shown to be better than b of the same case, 1 where it is worse, 0 where they are not told apart.
  if (a === b) return 0;
  if (metric.stands) return metric.stands(a, b);
  const exact = [a, b].every((cell) => metric.low(cell) === metric.high(cell));
  if (exact && same(metric.get(a), metric.get(b))) return 0;
  const sign = metric.higher ? -1 : 1;
  if (metric.high(a) < metric.low(b)) return -sign;
  return metric.low(a) > metric.high(b) ? sign : 0;
}
const better = (metric) => (a, b) => (metric.higher ? metric.get(b) - metric.get(a) : metric.get(a) - metric.get(b)); // best first

function winners(cells, metric = METRICS.time) {
  // Of one case: the measured cells, best first; those that no other beats; how far the next is behind a lone one.
  const ok = has(cells, metric).sort(better(metric));
  const best = ok.filter((a) => !ok.some((b) => stands(metric, a, b) === 1));
  const next = best.length === 1 ? ok.find((c) => c !== best[0]) : null;
  return { ok, best, next, lead: next && metric === METRICS.time ? compare(next, best[0]) : null };
}

function beaten(a, b, metrics) {
  // Whether b is shown to be better than a in some of these figures, and in no other worse: neither shown to be, nor
  // behind by more than equal figures are where nothing is decided.
  const found = metrics.map((metric) => stands(metric, b, a));
  const behind = metrics.some(
    (metric, i) => !found[i] && better(metric)(b, a) > 0 && !same(metric.get(a), metric.get(b)),
  );
  return found.includes(-1) && !found.includes(1) && !behind;
}
const front = (cells, metrics) => cells.filter((a) => !cells.some((b) => beaten(a, b, metrics)));
function worthOf(cells, metric) {
  // Cells of a case in the order in which they matter: those nobody beats, the reference, our best, the rest by rank.
  const { ok, best } = winners(cells, metric);
  return [...best, ...ok.filter((c) => c.reference), ...ok.filter((c) => c.ours).slice(0, 1), ...ok];
}

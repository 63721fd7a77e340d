// What charts show of a cell: time, memory, error, and speed against the case's reference.

const METRICS = {
  time: {
    get: (c) => c.time_s,
    low: (c) => c.time_low_s ?? c.time_s,
    high: (c) => c.time_high_s ?? c.time_s,
    tick: tickTime,
    base: 10,
    say: sayTime,
  },
  memory: {
    get: (c) => c.peak_bytes,
    low: (c) => c.peak_bytes,
    high: (c) => c.peak_bytes,
    tick: tickBytes,
    base: 2,
    say: sayBytes,
  },
  error: {
    get: (c) => c.error_max,
    low: (c) => c.error_max,
    high: (c) => c.error_max,
    tick: sayError,
    base: 10,
    say: sayError,
  },
  speed: {
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

function winners(cells) {
  // Of one case: the measured cells, fastest first; those that no other beats; how far the next is behind a lone one.
  const ok = measured(cells).sort((a, b) => a.time_s - b.time_s);
  const best = ok.filter((a) => !ok.some((b) => a !== b && compare(a, b).verdict === "slower"));
  const next = best.length === 1 ? ok.find((c) => c !== best[0]) : null;
  return { ok, best, next, lead: next ? compare(next, best[0]) : null };
}

const sameCost = 0.02;
function dominates(a, b) {
  // Whether a is nowhere worse than b in time, memory and error, and somewhere better.
  let better = false;
  for (const metric of [METRICS.time, METRICS.memory, METRICS.error]) {
    const [x, y] = [metric.get(a), metric.get(b)];
    if (x == null || y == null) continue;
    if (x > y * (1 + sameCost)) return false;
    if (x < y * (1 - sameCost)) better = true;
  }
  return better;
}
const front = (cells) => new Set(cells.filter((cell) => !cells.some((other) => dominates(other, cell))));

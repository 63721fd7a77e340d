// Figures beside time and memory: the metrics that a suite declares, as charts and as columns of its tables.

const metricsOf = (suite) => suite.metrics || [];
const finalOf = (name) => `measure.final.${name}`; // where a training suite keeps it

const inBytes = (metric) => ["bytes", "B"].includes(metric.unit);
function measureOf(metric, field, say = (v) => digits(v)) {
  // A declared metric in the form that panels take.
  return {
    get: (c) => c[field],
    low: (c) => c[`${field}.low`] ?? c[field],
    high: (c) => c[`${field}.high`] ?? c[field],
    tick: inBytes(metric) ? tickBytes : tickPlain,
    base: inBytes(metric) ? 2 : 10,
    say: inBytes(metric) ? sayBytes : say,
    title: metric.title,
    linear: metric.scale !== "log" && !inBytes(metric),
    higher: metric.better === "higher",
  };
}
const wayOf = (metric) => `${metric.better} is better`;
const titleOf = (metric) => `${capital(metric.title)}${metric.unit && !inBytes(metric) ? `, ${metric.unit}` : ""}`;

function linearSpan(values, margin = 0.08) {
  const shown = values.filter(Number.isFinite);
  if (!shown.length) return [0, 1];
  const [low, high] = [Math.min(...shown), Math.max(...shown)];
  const room = (high - low) * margin || Math.abs(high) * 0.05 || 1;
  return [low - room, high + room];
}
const rangeOf = (cells, metric) => {
  const values = cells.flatMap((c) => [metric.low(c), metric.get(c), metric.high(c)]).filter((v) => v != null);
  return metric.linear ? linearSpan(values) : span(values, 0.5, 0.12);
};
const has = (cells, metric) =>
  measured(cells).filter((c) => Number.isFinite(metric.get(c)) && (metric.linear || metric.get(c) > 0));

// The figures that a suite's cells carry, to be set against each other: {key, title, metric}.

const KINDS = {
  training: { time: "time an update", memory: "peak memory of an update" },
  ranks: { time: "time a step, slowest rank", memory: "peak of the fullest rank" },
};
const LOG_TIME = { unit: "s", better: "lower", scale: "log" };
const LOG_BYTES = { unit: "bytes", better: "lower", scale: "log" };
function judgedOf(metric) {
  // The final value of a training metric: the contrast over the seeds says who is better, where there is one.
  const found = measureOf(metric, finalOf(metric.name));
  const bySeeds = (a, b) => ({ better: -1, worse: 1 })[contrast(a, b, `final.${metric.name}`)?.verdict] || 0;
  const known = (a, b) => contrast(a, b, `final.${metric.name}`);
  return { ...found, stands: (a, b) => (known(a, b) ? bySeeds(a, b) : stands({ ...found, stands: null }, a, b)) };
}
const timeOf = (field) => ({ ...measureOf(LOG_TIME, field), tick: tickTime, say: sayTime });
const FIXED_FIGURES = [
  ["time", METRICS.time],
  ["memory", METRICS.memory],
  ["error", METRICS.error],
  [
    "grad",
    { ...measureOf({ scale: "log" }, "grad_error_max"), title: "gradient error, max", tick: sayError, say: sayError },
  ],
  ["first", { ...timeOf("first_call_s"), title: "first call" }],
];
function figuresOf(suite, cells) {
  const said = (key, metric) => KINDS[suite.kind]?.[key] || metric.title;
  const own = metricsOf(suite).map((m) =>
    suite.kind === "training"
      ? [`final.${m.name}`, judgedOf(m), titleOf(m)]
      : [`m.${m.name}`, measureOf(m, `measure.${m.name}`), titleOf(m)],
  );
  const kept = fieldsOf(cells, "measure.bytes.").map(([field, title]) => [
    `kept.${title}`,
    measureOf(LOG_BYTES, field),
    `bytes of ${title}`,
  ]);
  const target = ["updates", "seconds"].map((unit) => [
    `${unit}_to_target`,
    unit === "seconds" ? timeOf("measure.seconds_to_target") : measureOf({}, "measure.updates_to_target"),
    `${unit} to the target`,
  ]);
  const ranked = suite.kind === "ranks" ? own.map(([key]) => key) : []; // where bytes of each kind are declared
  const all = [
    ...FIXED_FIGURES.map(([key, metric]) => [key, metric, said(key, metric)]),
    ...own,
    ...(ranked.length ? [] : kept),
    ...target,
  ];
  return all
    .filter(([, metric]) => has(cells, metric).length)
    .map(([key, metric, title]) => ({ key, metric, title: lowered(title) }));
}
// A small first letter, for the middle of a line; a name in capitals (KL) stays.
const lowered = (text) => (/^.[A-Z]/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1));

function usualViews(suite, keys) {
  // Which two figures are shown against each other at first, as [x, y], in each of two views.
  const first = (...wanted) => wanted.find((key) => keys.includes(key));
  const [one, other] = (suite.weighs || []).map((name) => `m.${name}`).filter((key) => keys.includes(key));
  if (one)
    return [
      [other ? one : "time", other || one],
      ["time", one],
    ];
  const judged = metricsOf(suite).find((m) => m.drawn !== false && !inBytes(m));
  const memory = first("memory", "m.bytes", "kept.optimizer", "first", "time");
  if (suite.kind === "training") {
    const y = first(`final.${judged?.name}`, "memory", "time");
    return [
      ["time", y],
      [memory, y],
    ];
  }
  if (suite.kind === "ranks")
    return [
      ["time", memory],
      [first("m.comm.bytes", "m.comm.all_ranks.bytes", "time"), memory],
    ];
  const quality = first(`m.${judged?.name}`);
  const size = first("m.bytes", "memory", "first", "time");
  if (quality && size === "m.bytes")
    return [
      [size, quality],
      ["time", quality],
    ];
  return [
    ["time", size],
    ["time", quality || first("error", "grad", "memory", "first", "time")],
  ];
}

function measureColumns(suite, cells) {
  // The columns of a suite's own figures, for the table of all its cells.
  return metricsOf(suite)
    .filter((m) => cells.some((c) => c[`measure.${m.name}`] != null))
    .map((m) => amount(m.title, cells, (c) => c[`measure.${m.name}`], inBytes(m) ? BYTES : m.unit));
}

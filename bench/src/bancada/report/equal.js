// Equal work, declared suite by suite: what is counted, what each contender computes in and through, what tuning it got.

function precisionsOf(suite, cells) {
  // Of each contender its precision policy; where most of the suite share one, those with another are marked.
  const known = new Map(suite.contenders.map((c) => [c.id, c]));
  const own = groups(cells, (c) => c.contender).map((one) => {
    const told = known.get(one[0].contender) || {};
    const ran = unique(
      measured(one)
        .map((c) => c.backend)
        .filter(Boolean),
    );
    return {
      cell: one[0],
      cells: one,
      precision: one.find((c) => c.precision)?.precision || told.precision || "not stated",
      backend: ran.join(", ") || told.backend || "",
      compiles: !!told.compiles,
    };
  });
  const [most] = groups(own, ({ precision }) => precision).sort((a, b) => b.length - a.length);
  const usual = most.length * 2 > own.length ? most[0].precision : null;
  return own.map((one) => ({ ...one, odd: usual !== null && one.precision !== usual }));
}
function tuningOf(suite, { cell, cells }) {
  // What tuning could try, how often it tried, and what that took.
  const tuned = measured(cells).filter((c) => c["measure.tuning_trials"] != null);
  if (!tuned.length) return "";
  const space = Object.entries(suite.spaces?.[cell.contender] || {}).map(([name, what]) => `${name}: ${what}`);
  const trials = unique(tuned.map((c) => c["measure.tuning_trials"])).join(" or ");
  const seconds = tuned.reduce((sum, c) => sum + (c["measure.tuning_s"] || 0), 0);
  return `${trials} trials, ${sayTime(seconds)} (${space.join("; ") || "nothing to try"})`;
}

function clockOf(cells) {
  // What a time on this page holds: the device's share or the host's too, from warm caches or cold ones.
  if (!cells.some((c) => c.device !== "cpu"))
    return "Times are the host's, from caches as the call before leaves them (warm); a device's own time, and cold caches, are n/a on a CPU.";
  const beside = measured(cells).some((c) => c.warm_s != null)
    ? "from warm caches, and with the host's share, they stand beside it in the table"
    : "these rows hold no times from warm caches or with the host's share";
  return `Times are the device's own, by its events, from cold caches (flushed before each sample); ${beside}.`;
}
function equalWork(suite, cells) {
  const own = precisionsOf(suite, cells);
  const tuned = own.some((one) => tuningOf(suite, one));
  const heads = ["contender", "precision", "ran through", "compiles", ...(tuned ? ["tuning"] : [])];
  const rows = own.map((one) => [
    chip(one.cell),
    one.odd ? el("span", {}, one.precision, el("b", {}, " (not as most here)")) : one.precision,
    one.backend || "its own operators",
    one.compiles ? "at its first call" : "no",
    ...(tuned ? [tuningOf(suite, one) || "none"] : []),
  ]);
  const counted = suite.work
    ? `Operations and bytes, the same for all: ${suite.work}`
    : "Operations and bytes are counted by one function, the same for all.";
  const policies = unique(own.map(({ precision }) => precision)).length;
  const mark = policies > 1 ? `${policies} precision policies` : "one precision policy for all";
  return el("details", { class: "equal" }, [
    el("summary", {}, `Equal work: ${mark}`),
    el("p", { class: "note" }, `${counted} ${clockOf(cells)}`),
    simpleTable("What each contender computes in", heads, rows),
  ]);
}

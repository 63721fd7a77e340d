// A contender over all cases of a suite: geometric means of its speed, over common cases only, with their number.

function geometricMean(ratios) {
  // exp(mean log) of {ratio, low, high}; the half-widths of the logarithms are added in squares. Null of none.
  if (!ratios.length) return null;
  const middle = mean(ratios.map(({ ratio }) => Math.log(ratio)));
  const wide = (end) => Math.hypot(...ratios.map((one) => Math.log(one[end] / one.ratio))) / ratios.length;
  return { ratio: Math.exp(middle), low: Math.exp(middle - wide("low")), high: Math.exp(middle + wide("high")) };
}

function overCases(cells) {
  // Of each contender: its cells, its speed against the reference where both ran, and over the cases that all ran.
  const contenders = groups(cells, (c) => c.contender);
  const ran = groups(measured(cells), (c) => c.caseKey).map((one) => winners(one));
  const alive = contenders.filter((one) => measured(one).length);
  const byCase = new Map(ran.map((one) => [one.ok[0].caseKey, one.ok.find((c) => c.reference)]));
  const whole = new Set(ran.filter(({ ok }) => ok.length === alive.length).map(({ ok }) => ok[0].caseKey));
  const speeds = (one, keep) =>
    measured(one)
      .filter((c) => c.speed && keep(c))
      .map((c) => c.speed);
  const turned = (found) => found.map(({ value, low, high }) => ({ ratio: value, low, high }));
  return alive.map((one) => {
    const own = speeds(one, () => true);
    const common = speeds(one, (c) => whole.has(c.caseKey));
    const memory = measured(one)
      .map((c) => [c.peak_bytes, byCase.get(c.caseKey)?.peak_bytes])
      .filter(([mine, its]) => mine > 0 && its > 0)
      .map(([mine, its]) => ({ ratio: mine / its, low: mine / its, high: mine / its }));
    return {
      cell: one[0],
      measured: measured(one).length,
      planned: one.length,
      own: geometricMean(turned(own)),
      ownCases: own.length,
      common: geometricMean(turned(common)),
      memory: geometricMean(memory),
      memoryCases: memory.length,
      alone: ran.filter(({ best }) => best.length === 1 && best[0].contender === one[0].contender).length,
      unbeaten: ran.filter(({ best }) => best.some((c) => c.contender === one[0].contender)).length,
      whole: whole.size,
    };
  });
}

const allRan = (cells) => overCases(cells)[0]?.whole > 0;
function comparableParts(cells) {
  // All cells; or, where no case was run by all contenders, those of each value of an axis that parts them: such means
  // are never beside one another in one table.
  if (allRan(cells)) return [["", cells]];
  for (const name of axesThatVary(cells)) {
    const parts = groups(cells, (c) => valueAt(c, name)).filter((one) => measured(one).length);
    if (parts.length > 1 && parts.every(allRan))
      return parts.map((one) => [`, ${sayAxis(name, valueAt(one[0], name))}`, one]);
  }
  return [["", cells]];
}
function summaryTables(cells) {
  // A table for each machine and run; nothing where there is no reference to be measured against.
  withSpeed(cells);
  const places = groups(cells, (c) => [c.device_name, c.run].join(KEY));
  const tables = places.flatMap((one) =>
    comparableParts(one).map(([said, inside]) =>
      summaryTable(inside, `${said}${places.length > 1 ? `, ${placeOf(one[0])}` : ""}`),
    ),
  );
  if (!tables.some(Boolean)) return null;
  const box = moreOf(tables.filter(Boolean), MOST_PANELS, "tables", (some) => el("div", {}, some));
  return el("div", { class: "summary" }, el("h4", {}, "Over all cases"), box);
}
function summaryTable(cells, place) {
  // One row a contender.
  const label = withSpeed(cells);
  if (!label) return null;
  const rows = overCases(cells).sort((a, b) => (b.own?.ratio ?? 0) - (a.own?.ratio ?? 0));
  const { whole } = rows[0];
  const alike = rows.every((row) => row.ownCases === whole); // then both means are the same
  const figure = (title, unit, get) => ({ title, unit, figures: true, value: get });
  const number = (title, unit, value, show = (row) => String(value(row))) => ({ title, unit, value, show });
  const interval = (get) =>
    intervalColumn((row) => (get(row) && !row.cell.reference ? between(get(row).low, get(row).high) : ""));
  const columns = [
    { title: "contender", value: ({ cell }) => cell.label, show: ({ cell }) => chip(cell) },
    figure("speed", `x ${label}`, (row) => row.own?.ratio),
    interval((row) => row.own),
    number("over", "cases both ran", (row) => row.ownCases),
    ...(whole && !alike
      ? [figure("speed", `x, over the ${whole} case${whole === 1 ? "" : "s"} all ran`, (row) => row.common?.ratio)]
      : []),
    ...(whole && !alike ? [interval((row) => row.common)] : []),
    figure("memory", `x ${label}`, (row) => row.memory?.ratio),
    number("over", "cases", (row) => row.memoryCases),
    number("fastest alone", "cases", (row) => row.alone),
    number("not beaten", "cases", (row) => row.unbeaten),
    number(
      "measured",
      "of planned",
      (row) => row.measured,
      (row) => `${row.measured} of ${row.planned}`,
    ),
  ];
  const none = whole ? "" : "; no case was measured with all of them";
  const caption = `Geometric means over common cases only, with their number${none}${place}`;
  return sortable(columns, rows, { first: 20, caption });
}

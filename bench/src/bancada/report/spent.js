// What calls use beside time: money, at the price of a device-hour that somebody assumed, and energy where it was read.

const PRICES = new Map(
  DATA.runs.filter(({ head }) => head.price_per_hour).map(({ name, head }) => [name, head.price_per_hour]),
);
const ENERGY = [
  [1, "J"],
  [1e-3, "mJ"],
  [1e-6, "µJ"],
];
function costOf(cell, seconds) {
  // At the price of the run that measured it: rows of joined runs carry the newest's name.
  const price = PRICES.get(cell.of_run || cell.run);
  return price && seconds > 0 ? (price * seconds) / 3600 : null;
}

const filled = (columns, cells) => columns.filter(({ value }) => cells.some((c) => value(c) != null));
function otherwiseColumns(cells) {
  // A GPU's time with warm caches, and the host's: beside the race's, which is the device's with cold ones.
  const columns = [
    amount("warm caches", cells, (c) => c.warm_s, TIME),
    amount("host included", cells, (c) => c.host_s, TIME),
  ];
  return filled(columns, cells);
}
function spentColumns(cells) {
  // Of calls; nothing where neither a price was given nor energy read.
  const energy = amount("energy", cells, (c) => c.energy_j, ENERGY);
  const columns = [
    amount("cost", cells, (c) => costOf(c, 1e6 * c.time_s), "a million calls"),
    { ...energy, unit: `${energy.unit} a call` },
  ];
  return filled(columns, cells);
}
function runCostColumns(cells) {
  // Of training: a whole run from one seed, and one up to the target.
  const columns = [
    amount("cost", cells, (c) => costOf(c, c["measure.updates"] * c.time_s), "a run"),
    amount("cost", cells, (c) => costOf(c, c["measure.seconds_to_target"]), "to target"),
  ];
  return filled(columns, cells);
}

function spentSentences(cells) {
  // What is assumed and what was read, for the section on trust.
  const prices = unique([...PRICES.values()]);
  const told = [];
  if (prices.length)
    told.push(
      `Costs take a device-hour at ${prices.map(sayValue).join(" or ")}, in whatever currency that was meant: ` +
        "it is assumed, not measured.",
    );
  if (cells.some((c) => c.energy_j != null))
    told.push("Energy is what the whole device used while calls followed one another, its idle share included.");
  return told;
}
function deviceRows(cells) {
  // What the device said of itself along the races, by suite; nothing where it told nothing.
  return groups(
    cells.filter((c) => c.clock_mhz != null),
    (c) => c.suite + KEY + c.device_name,
  ).map((one) => {
    const least = Math.min(...one.map((c) => c.clock_low_mhz));
    const most = Math.max(...one.map((c) => c.clock_high_mhz));
    const heats = one.map((c) => c.temperature_c).filter((heat) => heat != null);
    const told = one.filter((c) => c.slowed_by != null);
    const slowed = unique(told.filter((c) => c.slowed_by !== "nothing").map((c) => c.caseKey)).length;
    const cases = unique(told.map((c) => c.caseKey)).length;
    return [
      one[0].suite,
      `${Math.round(least)} to ${Math.round(most)} MHz`,
      heats.length ? `${Math.round(Math.max(...heats))} °C` : "n/a",
      slowed ? `in ${slowed} of ${cases} cases` : cases ? "in none" : "n/a",
    ];
  });
}

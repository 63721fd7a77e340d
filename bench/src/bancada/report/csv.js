// The rows that pass the filters, as a file of comma-separated values.

const DERIVED = new Set(["index", "axes", "ours", "caseKey", "speed"]); // what this page adds to a row
const FIRST_FIELDS = ["suite", "case", "contender", "label", "status", "reason", "time_s", "time_low_s", "time_high_s"];

function quoted(value) {
  // RFC 4180: in quotes where it holds a comma, a quote or an end of line, with its quotes doubled.
  const text = value == null ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
function csvOf(cells) {
  const every = unique(cells.flatMap((cell) => Object.keys(cell))).filter((name) => !DERIVED.has(name));
  const names = [
    ...FIRST_FIELDS.filter((name) => every.includes(name)),
    ...every.filter((n) => !FIRST_FIELDS.includes(n)),
  ];
  const lines = [names, ...cells.map((cell) => names.map((name) => cell[name]))];
  return `${lines.map((line) => line.map(quoted).join(",")).join("\r\n")}\r\n`;
}
function downloadCsv() {
  const cells = visible();
  const url = URL.createObjectURL(new Blob(["\ufeff", csvOf(cells)], { type: "text/csv;charset=utf-8" })); // marked as UTF-8
  const name =
    unique(cells.map((c) => c.run))
      .join("-")
      .replace(/[^\w.-]+/g, "_")
      .slice(0, 80) || "none";
  const link = el("a", { href: url, download: `bancada-${name}.csv` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

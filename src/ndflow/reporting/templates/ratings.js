// ── readers rate scans; ratings are kept in the browser and exported as a table ─────────────────
const RATINGS = ["good", "doubtful", "bad"];
const SIGNS = { good: "✓", doubtful: "?", bad: "✗" };
const storage = `ndflow ratings: ${page.study}`;
let kept = true; // whether the browser keeps what is rated
let ratings = new Map(); // by the name of the scan: {rating, note}

function recall() {
  if (!kept) return;
  try {
    ratings = new Map(JSON.parse(localStorage.getItem(storage) ?? "[]"));
  } catch {
    kept = false;
  }
}

const ratingOf = (number) => ratings.get(scanOf(number).name) ?? { rating: "", note: "" };

function rate(number, change) {
  recall(); // another tab may have written
  const next = { ...ratingOf(number), ...change };
  if (next.rating || next.note) ratings.set(scanOf(number).name, next);
  else ratings.delete(scanOf(number).name);
  keep();
  refresh(number);
}

function keep() {
  try {
    localStorage.setItem(storage, JSON.stringify([...ratings]));
  } catch {
    kept = false;
  }
}

// Everything that shows the rating of a scan: its row, what the row opens to, and the viewer.
function refresh(number) {
  const { rating, note } = ratingOf(number);
  for (const group of all(`[data-rates="${number}"]`)) {
    for (const button of all("button", group))
      button.setAttribute("aria-pressed", button.value === rating);
    const field = group.querySelector("input");
    if (field && field !== document.activeElement) field.value = note;
  }
  const row = find(`scan-${number}`);
  row.dataset.rating = rating || "none";
  row.querySelector("td.rating").dataset.value = RATINGS.indexOf(rating) + 1 || 9;
  count();
}

function count() {
  const rated = page.scans.filter((scan) => ratings.get(scan.name)?.rating).length;
  find("rated-count").value = `${rated} of ${page.scans.length} rated`;
  find("rated-export").disabled = !page.scans.some((scan) => ratings.has(scan.name));
  if (!kept)
    find("rated-state").value = "This browser does not keep ratings: export them before you leave.";
}

// `brief`: signs alone, for rows; otherwise words and a note.
function rater(number, brief) {
  const { name } = scanOf(number);
  const group = make("div", { className: brief ? "rater brief" : "rater", role: "group" });
  group.setAttribute("aria-label", `Rating of ${name}`);
  group.dataset.rates = number;
  for (const rating of RATINGS) {
    const button = make("button", { type: "button", value: rating, className: "rate" });
    button.append(make("span", { textContent: SIGNS[rating], ariaHidden: "true" }));
    if (brief) {
      button.setAttribute("aria-label", rating);
      button.dataset.tip = rating;
    } else button.append(` ${rating}`);
    group.append(button);
  }
  if (!brief)
    group.append(
      make("label", {}, "Note ", make("input", { type: "text", maxLength: 500, className: "note-of" })),
    );
  return group;
}

// One line per rated scan; a note may hold no tab and no end of line.
function exported() {
  const clean = (text) => String(text).replace(/[\t\r\n]+/g, " ");
  const lines = page.scans
    .filter((scan) => ratings.has(scan.name))
    .map((scan) => {
      const { rating, note } = ratings.get(scan.name);
      return [scan.name, scan.site, rating || "n/a", note || "n/a"];
    });
  return [["scan", "site", "rating", "note"], ...lines]
    .map((line) => line.map(clean).join("\t") + "\n")
    .join("");
}

function imported(text) {
  const [head, ...lines] = text.split(/\r?\n/).map((line) => line.split("\t"));
  const at = Object.fromEntries(["scan", "rating", "note"].map((name) => [name, head.indexOf(name)]));
  if (at.scan < 0 || at.rating < 0) throw new Error("it has no columns scan and rating");
  const names = new Set(page.scans.map((scan) => scan.name));
  let taken = 0;
  for (const cells of lines) {
    const [name, rating] = [cells[at.scan], cells[at.rating]];
    if (!names.has(name)) continue;
    const note = cells[at.note] ?? "";
    ratings.set(name, {
      rating: RATINGS.includes(rating) ? rating : "",
      note: note === "n/a" ? "" : note,
    });
    taken += 1;
  }
  return taken;
}

if (find("rated")) {
  recall();
  find("rated").hidden = false;
  const head = make("th", { scope: "col", textContent: "Rating" });
  head.dataset.tip = "Your rating, kept in this browser: good, doubtful or bad";
  find("table").tHead.rows[0].append(head);
  for (const [i] of page.scans.entries()) {
    const cell = make("td", { className: "rating" }, rater(i + 1, true));
    cell.dataset.column = "Rating";
    find(`scan-${i + 1}`).rows[0].append(cell);
  }
  const rows = all(".scan");
  rows.forEach((row, i) => {
    const { rating } = ratingOf(i + 1);
    row.dataset.rating = rating || "none";
    const cell = row.rows[0].lastElementChild;
    cell.dataset.value = RATINGS.indexOf(rating) + 1 || 9;
    for (const button of cell.firstChild.children)
      button.setAttribute("aria-pressed", button.value === rating);
  });
  count();
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(".rate");
    if (!button) return;
    const number = Number(button.parentNode.dataset.rates);
    rate(number, { rating: ratingOf(number).rating === button.value ? "" : button.value });
  });
  document.addEventListener("input", (event) => {
    if (event.target.className === "note-of")
      rate(Number(event.target.closest("[data-rates]").dataset.rates), { note: event.target.value });
  });
  addEventListener("storage", (event) => {
    if (event.key !== storage) return;
    recall();
    for (const [i] of page.scans.entries()) refresh(i + 1);
  });
  find("rated-export").addEventListener("click", () => {
    const address = URL.createObjectURL(
      new Blob([exported()], { type: "text/tab-separated-values" }),
    );
    make("a", { href: address, download: "ratings.tsv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
  find("rated-import").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    try {
      const taken = imported(await file.text());
      keep();
      for (const [i] of page.scans.entries()) refresh(i + 1);
      find("rated-state").value = `${taken} ratings imported.`;
    } catch (error) {
      find("rated-state").value = `${file.name} cannot be imported: ${error.message}.`;
    }
  });
}

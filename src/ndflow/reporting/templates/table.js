// ── the table of scans: sorting, filtering, more columns, rows that open ────────────────────────
const table = find("table");
const scans = all(".scan");

function compared(column, sign) {
  const text = new Intl.Collator("en", { numeric: true });
  return (one, other) => {
    const [a, b] = [one, other].map((scan) => scan.rows[0].cells[column]);
    const [lost, gone] = [a, b].map((cell) => "missing" in cell.dataset);
    if (lost || gone) return lost - gone; // what is not known comes last in either order
    if (a.dataset.value !== undefined && b.dataset.value !== undefined)
      return sign * (Number(a.dataset.value) - Number(b.dataset.value));
    return sign * text.compare(a.textContent, b.textContent);
  };
}

function sort(head) {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  // From the first order, so that equals keep it.
  table.append(...[...scans].sort(compared(head.cellIndex, down ? -1 : 1)));
}

const texts = new Map();

function textOf(scan) {
  if (!texts.has(scan)) {
    const cells = [...scan.rows[0].cells].filter((cell) => cell.className !== "rating");
    texts.set(scan, cells.map((cell) => cell.textContent).join(" ").toLowerCase());
  }
  return texts.get(scan);
}

function filter() {
  const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const site = find("filter-site")?.value;
  const rating = find("filter-rating").value;
  const flagged = find("filter-flagged")?.checked;
  let left = 0;
  for (const [i, scan] of scans.entries()) {
    scan.hidden =
      !words.every((word) => textOf(scan).includes(word)) ||
      Boolean(site && page.scans[i].site !== site) ||
      Boolean(rating && scan.dataset.rating !== rating) ||
      Boolean(flagged && !scan.querySelector(".badge"));
    left += !scan.hidden;
  }
  find("count").value = `${left} of ${scans.length} scans`;
}

// What a row opens to is completed when it is first opened.
function complete(details) {
  const number = Number(details.closest("tbody").id.slice(5));
  const scan = scanOf(number);
  if (scan.curves) details.append(charts(scan));
  const tools = make("div", { className: "controls tools" });
  if (find(`volumes-${number}`) || scan.slices) {
    const name = make("span", { className: "hidden", textContent: `: ${scan.name}` });
    const button = make("button", { type: "button", className: "show" }, "Open in the viewer", name);
    button.dataset.view = number;
    tools.append(button);
  }
  tools.append(rater(number, false));
  details.append(tools);
  refresh(number);
}

if (table) {
  for (const head of all("th", table.tHead)) {
    const button = make("button", { type: "button" });
    button.append(...head.childNodes);
    for (const name of ["data-tip", "aria-describedby"])
      if (head.hasAttribute(name)) {
        button.setAttribute(name, head.getAttribute(name));
        head.removeAttribute(name);
      }
    if (!button.hasAttribute("aria-describedby"))
      button.setAttribute("aria-description", button.dataset.tip);
    button.addEventListener("click", () => sort(head));
    head.append(button);
    const cells = scans.map((scan) => scan.rows[0].cells[head.cellIndex]);
    head.classList.toggle("number", cells.every((cell) => cell.classList.contains("number")));
  }
  find("filters").addEventListener("input", filter);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  filter();
  find("wider")?.addEventListener("click", (event) => {
    const wide = table.classList.toggle("wide");
    event.target.setAttribute("aria-expanded", wide);
    event.target.textContent = wide ? "Fewer columns" : "More columns";
  });
  // Events of details do not bubble either.
  table.addEventListener(
    "toggle",
    ({ target }) => {
      if (!target.open || target.dataset.complete) return;
      target.dataset.complete = true;
      complete(target);
    },
    true,
  );
  for (const details of all(".more details[open]")) details.dispatchEvent(new Event("toggle"));
  table.addEventListener("click", (event) => {
    const row = event.target.closest(".scan > tr:first-child");
    const details = row?.parentNode.querySelector("details");
    // Names can be copied, and buttons within the row have their own use.
    if (!details || event.target.closest("button") || String(getSelection())) return;
    details.open = !details.open;
  });
  for (const row of all(".scan > tr:first-child"))
    if (row.nextElementSibling) row.classList.add("openable");
  const follow = () => {
    const scan = scans.find((one) => `#${one.id}` === location.hash);
    if (!scan) return;
    find("filters").reset();
    filter();
    for (const details of [scan.closest("details"), scan.querySelector("details")])
      if (details) details.open = true;
    scan.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();
}

// Scans to check beyond the first ones get the thumbnails of their rows when they are asked for.
for (const others of all(".others"))
  others.addEventListener("toggle", () => {
    for (const card of all("[data-flagged]", others)) {
      const thumbnail = document.querySelector(`#scan-${card.dataset.flagged} .thumb img`);
      if (!thumbnail || card.querySelector("img")) continue;
      const link = make("a", { className: "film", href: `#scan-${card.dataset.flagged}`, tabIndex: -1 });
      link.setAttribute("aria-hidden", true);
      link.dataset.view = card.dataset.flagged;
      link.append(thumbnail.cloneNode());
      card.prepend(link);
    }
  });

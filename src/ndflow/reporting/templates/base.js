// ── helpers, printing, copying, explanations of columns, pictures that are missing ──────────────
const find = (id) => document.getElementById(id);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const page = JSON.parse(find("data")?.textContent ?? '{"study":"","windows":null,"scans":[]}');
const scanOf = (number) => page.scans[number - 1];

// What works only with a script is hidden until there is one.
for (const thing of all("form, .copy")) thing.hidden = false;

// The section that is being read is marked in the navigation.
const links = all("nav [href^='#']");
const inSight = new Set();
const reading = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries)
      inSight[isIntersecting ? "add" : "delete"](target.id);
    const current = links.find((link) => inSight.has(link.hash.slice(1)));
    for (const link of links)
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    const list = current?.closest("ul");
    if (list) list.scrollLeft = current.offsetLeft - list.clientWidth / 3;
  },
  { rootMargin: "-25% 0px -70%" },
);
for (const link of links) reading.observe(find(link.hash.slice(1)));

// On paper the rows of scans to check, the settings and the meanings of columns are open.
let opened = [];
addEventListener("beforeprint", () => {
  const closed = all("details:not([open])");
  opened = closed.filter((one) => !one.closest(".scan") || one.querySelector(".flags"));
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});

for (const button of all(".copy"))
  button.addEventListener("click", async () => {
    const text = find(button.dataset.of);
    const state = button.parentNode.querySelector("output");
    try {
      await navigator.clipboard.writeText(text.textContent);
      state.value = "Copied.";
    } catch {
      getSelection().selectAllChildren(text);
      state.value = "Selected: copy it with your keyboard.";
    }
  });

// Explanations appear on hover, on focus and on tap, and go with Escape.
const tip = find("tip");

function explain(target) {
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const at = target.getBoundingClientRect();
  const left = Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${at.bottom + 6}px`;
}

for (const thing of all("[title]")) {
  thing.dataset.tip = thing.title;
  thing.removeAttribute("title"); // or the browser shows it a second time
}
for (const kind of ["pointerover", "focusin", "click"])
  document.addEventListener(kind, (event) => explain(event.target.closest?.("[data-tip]")));
document.addEventListener("focusout", () => explain(null));
document.addEventListener("scroll", () => explain(null), { passive: true });
document.addEventListener("keydown", (event) => event.key === "Escape" && explain(null));

const missing = (link) => `${link} is not beside this page.`;

// Errors of pictures do not bubble, but can be caught on their way down.
document.addEventListener(
  "error",
  (event) => {
    const link = event.target.dataset?.link;
    if (!link || event.target.tagName !== "IMG") return;
    event.target.closest("figure").replaceWith(
      make("p", { className: "missing", textContent: missing(link) }),
    );
  },
  true,
);

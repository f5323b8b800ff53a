// ── the viewer: slices of every scan before and after, and volumes of those that have them ──────
const view = find("view");
const SIDES = ["before", "after"];

function viewing() {
  const select = find("view-scan");
  const numbers = [...select.options].map((option) => Number(option.value));
  const frames = find("frames");
  const state = find("view-state");
  const chosen = (name) => view.elements[name]?.value;
  const number = () => Number(select.value);
  let possible = find("niivue") ? null : false; // whether volumes can be shown; null: not known yet
  let viewers = null;
  const lost = new Set(); // numbers of scans whose picture is missing
  let asked = 0; // the number of the scan whose picture was asked for
  let near = false; // pictures beside the page are loaded when the viewer comes near

  function regrey(own, window) {
    const greys = greysIn(own, window).map((grey) => (grey / 255).toFixed(4));
    const transfer = drawn("feComponentTransfer", {});
    for (const channel of "RGB")
      transfer.append(drawn(`feFunc${channel}`, { type: "discrete", tableValues: greys.join(" ") }));
    return transfer;
  }

  const short = (value) =>
    Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 }).replace("-", "−");

  function slices() {
    const scan = scanOf(number());
    const picture = find(`scan-${number()}`).querySelector(".slices img");
    const shared = chosen("window") === "shared" ? page.windows : null;
    const windows = shared ?? scan.slices.windows;
    for (const [i, side] of SIDES.entries()) {
      const { width, height } = scan.slices;
      const frame = find(`frame-${side}`).querySelector("svg");
      const image = frame.firstElementChild;
      frame.setAttribute("viewBox", `0 0 ${width} ${height}`);
      frame.querySelector("path").setAttribute("d", scan.slices.lesion ?? "");
      frame.setAttribute("aria-label", `${scan.name} ${side} normalisation: slices`);
      for (const [name, value] of Object.entries({ width, height: 2 * height, y: -i * height }))
        image.setAttribute(name, value);
      if (near && picture && image.getAttribute("href") !== picture.getAttribute("src")) {
        asked = number();
        image.setAttribute("href", picture.getAttribute("src"));
      }
      if (shared) {
        find(`grey-${side}`).replaceChildren(regrey(scan.slices.windows[i], shared[i]));
        image.setAttribute("filter", `url(#grey-${side})`);
      } else image.removeAttribute("filter");
    }
    gone();
    const [before, after] = windows.map(([low, high]) => `${short(low)} to ${short(high)}`);
    find("view-windows").textContent =
      `From black to white: ${before} before, ${after} after` +
      (shared ? ", the same for all scans." : ".") +
      (scan.slices.lesion ? " The lesion is outlined." : "");
    resize();
  }

  // Says whether the picture is missing. The box of the frames stays, and with it the focus.
  function gone() {
    const row = find(`scan-${number()}`);
    const link = row.querySelector(".slices img")?.dataset.link ?? "The picture";
    const told = row.querySelector(".missing")?.textContent;
    const text = told ?? (lost.has(number()) ? missing(link) : "");
    frames.classList.toggle("lost", Boolean(text));
    find("view-missing").textContent = text;
    find("view-missing").hidden = !text;
  }

  for (const image of all("image", frames))
    image.addEventListener("error", () => {
      lost.add(asked);
      gone();
    });

  // Whole multiples of the picture's own pixels stay sharp.
  function resize() {
    const { width } = scanOf(number()).slices ?? {};
    if (!width || find("stage").hidden) return;
    const columns = chosen("way") === "both" && frames.clientWidth > 640 ? 2 : 1;
    const room = (frames.clientWidth - 4 - (columns - 1) * 16) / columns;
    const most = Math.min(room / width, 4);
    const fitting = most >= 2 ? Math.floor(most * 2) / 2 : most;
    const scale = Number(chosen("size")) || fitting;
    find("stage").style.setProperty("--frame", `${width * scale}px`);
    frames.classList.toggle("sharp", scale >= 2);
  }

  function compare() {
    const way = chosen("way");
    frames.dataset.way = way;
    frames.dataset.top = "after";
    find("swipe-row").hidden = way !== "swipe";
    swipe();
    resize();
  }

  function swipe() {
    frames.style.setProperty("--swipe", find("swipe").value / 100);
  }

  async function volumes() {
    state.value = "Opening …";
    find("stage").hidden = true;
    find("canvases").hidden = false;
    try {
      viewers ??= await start();
      await load(viewers, number(), chosen("window") === "shared" ? page.windows : null);
      state.value = `Showing ${scanOf(number()).name}.`;
    } catch (error) {
      possible = false;
      state.value = `Volumes cannot be shown (${error.message}): slices instead.`;
      choices();
      flat();
    }
  }

  function flat() {
    find("canvases").hidden = true;
    find("stage").hidden = !scanOf(number()).slices;
    if (scanOf(number()).slices) slices();
  }

  // Which of slices and volumes there are of this scan.
  function choices() {
    const { slices } = scanOf(number());
    const solid = Boolean(find(`volumes-${number()}`)) && possible !== false;
    find("view-shows").hidden = !solid || !slices;
    if (!slices && solid) view.elements.show.value = "volumes";
    const mode = solid ? chosen("show") : "slices";
    for (const field of all(".of-slices", view)) field.hidden = mode !== "slices";
    return mode;
  }

  async function show() {
    const scan = scanOf(number());
    find("view-count").value = `${numbers.indexOf(number()) + 1} of ${numbers.length}${find("filter-site") ? `, ${scan.site}` : ""}`;
    find("view-row").href = `#scan-${number()}`;
    find("view-previous").disabled = number() === numbers[0];
    find("view-next").disabled = number() === numbers[numbers.length - 1];
    find("view-rating").replaceChildren(rater(number(), false));
    find("view-rating").hidden = false;
    refresh(number());
    if (possible === null && find(`volumes-${number()}`)) possible = capable();
    state.value = "";
    if (choices() === "volumes") await volumes();
    else flat();
  }

  let last = Promise.resolve();
  const ask = () => (last = last.then(show)); // one after the other

  function step(by) {
    const next = numbers[numbers.indexOf(number()) + by];
    if (next === undefined) return;
    select.value = next;
    ask();
  }

  select.addEventListener("change", ask);
  view.addEventListener("submit", (event) => event.preventDefault());
  view.addEventListener("change", ({ target }) => {
    if (target.name === "way") compare();
    else if (target.name === "size") resize();
    else if (target.name) ask();
  });
  find("view-previous").addEventListener("click", () => step(-1));
  find("view-next").addEventListener("click", () => step(1));
  find("swipe").addEventListener("input", swipe);
  frames.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (way) step(way);
    else if (event.key === " " && chosen("way") === "flicker")
      frames.dataset.top = frames.dataset.top === "after" ? "before" : "after";
    else if (RATINGS[event.key - 1]) rate(number(), { rating: RATINGS[event.key - 1] });
    else return;
    event.preventDefault();
  });
  // The edge between before and after follows the pointer.
  frames.addEventListener("pointermove", (event) => {
    if (frames.classList.contains("lost")) return;
    if (chosen("way") !== "swipe" || (event.pointerType !== "mouse" && !event.buttons)) return;
    const at = find("frame-after").querySelector("svg").getBoundingClientRect();
    const share = (100 * (event.clientX - at.left)) / at.width;
    find("swipe").value = Math.round(Math.min(Math.max(share, 0), 100));
    swipe();
  });
  addEventListener("resize", resize);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-view]");
    if (!link || !numbers.includes(Number(link.dataset.view))) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    near = true;
    select.value = link.dataset.view;
    ask();
    find("viewer").scrollIntoView();
    frames.focus({ preventScroll: true });
  });
  new IntersectionObserver(
    ([entry], observer) => {
      if (!entry.isIntersecting) return;
      observer.disconnect();
      near = true;
      ask();
    },
    { rootMargin: "300px" },
  ).observe(find("viewer"));
  compare();
  ask(); // at once, so that nothing below it moves later
}

if (view) viewing();

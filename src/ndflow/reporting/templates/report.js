"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  // What works only with a script is hidden until there is one.
  for (const thing of all("form, .show, .copy")) thing.hidden = false;

  // ── the table of scans ──────────────────────────────────────────────────────────────────────
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

  function filter() {
    const words = find("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const site = find("filter-site")?.value;
    const flagged = find("filter-flagged")?.checked;
    let count = 0;
    for (const scan of scans) {
      const text = scan.rows[0].textContent.toLowerCase();
      scan.hidden =
        !words.every((word) => text.includes(word)) ||
        Boolean(site && scan.dataset.site !== site) ||
        Boolean(flagged && !scan.querySelector(".badge"));
      count += !scan.hidden;
    }
    find("count").value = `${count} of ${scans.length} scans`;
  }

  if (table) {
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(head));
      head.append(button);
      const cells = scans.map((scan) => scan.rows[0].cells[head.cellIndex]);
      head.classList.toggle("number", cells.every((cell) => cell.classList.contains("number")));
    }
    find("filters").addEventListener("input", filter);
    find("filters").addEventListener("submit", (event) => event.preventDefault());
    filter();
    for (const details of all(".more details")) {
      const row = details.closest("tbody").rows[0];
      row.classList.add("openable");
      row.addEventListener("click", () => {
        if (!String(getSelection())) details.open = !details.open; // names can be copied
      });
    }
    const follow = () => {
      const scan = scans.find((one) => `#${one.id}` === location.hash);
      if (!scan) return;
      find("filters").reset();
      filter();
      const details = scan.querySelector("details");
      if (details) details.open = true;
      scan.scrollIntoView();
    };
    addEventListener("hashchange", follow);
    follow();
  }

  // ── on paper everything is open ─────────────────────────────────────────────────────────────
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  // ── copying ─────────────────────────────────────────────────────────────────────────────────
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

  // ── the viewer ──────────────────────────────────────────────────────────────────────────────
  const form = find("view");
  if (!form) return;
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const state = find("view-state");
  let viewers = null;

  async function unpack() {
    const packed = new Blob([bytes(find("niivue").textContent)]).stream();
    const script = document.createElement("script");
    script.textContent = await new Response(
      packed.pipeThrough(new DecompressionStream("gzip")),
    ).text();
    document.head.append(script); // runs at once
    if (!window.niivue) throw new Error("the viewer did not start");
  }

  async function start() {
    await unpack();
    const made = [];
    for (const id of ["before", "after"]) {
      const canvas = find(id);
      const viewer = new niivue.Niivue({
        logLevel: "error",
        loadingText: "",
        dragAndDropEnabled: false,
        scrollRequiresFocus: true,
        isOrientationTextVisible: false,
        multiplanarShowRender: 0,
        crosshairWidth: 0.5,
        crosshairGap: 6,
        crosshairColor: [0.95, 0.7, 0.2, 0.9],
      });
      await viewer.attachToCanvas(canvas);
      viewer.setSliceType(viewer.sliceTypeMultiplanar);
      canvas.addEventListener("pointerdown", () => canvas.focus({ preventScroll: true }));
      canvas.addEventListener("keydown", (event) => {
        const step = {
          ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowDown: [0, -1, 0],
          ArrowUp: [0, 1, 0], PageDown: [0, 0, -1], PageUp: [0, 0, 1],
        }[event.key];
        if (!step) return;
        event.preventDefault();
        viewer.moveCrosshairInVox(...step);
      });
      made.push(viewer);
    }
    made[0].broadcastTo([made[1]], { "2d": true });
    made[1].broadcastTo([made[0]], { "2d": true });
    return made;
  }

  // From black to white: where most of the values other than zero, the background, lie.
  function range(image) {
    const { scl_slope: slope, scl_inter: shift } = image.hdr;
    const scaled = slope ? (value) => value * slope + shift : (value) => value;
    const values = Float64Array.from(image.img, scaled).filter((value) => value).sort();
    if (!values.length) return [0, 1];
    const at = (share) => values[Math.round(share * (values.length - 1))];
    const [low, high] = [at(0.01), at(0.995)];
    return [Math.min(low, high - 1e-6 * Math.abs(high)), high];
  }

  async function load(number) {
    const volumes = JSON.parse(find(`volumes-${number}`).textContent);
    for (const [i, side] of ["before", "after"].entries()) {
      const viewer = viewers[i];
      const image = await niivue.NVImage.loadFromBase64({
        base64: volumes[side],
        name: `${side}.nii.gz`,
        colormap: "gray",
      });
      [image.cal_min, image.cal_max] = range(image);
      for (const old of [...viewer.volumes]) viewer.removeVolume(old);
      viewer.addVolume(image);
    }
    return volumes.name;
  }

  function capable() {
    const context = document.createElement("canvas").getContext("webgl2");
    context?.getExtension("WEBGL_lose_context")?.loseContext();
    return Boolean(context && window.DecompressionStream);
  }

  function still(number) {
    find("canvases").hidden = true;
    find("slices").hidden = false;
    for (const figure of find("slices").children)
      figure.hidden = figure.id !== `slices-${number}`;
  }

  let possible = Boolean(find("niivue")) && capable();
  if (!possible) form.querySelector("button").hidden = true;

  async function show(number) {
    find("view-scan").value = number;
    still(number);
    if (!possible) return;
    state.value = "Opening …";
    find("slices").hidden = true;
    find("canvases").hidden = false;
    try {
      viewers ??= await start();
      const name = await load(number);
      state.value = `Showing ${name}.`;
      form.querySelector("button").hidden = true;
    } catch (error) {
      possible = false;
      still(number);
      state.value = `The viewer could not start (${error.message}): slices instead.`;
    }
  }

  let last = Promise.resolve();
  const ask = (number) => (last = last.then(() => show(number))); // one after the other

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(find("view-scan").value);
  });
  find("view-scan").addEventListener("change", (event) => {
    if (viewers || !possible) ask(event.target.value);
    else still(event.target.value);
  });
  for (const button of all(".show"))
    button.addEventListener("click", () => {
      find("viewer").scrollIntoView();
      ask(button.dataset.scan);
    });
})();

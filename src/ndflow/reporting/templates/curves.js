// ── the curves of a scan: three small charts, drawn when its row is first opened ────────────────
const WIDE = 340;
const HIGH = 200;
const EDGE = { left: 54, right: 10, top: 8, bottom: 36 };

// Whole numbers after the exponent of ten that they are multiples of; null where there is no value.
const unpacked = ([exponent, ...numbers] = [0]) =>
  numbers.map((number) =>
    number === null ? NaN : exponent < 0 ? number / 10 ** -exponent : number * 10 ** exponent,
  );

function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A few round numbers between two values.
function ticks(low, high, most) {
  const rough = (high - low) / most;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

function written(value, within) {
  const size = Math.max(...within.map(Math.abs));
  if (size >= 1e6 || (size && size < 1e-3))
    return value ? String(Number(value.toPrecision(2))).replace("+", "").replace("-", "−") : "0";
  const step = within.length > 1 ? within[1] - within[0] : size;
  const digits = Math.max(0, -Math.floor(Math.log10(step || 1) + 1e-9));
  return value.toFixed(Math.min(digits, 6)).replace("-", "−");
}

const bounds = (lists) => {
  const values = lists.flat().filter(Number.isFinite);
  return [Math.min(...values), Math.max(...values)];
};

// `lines`: [{y, kind: "area" | "line" | "dashed", colour, name}], all over the same x; `bands`: from
// where to where each tissue lies, by its name.
function chart({ title, x, lines, xName, yName, density, bands = {} }) {
  const [left, right] = bounds([x]);
  let [low, high] = bounds(lines.map((line) => line.y));
  if (density) [low, high] = [0, high * (Object.keys(bands).length ? 1.2 : 1.05)]; // names above
  if (!(high > low)) [low, high] = [low - 1, low + 1];
  const across = (v) => EDGE.left + ((v - left) / (right - left || 1)) * (WIDE - EDGE.left - EDGE.right);
  const up = (v) => HIGH - EDGE.bottom - ((v - low) / (high - low)) * (HIGH - EDGE.top - EDGE.bottom);
  const svg = drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "chart", role: "img" });
  const said = `${title}: ${lines.map((line) => line.name).join(", ")}; ${xName} from `;
  const xs = ticks(left, right, 5);
  svg.setAttribute("aria-label", `${said}${written(left, xs)} to ${written(right, xs)}`);
  const floor = HIGH - EDGE.bottom;
  for (const [name, ends] of Object.entries(bands)) {
    const [from, to] = ends.map((v) => across(Math.min(Math.max(v, left), right)));
    const middle = across((ends[0] + ends[1]) / 2);
    const part = { x: from, y: EDGE.top, width: to - from, height: floor - EDGE.top };
    svg.append(drawn("rect", { ...part, class: "band" }));
    svg.append(drawn("path", { d: `M${middle} ${EDGE.top + 14}V${floor}`, class: "band" }));
    svg.append(drawn("text", { x: middle, y: EDGE.top + 11, "text-anchor": "middle" }, name));
  }
  for (const { y, kind, colour } of lines) {
    const points = x.map((v, i) => [across(v), up(y[i])]).filter(([, v]) => Number.isFinite(v));
    const path = `M${points.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")}`;
    if (kind === "area") {
      const [first, last] = [points[0], points[points.length - 1]];
      const d = `${path}L${last[0].toFixed(1)} ${floor}L${first[0].toFixed(1)} ${floor}Z`;
      svg.append(drawn("path", { d, fill: "currentColor", opacity: 0.22 }));
    } else {
      const dashes = kind === "dashed" ? { "stroke-dasharray": "5 4" } : {};
      const width = kind === "dashed" ? 1.4 : 2;
      svg.append(drawn("path", { d: path, fill: "none", stroke: colour, "stroke-width": width, ...dashes }));
    }
  }
  const frame = `M${EDGE.left} ${EDGE.top}V${floor}H${WIDE - EDGE.right}`;
  svg.append(drawn("path", { d: frame, fill: "none", stroke: "currentColor", opacity: 0.5 }));
  for (const v of xs) {
    svg.append(drawn("path", { d: `M${across(v)} ${floor}v4`, stroke: "currentColor", opacity: 0.5 }));
    svg.append(drawn("text", { x: across(v), y: floor + 15, "text-anchor": "middle" }, written(v, xs)));
  }
  if (!density) {
    const ys = ticks(low, high, 4);
    for (const v of ys) {
      svg.append(drawn("path", { d: `M${EDGE.left} ${up(v)}h-4`, stroke: "currentColor", opacity: 0.5 }));
      svg.append(drawn("text", { x: EDGE.left - 7, y: up(v) + 4, "text-anchor": "end" }, written(v, ys)));
    }
  }
  const middle = (EDGE.left + WIDE - EDGE.right) / 2;
  svg.append(drawn("text", { x: middle, y: HIGH - 4, "text-anchor": "middle" }, xName));
  const beside = density ? EDGE.left - 12 : 11;
  const turn = `translate(${beside} ${(EDGE.top + floor) / 2}) rotate(-90)`;
  svg.append(drawn("text", { transform: turn, "text-anchor": "middle" }, yName));
  const key = make("ul", { className: "key" });
  for (const { kind, colour, name } of lines) {
    const sign = drawn("svg", { width: 22, height: 10, "aria-hidden": "true" });
    if (kind === "area") sign.append(drawn("rect", { width: 22, height: 10, fill: "currentColor", opacity: 0.22 }));
    else {
      const dashes = kind === "dashed" ? { "stroke-dasharray": "5 4" } : {};
      sign.append(drawn("path", { d: "M0 5H22", stroke: colour, "stroke-width": 2, ...dashes }));
    }
    key.append(make("li", {}, sign, name));
  }
  const caption = make("figcaption", {}, make("b", { textContent: title }), key);
  return make("figure", {}, caption, svg);
}

function charts(scan) {
  const curves = Object.fromEntries(
    Object.entries(scan.curves).map(([name, numbers]) => [name, unpacked(numbers)]),
  );
  const row = scans[page.scans.indexOf(scan)].querySelector(".dot");
  const colour = row?.style.backgroundColor || "var(--accent)";
  const ink = "currentColor";
  const scanned = "intensity as scanned";
  const after = "intensity after normalisation";
  const area = (y) => ({ y, kind: "area", name: "voxels" });
  const box = make("div", { className: "charts" });
  box.append(
    chart({
      title: "As scanned", x: curves.x, xName: scanned, yName: "density", density: true,
      lines: [area(curves.histogram), { y: curves.mixture, kind: "line", colour, name: "mixture" }],
    }),
    chart({
      title: "Intensity map", x: curves.x, xName: scanned, yName: "after normalisation",
      lines: [
        { y: curves.alignment, kind: "dashed", colour: ink, name: "z-scoring alone" },
        { y: curves.map, kind: "line", colour, name: "map" },
      ],
    }),
    chart({
      title: "After", x: curves.y, xName: after, yName: "density", density: true, bands: scan.bands,
      lines: [area(curves.result), { y: curves.target, kind: "line", colour, name: "target" }],
    }),
  );
  return box;
}

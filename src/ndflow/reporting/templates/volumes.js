// ── volumes before and after in three planes, by NiiVue, which is unpacked on demand ────────────
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// The greys of a picture in another window. 1 is the darkest; 0 is outside, and stays.
const greysIn = ([low, high], [black, white]) =>
  Array.from({ length: 256 }, (_, grey) => {
    const share = (low + ((high - low) * (grey - 1)) / 254 - black) / (white - black);
    return grey && Math.round(1 + 254 * Math.min(Math.max(share, 0), 1));
  });

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

// `windows`: before and after, or null for those of the volumes themselves.
async function load(viewers, number, windows) {
  const volumes = JSON.parse(find(`volumes-${number}`).textContent);
  for (const [i, side] of ["before", "after"].entries()) {
    const viewer = viewers[i];
    const image = await niivue.NVImage.loadFromBase64({
      base64: volumes[side],
      name: `${side}.nii.gz`,
      colormap: "gray",
    });
    // Greys are those of the volume's own window, and 0 is outside, which stays black in another.
    const { scl_slope: slope, scl_inter: shift } = image.hdr;
    if (windows) {
      const greys = greysIn([shift + slope, shift + 255 * slope], windows[i]);
      image.img = image.img.map((grey) => greys[grey]);
    }
    [image.hdr.scl_slope, image.hdr.scl_inter] = [1, 0];
    [image.cal_min, image.cal_max] = [0, 255];
    for (const old of [...viewer.volumes]) viewer.removeVolume(old);
    viewer.addVolume(image);
  }
}

function capable() {
  const context = document.createElement("canvas").getContext("webgl2");
  context?.getExtension("WEBGL_lose_context")?.loseContext();
  return Boolean(context && window.DecompressionStream);
}

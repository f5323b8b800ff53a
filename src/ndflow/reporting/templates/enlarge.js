// ── pictures of the preparation, enlarged; without a script, their links open the files ─────────
const enlarged = find("enlarged");
let shownAt = 0;

const pictures = () => all("[data-enlarge]").filter((link) => link.querySelector("img"));

function enlarge(step) {
  const links = pictures();
  shownAt = (shownAt + step + links.length) % links.length;
  const link = links[shownAt];
  const small = link.querySelector("img");
  const large = find("enlarged-picture");
  large.src = small.src;
  large.alt = small.alt;
  [large.width, large.height] = [small.width, small.height];
  find("enlarged-name").value = link.dataset.enlarge;
}

for (const link of all("[data-enlarge]"))
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
    event.preventDefault();
    shownAt = pictures().indexOf(link);
    enlarge(0);
    enlarged.showModal();
  });

if (enlarged) {
  find("enlarged-previous").addEventListener("click", () => enlarge(-1));
  find("enlarged-next").addEventListener("click", () => enlarge(1));
  enlarged.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) enlarge(step);
  });
  enlarged.addEventListener("click", (event) => event.target === enlarged && enlarged.close());
}

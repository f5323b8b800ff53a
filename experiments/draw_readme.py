"""Draw the figure of the README, real scans of two scanners, and picture the report about them.

    python experiments/draw_readme.py COHORT

The medians are those of the cohort's own tissue maps. Only the sites NSK (CC0) and UCLA (PDDL) are
used, whose licences allow pictures. Needs the extra `report`, and chromium. Writes
docs/figures/before-after.png and report.png, each below 300 kB; takes a minute.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import nibabel
import numpy as np
from draw_tutorial import save, screenshot
from PIL import Image

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "before-after.png"
SHOWN = {"NSK": ("sub-NSK002", "sub-NSK011"), "UCLA": ("sub-UCLA004", "sub-UCLA009")}
COLOURS = {"NSK": "#1f77b4", "UCLA": "#d95f02"}
TISSUES = ("CSF", "GM", "WM")
LEVEL = 48  # the axial slice


def main(cohort: Path) -> None:
    names = [path.name for site in SHOWN for path in sorted(cohort.glob(f"sub-{site}*"))]
    with tempfile.TemporaryDirectory() as folder:
        images = normalised(cohort, names, Path(folder))
    raw = {name: voxels(anat(cohort, name, "T1w")) for name in names}
    brain = {name: voxels(anat(cohort, name, "desc-brain_mask")) > 0 for name in names}
    scored = {
        name: np.where(brain[name], (one - one[brain[name]].mean()) / one[brain[name]].std(), -9)
        for name, one in raw.items()
    }
    rows = {"raw": raw, "z-scored": scored, "normalised": images}
    windows = {title: window(scans, brain) for title, scans in rows.items()}
    draw(rows, windows, brain, {name: tissue_map(cohort, name) for name in names})


def window(scans: dict[str, np.ndarray], brain: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return what is black and white: the same two percentiles of all brains in each row."""
    inside = np.concatenate([scans[name][brain[name]] for name in scans])
    low, high = np.percentile(inside, [0.5, 99.5])
    return float(low), float(high)


def normalised(cohort: Path, names: list[str], folder: Path) -> dict[str, np.ndarray]:
    """Normalise the scans by default, without tissue maps; picture the report."""
    lines = ["subject\tsite\timage\tmask"]
    for name in names:
        files = (anat(cohort, name, kind) for kind in ("T1w", "desc-brain_mask"))
        lines.append("\t".join((name, site_of(name), *map(str, files))))
    (folder / "study.tsv").write_text("\n".join(lines) + "\n")
    words = ["cohort", str(folder / "study.tsv"), str(folder / "out"), "--quiet"]
    subprocess.run([sys.executable, "-m", "ndflow", *words], check=True)
    words = ["report", str(folder / "out"), "--title", "NSK and UCLA"]
    subprocess.run([sys.executable, "-m", "ndflow", *words], check=True)
    screenshot(folder / "out" / "report.html", folder / "page.png")
    save(Image.open(folder / "page.png").convert("RGB"), FIGURE.with_name("report.png"))
    return {name: voxels(folder / "out" / "images" / f"{name}_T1w.nii.gz") for name in names}


def draw(
    rows: dict[str, dict[str, np.ndarray]],
    windows: dict[str, tuple[float, float]],
    brain: dict[str, np.ndarray],
    tissues: dict[str, np.ndarray],
) -> None:
    shown = [name for site in SHOWN.values() for name in site]
    figure, axes = plt.subplots(
        3, 5, figsize=(9.6, 6.3), width_ratios=[1, 1, 1, 1, 1.7], layout="constrained"
    )
    for (title, images), line in zip(rows.items(), axes, strict=True):
        low, high = windows[title]
        for name, axis in zip(shown, line[:4], strict=True):
            inside = brain[name][10:82, 8:102, LEVEL].T
            slice_ = np.where(inside, images[name][10:82, 8:102, LEVEL].T, low)
            axis.imshow(slice_, cmap="gray", vmin=low, vmax=high, origin="lower")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
            if title == "raw":
                axis.set_title(site_of(name), color=COLOURS[site_of(name)], fontsize=11)
        line[0].set_ylabel(title, fontsize=12)
        for level in range(3):
            for place, site in enumerate(SHOWN):
                own = [name for name in images if site_of(name) == site]
                medians = [np.median(images[name][tissues[name] == level]) for name in own]
                heights = level + 0.3 * place + np.linspace(-0.1, 0.1, len(own)) - 0.15
                line[4].scatter(medians, heights, s=7, color=COLOURS[site], lw=0)
        line[4].set(xlim=(low, high), yticks=range(3), yticklabels=TISSUES)
        line[4].spines[["top", "left", "right"]].set_visible(False)
        line[4].tick_params(axis="y", length=0)
    axes[0, 4].set_title("median of each tissue, 38 scans", fontsize=11)
    figure.savefig(FIGURE, dpi=100, pil_kwargs={"optimize": True})


def tissue_map(cohort: Path, name: str) -> np.ndarray:
    """Return the likeliest tissue of each voxel, 0 to 2; -1 where none is likely."""
    maps = np.array([voxels(anat(cohort, name, f"label-{one}_probseg")) for one in TISSUES])
    return np.where(maps.max(axis=0) > 0.5, maps.argmax(axis=0), -1)


def anat(cohort: Path, name: str, kind: str) -> Path:
    return cohort.resolve() / name / "anat" / f"{name}_{kind}.nii.gz"


def site_of(name: str) -> str:
    return name.removeprefix("sub-").rstrip("0123456789")


def voxels(path: Path) -> np.ndarray:
    return np.asarray(nibabel.load(path).dataobj, dtype=float)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

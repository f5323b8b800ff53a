"""Draw the pictures of docs/tutorial.md, in a folder in which somebody has followed it.

    python experiments/draw_tutorial.py FOLDER

FOLDER holds `raw`, `prepared` and `study`, as steps 1 to 4 of the tutorial leave them (simulated
scans, never real ones). Needs the extra `report`, and chromium for the page. Writes
docs/figures/tutorial-*.png, each below 300 kB.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import nibabel as nib
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from PIL import Image

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
LARGEST = 300_000  # bytes of a picture
WIDTH, HEIGHT = 1060, 1440  # pixels of the screenshot
SITES = {"Ashford": "#0072B2", "Brindle": "#D55E00", "Corley": "#009E73"}
SHOWN = 2  # which scan of each site has its slice shown
CHECKED = "sub-Ashford03_desc-preproc_T1w.png"


def main(folder: Path) -> None:
    mpl.use("agg")
    raw = rows(folder / "raw" / "study.tsv")
    draw(
        {
            site: [folder / "raw" / one["image"] for one in raw if one["site"] == site]
            for site in SITES
        },
        "tutorial-raw.png",
    )
    done = rows(folder / "study" / "scans.tsv")
    draw(
        {
            site: [folder / "study" / one["output"] for one in done if one["site"] == site]
            for site in SITES
        },
        "tutorial-normalised.png",
    )
    checked = Image.open(folder / "prepared" / "figures" / CHECKED).convert("RGB")
    save(
        checked.resize((880, round(880 * checked.height / checked.width))),
        FIGURES / "tutorial-prepared.png",
    )
    with tempfile.TemporaryDirectory() as scratch:
        screenshot((folder / "study" / "report.html").resolve(), Path(scratch) / "page.png")
        page = Image.open(Path(scratch) / "page.png").convert("RGB")
        save(page, FIGURES / "tutorial-page.png")


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def draw(scans: dict[str, Sequence[Path]], name: str) -> None:
    """Draw one slice of a scan of each site in one grey window, and the histograms of all scans.

    The window is by the same rule whatever the scans: two percentiles of the voxels of all brains.
    """
    brains = [voxels[voxels != 0] for paths in scans.values() for voxels in map(read, paths)]
    window = np.percentile(np.concatenate(brains), [0.5, 99.5]).tolist()
    figure = plt.figure(figsize=(9.6, 3.2), facecolor="white", layout="constrained")
    places = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.7))
    for axes, (site, paths) in zip(places, scans.items(), strict=False):
        voxels = read(paths[SHOWN])
        axial = voxels[:, :, int(voxels.shape[2] * 0.52)].T
        axes.imshow(axial, cmap="gray", vmin=window[0], vmax=window[1], origin="lower")
        axes.set_title(site, color=SITES[site], fontsize=11, pad=6)
        axes.set_axis_off()
    curves = places[3]
    for site, paths in scans.items():
        for path in paths:
            voxels = read(path)
            counts, edges = np.histogram(voxels[voxels != 0], 120, window, density=True)
            curves.plot((edges[1:] + edges[:-1]) / 2, counts, color=SITES[site], lw=0.9, alpha=0.8)
    curves.set_xlim(window)
    curves.set_yticks([])
    curves.set_xlabel("intensity", fontsize=9)
    curves.tick_params(labelsize=8)
    curves.spines[["top", "right", "left"]].set_visible(False)
    with tempfile.TemporaryDirectory() as scratch:
        figure.savefig(Path(scratch) / name, dpi=100)
        plt.close(figure)
        save(Image.open(Path(scratch) / name).convert("RGB"), FIGURES / name)


def read(path: Path) -> NDArray[np.float64]:
    return np.asarray(nib.load(path).dataobj, float)


def screenshot(page: Path, to: Path) -> None:
    """Store the top of a page as a browser shows it."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        sys.exit("a screenshot needs chromium, which is not installed")
    words = [
        *("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000"),
        *(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={to}", page.as_uri()),
    ]
    subprocess.run([browser, *words], check=True, capture_output=True, timeout=120)


def save(image: Image.Image, path: Path) -> None:
    """Store a picture, with fewer colours if it is too large with all of them."""
    for colours in (None, 256, 64):
        if colours:
            image = image.quantize(colours, dither=Image.Dither.NONE)
        image.save(path, optimize=True)
        if path.stat().st_size <= LARGEST:
            return
    sys.exit(f"{path} is larger than {LARGEST} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

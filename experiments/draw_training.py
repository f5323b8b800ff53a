"""Draw the picture of docs/guides/training.md: random scanners, from a study of simulated scans.

    python experiments/draw_training.py

Makes the demo's scans of three sites, runs a study of them, and draws curves of random scanners and
one slice as six of them would show it. Takes half a minute. Needs the extra `report`.
"""

import os
import tempfile
from pathlib import Path

import matplotlib as mpl
import nibabel as nib
import numpy as np
from matplotlib import pyplot as plt

import ndflow
from ndflow.demo.run import write_demo_study
from ndflow.integrations.recorded_maps import apply_recorded, record_map
from ndflow.integrations.study_scanners import scanner_units

OUTPUT = Path(__file__).parents[1] / "docs" / "figures" / "training-scanners.png"
BLUE = "#0072B2"
SHOWN = (0, 1, 2, 3, 4, 5)  # seeds of the scanners that are shown
WINDOW = (100, 750)


def main() -> None:
    mpl.use("agg")
    os.environ["NDFLOW_NO_REPORT"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = write_demo_study(folder / "demo", subjects=6)
        ndflow.cohort(made.table, folder / "out", channel="T1w")
        scanners = ndflow.scanners(folder / "out")
        first = sorted((folder / "out" / "images").glob("*.nii.gz"))[0]
        scan = np.asarray(nib.load(first).dataobj)
    draw(scanners, scan)


def draw(scanners: ndflow.ScannerMaps, scan: np.ndarray) -> None:
    units = scanner_units(scanners)
    slice_ = np.ascontiguousarray(scan[:, :, scan.shape[2] * 11 // 20])
    figure = plt.figure(figsize=(10.5, 4.4), dpi=110)
    grid = figure.add_gridspec(2, 6, width_ratios=[1.6, 0.05, 1, 1, 1, 1], wspace=0.04, hspace=0.14)
    curves = figure.add_subplot(grid[:, 0])
    x = np.linspace(100, 800, 200)
    for seed in range(40):
        imap = scanners.draw(seed, units=units)
        shown = seed in SHOWN
        curves.plot(x, imap(x), color=BLUE, lw=1.4 if shown else 0.6, alpha=0.9 if shown else 0.3)
    curves.plot(x, x, "k--", lw=1, label="reference")
    curves.set(xlabel="intensity, normalised", ylabel="as a random scanner shows it")
    curves.set(xlim=(100, 800), ylim=(0, 900))
    curves.legend(frameon=False, loc="upper left")
    curves.spines[["top", "right"]].set_visible(False)
    pictures = [("normalised", slice_)]
    for number, seed in enumerate(SHOWN, 1):
        record = record_map(scanners.draw(seed, units=units), slice_)
        pictures.append((f"random scanner {number}", apply_recorded(record, slice_)))
    places = [(row, column) for row in (0, 1) for column in (2, 3, 4, 5)]
    for (title, picture), (row, column) in zip(pictures, places, strict=False):
        axis = figure.add_subplot(grid[row, column])
        axis.imshow(np.rot90(picture), cmap="gray", vmin=WINDOW[0], vmax=WINDOW[1])
        axis.set_title(title, fontsize=8, pad=2)
        axis.axis("off")
    figure.savefig(OUTPUT, bbox_inches="tight", metadata={"Software": None})
    print(f"wrote {OUTPUT} ({OUTPUT.stat().st_size / 1024:.0f} kB)")


if __name__ == "__main__":
    main()

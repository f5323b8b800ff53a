"""Draw the picture of the README: one scan's density on its way to another's.

    python experiments/draw_pair.py SOURCE SOURCE_MASK TARGET TARGET_MASK

Needs the extra `report`. Writes docs/figures/pair.svg.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import nibabel as nib
import numpy as np

import ndflow

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "ndflow"  # the same picture is the same file
from matplotlib import pyplot as plt  # noqa: E402


def histogram(image: str, mask: str) -> ndflow.Histogram:
    return ndflow.histogram(*(np.asarray(nib.load(name).dataobj) for name in (image, mask)))


def draw(source: ndflow.Histogram, target: ndflow.Histogram, path: Path) -> None:
    q, p = ndflow.fit(source).mixture, ndflow.fit(target).mixture
    to_unit = ndflow.transport.align(p)
    p = p.transformed(to_unit.matrix, to_unit.offset)
    imap = ndflow.normalising_map(q, p)
    affine = imap.maps[0]
    x = np.linspace(-3.2, 3.2, 800)
    aligned = q.transformed(affine.matrix, affine.offset)
    back, log_slope = imap.inverse().with_log_det_jacobian(x)
    carried = q.pdf(back) * np.exp(log_slope)

    figure, axes = plt.subplots(1, 3, figsize=(10.5, 2.7), layout="constrained")
    grey, red, blue = "#9aa0a6", "#c5483c", "#2a6f97"
    own = np.linspace(*q.quantile([1e-4, 1 - 1e-4]), 800)
    width = source.widths[0]
    axes[0].fill_between(
        source.values[:, 0], source.counts / source.total / width, color=grey, lw=0
    )
    axes[0].plot(own, q.pdf(own), color=red)
    for k in range(q.components):
        part = ndflow.GaussianMixture([1.0], q.means[k], q.precisions[k])
        axes[0].plot(own, q.weights[k] * part.pdf(own), color=red, lw=0.6)
    axes[0].set(title="a scan and its mixture", xlabel="scanner's units", xlim=own[[0, -1]])
    axes[1].plot(x, p.pdf(x), color=grey, lw=3, label="target")
    axes[1].plot(x, aligned.pdf(x), color=red, lw=1, ls="--", label="aligned")
    axes[1].plot(x, carried, color=blue, label="after the flow")
    axes[1].set(title="on the common scale", xlabel="standard deviations")
    axes[1].legend(frameon=False, fontsize="small")
    z = affine.inverse()(x)
    axes[2].plot(x, x, color=grey, lw=1)
    axes[2].plot(x, imap(z), color=blue)
    axes[2].set(title="the map", xlabel="after alignment", ylabel="after the flow")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:2]:
        axis.set_yticks([])
        axis.set_ylim(bottom=0)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(
        histogram(*sys.argv[1:3]),
        histogram(*sys.argv[3:5]),
        Path(__file__).parents[1] / "docs" / "figures" / "pair.svg",
    )

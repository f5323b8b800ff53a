"""Exported figures: reproducible bytes, valid and small files, and any names."""

import os
import subprocess
import sys
from io import BytesIO
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm

from ndflow.figures.cohort import DensityPanel, density_figure, tissue_figure
from ndflow.figures.joint import JointVoxels, joint_figure
from ndflow.figures.style import png, svg

AWKWARD = "_a$b$ 100% <&> \\alpha \x01 北京 {0}"
LONG = "Universitätsklinikum_Hamburg-Eppendorf 3T"


X = np.linspace(-4, 4, 60)


def densities_of(name: str) -> Figure:
    scans = {name: [norm.pdf(X), norm.pdf(X, 0.3)], f"{name} too": [norm.pdf(X, -0.5, 1.3)]}
    return density_figure([DensityPanel(name, X, scans, name), DensityPanel(name, X, scans)])


def tissues_of(name: str) -> Figure:
    quartiles = np.arange(18.0).reshape(3, 2, 3)
    return tissue_figure({name: quartiles}, [name, name, "z"], [name, "WM"], units=name)


def joint_of(name: str) -> Figure:
    before, target = np.random.default_rng(0).normal(size=(2, 500, 2))
    return joint_figure(JointVoxels([name, name], before, before + 1, 0 * before[:, 0], target))


MAKERS = [densities_of, tissues_of, joint_of]
every_figure = pytest.mark.parametrize("maker", MAKERS)


def texts(drawing: bytes) -> str:
    root = ElementTree.fromstring(drawing)
    return "\n".join("".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text"))


@every_figure
def test_names_are_shown_literally_and_settings_of_the_user_have_no_effect(maker):
    drawing = svg(maker(AWKWARD))
    for part in ("_a$b$", "100%", "<&>", "\\alpha", "\ufffd", "北京", "{0}"):
        assert part in texts(drawing)
    assert len(drawing) < 300_000
    custom = {"font.size": 31.0, "lines.linewidth": 9.0, "svg.fonttype": "path", "axes.grid": True}
    with mpl.rc_context(custom):
        before = dict(mpl.rcParams)
        assert svg(maker(AWKWARD)) == drawing
        assert dict(mpl.rcParams) == before


@every_figure
def test_nothing_is_cut_off_at_the_edges(maker):
    # Ink in the outermost pixels would mean that something extends beyond them.
    picture = np.asarray(Image.open(BytesIO(png(maker(LONG)))).convert("L"))
    frame = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (frame == 255).all()


SCRIPT = """
import hashlib, sys
import numpy as np
from ndflow.figures.cohort import DensityPanel, density_figure
from ndflow.figures.style import png, svg
x = np.arange(4.0)
panel = DensityPanel("t", x, {c: [[0, 1, 2, i]] for i, c in enumerate("cafebd")})
figure = density_figure([panel])
print(hashlib.sha256(svg(figure) + png(figure)).hexdigest(), "matplotlib.pyplot" in sys.modules)
"""


def test_another_process_writes_the_same_bytes_without_importing_pyplot():
    printed = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert printed.pop().split()[1] == "False"

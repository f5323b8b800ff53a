"""Exported figures: reproducible bytes, valid and small files, and any names."""

import os
import re
import subprocess
import sys
import warnings
from functools import cache
from io import BytesIO
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from ndflow.figures.style import png, svg
from ndflow.figures.tissues import ViolinPanel, violin_figure

AWKWARD = "_a$b$ 100% <&> \\alpha \x01 北京 {0}"
LONG = "Universitätsklinikum_Hamburg-Eppendorf 3T"


def violins(name: str, values: list[float], label: str = "x") -> Figure:
    return violin_figure([ViolinPanel([(name, values)], label)])


def texts(drawing: bytes) -> str:
    root = ElementTree.fromstring(drawing)
    return "\n".join("".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text"))


@cache
def written(maker, name: str) -> tuple[Figure, bytes, bytes]:
    figure = maker(name)
    return figure, svg(figure), png(figure)


def test_a_figure_drawn_twice_and_exported_twice_gives_the_same_bytes(maker):
    figure, drawing, picture = written(maker, AWKWARD)
    again = maker(AWKWARD)
    assert svg(figure) == svg(again) == drawing
    assert png(again) == picture
    assert len(drawing) < 300_000


def test_names_are_shown_literally_and_not_as_formulae(maker):
    shown = texts(written(maker, AWKWARD)[1])
    for part in ("_a$b$", "100%", "<&>", "\\alpha", "\ufffd", "北京", "{0}"):
        assert part in shown


def test_nothing_is_cut_off_at_the_edges(maker):
    # Ink in the outermost pixels would mean that something extends beyond them.
    picture = np.asarray(Image.open(BytesIO(png(maker(LONG)))).convert("L"))
    frame = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (frame == 255).all()


def test_the_users_matplotlib_settings_have_no_effect_and_are_not_changed(maker):
    usual = written(maker, AWKWARD)[1]
    custom = {"font.size": 31.0, "lines.linewidth": 9.0, "svg.fonttype": "path", "axes.grid": True}
    with mpl.rc_context(custom):
        before = dict(mpl.rcParams)
        assert svg(maker(AWKWARD)) == usual
        assert dict(mpl.rcParams) == before


def test_coordinates_have_two_decimals_and_text_is_not_changed():
    name = 'a d="1.23456" x="9.87654"'
    drawing = svg(violins(name, [0.1, 0.2, 0.7], name))
    assert name in texts(drawing)
    curves = re.findall(rb'<path[^>]* d="([^"]*)"', drawing)
    numbers = [n for curve in curves for n in re.findall(rb"\d+\.(\d+)", curve)]
    assert len(numbers) > 100
    assert max(map(len, numbers)) == 2


SCRIPT = """
import hashlib, sys
import numpy as np
from ndflow.figures.densities import DensityPanel, density_figure
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


def test_without_matplotlib_the_error_names_the_extra_to_install():
    script = "import sys; sys.modules['matplotlib'] = None\n" + SCRIPT
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install '.[report]'" in done.stderr.splitlines()[-1]


def test_characters_missing_from_the_font_raise_no_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        png(violins("北京", [1.0, 2.0], "上海"))
    assert caught == []

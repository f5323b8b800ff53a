"""Files of figures: always the same bytes, valid, small, and of any names."""

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
import pytest
from matplotlib.figure import Figure
from PIL import Image

from ndflow.errors import InvalidValueError
from ndflow.figures.export import png, svg
from ndflow.figures.violins import violins

ODD = "_a$b$ 100% <&> \\alpha \x01 北京 {0}"
LONG = "Universitätsklinikum_Hamburg-Eppendorf 3T"


def texts(drawing: bytes) -> str:
    root = ElementTree.fromstring(drawing)
    return "\n".join("".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text"))


@cache
def written(maker, name: str) -> tuple[Figure, bytes, bytes]:
    figure = maker(name)
    return figure, svg(figure), png(figure)


def test_a_figure_made_twice_and_written_twice_is_the_same_file(maker):
    figure, drawing, picture = written(maker, ODD)
    again = maker(ODD)
    assert svg(figure) == svg(again) == drawing
    assert png(again) == picture
    assert len(drawing) < 300_000


def test_any_name_is_written_as_it_is_and_not_as_a_formula(maker):
    shown = texts(written(maker, ODD)[1])
    for part in ("_a$b$", "100%", "<&>", "\\alpha", "\ufffd", "北京", "{0}"):
        assert part in shown


def test_nothing_is_cut_off_at_the_edges(maker):
    # Ink in the outermost pixels would belong to something that goes on beyond them.
    picture = np.asarray(Image.open(BytesIO(png(maker(LONG)))).convert("L"))
    frame = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (frame == 255).all()


def test_files_tell_neither_the_date_nor_the_program():
    figure = violins([("a", [1.0, 2.0, 3.0])], "x")
    assert b"<metadata>" not in svg(figure)
    assert "Software" not in Image.open(BytesIO(png(figure))).info


def test_settings_of_the_user_neither_matter_nor_change(maker):
    usual = written(maker, ODD)[1]
    own = {"font.size": 31.0, "lines.linewidth": 9.0, "svg.fonttype": "path", "axes.grid": True}
    with mpl.rc_context(own):
        before = dict(mpl.rcParams)
        assert svg(maker(ODD)) == usual
        assert dict(mpl.rcParams) == before


def test_curves_have_two_digits_and_text_keeps_all_of_its_own():
    name = 'a d="1.23456" x="9.87654"'
    drawing = svg(violins([(name, [0.1, 0.2, 0.7])], name))
    assert name in texts(drawing)
    curves = re.findall(rb'<path[^>]* d="([^"]*)"', drawing)
    numbers = [n for curve in curves for n in re.findall(rb"\d+\.(\d+)", curve)]
    assert len(numbers) > 100
    assert max(map(len, numbers)) == 2


@pytest.mark.parametrize("dpi", [50, 200])
def test_a_png_has_the_dots_asked_for(dpi: int):
    figure = violins([("a", [1.0, 2.0, 3.0])], "x")
    size = Image.open(BytesIO(png(figure, dpi))).size
    np.testing.assert_allclose(size, figure.get_size_inches() * dpi, atol=1)


@pytest.mark.parametrize("dpi", [0, -1, 10**6, 1.5])
def test_a_senseless_resolution_is_refused(dpi: float):
    with pytest.raises(InvalidValueError, match="dpi"):
        png(violins([("a", [1.0])], "x"), dpi)


def test_letters_that_the_font_lacks_raise_no_warning():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        png(violins([("北京", [1.0, 2.0])], "上海"))
    assert heard == []


SCRIPT = """
import hashlib, sys
from ndflow.report import Panel, populations, png, svg
x = [0.0, 1.0, 2.0, 3.0]
figure = populations([Panel("t", x, {c: [[0, 1, 2, i]] for i, c in enumerate("cafebd")})])
print(hashlib.sha256(svg(figure) + png(figure)).hexdigest(), "matplotlib.pyplot" in sys.modules)
"""


def test_another_process_writes_the_same_bytes_and_nobody_needs_pyplot():
    said = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert said.pop().split()[1] == "False"


def test_without_matplotlib_the_error_names_the_extra():
    script = "import sys; sys.modules['matplotlib'] = None\n" + SCRIPT
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'ndflow[report]'" in done.stderr.splitlines()[-1]

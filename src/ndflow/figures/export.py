"""A figure as the bytes of a file: the same figure gives the same bytes, and few of them.

No date, no name of the program, and names inside the file that do not change. In SVG the points of
curves keep two digits, to a hundredth of 1/72 inch: half the size, and rounding errors that differ
from one machine to the next do not show.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

from ndflow.figures.style import drawing
from ndflow.values import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["png", "svg"]

_IMAGES = 150  # dots an inch, of the pictures within an SVG
_DRAWN = re.compile(rb"<(?:path|use) [^>]*>")  # never text, whatever it holds
_PLACE = re.compile(rb'(?<= [dxy]=")[^"]*')
_NUMBER = re.compile(rb"-?\d+\.\d+")


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG."""
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    file = BytesIO()
    with drawing():
        figure.savefig(file, format="svg", dpi=_IMAGES, metadata=nothing)
    return _DRAWN.sub(lambda thing: _PLACE.sub(_shortened, thing[0]), file.getvalue())


def png(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as PNG, with so many dots an inch."""
    file = BytesIO()
    with drawing():
        figure.savefig(
            file,
            format="png",
            dpi=whole(dpi, "dpi", 10, 1200),
            metadata={"Software": None},
            pil_kwargs={"optimize": True},
        )
    return file.getvalue()


def _shortened(place: re.Match[bytes]) -> bytes:
    return _NUMBER.sub(_rounded, place[0])


def _rounded(number: re.Match[bytes]) -> bytes:
    short = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return ("0" if short == "-0" else short).encode()

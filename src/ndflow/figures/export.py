"""Figures as reproducible files: the same figure always gives the same bytes, and few of them.

Files contain neither the date nor the program's name, and identifiers inside them do not change. In
SVG the coordinates of curves keep two decimals, a hundredth of 1/72 inch: this halves the size, and
hides rounding errors that differ between machines.
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

_IMAGES = 150  # dots per inch, of images within an SVG
_DRAWN = re.compile(rb"<(?:path|use) [^>]*>")  # never text, whatever it contains
_COORDINATES = re.compile(rb'(?<= [dxy]=")[^"]*')
_NUMBER = re.compile(rb"-?\d+\.\d+")


def svg(figure: Figure) -> bytes:
    """Return a figure as an SVG file."""
    no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    file = BytesIO()
    with drawing():
        figure.savefig(file, format="svg", dpi=_IMAGES, metadata=no_metadata)
    return _DRAWN.sub(lambda element: _COORDINATES.sub(_shortened, element[0]), file.getvalue())


def png(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as a PNG file.

    Parameters
    ----------
    figure : to export.
    dpi : resolution in dots per inch.
    """
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


def _shortened(coordinates: re.Match[bytes]) -> bytes:
    return _NUMBER.sub(_rounded, coordinates[0])


def _rounded(number: re.Match[bytes]) -> bytes:
    short = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return ("0" if short == "-0" else short).encode()

"""The common style of all figures: colours, lines, fonts, and the legend of sites.

- Colours are those of Okabe and Ito, which are distinguishable with any type of colour vision,
  without the yellow, which is faint on white, and the black, which is reserved for everything that
  is not a site. A site's colour depends on its position among the sorted names of all sites, so it
  is the same in every figure of a study; from the seventh site on, colours repeat with another line
  style.
- The settings start from matplotlib's defaults, not from the user's own file, and apply only while
  a figure is drawn: the same numbers give the same figure everywhere, and figures drawn by other
  code do not change.
- Names come from tables and may contain anything. No text is interpreted as a formula, characters
  that XML forbids are replaced, and long names are shortened in the middle and wrapped.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ndflow._version import installing
from ndflow.errors import InvalidValueError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK = "#222222"  # text, and curves that others are compared with
FAINT = "#b9bec4"  # histograms and reference lines
ACCENT, SECOND = "#0072B2", "#D55E00"  # for curves that do not belong to a site

_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_LINES = ("-", "--", ":", "-.")
_SETTINGS: dict[str, Any] = {
    "axes.titlesize": 9.0,
    **dict.fromkeys(("font.size", "axes.labelsize", "legend.fontsize"), 8.0),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 7.0),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), "#666666"),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "text.parse_math": False,
    "path.simplify_threshold": 0.25,  # of a pixel: smooth curves need few points
    "svg.fonttype": "none",  # text stays text: small and searchable
    "svg.hashsalt": "ndflow",  # for identifiers in the file, which would be random otherwise
}
_LONGEST = 50  # characters of a name
_ENTRY = 0.6  # inches for the line of a legend entry and the gaps around it


def colours(sites: Iterable[str]) -> dict[str, str]:
    """Return the colour of each site.

    Parameters
    ----------
    sites : all sites of the study, because the colours depend on them.

    Examples
    --------
    >>> colours(["London", "Bern"])
    {'Bern': '#0072B2', 'London': '#D55E00'}
    """
    return {name: _PALETTE[i % len(_PALETTE)] for i, name in enumerate(sorted(set(sites)))}


def line_styles(sites: Iterable[str]) -> dict[str, str]:
    """Return the line style of each site, which distinguishes sites of the same colour."""
    return {
        name: _LINES[i // len(_PALETTE) % len(_LINES)] for i, name in enumerate(sorted(set(sites)))
    }


def label(text: str, width: int | None = None) -> str:
    """Return a name as figures show it, wrapped to `width` characters."""
    plain = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    if len(plain) > _LONGEST:
        half = (_LONGEST - 1) // 2
        plain = f"{plain[:half]}…{plain[-half:]}"
    if width is None or len(plain) <= width:
        return plain
    return "\n".join(textwrap.wrap(plain, width))


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the settings of `ndflow` to matplotlib, and silence warnings about missing glyphs.

    An SVG contains the characters themselves, and browsers have fonts for most; a PNG shows boxes.
    """
    try:
        from matplotlib import style
    except ImportError:
        raise InvalidValueError(f"figures need matplotlib; try {installing('report')}") from None
    with style.context(_SETTINGS, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Provide an empty figure of this size in inches, which pyplot does not know about.

    The layout is computed once, on leaving the context, and then fixed: positions depend on the
    tick labels, and these on the positions, so every drawing would otherwise shift things slightly.
    """
    with drawing():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)  # leaves space for wider fonts
        figure = Figure(figsize=(width, height), layout=layout)
        yield figure
        for _ in range(2):
            layout.execute(figure)
        figure.set_layout_engine("none")
        for axes in figure.axes:  # the solver's last digits differ between processes
            bounds = axes.get_position(original=True).bounds
            left, bottom, wide, high = (round(part, 6) for part in bounds)
            axes.set_position((left, bottom, wide, high))


def density_axes(axes: Axes) -> None:
    """Start the axis of a density at zero and hide its ticks, because only the shape matters."""
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def legend_rows(width: float, names: Iterable[str]) -> tuple[int, int]:
    """Return the number of rows and columns of a legend of these names.

    Parameters
    ----------
    width : of the figure, in inches.
    names : of the sites.
    """
    with drawing():
        from matplotlib.font_manager import FontProperties
        from matplotlib.textpath import text_to_path

        font = FontProperties(size=_SETTINGS["legend.fontsize"])
        texts = [f"{label(name)} (0000)" for name in names]
        points = [
            text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
            for text in texts
        ]
    columns = min(max(int((width - 0.2) / (max(points) / 72 + _ENTRY)), 1), len(texts))
    rows = -(-len(texts) // columns)
    return rows, -(-len(texts) // rows)


def site_legend(figure: Figure, counts: Mapping[str, int]) -> None:
    """Add a legend below the figure: the line of each site, and its number of scans."""
    from matplotlib.lines import Line2D

    colour, line = colours(counts), line_styles(counts)
    names = sorted(counts)
    handles = [Line2D([], [], color=colour[name], ls=line[name], lw=2) for name in names]
    _, columns = legend_rows(figure.get_figwidth(), names)
    legend = figure.legend(
        handles, [str(i) for i in range(len(names))], loc="outside lower center", ncols=columns
    )
    # Set afterwards: matplotlib leaves out labels that begin with an underscore.
    for name, text in zip(names, legend.get_texts(), strict=True):
        text.set_text(f"{label(name)} ({counts[name]})")


# ── saving ────────────────────────────────────────────────────────────────────────────────────────
# Figures as reproducible files: the same figure always gives the same bytes, and few of them.
#
# Files contain neither the date nor the program's name, and identifiers inside them do not change.
# In SVG the coordinates of curves keep two decimals, a hundredth of 1/72 inch: this halves the
# size, and hides rounding errors that differ between machines.

_DOTS = 150  # per inch, of a PNG and of images within an SVG
_DRAWN = re.compile(rb"<(?:path|use) [^>]*>")  # never text, whatever it contains
_COORDINATES = re.compile(rb'(?<= [dxy]=")[^"]*')
_NUMBER = re.compile(rb"-?\d+\.\d+")


def svg(figure: Figure) -> bytes:
    """Return a figure as an SVG file."""
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    content = _saved(figure, format="svg", metadata=no_metadata)
    return _DRAWN.sub(lambda element: _COORDINATES.sub(_shortened, element[0]), content)


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    return _saved(figure, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})


def _saved(figure: Figure, **options: Any) -> bytes:
    file = BytesIO()
    with drawing():
        figure.savefig(file, dpi=_DOTS, **options)
    return file.getvalue()


def _shortened(coordinates: re.Match[bytes]) -> bytes:
    return _NUMBER.sub(_rounded, coordinates[0])


def _rounded(number: re.Match[bytes]) -> bytes:
    short = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return ("0" if short == "-0" else short).encode()

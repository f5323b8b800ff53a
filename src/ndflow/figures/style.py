"""How every figure looks: colours, lines, letters, and the legend of sites.

- Colours are those of Okabe and Ito, which people of any colour vision can tell apart, without the
  yellow, which is faint on white, and the black, which is for what is not a site. A site's
  colour is given by its place among the sorted names of all sites, so it is the same in every
  figure of a study; from the seventh on colours come again with another kind of line.
- The settings of matplotlib start from its defaults, not from the user's own file, and hold only
  while a figure is drawn: the same numbers give the same picture everywhere, and nobody else's
  pictures change.
- Names come from tables and may hold anything. No text is read as a formula, characters that XML
  forbids are replaced, long names are cut in the middle and broken into lines.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ndflow.errors import InvalidValueError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ACCENT",
    "FAINT",
    "INK",
    "SECOND",
    "colours",
    "density_axes",
    "drawing",
    "label",
    "legend_rows",
    "line_styles",
    "new_figure",
    "site_legend",
]

INK = "#222222"  # letters, and curves that others are compared with
FAINT = "#b9bec4"  # histograms, and lines to compare with
ACCENT, SECOND = "#0072B2", "#D55E00"  # of figures that know no sites

_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_LINES = ("-", "--", ":", "-.")
_SETTINGS: dict[str, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 8.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#666666",
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "text.parse_math": False,
    "path.simplify_threshold": 0.25,  # of a pixel: many points of smooth curves are not needed
    "svg.fonttype": "none",  # text stays text: small, and can be searched
    "svg.hashsalt": "ndflow",  # for the names of things inside a file, which are else random
}
_LONGEST = 50  # characters of a name
_ENTRY = 0.6  # inches, of a legend's line and of the gaps around it


def colours(sites: Iterable[str]) -> dict[str, str]:
    """Return the colour of each site; give all sites of a study."""
    return {name: _PALETTE[i % len(_PALETTE)] for i, name in enumerate(sorted(set(sites)))}


def line_styles(sites: Iterable[str]) -> dict[str, str]:
    """Return the kind of line of each site, which tells those of one colour apart."""
    return {
        name: _LINES[i // len(_PALETTE) % len(_LINES)] for i, name in enumerate(sorted(set(sites)))
    }


def label(text: str, width: int | None = None) -> str:
    """Return a name as figures show it, in lines of at most so many characters."""
    plain = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    if len(plain) > _LONGEST:
        half = (_LONGEST - 1) // 2
        plain = f"{plain[:half]}…{plain[-half:]}"
    if width is None or len(plain) <= width:
        return plain
    return "\n".join(textwrap.wrap(plain, width))


@contextmanager
def drawing() -> Iterator[None]:
    """Within it, matplotlib has our settings and no others, and keeps quiet about missing letters.

    An SVG holds the letters themselves, and browsers have fonts for most; a PNG shows boxes.
    """
    try:
        from matplotlib import style
    except ImportError:
        raise InvalidValueError(
            "figures need matplotlib, which is not installed; try pip install 'ndflow[report]'"
        ) from None
    with style.context(_SETTINGS, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Within it, a figure of this size in inches can be filled; it belongs to no window or list.

    At the end everything finds its place, once and for all: places depend on the numbers along the
    axes, and these on the places, so each drawing would else move things a little.
    """
    with drawing():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)  # room for wider fonts
        figure = Figure(figsize=(width, height), layout=layout)
        yield figure
        for _ in range(2):
            layout.execute(figure)
        figure.set_layout_engine("none")
        for axes in figure.axes:  # the solver's last digits differ from one process to the next
            bounds = axes.get_position(original=True).bounds
            x, y, wide, high = (round(part, 6) for part in bounds)
            axes.set_position((x, y, wide, high))


def density_axes(axes: Axes) -> None:
    """Axes of a density: from zero on, and without numbers, because only its shape matters."""
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def legend_rows(width: float, names: Iterable[str]) -> tuple[int, int]:
    """Return how many rows and columns a legend of these names has in a figure of this width."""
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


def site_legend(figure: Figure, counts: Mapping[str, Sequence[int]], all_of: Iterable[str]) -> None:
    """Add below everything what line is which site, and how many scans it has.

    Parameters
    ----------
    figure : where to add it.
    counts : of each site, its scans in each part of the figure.
    all_of : the sites of the study, which the colours go by.
    """
    from matplotlib.lines import Line2D

    colour, line = colours(all_of), line_styles(all_of)
    names = sorted(counts)
    handles = [Line2D([], [], color=colour[name], ls=line[name], lw=2) for name in names]
    _, columns = legend_rows(figure.get_figwidth(), names)
    legend = figure.legend(
        handles, [str(i) for i in range(len(names))], loc="outside lower center", ncols=columns
    )
    # Set afterwards: a label that begins with an underscore would be left out.
    for name, text in zip(names, legend.get_texts(), strict=True):
        few, many = min(counts[name]), max(counts[name])
        text.set_text(f"{label(name)} ({few if few == many else f'{few}–{many}'})")

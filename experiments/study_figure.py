"""The figure of docs/study.md with intervals."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from study_intervals import Interval

from ndflow.figures.style import ACCENT, FAINT, INK, new_figure, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS = ("paper", "site", "auto", "auto-maps")
BELOW = 0.28  # of a row

Intervals = Mapping[str, Interval]


def interval_figure(spread: Intervals, of_nyul: Intervals, others: Intervals) -> bytes:
    """Draw the mean standard deviation of the nine cells, and its ratio to that of nyul.

    Parameters
    ----------
    spread : the mean standard deviations.
    of_nyul, others : the ratios, with references of these scans and of other scans.
    """
    names = list(spread)
    with new_figure(7.0, 2.9) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, names, spread)
        _draw(right, names, of_nyul, label="references of these scans")
        _draw(right, names, others, BELOW, label="of other scans")
        left.set_title("mean sd of nine cells", loc="left")
        right.set_title("the same, ÷ nyul", loc="left")
        right.axvline(1, color=INK, linewidth=0.6, linestyle=":")
        for axes in (left, right):
            axes.set_xlim(left=0)
            axes.grid(axis="x", color=FAINT, linewidth=0.4)
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        right.legend(loc="lower right", fontsize="small")
        return svg(figure)


def _draw(
    axes: "Axes", names: list[str], found: Intervals, below: float = 0.0, label: str | None = None
) -> None:
    for place, name in enumerate(names):
        if name in found:
            value, low, high = found[name]
            colour = ACCENT if name in OURS else INK
            row = place + below
            axes.plot([low, high], [row, row], color=colour, linewidth=0.8 if below else 1.4)
            inside = "white" if below else colour
            axes.plot(value, row, "o", color=colour, markersize=3.5, markerfacecolor=inside)
    if label is not None:
        inside = "white" if below else INK
        axes.plot([], [], "o", color=INK, markersize=3.5, markerfacecolor=inside, label=label)

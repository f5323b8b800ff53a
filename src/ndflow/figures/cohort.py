"""Figures of all scans of a cohort: their densities, tissues and masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.figures import style
from ndflow.values import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEGEND_ROW = 0.19  # inches

# ── densities ─────────────────────────────────────────────────────────────────────────────────────
# The densities of a cohort's scans by site, before and after [castro2018, Fig. 2].
#
# Each panel is a condition: as scanned, aligned, normalised. Each scan is a thin line, and each
# site a thick one, the mean of its scans: ``q̄(x) = Σ_i q_i(x)/n``. Where there are too many scans
# to see single lines, a band replaces them: at each intensity, from the 10th to the 90th percentile
# of the site's densities.

_LINES = 40  # thin lines per site, at most
_LINES_IN_ALL = 300  # per figure, for the size of its file
_BAND = 100  # points of a band, which matplotlib does not simplify as it does lines
_COLUMNS = 3
_WIDTH, _HEIGHT = 3.1, 2.3  # inches
_ALONE = (3.7, 1.5)  # inches, of a picture by itself
_AXES = (0.06, 0.27, 0.9, 0.58)  # of that: left, bottom, width, height


class DensityPanel(NamedTuple):
    """The densities of one condition.

    Attributes
    ----------
    title : name of the condition.
    x : (n,), increasing intensities.
    densities : for each site, (scans, n), the densities of its scans at `x`.
    units : of the intensities.
    logarithmic : whether the intensity axis is logarithmic, for scanners whose scales differ by
        large factors. Densities are then drawn as those of the logarithm, ``x q(x)``, so that equal
        areas remain equal shares of the voxels.
    """

    title: str
    x: FloatArray
    densities: Mapping[str, FloatArray | Sequence[ArrayLike]]
    units: str = "intensity"
    logarithmic: bool = False


def density_figure(panels: Sequence[DensityPanel]) -> Figure:
    """Draw the densities of all scans, one panel per condition.

    Parameters
    ----------
    panels : the conditions of the same scans; each panel has its own intensity axis.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    counts = {name: len(lines) for name, lines in panels[0].densities.items()}
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    width = max(_WIDTH * columns, 4.6)
    legend, _ = style.legend_rows(width, counts)
    with style.new_figure(width, _HEIGHT * rows + _LEGEND_ROW * legend + 0.1) as figure:
        grid = figure.add_gridspec(rows, columns)
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(grid[divmod(i, columns)])
            few = len(panels) * sum(counts.values()) <= _LINES_IN_ALL
            _draw(axes, panel, counts, lines=few)
        style.site_legend(figure, counts)
    return figure


def density_picture(
    panel: DensityPanel, *, sites: Iterable[str] = (), tallest: float | None = None
) -> Figure:
    """Draw one condition by itself, without a legend, small enough for a phone.

    It is wide and low, so that three lie one above the other beside two rows of brains.

    Parameters
    ----------
    panel : the condition.
    sites : all sites of the study, on which colours depend.
    tallest : where the axis of densities ends; the same in pictures to be compared.
    """
    in_all = sum(len(lines) for lines in panel.densities.values())
    with style.drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=_ALONE)
        axes = figure.add_axes(_AXES)
        _draw(axes, panel, {*sites, *panel.densities}, lines=3 * in_all <= _LINES_IN_ALL)
        if tallest is not None:
            axes.set_ylim(top=tallest)
    return figure


def _draw(axes: Axes, panel: DensityPanel, all_sites: Iterable[str], *, lines: bool) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    colour, line = style.colours(all_sites), style.line_styles(all_sites)
    factor = panel.x if panel.logarithmic else 1.0
    sparse = np.linspace(0, panel.x.size - 1, min(panel.x.size, _BAND)).round().astype(int)
    densities = {name: factor * np.asarray(panel.densities[name]) for name in panel.densities}
    for name, scans in sorted(densities.items()):
        if not lines or len(scans) > _LINES:
            low, high = np.quantile(scans[:, sparse], [0.1, 0.9], axis=0)
            axes.fill_between(panel.x[sparse], low, high, color=colour[name], alpha=0.25, lw=0)
        elif len(scans) > 1:
            axes.plot(panel.x, scans.T, color=colour[name], alpha=0.35, lw=0.5, zorder=2)
    for name, scans in sorted(densities.items()):
        axes.plot(panel.x, scans.mean(axis=0), color=colour[name], ls=line[name], lw=1.8, zorder=3)
    axes.set_title(style.label(panel.title, 40))
    axes.set_xlabel(style.label(panel.units, 44))
    if panel.logarithmic:
        axes.set_xscale("log")
        narrow = panel.x[-1] < 60 * panel.x[0]
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1, 3)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(panel.x[0], panel.x[-1])
    axes.set_ylabel("density")
    style.density_axes(axes)


# ── tissues ───────────────────────────────────────────────────────────────────────────────────────
# How well the intensities of a tissue agree across scans and sites, for each method.
#
# Each row is a method, each column a tissue. Each scan is a line from the first to the third
# quartile of its intensities in the tissue, with a tick at the median. The scans of a site are
# sorted by their medians, so a site is a slanted band; the vertical line through it is the mean of
# its medians. Sites are in the order of the legend. Where a method works, the vertical lines of all
# sites are aligned, and the bands are hardly slanted.

_TISSUE_WIDTH, _TISSUE_HEIGHT, _SITE = 2.5, 0.95, 0.13  # inches
_SCANS = 120  # per panel; of more, an even selection of each site, in the order of medians


def tissue_figure(
    rows: Mapping[str, FloatArray],
    sites: Sequence[str],
    tissue_names: Sequence[str],
    *,
    units: str = "intensity",
) -> Figure:
    """Draw the quartiles of all scans in each tissue, one row per method.

    Parameters
    ----------
    rows : by the names of the methods, from top to bottom: (scans, tissues, 3), the quartiles of
        the intensities in each tissue.
    sites : (scans,), the site of each scan.
    tissue_names : of the second axis of the quartiles.
    units : of the intensities.

    Returns
    -------
    A matplotlib figure, which `ndflow.figures.style` turns into a file.
    """
    counts = Counter(sites)
    width = _TISSUE_WIDTH * len(tissue_names) + 1.2
    height = max(_TISSUE_HEIGHT, _SITE * len(counts))
    below = _LEGEND_ROW * style.legend_rows(width, counts)[0]
    with style.new_figure(width, height * len(rows) + below + 0.5) as figure:
        grid = figure.add_gridspec(len(rows), len(tissue_names))
        together = np.concatenate(list(rows.values()))
        for i, (name, quartiles) in enumerate(rows.items()):
            last = i + 1 == len(rows)
            for t, tissue in enumerate(tissue_names):
                axes = figure.add_subplot(grid[i, t])
                _draw_quartiles(axes, quartiles[:, t], sites)
                low, high = float(together[:, t].min()), float(together[:, t].max())
                margin = 0.04 * (high - low) or 0.5
                axes.set_xlim(low - margin, high + margin)
                axes.tick_params(labelbottom=last)
                if i == 0:
                    axes.set_title(style.label(tissue, 30), loc="center")
                if last:
                    axes.set_xlabel(style.label(units, 36))
                if t == 0:
                    shown = style.label(name, 18)
                    axes.set_ylabel(shown, rotation=0, ha="right", va="center", fontsize=9)
        style.site_legend(figure, counts)
    return figure


def _draw_quartiles(axes: Axes, quartiles: FloatArray, sites: Sequence[str]) -> None:
    colour, line = style.colours(sites), style.line_styles(sites)
    names = sorted(set(sites))
    most = max(_SCANS // len(names), 5)
    top = 0.0
    for name in names:
        scans = quartiles[[site == name for site in sites]]
        scans = scans[np.argsort(scans[:, 1], kind="stable")]
        shown = np.linspace(0, len(scans) - 1, min(len(scans), most)).round().astype(int)
        # A site has the same height however many scans it has.
        y = top + (np.arange(len(shown)) + 0.5) / len(shown)
        low, middle, high = scans[shown].T
        gap = np.full_like(low, np.nan)
        axes.plot(
            np.column_stack([low, high, gap]).ravel(),
            np.repeat(y, 3),
            color=colour[name],
            lw=0.7,
            alpha=0.45,
        )
        half = 0.5 / len(shown)
        axes.plot(
            np.column_stack([middle, middle, gap]).ravel(),
            np.column_stack([y - half, y + half, gap]).ravel(),
            color=colour[name],
            lw=1.2,
            solid_capstyle="butt",
        )
        mean = scans[:, 1].mean()
        axes.plot([mean, mean], [top, top + 1], color=colour[name], ls=line[name], lw=1.6)
        top += 1.15
    axes.set_ylim(top - 0.05, -0.1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


# ── masks ─────────────────────────────────────────────────────────────────────────────────────────

_PANEL = 1.8  # inches
_SHOWN, _BRIGHTER = (0.5, 99.5), 1.25  # percentiles inside the mask, and room above them


class MaskSlice(NamedTuple):
    """A slice of a scan with its mask.

    Attributes
    ----------
    values, inside : (width, height), upright; which are inside.
    spacing : of the voxels along both axes.
    """

    values: FloatArray
    inside: NDArray[np.bool_]
    spacing: tuple[float, float]


def masks_figure(sites: Mapping[str, Sequence[MaskSlice]]) -> Figure:
    """Draw the outline of the mask on slices of one scan of each site, a column per site.

    All are drawn to one scale, so that masks of different sizes look it.

    Parameters
    ----------
    sites : the slices of each site, as many for all.
    """
    rows = [*zip(*sites.values(), strict=True)]
    sizes = np.array([[np.multiply(s.inside.shape, s.spacing) for s in row] for row in rows])
    wide, high = sizes[..., 0].max(), sizes[..., 1].max(axis=1)
    size = max(_PANEL * len(sites), 3.0), _PANEL * high.sum() / wide + 0.25
    with style.new_figure(*size) as figure:
        grid = figure.subplots(len(rows), len(sites), squeeze=False, height_ratios=high)
        for axes, site in zip(grid[0], sites, strict=True):
            axes.set_title(style.label(site, 18))
        for (row, column), axes in np.ndenumerate(grid):
            one, (right, up) = rows[row][column], sizes[row, column] / 2
            low, top = np.percentile(one.values[one.inside], _SHOWN).tolist()
            top = low + _BRIGHTER * max(top - low, 1e-9)
            place = {"origin": "lower", "extent": (-right, right, -up, up)}
            axes.imshow(one.values.T, "gray", vmin=low, vmax=top, **place)
            axes.contour(one.inside.T, [0.5], colors=style.SECOND, linewidths=0.7, **place)
            axes.set(xlim=(-wide / 2, wide / 2), ylim=(-high[row] / 2, high[row] / 2))
            axes.set_axis_off()
    return figure

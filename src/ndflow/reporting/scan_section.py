"""A scan on the page of its study: a row of the table, figures, and a view before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.density import GaussianMixture
from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.doubt import Doubt
from ndflow.errors import FileError, InvalidValueError
from ndflow.figures.export import svg
from ndflow.figures.slices import slices_figure
from ndflow.image.orient import small_volume
from ndflow.methods.model import DensityModel
from ndflow.methods.targets import chosen_density
from ndflow.metrics.distribution import empirical_distribution
from ndflow.reporting.before_after import BeforeAfter, before_after
from ndflow.reporting.content import Picture, ScanEntry, Views
from ndflow.reporting.scan_summary import ScanSummary
from ndflow.scan.plot import plot_scan

__all__ = ["COLUMNS", "EXPLAINED", "scan_entry"]

COLUMNS = (
    "voxels",
    "components",
    "misfit",
    "divergence",
    "left",
    "flattest",
    "steepest",
    "W1",
)
EXPLAINED = (
    ("voxels", "used to estimate the density"),
    ("components", "of the mixture"),
    ("misfit", "largest difference between the distribution functions of histogram and mixture"),
    (
        "divergence",
        "of the density from its target after alignment; with --mode site, that of the site; "
        "with two-level, after the site's map",
    ),
    ("left", "what remains of that divergence after the match"),
    (
        "flattest, steepest",
        "slope of the map where the scan has intensities, as a multiple of the alignment's",
    ),
    ("W1", "Wasserstein distance of the result from its target, in standard deviations"),
)

_WINDOW = (0.5, 99.5)  # percentiles of the result that are black and white


def scan_entry(
    scan: ScanSummary,
    doubts: Sequence[Doubt],
    reference: DensityModel | None,
    *,
    colour: str,
    pictured: bool,
    viewed: bool,
    max_bytes: int,
) -> ScanEntry:
    """Return what the page says of a scan.

    Parameters
    ----------
    scan, doubts : the scan, and what to check in it.
    reference : in the units of the result; None where there is none.
    colour : of its site.
    pictured, viewed : whether its figures are shown, and whether it can be seen in the viewer.
    max_bytes : the largest file to read.
    """
    match, name = scan.record.match, scan.scan.name
    choice = match.target if match else None
    target = None if reference is None else chosen_density(choice, reference)
    divergence = match.divergence if match else None
    slopes = match.slopes.relative_to_affine if match and match.slopes else (None, None)
    apart = None
    if target is not None:
        off = np.abs(scan.quantiles("result") - target.quantile(QUANTILE_LEVELS)).mean()
        apart = float(off / np.sqrt(target.covariance()[0, 0]))
    cells: list[str | float | None] = [
        None if scan.model.voxels is None else scan.model.voxels.fitted,
        scan.mixture.components,
        scan.model.misfit,
        None if divergence is None else divergence.before,
        None if divergence is None else divergence.after,
        *slopes,
        apart,
    ]
    picture = views = None
    flags = list(doubts)
    if pictured:
        try:
            pair = before_after(scan.scan, scan.paths, scan.record, max_bytes)
            picture = _scan_picture(scan, pair, target, colour)
            views = _views(name, pair, target) if viewed else None
        except (FileError, InvalidValueError) as error:
            picture = views = None
            flags.append(Doubt("not shown", f"It cannot be shown here: {error}", "see its row"))
    notes = [choice.sentence()] if choice else []
    if match is not None and match.lesions is not None:
        notes.append(match.lesions.sentence())
    return ScanEntry(name, scan.site, cells, flags, picture, views, notes)


def _scan_picture(
    scan: ScanSummary, pair: BeforeAfter, target: GaussianMixture | None, colour: str
) -> Picture:
    inside = np.isfinite(pair.before) & np.isfinite(pair.after)
    before, after = (
        empirical_distribution(picture[inside]) for picture in (pair.before, pair.after)
    )
    figure = plot_scan(scan.mixture, scan.imap, before, after, target, colour=colour)
    alt = f"{scan.scan.name}: histogram and mixture, intensity map, and histogram of the result"
    return Picture(svg(figure), alt)


def _views(name: str, pair: BeforeAfter, target: GaussianMixture | None) -> Views:
    before, after = pair.slices()
    if target is None:
        low, high = np.percentile(pair.after[np.isfinite(pair.after)], _WINDOW).tolist()
    else:  # one window for all scans of the study
        low, high = target.quantile(np.array(_WINDOW) / 100).tolist()
    figure = slices_figure(before, after, name, window=(low, high))
    slices = Picture(
        svg(figure),
        f"Slices of {name} before and after normalisation",
        f"{name}: axial, coronal and sagittal; the left of the head is on the left.",
    )
    old, new = (small_volume(picture, pair.spacing) for picture in (pair.before, pair.after))
    return Views(old, new, slices)

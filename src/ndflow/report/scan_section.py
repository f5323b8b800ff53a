"""A scan on the page of its study: a row of the table, figures, and a view before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.compare.curves import component_densities, edges_around
from ndflow.compare.views import BeforeAfter, before_after, small_volume
from ndflow.density import GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.figures.export import svg
from ndflow.figures.scan_panels import ScanPanel, scan_figure
from ndflow.figures.slices import slices_figure
from ndflow.methods.lesions import lesions_in_words
from ndflow.methods.model import Portrait
from ndflow.methods.target_density import aim_again, in_words
from ndflow.metrics.distribution import empirical_distribution
from ndflow.metrics.histogram_fit import QUANTILE_LEVELS
from ndflow.report.content import Picture, ScanEntry, Views
from ndflow.report.scan_summary import ScanSummary

__all__ = ["COLUMNS", "EXPLAINED", "scan_entry"]

COLUMNS = (
    "voxels",
    "parts",
    "misfit",
    "divergence",
    "left",
    "flattest",
    "steepest",
    "W1",
)
EXPLAINED = (
    ("voxels", "that the fit of the density saw"),
    ("parts", "components of the mixture"),
    ("misfit", "largest difference between the distribution functions of histogram and mixture"),
    (
        "divergence",
        "of the density from its target after alignment; with --mode site, of the site's; "
        "with two-level, after the site's map",
    ),
    ("left", "of that divergence after the match"),
    (
        "flattest, steepest",
        "slope of the map between the 1st and 99th percentile, as a multiple of the alignment's",
    ),
    ("W1", "Wasserstein distance of the result from its target, in standard deviations"),
)

_POINTS = 160
_ENDS = (0.0005, 0.9995)
_WINDOW = (0.5, 99.5)  # percentiles of the result that are black and white


def scan_entry(
    scan: ScanSummary,
    warned: Sequence[str],
    reference: Portrait | None,
    *,
    colour: str,
    pictured: bool,
    viewed: bool,
    max_bytes: int,
) -> ScanEntry:
    """Return what the page says of a scan.

    Parameters
    ----------
    scan, warned : the scan, and what to check in it.
    reference : in the units of the result; None where there is none.
    colour : of its site.
    pictured, viewed : whether its figures are shown, and whether it can be seen in the viewer.
    max_bytes : the largest file to read.
    """
    record, name = scan.record, scan.member.name
    target = None if reference is None else aim_again(record, reference)
    aim = record.get("aim")
    divergence = record.get("divergence") or {}
    slopes = scan.slopes or (None, None)
    apart = None
    if target is not None:
        off = np.abs(scan.quantiles("result") - target.quantile(QUANTILE_LEVELS)).mean()
        apart = float(off / np.sqrt(target.covariance()[0, 0]))
    cells: list[str | float | None] = [
        (scan.model.get("voxels") or {}).get("fitted"),
        scan.mixture.components,
        scan.model.get("misfit"),
        divergence.get("before"),
        divergence.get("after"),
        *slopes,
        apart,
    ]
    picture = views = None
    flags = list(warned)
    if pictured:
        try:
            pair = before_after(scan.member, max_bytes)
            picture = _scan_picture(scan, pair, target, colour)
            views = _views(name, pair, target) if viewed else None
        except (FileError, InvalidValueError) as error:
            picture = views = None
            flags.append(f"It cannot be shown here: {error}")
    notes = [in_words(aim)] if aim else []
    if lesions := record.get("lesions"):
        notes.append(lesions_in_words(lesions))
    return ScanEntry(name, scan.site, cells, flags, picture, views, notes)


def _scan_picture(
    scan: ScanSummary, pair: BeforeAfter, target: GaussianMixture | None, colour: str
) -> Picture:
    mixture = scan.mixture
    low, high = mixture.quantile(_ENDS).tolist()
    x = np.linspace(low, high, _POINTS)
    components = component_densities(mixture, x)
    map_y, log_slope = scan.imap.with_log_det_jacobian(x)
    inside = np.isfinite(pair.before) & np.isfinite(pair.after)
    before, after = (
        empirical_distribution(pair.before[inside]),
        empirical_distribution(pair.after[inside]),
    )
    y = np.linspace(map_y[0], map_y[-1], _POINTS)
    # The line that the alignment alone would be: from the scan's mean and spread to the result's.
    mean, spread = after.mean(), after.sd()
    if target is not None:
        mean, spread = float(target.mean()[0]), float(np.sqrt(target.covariance()[0, 0]))
    straight = mean + spread * scan.alignment(x)
    panel = ScanPanel(
        x=x,
        histogram=before.density(edges_around(x)),
        mixture=components.sum(axis=0),
        components=components,
        map_x=x,
        map_y=map_y,
        map_slope=np.exp(log_slope),
        map_straight=straight,
        y=y,
        result=after.density(edges_around(y)),
        target=None if target is None else np.exp(target.logpdf(y)),
        quantiles=None if target is None else after.quantile(QUANTILE_LEVELS),
        target_quantiles=None if target is None else target.quantile(QUANTILE_LEVELS),
    )
    name = scan.member.name
    alt = f"{name}: histogram and mixture, intensity map, and histogram of the result"
    return Picture(svg(scan_figure(panel, colour=colour)), alt)


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

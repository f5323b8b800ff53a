"""The densities of a study on its page: how far scans lie apart, in numbers and in pictures.

Aligned and normalised densities are drawn in the same units and with the same axes, for all sites,
so that they can be compared by eye: the alignment is taken to the mean and standard deviation of
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.evaluation.sites import distance_between_sites, distance_within_sites
from ndflow.figures.cohort import DensityPanel, density_picture
from ndflow.figures.style import svg
from ndflow.methods.base import DensityModel, known_within
from ndflow.population import TISSUES
from ndflow.population.proportions import Trust
from ndflow.reporting.content import Headline, Picture
from ndflow.reporting.scan_section import ScanSummary
from ndflow.study.checks import NO_SITE, scan_medians
from ndflow.study.plan import Study
from ndflow.study.visits import later_scans, visits_said
from ndflow.subject.records import Agreement, percent
from ndflow.values import FloatArray, listed, plural

_LOGARITHMIC = 3.0  # medians that differ by this factor need a logarithmic axis
_ROOM = 1.25  # of the highest average of a site: the height of an axis
_POINTS, _RAW_POINTS = 300, 400  # of a curve; of one of an unnormalised scan
_DARK = 0.05  # the share of voxels that may lie below a logarithmic axis


def headline(
    scans: Sequence[ScanSummary], sites: Sequence[str], found: Agreement | None
) -> Headline:
    """Return what was achieved: how far tissues lie apart, and in detail, histograms.

    Parameters
    ----------
    scans, sites : of the study.
    found : how far tissues lie apart, if that is known.
    """
    if len(scans) < 2:
        return Headline("There is one scan, and nothing to compare it with.")
    between = f" of {plural(len(sites), 'site')}" if len(sites) > 1 else ""
    done, details = f"{plural(len(scans), 'scan')}{between}", _details(scans)
    if found is None:
        why = "as no tissue maps were used"
        said = f"{done} were normalised. How far tissues lie apart was not measured, {why}."
        return Headline(said, details=details)
    own, zscored, nyul = (mean.replace(" ", "\xa0") for mean in found.means)
    some = done if found.scans == len(scans) else f"{found.scans} scans with tissue maps"
    made = " The same tissue maps made the target." if found.own_maps else ""
    names = ("Normalised", "Z-scored", "Nyúl’s method")
    spread = (found.normalised, found.zscored, found.nyul)
    rows = [
        (name, *(percent(share) for share in part.values()), mean)
        for name, part, mean in zip(names, spread, found.means, strict=True)
    ]
    return Headline(
        f"This study {found.failure}."
        if found.failure
        else f"Median tissue intensities of {some} vary by {own} of the gap between GM and WM; "
        f"z-scoring alone leaves {zscored}, Nyúl’s method {nyul}.{made}",
        [("", *found.normalised, "Mean"), *rows],
        "Standard deviation over scans of the median intensity of each tissue, in percent of the "
        "gap between the medians of GM and WM; less is better.",
        details,
    )


_HARDLY = 0.25  # share of the variance of proportions: a site with less is hardly adapted


def tissues_known(scans: Sequence[ScanSummary], sites: Mapping[str, Trust]) -> Headline | None:
    """Return to what tissues are known, and how far each site is adapted to people.

    None where no proportions were estimated.

    Parameters
    ----------
    scans : of the study.
    sites : how far the proportions of people are known at each site.
    """
    matches = (scan.record.match for scan in scans)
    choices = [match.target for match in matches if match and match.target]
    known = [choice.intervals for choice in choices if choice.intervals]
    if not known:
        return None
    said = known_within({name: median(one[name] for one in known) for name in known[0]})
    said += "; medians over scans." if len(known) > 1 else "."
    hardly = [name for name, own in sites.items() if own.determined < _HARDLY]
    if hardly:
        said += " Contrast may explain most of what differs between scans, which are therefore "
        said += f"hardly adapted to people’s own proportions of tissue ({listed(hardly)})."
    rows = [
        (name, f"± {percent(one.contrast)}", percent(one.determined)) for name, one in sites.items()
    ]
    head = ("", "Contrast between scans", "Proportions determined")
    return Headline(
        said,
        [head, *rows] if rows else [],
        "How much contrast varies between scans of a site (standard deviation), and what share of "
        "the usual variance of tissue proportions between people its scans determine. Near 0 %, "
        "proportions of people are not adapted to: all scans get nearly those of the population.",
    )


_CHANGE = (
    "CSF, GM and WM: by how much the median of the tissue has changed since the first scan, in "
    "percent of the gap between the medians of GM and WM."
)


def visits(study: Study, scans: Sequence[ScanSummary]) -> Headline | None:
    """Return who was scanned several times, and how tissues change; None if nobody was.

    Parameters
    ----------
    study : what was done, with the scans in the order of the user.
    scans : its scans.
    """
    said = visits_said(study, study.scans)
    if said is None:
        return None
    found = {scan.scan.name: scan_medians(scan.model, scan.record.map) for scan in scans}
    medians = {name: one.normalised for name, one in found.items() if one}
    _, gm, wm = np.mean([*medians.values()], axis=0) if medians else (0, 0, 1)
    rows = [["Person", "Site", "First scan", "Later scan", *(TISSUES if medians else ())]]
    for first, later in later_scans(study.scans):
        sites = " → ".join(dict.fromkeys(scan.site or NO_SITE for scan in (first, later)))
        known = {first.name, later.name} <= medians.keys()
        change = medians[later.name] - medians[first.name] if known else np.empty(0)
        shares = np.round(100 * change / abs(wm - gm), 1) + 0.0  # not −0.0
        cells = [f"{share:+} %".replace("-", "−") for share in shares.tolist()]
        rows.append([str(first.person), sites, first.name, later.name, *cells])
    return Headline(f"{said}.", rows, _CHANGE if medians else "")


def _details(scans: Sequence[ScanSummary]) -> str:
    """Return how far histograms lie apart, and what that is worth."""
    sites = [scan.site for scan in scans]
    several = len({*sites}) > 1
    distance = distance_between_sites if several else distance_within_sites
    what, apart = ("sites", "apart") if several else ("scans", "from their average")
    quantiles = np.array([list(scan.quantiles.values()) for scan in scans])
    raw, aligned, result = (
        f"{distance(one / one.std(axis=1).mean(), sites):.3g}" for one in quantiles.swapaxes(0, 1)
    )
    return (
        f"Histograms of {what} lie {result} standard deviations {apart} (W1); z-scored {aligned}, "
        f"unnormalised {raw}. Making histograms equal is not the aim: people differ in how much "
        f"CSF, GM and WM they have, so this distance may rise while tissues come closer together."
    )


def populations(
    scans: Sequence[ScanSummary], target: DensityModel, sites: Sequence[str]
) -> list[Picture]:
    """Return the densities of all scans under each condition.

    Parameters
    ----------
    scans, sites : of the study.
    target : the reference in the units of the result.
    """
    comparable = _comparable(scans, target)
    axes = [None, *[_tallest(comparable)] * len(comparable)]
    return [
        Picture(
            svg(density_picture(panel, sites=sites, tallest=tallest)),
            f"Densities of all scans by site, {panel.title}",
        )
        for panel, tallest in zip([_unnormalised(scans), *comparable], axes, strict=True)
    ]


def _unnormalised(scans: Sequence[ScanSummary]) -> DensityPanel:
    """Return the densities as scanned, on a logarithmic axis if sites are that far apart."""
    curves = [scan.curves["raw"] for scan in scans]
    low, high = min(x[0] for x, _ in curves), max(x[-1] for x, _ in curves)
    medians = [float(np.median(scan.quantiles["raw"])) for scan in scans]
    dark = [float(np.interp(_DARK, QUANTILE_LEVELS, scan.quantiles["raw"])) for scan in scans]
    logarithmic = min(dark) > 0 and max(medians) > _LOGARITHMIC * min(medians)
    x = np.linspace(low, high, _RAW_POINTS)
    if logarithmic:
        least = min(float(scan.model.mixture.quantile(_DARK)) for scan in scans)
        x = np.geomspace(max(low, least / 2), high, _RAW_POINTS)
    lines = _by_site(scans, curves, x)
    return DensityPanel("unnormalised", x, lines, units="intensity", logarithmic=logarithmic)


def _comparable(scans: Sequence[ScanSummary], target: DensityModel) -> list[DensityPanel]:
    """Return the densities aligned and normalised, in the same units and at the same points."""
    mean = float(target.mixture.mean()[0])
    sd = float(np.sqrt(target.mixture.covariance()[0, 0]))
    curves = {"z-scored": [], "normalised": [scan.curves["result"] for scan in scans]}
    for scan in scans:
        y, density = scan.curves["aligned"]
        curves["z-scored"].append((mean + sd * y, density / sd))
    # From where the curve of the median scan begins to where it ends.
    ends = [(y[0], y[-1]) for own in curves.values() for y, _ in own]
    low, high = np.median(ends, axis=0).tolist()
    x = np.linspace(low, high, _POINTS)
    return [
        DensityPanel(title, x, _by_site(scans, own, x), units="normalised intensity")
        for title, own in curves.items()
    ]


def _by_site(
    scans: Sequence[ScanSummary], curves: Sequence[tuple[FloatArray, FloatArray]], x: FloatArray
) -> dict[str, list[FloatArray]]:
    """Return the density of every scan at some intensities, by site."""
    found: dict[str, list[FloatArray]] = {}
    for scan, (y, density) in zip(scans, curves, strict=True):
        found.setdefault(scan.site, []).append(np.interp(x, y, density, left=0, right=0))
    return found


def _tallest(panels: Iterable[DensityPanel]) -> float:
    return _ROOM * max(
        float(np.asarray(lines).mean(axis=0).max())
        for panel in panels
        for lines in panel.densities.values()
    )

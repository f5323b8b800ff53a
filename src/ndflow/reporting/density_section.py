"""The densities of a study on its page: how far sites lie apart, in numbers and in pictures.

Aligned and normalised densities are drawn in the same units and with the same axes, for all sites,
so that they can be compared by eye: the alignment is taken to the mean and standard deviation of
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ndflow.density.binning import QUANTILE_LEVELS
from ndflow.figures.densities import DensityPanel, density_picture
from ndflow.figures.style import colours, svg
from ndflow.methods.base import DensityModel
from ndflow.population.balancing import SiteBalance
from ndflow.reporting.content import Headline, Picture, SiteEntry
from ndflow.reporting.scan_section import ScanSummary, densities_by_site
from ndflow.study.distances import SiteDistances, site_distances
from ndflow.values import plural

_LOGARITHMIC = 3.0  # medians that differ by this factor need a logarithmic axis
_CONDITIONS = {"raw": "unnormalised", "aligned": "aligned", "result": "normalised"}
_ROOM = 1.25  # of the highest average of a site: the height of an axis
_MOST_SITES = 12  # with pictures of their own
_POINTS = 300  # of a curve


def _distances(scans: Sequence[ScanSummary]) -> SiteDistances | None:
    """Return how far apart sites are under each condition; of one site, its scans."""
    quantiles = [[scan.quantiles(condition) for condition in _CONDITIONS] for scan in scans]
    return site_distances(np.array(quantiles), [scan.scan.site for scan in scans])


def headline(scans: Sequence[ScanSummary], sites: Sequence[str]) -> Headline:
    """Return what was achieved: how far sites lie apart, compared with alignment alone."""
    found = _distances(scans)
    if found is None:
        return Headline("There is one scan, and nothing to compare it with.", [])
    raw, aligned, result = (
        f"{apart:.3g}" for apart in (found.raw, found.aligned, found.normalised)
    )
    what, apart = (
        (f"the {plural(len(sites), 'site')}", "apart")
        if len(sites) > 1
        else (f"the {plural(len(scans), 'scan')}", "from their average")
    )
    sentence = (
        f"Histograms of {what} lie {result} standard deviations {apart}; aligning mean and "
        f"standard deviation alone leaves {aligned} (unnormalised: {raw})."
    )
    labels = ("normalised", "aligned in mean and sd", "unnormalised")
    numbers = list(zip(labels, (result, aligned, raw), strict=True))
    between = "between sites" if len(sites) > 1 else "of scans from their average"
    return Headline(sentence, numbers, f"Distance {between}, in standard deviations")


def populations(
    scans: Sequence[ScanSummary], target: DensityModel, sites: Sequence[str]
) -> list[Picture]:
    """Return the densities of all scans under each condition.

    Parameters
    ----------
    scans, sites : of the study.
    target : the reference in the units of the result.
    """
    raw = densities_by_site(scans, "raw", logarithmic=_needs_logarithm(scans))
    panels = [
        DensityPanel("unnormalised", *raw, units="intensity", logarithmic=_needs_logarithm(scans)),
        *_comparable(scans, target).values(),
    ]
    tallest = _tallest(panels[1:])
    return [
        Picture(
            svg(density_picture(panel, sites=sites, tallest=tallest if number else None)),
            f"Densities of all scans by site, {panel.title}",
        )
        for number, panel in enumerate(panels)
    ]


def site_entries(
    scans: Sequence[ScanSummary],
    target: DensityModel,
    sites: Sequence[str],
    balance: Mapping[str, SiteBalance] = MappingProxyType({}),
) -> list[SiteEntry]:
    """Return each site by itself, drawn with the axes of all.

    Parameters
    ----------
    scans, target, sites : as for `populations`.
    balance : what the weights of each site achieve, if scans are weighted.
    """
    palette = colours(sites)
    panels = _comparable(scans, target)
    tallest = _tallest(panels.values())
    entries = []
    for number, name in enumerate(sites):
        own = [scan for scan in scans if scan.site == name]
        found = _distances(own)
        sentence = "One scan."
        if found is not None:
            sentence = (
                f"Its scans lie {found.aligned:.3g} standard deviations from their average "
                f"after alignment, and {found.normalised:.3g} after normalisation."
            )
        if name in balance:
            sentence += f" {_weighted(balance[name])}"
        pictures = []
        for panel in panels.values() if number < _MOST_SITES else ():
            alone = panel._replace(densities={name: panel.densities[name]})
            drawn = svg(density_picture(alone, sites=sites, tallest=tallest))
            pictures.append(Picture(drawn, f"Densities of the scans of {name}, {panel.title}"))
        entries.append(SiteEntry(name, len(own), palette[name], pictures, sentence))
    return entries


def _weighted(site: SiteBalance) -> str:
    """Return what the weights of a site achieve, in a sentence."""
    changes = ", ".join(
        f"{name} {_number(site.before[name])} → {_number(site.after[name])}".replace(
            " ", "\N{NO-BREAK SPACE}"
        )
        for name in site.after
    )
    near = ", which is near the other sites but not the same" * (site.reach == "approximate")
    return (
        f"Weighted for the references, they count as {site.effective:.1f} of "
        f"{plural(site.scans, 'scan')}; on average, {changes}{near}."
    )


def _number(value: float) -> str:
    """Return a mean or a share, with as many decimals as others of its size."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _comparable(scans: Sequence[ScanSummary], target: DensityModel) -> dict[str, DensityPanel]:
    """Return the densities aligned and normalised, in the same units and at the same points."""
    mean = float(target.mixture.mean()[0])
    sd = float(np.sqrt(target.mixture.covariance()[0, 0]))
    x = np.linspace(*_ends(scans, mean, sd), _POINTS)
    return {
        condition: DensityPanel(
            _CONDITIONS[condition],
            *densities_by_site(scans, condition, units=(mean, sd), x=x),
            units="normalised intensity",
        )
        for condition in ("aligned", "result")
    }


def _ends(scans: Sequence[ScanSummary], mean: float, sd: float) -> tuple[float, float]:
    """Return where axes begin and end: where the curve of the median scan does."""
    curves = [
        scan.curve(condition, (mean, sd))[0]
        for scan in scans
        for condition in ("aligned", "result")
    ]
    low, high = (float(np.median([y[end] for y in curves])) for end in (0, -1))
    return low, high


def _tallest(panels: Iterable[DensityPanel]) -> float:
    return _ROOM * max(
        float(np.asarray(lines).mean(axis=0).max())
        for panel in panels
        for lines in panel.densities.values()
    )


def _needs_logarithm(scans: Sequence[ScanSummary]) -> bool:
    medians = [float(scan.quantiles("raw")[scan.quantiles("raw").size // 2]) for scan in scans]
    least = min(float(np.interp(0.05, QUANTILE_LEVELS, scan.quantiles("raw"))) for scan in scans)
    return least > 0 and max(medians) > _LOGARITHMIC * min(medians)

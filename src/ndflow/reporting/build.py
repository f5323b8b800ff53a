"""The page of a finished study: OUT/report.html.

Numbers and densities come from the models and sidecars of all scans; images are read for a sample
of scans only, flagged ones first, so the page stays small and quick for a large cohort.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndflow.doubt import Doubt
from ndflow.errors import InvalidValueError
from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.export import svg
from ndflow.figures.headline import headline_figure
from ndflow.figures.style import colours
from ndflow.files.atomic import AnyPath, check_new, new_file
from ndflow.methods.model import DensityModel
from ndflow.metrics.site_distance import distance_between_sites, distance_within_sites
from ndflow.reporting.boilerplate import facts, methods_paragraph
from ndflow.reporting.content import Headline, Page, Picture, SiteEntry
from ndflow.reporting.evaluation_section import evaluation_section
from ndflow.reporting.page import render
from ndflow.reporting.scan_section import COLUMNS, EXPLAINED, scan_entry
from ndflow.reporting.scan_summary import ScanSummary, densities_by_site, scan_summaries
from ndflow.reporting.viewer import niivue
from ndflow.scan.settings import Reading
from ndflow.scan.target import in_units, target_of
from ndflow.study.finished import FinishedStudy, unchanging
from ndflow.study.folder import EVALUATION, REPORT, refuse_foreign_page
from ndflow.study.parallel.tasks import read_failures
from ndflow.study.references import read_reference, reference_name
from ndflow.values import path_like, whole

__all__ = ["check_report", "headline", "report"]

_LOGARITHMIC = 3.0  # medians that differ by this factor need a logarithmic axis
_CONDITIONS = {"raw": "unnormalised", "aligned": "aligned", "result": "normalised"}


class _Sample(NamedTuple):
    """Which scans are shown, and which of them in the viewer too."""

    pictures: set[str]
    viewer: set[str]


def check_report() -> None:
    """Refuse to begin without the packages that a page needs."""
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            raise InvalidValueError(
                f"a report needs {package}, which is not installed; "
                f"try pip install 'ndflow[report]'"
            )


def report(
    out: AnyPath, *, sample: int = 20, viewer: int = 9, max_bytes: int = Reading.max_bytes
) -> Path:
    """Write the page of a finished study, ``OUT/report.html``, as ``ndflow report`` does.

    Parameters
    ----------
    out : the folder of the study.
    sample : how many scans are shown with figures, flagged ones first; the others are rows of a
        table.
    viewer : how many of these can be seen before and after in the viewer.
    max_bytes : refuse files with more bytes than this when decompressed.

    Returns
    -------
    Path
        The page, which replaces an earlier one of ndflow, but no file of anybody else.

    Raises
    ------
    FileError
        Where the folder holds no finished study, or a page that ndflow has not written.
    InvalidValueError
        Where a package is missing that the page needs.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.report("out")  # doctest: +SKIP
    """
    check_report()
    path_like(out, "out")
    whole(sample, "sample", 0, 1 << 31)
    whole(viewer, "viewer", 0, 1 << 31)
    path = Path(out) / REPORT
    with unchanging([out]) as (run,):
        refuse_foreign_page(Path(out))
        check_new(path, force=True)
        scans = scan_summaries(run)
        doubts = {scan.scan.name: _doubts(run, scan) for scan in scans}
        scans.sort(key=lambda scan: not doubts[scan.scan.name])  # those to check come first
        target = _target(run)
        chosen = _sample(scans, doubts, sample, viewer)
        page = _page(run, scans, doubts, target, chosen, max_bytes)
    text = render(page, bundle=niivue() if chosen.viewer else None)
    refuse_foreign_page(Path(out))  # again: making the page takes a while
    with new_file(path, force=True) as file:
        file.write(text.encode())
    return path


def _doubts(run: FinishedStudy, scan: ScanSummary) -> list[Doubt]:
    """Return what to check in a scan: what the run found doubtful, and its warnings, each once."""
    warnings = dict.fromkeys([*scan.model.warnings, *scan.record.warnings])
    return [
        *run.record.doubts.get(scan.scan.name, ()),
        *(Doubt("warning", text, "see what it says") for text in warnings),
    ]


def _target(run: FinishedStudy) -> DensityModel | None:
    """Return the reference in the units of the result; None for methods with units of their own."""
    study = run.study
    if study.method.own_units:
        return None
    path = str(study.folder / reference_name(None))
    aside = replace(study.matching, lesions=None)  # what was found is in the sidecars
    model = DensityModel.of_reference(read_reference(path))
    return in_units(target_of(model, True, path, aside), study.matching)


def _sample(
    scans: Sequence[ScanSummary], doubts: Mapping[str, Sequence[Doubt]], count: int, viewer: int
) -> _Sample:
    """Choose scans to show: flagged ones first, then of each site in turn."""
    flagged = [scan.scan.name for scan in scans if doubts[scan.scan.name]]
    turns: dict[str, int] = {}
    others = []
    for scan in scans:
        if not doubts[scan.scan.name]:
            turns[scan.site] = turns.get(scan.site, 0) + 1
            others.append((turns[scan.site], scan.site, scan.scan.name))
    odd = flagged[:count]
    plain = [name for *_, name in sorted(others)][: count - len(odd)]
    half = (viewer + 1) // 2  # of the places in the viewer are for flagged scans
    seen = [*odd[:half], *plain, *odd[half:]][:viewer]
    return _Sample({*odd, *plain}, set(seen))


def _page(
    run: FinishedStudy,
    scans: Sequence[ScanSummary],
    doubts: Mapping[str, Sequence[Doubt]],
    target: DensityModel | None,
    chosen: _Sample,
    max_bytes: int,
) -> Page:
    failures = read_failures(run.study.folder)
    sites = sorted({scan.site for scan in scans})
    palette = colours(sites)
    named = sorted({scan.scan.site for scan in scans if scan.scan.site})
    masks = {str(scan.record.setting("mask")) for scan in scans}
    evaluation = evaluation_section(run.study.folder / EVALUATION, run.results)
    return Page(
        title=f"ndflow: {run.name}",
        facts=facts(run, len(failures)),
        failures=failures,
        headline=headline(scans, sites),
        populations=_populations(scans, sites),
        sites=[_site(name, scans, sites) for name in sites] if len(sites) > 1 else [],
        columns=COLUMNS,
        scans=[
            scan_entry(
                scan,
                doubts[scan.scan.name],
                target,
                colour=palette[scan.site],
                pictured=scan.scan.name in chosen.pictures,
                viewed=scan.scan.name in chosen.viewer,
                max_bytes=max_bytes,
            )
            for scan in scans
        ],
        tables=evaluation.tables,
        pictures=evaluation.pictures,
        methods=methods_paragraph(run, named, masks),
        citation=run.study.method.bibtex,
        explained=EXPLAINED,
    )


def _distances(scans: Sequence[ScanSummary], sites: Sequence[str]) -> list[tuple[str, float]]:
    """Return how far apart sites are under each condition; of one site, its scans.

    In standard deviations of a scan under the same condition.
    """
    of_scan = [scan.site for scan in scans]
    found = []
    for condition, name in _CONDITIONS.items():
        quantiles = np.array([scan.quantiles(condition) for scan in scans])
        quantiles = quantiles / quantiles.std(axis=1).mean()
        apart = 0.0
        if len(scans) > 1:
            apart = (distance_between_sites if len(sites) > 1 else distance_within_sites)(
                quantiles, of_scan
            )
        found.append((name, apart))
    return found


def headline(scans: Sequence[ScanSummary], sites: Sequence[str]) -> Headline:
    """Return what was achieved: how far sites lie apart, before and after."""
    distances = _distances(scans, sites)
    several = len(sites) > 1
    what = "sites" if several else "scans"
    numbers = [(name, f"{apart:.3g}") for name, apart in distances]
    raw, aligned, result = (apart for _, apart in distances)
    apart = "apart" if several else "from their average"
    sentence = (
        f"Histograms of {what} lie {result:.3g} standard deviations {apart} (Wasserstein "
        f"distance). They were {raw:.3g} {apart} before; aligning mean and standard deviation "
        f"alone leaves {aligned:.3g}."
    )
    if len(scans) == 1:
        sentence = "There is one scan, and nothing to compare it with."
    title = "distance between sites" if several else "distance from the average scan"
    picture = headline_figure(
        distances,
        _panel(scans, "raw"),
        _panel(scans, "result"),
        sites=sites,
        title=title,
    )
    alt = f"{title}: " + ", ".join(f"{name} {value}" for name, value in numbers)
    return Headline(sentence, numbers, Picture(svg(picture), alt))


def _panel(scans: Sequence[ScanSummary], condition: str) -> DensityPanel:
    logarithmic = False
    if condition == "raw":
        medians = [float(scan.mixture.quantile(0.5)) for scan in scans]
        least = min(float(scan.mixture.quantile(0.05)) for scan in scans)
        logarithmic = least > 0 and max(medians) > _LOGARITHMIC * min(medians)
    x, by_site = densities_by_site(scans, condition, logarithmic=logarithmic)
    return DensityPanel(_CONDITIONS[condition], x, by_site, logarithmic=logarithmic)


def _populations(scans: Sequence[ScanSummary], sites: Sequence[str]) -> Picture:
    panels = [_panel(scans, condition) for condition in _CONDITIONS]
    figure = density_figure(panels, sites=sites)
    alt = "Densities of all scans by site: unnormalised, aligned, and normalised"
    return Picture(svg(figure), alt, "One line per scan; thick lines are the averages of sites.")


def _site(name: str, scans: Sequence[ScanSummary], sites: Sequence[str]) -> SiteEntry:
    own = [scan for scan in scans if scan.site == name]
    panels = [_panel(own, condition) for condition in ("aligned", "result")]
    picture = Picture(
        svg(density_figure(panels, sites=sites)),
        f"Densities of the scans of {name}, aligned and normalised",
    )
    sentence = "One scan."
    if len(own) > 1:
        _, (_, aligned), (_, result) = _distances(own, [name])
        sentence = (
            f"Its scans lie {aligned:.3g} standard deviations from their average after alignment, "
            f"and {result:.3g} after normalisation."
        )
    return SiteEntry(name, len(own), colours(sites)[name], picture, sentence)

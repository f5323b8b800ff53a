"""The page of a finished study: OUT/report.html.

Numbers and densities come from the models and maps of all scans; images are read of a sample only,
flagged scans first, so the page stays small and quick for a large cohort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.evaluation import between, within
from ndflow.io import AnyPath, check_new, new_file, read_model
from ndflow.report import (
    CentreEntry,
    Headline,
    Page,
    Panel,
    Picture,
    colours,
    headline_figure,
    niivue,
    populations,
    render,
    svg,
)
from ndflow.values import whole
from ndflow.workflow.accounts import Account, accounts, densities
from ndflow.workflow.cohort import PROVENANCE, REPORT
from ndflow.workflow.flags import flags
from ndflow.workflow.portrait import Portrait, has_own_units
from ndflow.workflow.prose import citation, facts, methods
from ndflow.workflow.references import reference_name
from ndflow.workflow.report_evaluation import evaluated_numbers, evaluated_pictures, rows_of
from ndflow.workflow.report_scans import COLUMNS, EXPLAINED, scan_entry
from ndflow.workflow.runs import Run, read_runs
from ndflow.workflow.several import FAILURES
from ndflow.workflow.target import in_units, read_target

__all__ = ["REPORT", "check_report", "headline", "write_report"]

_LOGARITHMIC = 3.0  # medians of scans that differ so many times need such an axis
_CONDITIONS = {"raw": "as they came", "aligned": "aligned", "result": "normalised"}


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


def write_report(folder: AnyPath, *, sample: int = 20, viewer: int = 9, max_bytes: int) -> Path:
    """Write the page of a finished study, in place of one that was there.

    Parameters
    ----------
    folder : of the study.
    sample : how many scans are shown with pictures; the others are rows of the table.
    viewer : how many of these can be seen in the viewer.
    max_bytes : the largest file to read.
    """
    check_report()
    whole(sample, "sample", 0, 1 << 31)
    whole(viewer, "viewer", 0, 1 << 31)
    (run,) = read_runs([folder])
    path = Path(folder) / REPORT
    check_new(path, force=True)
    scans = accounts(run)
    warned = flags(scans)
    target = _target(run)
    chosen = _sample(scans, warned, sample, viewer)
    page = _page(run, scans, warned, target, chosen, max_bytes)
    text = render(page, bundle=niivue() if chosen.viewer else None)
    with new_file(path, force=True) as file:
        file.write(text.encode())
    return path


def _target(run: Run) -> Portrait | None:
    """Return the reference in the units of the result; None for methods with units of their own."""
    matching = run.study.matching
    if has_own_units(matching):
        return None
    aside = replace(matching, lesions=None)  # what was found stands in the records
    target = read_target(str(run.study.folder / reference_name(None)), matching=aside)
    return in_units(target, matching)


def _sample(
    scans: Sequence[Account], warned: Sequence[Sequence[str]], count: int, viewer: int
) -> _Sample:
    """Choose scans to show: flagged ones first, then of each centre in turn."""
    flagged = [scan.member.name for scan, own in zip(scans, warned, strict=True) if own]
    turns: dict[str, int] = {}
    others = []
    for scan, own in zip(scans, warned, strict=True):
        if not own:
            turns[scan.centre] = turns.get(scan.centre, 0) + 1
            others.append((turns[scan.centre], scan.centre, scan.member.name))
    odd = flagged[:count]
    plain = [name for *_, name in sorted(others)][: count - len(odd)]
    half = (viewer + 1) // 2  # of the places in the viewer are for flagged scans
    seen = [*odd[:half], *plain, *odd[half:]][:viewer]
    return _Sample({*odd, *plain}, set(seen))


def _page(
    run: Run,
    scans: Sequence[Account],
    warned: Sequence[Sequence[str]],
    target: Portrait | None,
    chosen: _Sample,
    max_bytes: int,
) -> Page:
    _, record = read_model(run.study.folder / PROVENANCE, "study")
    failures = rows_of(run.study.folder / FAILURES)
    centres = sorted({scan.centre for scan in scans})
    palette = colours(centres)
    named = sorted({scan.member.centre for scan in scans if scan.member.centre})
    masks = {str((scan.record.get("settings") or {}).get("mask")) for scan in scans}
    evaluation = run.study.folder / "evaluation"
    return Page(
        title=f"ndflow: {run.name}",
        facts=facts(run.study, record, len(scans), len(failures)),
        failures=[(row["scan"], row["cause"], row["try"]) for row in failures],
        headline=headline(scans, centres),
        populations=_populations(scans, centres),
        centres=[_centre(name, scans, centres) for name in centres] if len(centres) > 1 else [],
        columns=COLUMNS,
        scans=[
            scan_entry(
                scan,
                own,
                target,
                colour=palette[scan.centre],
                pictured=scan.member.name in chosen.pictures,
                viewed=scan.member.name in chosen.viewer,
                max_bytes=max_bytes,
            )
            for scan, own in zip(scans, warned, strict=True)
        ],
        tables=evaluated_numbers(evaluation, run),
        pictures=evaluated_pictures(evaluation, run),
        methods=methods(run.study, record, len(scans), named, masks),
        citation=citation(run.study.matching.method),
        explained=EXPLAINED,
    )


def _distances(scans: Sequence[Account], centres: Sequence[str]) -> list[tuple[str, float]]:
    """Return how far apart centres are under each condition; of one centre, its scans.

    In standard deviations of a scan under the same condition.
    """
    of_scan = [scan.centre for scan in scans]
    found = []
    for condition, name in _CONDITIONS.items():
        quantiles = np.array([scan.quantiles(condition) for scan in scans])
        quantiles = quantiles / quantiles.std(axis=1).mean()
        apart = 0.0
        if len(scans) > 1:
            apart = (between if len(centres) > 1 else within)(quantiles, of_scan)
        found.append((name, apart))
    return found


def headline(scans: Sequence[Account], centres: Sequence[str]) -> Headline:
    """Return what was achieved: how far centres lie apart, before and after."""
    distances = _distances(scans, centres)
    several = len(centres) > 1
    what = "centres" if several else "scans"
    numbers = [(name, f"{apart:.3g}") for name, apart in distances]
    came, aligned, result = (apart for _, apart in distances)
    apart = "apart" if several else "from their average"
    sentence = (
        f"Histograms of {what} lie {result:.3g} standard deviations {apart} (Wasserstein "
        f"distance); they came {came:.3g} {apart}, and aligning mean and spread alone leaves "
        f"{aligned:.3g}."
    )
    if len(scans) == 1:
        sentence = "There is one scan, and nothing to compare it with."
    title = "distance between centres" if several else "distance from the average scan"
    picture = headline_figure(
        distances,
        _panel(scans, "raw"),
        _panel(scans, "result"),
        centres=centres,
        title=title,
    )
    alt = f"{title}: " + ", ".join(f"{name} {value}" for name, value in numbers)
    return Headline(sentence, numbers, Picture(svg(picture), alt))


def _panel(scans: Sequence[Account], condition: str) -> Panel:
    logarithmic = False
    if condition == "raw":
        medians = [float(scan.mixture.quantile(0.5)) for scan in scans]
        least = min(float(scan.mixture.quantile(0.05)) for scan in scans)
        logarithmic = least > 0 and max(medians) > _LOGARITHMIC * min(medians)
    x, by_centre = densities(scans, condition, logarithmic=logarithmic)
    return Panel(_CONDITIONS[condition], x, by_centre, logarithmic=logarithmic)


def _populations(scans: Sequence[Account], centres: Sequence[str]) -> Picture:
    panels = [_panel(scans, condition) for condition in _CONDITIONS]
    figure = populations(panels, centres=centres)
    alt = "Densities of all scans by centre, as they came, aligned, and normalised"
    return Picture(svg(figure), alt, "A line a scan, thick lines the average of a centre.")


def _centre(name: str, scans: Sequence[Account], centres: Sequence[str]) -> CentreEntry:
    own = [scan for scan in scans if scan.centre == name]
    panels = [_panel(own, condition) for condition in ("aligned", "result")]
    picture = Picture(
        svg(populations(panels, centres=centres)),
        f"Densities of the scans of {name}, aligned and normalised",
    )
    sentence = "One scan."
    if len(own) > 1:
        _, (_, aligned), (_, result) = _distances(own, [name])
        sentence = (
            f"Its scans lie {aligned:.3g} standard deviations from their average after alignment, "
            f"and {result:.3g} after normalisation."
        )
    return CentreEntry(name, len(own), colours(centres)[name], picture, sentence)

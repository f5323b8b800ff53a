"""How commands end: what was written, or a summary of a study in seven lines, on stdout.

::

    scans      68 done (0 kept from an earlier run), 0 failed
    sites      3: IXI-HH 30, NSK 24, UCLA 14
    preset     auto: two-level, adaptive proportions, averaged quantiles, because there are …
    distance   3.74 raw → 0.129 aligned → 0.0172 normalised (between sites, in sd)
    flagged    none
    report     OUT/report.html
    next       ndflow evaluate OUT
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ndflow.cli.console import print_error, print_result, print_text, print_warning
from ndflow.cli.options import Verbosity
from ndflow.cli.report_page import PageOutcome
from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.study.checks import NO_SITE, SiteDistances, doubt_counts
from ndflow.study.finished import results_fingerprint
from ndflow.study.plan import EVALUATION, EVALUATION_RECORD, FIGURES, Study
from ndflow.study.run import Summary
from ndflow.study.tasks import FAILURES
from ndflow.subject.records import EvaluationRecord
from ndflow.values import plural

if TYPE_CHECKING:
    from ndflow.evaluation.save import Evaluation


_NAMED = 3  # scans in the line about a doubt
_WIDTH, _COLUMN = 80, 11
_GROUP = "run the same command with the level group, for all participants"


def conclude(summary: Summary, study: Study, verbosity: Verbosity, page: PageOutcome) -> int:
    """Print how a study, part of one, or a preparation ended, and return the exit code.

    Parameters
    ----------
    summary : how it ended.
    study : what was run.
    verbosity : how much to print.
    page : what became of the report.
    """
    if page.path is None:
        _print_doubts(summary.doubts_of, summary.done, verbosity)
    for doubt in () if verbosity.quiet else summary.of_study:
        print_warning(str(doubt))
    code = _failed(summary, study)
    print_summary(summary, study, verbosity, page)
    return code or page.code


def print_summary(
    summary: Summary, study: Study, verbosity: Verbosity, page: PageOutcome, *, again: str = ""
) -> None:
    """Print the lines about a study; `again` is what to do next, others as for `conclude`."""
    report = page.why if page.path is None else shown_path(page.path)
    flagged = _flagged(summary, _see(page), summary.of_study)
    if study.preparing is not None:
        lines = _lines_of_preparation(summary, study, page, flagged, report)
    elif study.partial:
        lines = {
            "densities": _scans(summary, "estimated", idle=True),
            "flagged": flagged,
            "next": _again(study) if summary.failures else _GROUP,
        }
    else:
        lines = {
            "scans": _scans(summary, "done", idle=not page.renewed),
            "sites": _sites(summary, study),
            "preset": _preset(summary, study),
            **_balance(summary, study),
            "distance": _distance(summary.distances, summary.done),
            "flagged": flagged,
            "report": report,
            "next": again or _next(summary, study, page),
        }
    _print_lines({**_prepared(summary), **lines}, verbosity)


def _lines_of_preparation(
    summary: Summary, study: Study, page: PageOutcome, flagged: str, report: str
) -> dict[str, str]:
    table = "none" if summary.table is None else shown_path(summary.table)
    cost = took(summary)
    return {
        "scans": _scans(summary, "prepared", idle=True),
        "sites": _sites(summary, study),
        **({} if cost is None else {"took": cost}),
        "flagged": flagged,
        "pictures": shown_path(study.folder / FIGURES) if summary.done else "none",
        "report": report,
        "table": f"{table}, without the scans that failed" if summary.failures else table,
        **({} if summary.aligned is None else {"copies": shown_path(summary.aligned)}),
        "next": _after_preparation(summary, study, page),
    }


def _again(study: Study) -> str:
    return f"see {shown_path(study.folder / FAILURES)}, then run the same command again"


def took(summary: Summary) -> str | None:
    """Return how long a scan took; None if none was prepared now."""
    if summary.seconds is None:
        return None
    return f"{summary.seconds:.{0 if summary.seconds > 10 else 1}f} s per scan"


def _prepared(summary: Summary) -> dict[str, str]:
    """Return the line about the preparation of the scans, if it was part of the study."""
    if summary.prepared is None:
        return {}
    counts, cost = _scans(summary.prepared, "done", idle=True), took(summary.prepared)
    return {"prepared": counts if cost is None else f"{counts}; {cost}"}


def _after_preparation(summary: Summary, study: Study, page: PageOutcome) -> str:
    if summary.failures or summary.table is None:
        return _again(study)
    normalised = study.folder.with_name(f"{study.folder.name}-normalised")
    words = ["ndflow", "cohort", shown_path(summary.table), shown_path(normalised)]
    look = "report" if page.path else "pictures"
    return f"look at the {look}, then {shlex.join(words)}"


def print_evaluation(
    evaluation: Evaluation, verbosity: Verbosity, page: PageOutcome | None
) -> None:
    """Print the verdict of an evaluation, its most important numbers, and where the rest is.

    Parameters
    ----------
    evaluation : what came of it.
    verbosity : how much to print.
    page : the report of the run that it belongs to, if there is one.
    """
    if verbosity.quiet:
        return
    print_text(f"{evaluation.verdict}\n{evaluation.overview}\n")
    if notes := evaluation.comparison.notes:
        print_text("\n".join(["Not done", *notes]) + "\n\n")
    lines = {"tables": str(evaluation.folder / "summary.txt"), "figures": str(evaluation.folder)}
    if page is not None:
        lines["report"] = page.why if page.path is None else str(page.path)
    _print_lines(lines, verbosity)


def shown_path(path: Path) -> str:
    """Return a path as it is easiest to read: relative to the current folder, if it lies there."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _print_lines(lines: Mapping[str, str], verbosity: Verbosity) -> None:
    if not verbosity.quiet:
        for label, text in lines.items():
            print_result(f"{label:<{_COLUMN}}{text}")


def _scans(summary: Summary, done: str, *, idle: bool) -> str:
    """Return how many scans were done, were kept, and failed; `idle` if nothing else was done."""
    kept = f"{summary.kept} kept from an earlier run"
    text = f"{summary.done} {done} ({kept}), {len(summary.failures)} failed"
    idle &= summary.done == summary.kept and not summary.failures
    return f"{text}: nothing to do" if idle else text


def _sites(summary: Summary, study: Study) -> str:
    failed = {failure.scan for failure in summary.failures}
    counts = Counter(scan.site or NO_SITE for scan in study.scans if scan.name not in failed)
    if not counts:
        return "none"
    if set(counts) == {NO_SITE}:
        return "not known"
    names = [f"{site} {count}" for site, count in sorted(counts.items())]
    return f"{len(counts)}: {_fitting(names, _WIDTH - _COLUMN - len(f'{len(counts)}: '))}"


def _preset(summary: Summary, study: Study) -> str:
    """Return what the preset decided, and why, on one line."""
    if summary.preset is not None:
        return summary.preset.text
    if not study.method.matches_densities:
        return f"none, the method {study.method.name} has no presets"
    return "none, all settings were chosen"


def _balance(summary: Summary, study: Study) -> dict[str, str]:
    """Return the line about weighted scans, if they are."""
    if not summary.balance:
        return {}
    begin = f"{', '.join(study.options.balance)}; effective scans "
    names = [f"{site} {own.effective:.1f}" for site, own in summary.balance.items()]
    return {"balance": begin + _fitting(names, _WIDTH - _COLUMN - len(begin))}


def _fitting(names: Sequence[str], width: int, kind: str = "") -> str:
    """Return names in a line, as many as fit, and how many more there are of this kind."""
    for count in range(len(names), 0, -1):
        more = f" and {len(names) - count} more{kind}" if count < len(names) else ""
        text = ", ".join(names[:count]) + more
        if len(text) <= width:
            return text
    return text


def _distance(distances: SiteDistances | None, scans: int) -> str:
    if distances is None:
        return "none, of fewer than two scans" if scans < 2 else "not measured for joint maps"
    several, raw, aligned, normalised = distances
    what = "between sites" if several else "to the average scan"
    return f"{raw:.3g} raw → {aligned:.3g} aligned → {normalised:.3g} normalised ({what}, in sd)"


def _flagged(summary: Summary, where: str = "", of_study: Sequence[Doubt] = ()) -> str:
    counts = doubt_counts(summary.doubts_of)
    study = ", ".join(dict.fromkeys(doubt.kind for doubt in of_study))
    end = f"; {where}" if where else ""
    if not counts:
        return f"{study}{end}" if study else "none"
    begin = f"{len(summary.doubts_of)} of {summary.done}: "
    begin = f"{study}; {begin}" if study else begin
    width = _WIDTH - _COLUMN - len(begin) - len(end)
    kinds = [f"{kind} {len(names)}" for kind, names, _ in counts]
    return begin + _fitting(kinds, width, " kinds of doubt") + end


def _see(page: PageOutcome) -> str:
    return "see the report" if page.path else ""


def _next(summary: Summary, study: Study, page: PageOutcome) -> str:
    """Return what to do next, if possible a command."""
    if summary.failures:
        return _again(study)
    if page.path and summary.done < 2:  # nothing to compare with
        return "open the report in a browser"
    evaluate = shlex.join(["ndflow", "evaluate", shown_path(study.folder)])
    several, place = len(study.channels) > 1, study.folder / EVALUATION
    path = (place / study.channels[0] if several else place) / EVALUATION_RECORD
    if not path.exists():
        return evaluate
    known: list[str] = []
    with suppress(FileError):  # one that was not finished
        known = [*EvaluationRecord.read(path).results.values()]
    first = replace(study, scans=[scan.alone(study.channels[0]) for scan in study.scans])
    if results_fingerprint(first) not in known:  # an evaluation of other results
        return f"{evaluate} --force"
    return "open the report in a browser" if page.path else f"see {place}"


def _failed(summary: Summary, study: Study) -> int:
    """Print how many scans failed, if any did, and return the exit code."""
    if not summary.failures:
        return 0
    count = f"{len(summary.failures)} of {plural(len(study.scans), 'scan')}"
    print_error(f"{count} failed; see {study.folder / FAILURES}")
    return 1 if summary.done else 2


def _print_doubts(doubts: Mapping[str, Iterable[Doubt]], total: int, verbosity: Verbosity) -> None:
    """Print one line for each kind of doubt, however many scans it is about.

    Parameters
    ----------
    doubts : about scans, by their names.
    total : how many scans there are, with those beyond doubt.
    verbosity : how much to print.
    """
    if verbosity.quiet:
        return
    for kind, names, hint in doubt_counts(doubts):
        more = len(names) - _NAMED
        listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        print_warning(f"{kind}: {len(names)} of {plural(total, 'scan')} ({listed}): {hint}")

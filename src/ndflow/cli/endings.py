"""How commands end: what was written, or a summary of a study in seven lines, on stdout.

::

    scans      68 done (0 kept from an earlier run), 0 failed
    sites      3: IXI-HH 30, NSK 24, UCLA 14
    preset     auto: two-level, adaptive proportions, averaged quantiles, because there are …
    agreement  median tissue intensities vary by 4.4 % of the GM–WM gap (z-scored 10 %, Nyúl 5.6 %)
    flagged    none
    report     OUT/report.html
    next       ndflow evaluate OUT
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ndflow._version import installing, not_installed
from ndflow.cli.console import ProgressDisplay, Verbosity, print_error, raise_if_signalled
from ndflow.image.subject import Subject, count_by_site
from ndflow.study.checks import doubt_counts
from ndflow.study.finished import page_is_current
from ndflow.study.plan import EVALUATION, FIGURES, REPORT, Study
from ndflow.study.references import listing_doubts
from ndflow.study.run import Summary
from ndflow.study.tasks import FAILURES
from ndflow.subject.records import Agreement
from ndflow.values import Doubt, first_of, plural

if TYPE_CHECKING:
    from ndflow.evaluation.save import Evaluation

_COLUMN = 11  # of the text of a line
_GROUP = "run the same command with the level group, for all participants"

# ── the report ────────────────────────────────────────────────────────────────────────────────────


class PageOutcome(NamedTuple):
    """What became of a page.

    Attributes
    ----------
    path : the page; None if there is none.
    why : if there is none, why.
    code : the exit code: 1 if it could not be written, but 0 where the packages that it needs are
        not installed.
    renewed : whether it was written now.
    """

    path: Path | None
    why: str = ""
    code: int = 0
    renewed: bool = False


def write_page(
    folder: Path, progress: ProgressDisplay, max_bytes: int, *, force: bool = False
) -> PageOutcome:
    """Write the report of a finished study, unless the one that is there shows the same.

    Parameters
    ----------
    folder : of the study.
    progress : shows how far it has come.
    max_bytes : refuse files with more bytes than this when decompressed.
    force : whether to replace a report that somebody has edited.
    """
    if page_is_current(folder):
        return PageOutcome(folder / REPORT)
    if not_installed("jinja2", "matplotlib"):
        return PageOutcome(None, f"not written; for one, {installing('report')}")
    from ndflow.reporting.build import report

    try:
        report(folder, max_bytes=max_bytes, force=force, progress=progress)
    except Exception as error:  # of any kind: the study itself is done
        raise_if_signalled()
        cause = str(error).removeprefix(f"{folder / REPORT}: ")
        print_error(f"{folder / REPORT}: could not be written: {cause}")
        return PageOutcome(None, "could not be written", code=1)
    return PageOutcome(folder / REPORT, renewed=True)


# ── the last lines ────────────────────────────────────────────────────────────────────────────────


def conclude(
    summary: Summary, study: Study, verbosity: Verbosity, page: PageOutcome, *, again: str = ""
) -> int:
    """Print how a study, part of one, or a preparation ended, and return the exit code.

    Parameters
    ----------
    summary : how it ended.
    study : what was run.
    verbosity : how much to print.
    page : what became of the report.
    again : what to do next, if that is known.
    """
    for doubt in summary.of_study:
        if doubt not in listing_doubts(study):  # which were printed before any work
            verbosity.warn(str(doubt))
    if not page.path:
        warn_of_scans(summary.doubts_of, summary.done, verbosity)
    failed = len(summary.failures)
    if failed:
        count = f"{failed} of {plural(len(study.scans), 'scan')}"
        print_error(f"{count} failed; see {study.folder / FAILURES}")
    _print_lines(_lines(summary, study, page, again), verbosity)
    return (1 if summary.done else 2) if failed else page.code


def warn_of_scans(doubts: Mapping[str, Iterable[Doubt]], scans: int, verbosity: Verbosity) -> None:
    """Print in a line per kind which of how many scans are doubtful."""
    for kind, names, hint in doubt_counts(doubts):
        count = f"{len(names)} of {plural(scans, 'scan')}"
        verbosity.warn(f"{kind}: {count} ({first_of(names)}): {hint}")


def _lines(summary: Summary, study: Study, page: PageOutcome, again: str) -> dict[str, str | None]:
    """Return the lines about a study; None for one that there is nothing to say in."""
    flagged = _flagged(summary, page)
    preset = summary.preset.text if summary.preset else "none"
    report = page.why if page.path is None else shown_path(page.path)
    failed = {failure.scan for failure in summary.failures}
    sites = sites_of([scan for scan in study.scans if scan.name not in failed])
    whole, preparing = not study.partial, study.preparing is not None
    known = whole and not preparing
    what = "prepared" if preparing else "estimated" if study.only_fits else "done"
    done = _scans(summary, what, renewed=known and page.renewed)
    table = "none" if summary.table is None else shown_path(summary.table)
    without = ", without the scans that failed" if summary.failures else ""
    lines = {
        "densities" if study.only_fits else "scans": done,
        "sites": sites if whole else None,
        "visits": summary.visits,
        "preset": None if preparing or study.only_fits else preset,
        "agreement": _agreement(summary.agreement) if known and summary.done > 1 else None,
        "flagged": flagged,
        "report": report if whole else None,
        "table": table + without if preparing else None,
        "copies": shown_path(summary.aligned) if summary.aligned else None,
    }
    prepared = None if summary.prepared is None else _scans(summary.prepared, "done")
    return {"prepared": prepared, **lines, "next": again or _next(summary, study, page)}


def print_evaluation(
    evaluation: Evaluation, verbosity: Verbosity, page: PageOutcome | None
) -> None:
    """Print the first verdict of an evaluation, its main numbers, and where the rest is.

    Parameters
    ----------
    evaluation : what came of it.
    verbosity : how much to print.
    page : the report of the run that it belongs to, if there is one.
    """
    from ndflow.evaluation.save import VERDICT

    if verbosity.quiet:
        return
    notes, folder = evaluation.comparison.notes, evaluation.folder
    not_done = ["Not done", *notes, ""] if notes else []
    first, *more = evaluation.verdict.split("\n\n")
    print(first.rstrip(), "", evaluation.overview, *not_done, sep="\n")
    report = None if page is None else str(page.path or page.why)
    others = f"{folder / VERDICT}: {plural(len(more), 'more comparison')}" if more else None
    lines = {"verdicts": others, "tables": str(folder / "summary.txt"), "report": report}
    _print_lines(lines, verbosity)


def shown_path(path: Path) -> str:
    """Return a path as it is easiest to read: relative to the current folder, if it lies there."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _print_lines(lines: Mapping[str, str | None], verbosity: Verbosity) -> None:
    for label, text in lines.items():
        if text is not None:
            verbosity.say(f"{label:<{_COLUMN}}{text}")


def _scans(summary: Summary, done: str, *, renewed: bool = False) -> str:
    """Return how many scans were done, were kept, and failed; `renewed`: the report too."""
    kept = f"{summary.kept} kept from an earlier run"
    text = f"{summary.done} {done} ({kept}), {len(summary.failures)} failed"
    idle = summary.done == summary.kept and not summary.failures and not renewed
    return f"{text}: nothing to do" if idle else text


def sites_of(scans: Sequence[Subject]) -> str:
    """Return how many scans each site has, the largest first."""
    counts = count_by_site(scans)
    names = [f"{site} {n}" for site, n in sorted(counts.items(), key=lambda one: -one[1])]
    without = len(scans) - sum(counts.values())
    unknown = f"; not known for {plural(without, 'scan')}" if without and names else ""
    return f"{len(names)}: {first_of(names)}{unknown}" if names else "not known"


def _agreement(found: Agreement | None) -> str:
    if found is None:
        return "not measured, as no tissue maps were used"
    if found.failure:
        return str(found.failure)
    own, zscored, nyul = found.means
    made = "; the same tissue maps made the target" if found.own_maps else ""
    spread = f"median tissue intensities vary by {own} of the GM–WM gap"
    return f"{spread} (z-scored {zscored}, Nyúl {nyul}){made}"


def _flagged(summary: Summary, page: PageOutcome) -> str:
    parts = [*dict.fromkeys(doubt.kind for doubt in summary.of_study)]
    kinds = [f"{kind} {len(names)}" for kind, names, _ in doubt_counts(summary.doubts_of)]
    if kinds:
        parts.append(f"{len(summary.doubts_of)} of {summary.done}: {first_of(kinds)}")
    return "; ".join([*parts, *(["see the report"] if page.path else [])]) if parts else "none"


def _next(summary: Summary, study: Study, page: PageOutcome) -> str:
    """Return what to do next, if possible a command."""
    folder = shown_path(study.folder)
    if summary.failures:
        failures = shown_path(study.folder / FAILURES)
        return f"see {failures}, then run the same command again"
    if summary.table is not None:
        look = shown_path(page.path or study.folder / FIGURES)
        words = ["ndflow", "cohort", shown_path(summary.table), f"{folder}-normalised"]
        return f"look at {look}, then {shlex.join(words)}"
    if study.partial:
        return _GROUP if study.only_fits else f"for a report, {_GROUP}"
    evaluated = (study.folder / EVALUATION).exists()
    if page.path and (evaluated or summary.done < 2):  # nothing to compare with
        return "open the report in a browser"
    return shlex.join(["ndflow", "evaluate", folder, *(["--force"] if evaluated else [])])

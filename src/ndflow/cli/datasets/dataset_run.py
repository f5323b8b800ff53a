"""The study of one suffix of a BIDS dataset, at either level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ndflow.cli.cite import print_boilerplate, write_boilerplate
from ndflow.cli.console import print_result
from ndflow.cli.endings import conclude, conclude_fits
from ndflow.cli.options import Verbosity
from ndflow.cli.progress import ProgressDisplay
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run_scans import command_line, dry_run_study
from ndflow.cli.understood import print_understood
from ndflow.reporting.build import report
from ndflow.scan.outputs import make_folder
from ndflow.study.finished import refuse_other_study
from ndflow.study.folder import REPORT, our_subject_pages
from ndflow.study.from_bids import check_derivative, run_group, run_participants
from ndflow.study.plan import Study
from ndflow.study.preparing.preparation_plan import PREPARED
from ndflow.study.run import check_cohort

__all__ = ["DatasetRun", "Only", "run_dataset"]

Level = Literal["participant", "group"]
Only = Literal["report", "boilerplate"] | None


class DatasetRun(NamedTuple):
    """The study of one suffix, the columns that it does not use, and what to warn of."""

    study: Study
    unused: Mapping[str, str]
    warnings: Sequence[str]


def run_dataset(
    run: DatasetRun,
    bids_dir: str,
    level: Level,
    *,
    again: str,
    derivatives: Mapping[str, Path],
    no_report: bool,
    subject_pages: bool,
    only: Only,
    dry_run: bool,
    verbosity: Verbosity,
) -> int:
    """Run the study of one suffix, and return the exit code.

    Parameters
    ----------
    run : the study.
    bids_dir : the dataset, as the user named it.
    level : of the run.
    again : the command of the level *group*.
    derivatives : the folders in which masks were looked up, by name.
    no_report, subject_pages, dry_run, verbosity : as for the command.
    only : what to write, if no scan is to be processed.
    """
    study, root = run.study, Path(bids_dir).absolute()
    folder, reading = study.folder, study.reading
    force, group = study.writing.force, level == "group"
    print_understood(
        study if group else replace(study, preset=None),  # the group decides
        bids_dir if study.within is None else f"{bids_dir} ({study.channel})",
        verbosity=verbosity,
        unused=run.unused,
        warnings=run.warnings,
    )
    if only == "report":
        refuse_other_study(study, "--reports-only")
        return _renewed(study, subject_pages=subject_pages, dry_run=dry_run, verbosity=verbosity)
    if dry_run or only == "boilerplate":
        check_derivative(study, root, force=force)
        if group:
            check_cohort(study, force=force, ours=True)
    if not dry_run:
        make_folder(study.within)
    if only == "boilerplate":
        return print_boilerplate(study, dry_run=dry_run)
    if dry_run:
        return dry_run_study(study, verbosity=verbosity, images=group)
    shared: dict[str, Any] = {"derivatives": derivatives, "force": force, "command": command_line()}
    with ProgressDisplay(verbosity, folder / PREPARED) as progress:
        if not group:
            summary = run_participants(study, root, progress, **shared)
            return conclude_fits(summary, study, verbosity, again=again)
        summary = run_group(study, root, progress, **shared)
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if not summary.finished:
            page = PageOutcome(None, "not written (--stop-on-first-failure)")
        elif summary.done and not no_report:
            page = write_page(folder, progress, reading.max_bytes, subject_pages=subject_pages)
    if summary.done and write_boilerplate(study):
        page = page._replace(code=1)
    return conclude(summary, study, verbosity, page)


def _renewed(study: Study, *, subject_pages: bool, dry_run: bool, verbosity: Verbosity) -> int:
    """Write the report of a finished study again, and the pages of subjects if there are any."""
    if dry_run:
        print_result(f"would write {study.folder / REPORT}")
        return 0
    with ProgressDisplay(verbosity) as progress:
        path = report(
            study.folder,
            title=study.title,
            subject_pages=subject_pages or bool(our_subject_pages(study.folder)),
            max_bytes=study.reading.max_bytes,
            progress=progress,
        )
    if not verbosity.quiet:
        print_result(f"wrote {path}")
    return write_boilerplate(study)

"""The study of one suffix of a BIDS dataset, at either level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ndflow.cli.endings import conclude, conclude_fits
from ndflow.cli.options import Verbosity
from ndflow.cli.progress import ProgressDisplay
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run_scans import command_line, dry_run_study
from ndflow.cli.understood import print_understood
from ndflow.scan.outputs import make_folder
from ndflow.study.from_bids import check_derivative, run_group, run_participants
from ndflow.study.plan import Study
from ndflow.study.run import check_cohort

__all__ = ["DatasetRun", "run_dataset"]

Level = Literal["participant", "group"]


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
    derivatives: Mapping[str, Path],
    no_report: bool,
    dry_run: bool,
    verbosity: Verbosity,
) -> int:
    """Run the study of one suffix, and return the exit code.

    Parameters
    ----------
    run : the study.
    bids_dir : the dataset, as the user named it.
    level : of the run.
    derivatives : the folders in which masks were looked up, by name.
    no_report, dry_run, verbosity : as for the command.
    """
    study, root = run.study, Path(bids_dir).absolute()
    force, group = study.writing.force, level == "group"
    print_understood(
        study if group else replace(study, preset=None),  # the group decides
        bids_dir if study.within is None else f"{bids_dir} ({study.channel})",
        verbosity=verbosity,
        unused=run.unused,
        warnings=run.warnings,
    )
    if dry_run:
        check_derivative(study, root, force=force)
        if group:
            check_cohort(study, force=force, ours=True)
        return dry_run_study(study, verbosity=verbosity, images=group)
    make_folder(study.within)
    shared: dict[str, Any] = {"derivatives": derivatives, "force": force, "command": command_line()}
    with ProgressDisplay(verbosity) as progress:
        if not group:
            summary = run_participants(study, root, progress, **shared)
            return conclude_fits(summary, study, verbosity)
        summary = run_group(study, root, progress, **shared)
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and not no_report:
            page = write_page(study.folder, progress, study.reading.max_bytes, force=force)
    return conclude(summary, study, verbosity, page)

"""``ndflow cohort`` and ``ndflow bids`` with several channels, all of a subject together."""

from __future__ import annotations

from collections.abc import Mapping

from ndflow.cli.endings import conclude, shown_path
from ndflow.cli.listed_scans import ListedScans
from ndflow.cli.options import Verbosity
from ndflow.cli.progress import ProgressDisplay
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run_scans import command_line, print_rehearsed
from ndflow.cli.understood import print_understood
from ndflow.image.mask import FoundMask
from ndflow.image.subject import TissueMaps
from ndflow.scan.channels.channel_subject import listed
from ndflow.scan.presets.preset_rules import Choices
from ndflow.study.channels.joint_checks import check_joint_study
from ndflow.study.channels.joint_plan import JointStudy, joint_study, named_channels
from ndflow.study.channels.joint_rehearsal import rehearse_joint_study
from ndflow.study.channels.joint_run import run_joint_study
from ndflow.study.listing.scan_table import ScanTable
from ndflow.study.parallel.tasks import FAILURES
from ndflow.study.plan import Study
from ndflow.study.run import Summary

__all__ = ["conclude_together", "joint_study_of", "run_together", "unused_together"]


def joint_study_of(
    study: Study,
    tables: Mapping[str, ScanTable],
    unmasked: FoundMask | None,
    choices: Choices,
) -> JointStudy:
    """Return the plan of a joint study of a table.

    Parameters
    ----------
    study : how, and where to; its scans do not count.
    tables : the scans of each channel.
    unmasked : what to find in subjects without a mask.
    choices : what the user chose.
    """
    scans = {name: one.scans for name, one in tables.items()}
    named = named_channels(scans, unmasked=unmasked)
    first = next(iter(scans.values()))
    return joint_study(study, named, [scan.subject or "" for scan in first], choices)


def unused_together(lists: Mapping[str, ListedScans]) -> dict[str, str]:
    """Return the columns of a table that a joint study does not use, and why."""
    first = next(iter(lists.values())).scans
    unused = dict(first.unused)
    for name in TissueMaps._fields:
        if any(getattr(scan.tissues, name) is not None for scan in first.scans):
            unused[name] = "tissues are known for one channel at a time"
    return unused


def run_together(
    plan: JointStudy,
    source: str,
    *,
    unused: dict[str, str],
    warnings: tuple[str, ...] = (),
    page: bool,
    dry_run: bool,
    verbosity: Verbosity,
) -> int:
    """Run a joint study, or say what would be done, and return the exit code.

    Parameters
    ----------
    plan : what is to be done.
    source : what messages call the table or dataset.
    unused, warnings : about columns that are not used.
    page : whether to write a report.
    dry_run, verbosity : as for the command.
    """
    study = plan.study
    print_understood(
        study,
        f"{source} ({listed(plan.channel_names)} together)",
        verbosity=verbosity,
        unused=unused,
        warnings=warnings,
    )
    check_joint_study(plan, force=study.writing.force)
    if dry_run:
        return print_rehearsed(rehearse_joint_study(plan), verbosity)
    with ProgressDisplay(verbosity) as progress:
        summary = run_joint_study(plan, progress, command=command_line(), force=study.writing.force)
        written = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and page:
            written = write_page(
                plan.folder, progress, study.reading.max_bytes, force=study.writing.force
            )
    return conclude_together(summary, plan, written, verbosity)


def conclude_together(
    summary: Summary, plan: JointStudy, page: PageOutcome, verbosity: Verbosity
) -> int:
    """Print how a joint study ended, and return the exit code.

    Parameters
    ----------
    summary, plan : how it ended.
    page : what became of its page.
    verbosity : how much to print.
    """
    again = "open the report in a browser" if page.path else "look at the images"
    if summary.failures:
        again = f"see {shown_path(plan.folder / FAILURES)}, then run the same command again"
    return conclude(summary, plan.study, verbosity, page, again=again)

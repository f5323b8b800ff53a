"""``ndflow cohort`` and ``ndflow bids`` with several channels, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ndflow.cli.console import print_error, print_line, print_result
from ndflow.cli.endings import conclude, shown_path
from ndflow.cli.listed_scans import ListedScans, print_understood
from ndflow.cli.options import Verbosity
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run import ProgressDisplay, command_line, print_rehearsed
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.mask import FoundMask
from ndflow.image.subject import TissueMaps
from ndflow.study.channel_studies import (
    check_channel_studies,
    folders_of_channels,
    read_channel_tables,
    write_shared_references,
)
from ndflow.study.folder import PROVENANCE
from ndflow.study.joint_plan import JointStudy, joint_study, named_channels
from ndflow.study.joint_reference import check_joint_study
from ndflow.study.joint_run import run_joint_study
from ndflow.study.passes import Summary
from ndflow.study.plan import Study
from ndflow.study.rehearsal import rehearse_joint_study
from ndflow.study.run import check_cohort
from ndflow.study.table import ScanTable
from ndflow.study.tasks import FAILURES
from ndflow.subject.channels import listed
from ndflow.subject.presets import Choices


def listed_by_channel(
    words: Sequence[str], channels: Sequence[str], others: Mapping[str, bool], *, joint: bool
) -> tuple[Path, dict[str, ListedScans]]:
    """Return the folder for the results, and the scans of each channel of a table.

    Parameters
    ----------
    words : TABLE and OUT.
    channels : the names of the channels.
    others : options that cannot be combined with several channels, and whether they were given.
    joint : whether all channels go to one folder.
    """
    for option, given in others.items():
        if given:
            why = {
                "--from-folder": "channels are columns of a table; give TABLE OUT",
                "--channel": "give one of the two",
                "--prepare": "it is for T1w images alone; prepare them first, with ndflow prepare",
                "--mask brain": (
                    "it finds brains in T1w images alone; find them first, with ndflow prepare, "
                    "and name them in the column mask"
                ),
            }[option]
            raise InvalidValueError(f"--channels with {option}: {why}")
    if len(words) < 2:
        raise InvalidValueError("--channels: give TABLE and OUT")
    table, out = words[0], Path(words[1]).absolute()
    tables = read_channel_tables(table, channels)
    root = Path(table).absolute().parent
    folders = dict.fromkeys(channels, out) if joint else folders_of_channels(out, channels)
    return out, {
        name: ListedScans(folders[name], table, root, table, one) for name, one in tables.items()
    }


def conclude_channels(
    out: Path,
    studies: Sequence[Study],
    runs: Sequence[Callable[[], int]],
    *,
    page: bool,
    dry_run: bool,
    verbosity: Verbosity,
) -> int:
    """Check the studies of all channels, run each, and write what they share.

    Parameters
    ----------
    out : the folder of all channels.
    studies : one per channel.
    runs : run each of them, and return its exit code.
    page : whether to write a page about all channels.
    dry_run : whether no study is run, but only looked at.
    verbosity : how much to print.

    Returns
    -------
    int
        The exit code.
    """
    check_channel_studies(out, studies)
    for study in studies:  # before any work on the first of them
        check_cohort(study, force=study.writing.force)
    codes = []
    for place, run in enumerate(runs):
        if place and not verbosity.quiet:
            print_line("")
        codes.append(run())
    code = codes[0] if len({*codes}) == 1 else 1
    if dry_run:
        return code
    shared = write_shared(out, studies, page=page, verbosity=verbosity)
    return code or shared


def write_shared(out: Path, studies: Sequence[Study], *, page: bool, verbosity: Verbosity) -> int:
    """Write the references of all channels to one file, and the page about all of them.

    Parameters
    ----------
    out : the folder of all channels.
    studies, page, verbosity : as for `conclude_channels`.

    Returns
    -------
    int
        The exit code.
    """
    from importlib.util import find_spec

    by_name = {study.channel: study for study in studies}
    code, lines = 0, []
    try:
        path = write_shared_references(out, by_name)
        if path is not None:
            lines.append(f"wrote {shown_path(path)}, the references of {listed([*by_name])}")
        done = [name for name, study in by_name.items() if (study.folder / PROVENANCE).exists()]
        if page and done and find_spec("jinja2") is not None:
            from ndflow.reporting.build import write_channel_index

            force = studies[0].writing.force
            written = write_channel_index(out, done, force=force)
            lines.append(f"wrote {shown_path(written)}")
    except FileError as error:
        print_error(str(error))
        code = 1
    for line in () if verbosity.quiet else lines:
        print_result(line)
    return code


# ── joint studies ─────────────────────────────────────────────────────────────────────────────────


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

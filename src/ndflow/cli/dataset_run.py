"""The study of one suffix of a BIDS dataset, at either level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ndflow.cli.channel_cohort import conclude_together
from ndflow.cli.endings import conclude, conclude_fits
from ndflow.cli.listed_scans import print_understood
from ndflow.cli.options import Verbosity
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run import ProgressDisplay, command_line, dry_run_study, print_rehearsed
from ndflow.errors import FileError, InvalidValueError
from ndflow.image.mask import FoundMask
from ndflow.study.bids_query import BidsImage, joint_visits
from ndflow.study.from_bids import (
    check_derivative,
    check_joint_dataset,
    joint_study_of_dataset,
    lacking_masks,
    run_group,
    run_joint_dataset,
    run_participants,
    unused_derivatives,
)
from ndflow.study.plan import Study
from ndflow.study.rehearsal import rehearse_joint_study
from ndflow.study.run import check_cohort
from ndflow.subject.channels import listed
from ndflow.subject.outputs import make_folder
from ndflow.subject.presets import Choices

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
    force, group = study.options.force, level == "group"
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
            page = write_page(study.folder, progress, study.options.max_bytes, force=force)
    return conclude(summary, study, verbosity, page)


# ── joint studies ─────────────────────────────────────────────────────────────────────────────────

_NAMED = 5  # subjects that are left out, in warnings


def check_joint_options(suffixes: Sequence[str], others: Mapping[str, bool]) -> None:
    """Refuse what cannot be combined with ``--joint``.

    Parameters
    ----------
    suffixes : the channels.
    others : options that cannot, and whether they were given.
    """
    if len(suffixes) < 2:
        raise InvalidValueError("--joint: name the channels, for example --suffix T1w FLAIR")
    if len({name.lower() for name in suffixes}) < len(suffixes):
        raise InvalidValueError(f"--suffix: {' '.join(suffixes)}: the same twice; leave one out")
    for option, given in others.items():
        if given:
            why = {
                "--prepare": "it is for T1w images alone; prepare them first, with ndflow prepare",
                "--mask brain": "give masks, for example with --derivatives; ndflow prepare finds "
                "them",
            }[option]
            raise InvalidValueError(f"--joint with {option}: {why}")


def run_dataset_together(
    study: Study,
    found: Mapping[str, Sequence[BidsImage]],
    choices: Choices,
    *,
    bids_dir: str,
    level: Literal["participant", "group"],
    unmasked: FoundMask | None,
    derivatives: Mapping[str, Path],
    warnings: Sequence[str],
    page: bool,
    dry_run: bool,
    verbosity: Verbosity,
) -> int:
    """Run a joint study of a dataset, and return the exit code.

    Parameters
    ----------
    study : how, and where to; its scans do not count.
    found : the images of each channel.
    choices : what the user chose.
    bids_dir, level : the dataset as the user named it, and the level of the run.
    unmasked, derivatives : see `joint_study_of_dataset`.
    warnings : about what may have been misunderstood.
    page : whether to write a report.
    dry_run, verbosity : as for the command.
    """
    visits = joint_visits(found)
    if not visits.names:
        name, why = next(iter(visits.left_out.items()))
        cause = f"no subject has all of {listed([*found])}; {name}, for example, {why}"
        raise FileError(bids_dir, cause, "give other suffixes, or leave out --joint")
    masked = [
        replace(row[0], mask=next((one.mask for one in row if one.mask), None))
        for row in zip(*visits.images.values(), strict=True)
    ]
    if unmasked is None and (error := lacking_masks(masked, derivatives)):
        raise error
    plan = joint_study_of_dataset(
        study, visits, choices, unmasked=unmasked, derivatives=derivatives
    )
    out = [f"{bids_dir}: {name} {why}; left out" for name, why in visits.left_out.items()]
    more = [f"{bids_dir}: {len(out) - _NAMED} more left out"] if len(out) > _NAMED else []
    root, force, group = Path(bids_dir).absolute(), study.options.force, level == "group"
    print_understood(
        plan.study if group else replace(plan.study, preset=None),
        f"{bids_dir} ({listed(plan.channel_names)} together)",
        verbosity=verbosity,
        skipped=Counter(f"that {why}" for why in visits.left_out.values()),
        warnings=[*warnings, *unused_derivatives(masked, derivatives), *out[:_NAMED], *more],
    )
    if dry_run:
        check_joint_dataset(plan, root, force=force)
        return print_rehearsed(rehearse_joint_study(plan, images=group), verbosity)
    with ProgressDisplay(verbosity) as progress:
        summary = run_joint_dataset(
            plan,
            root,
            progress,
            group=group,
            command=command_line(),
            derivatives=derivatives,
            force=force,
        )
        if not group:
            return conclude_fits(summary, plan.study, verbosity)
        written = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and page:
            written = write_page(plan.folder, progress, study.options.max_bytes, force=force)
    return conclude_together(summary, plan, written, verbosity)

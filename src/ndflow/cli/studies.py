"""The studies that a command means, whatever lists their scans, and how they are carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ndflow.cli.console import print_error, print_line, print_result
from ndflow.cli.endings import conclude, conclude_fits, conclude_preparation, shown_path
from ndflow.cli.listed_scans import ListedScans, print_understood
from ndflow.cli.options import Verbosity
from ndflow.cli.report_page import PageOutcome, write_page
from ndflow.cli.run import ProgressDisplay, command_line, print_rehearsed
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.model_files import kind_in
from ndflow.image.mask import FoundMask
from ndflow.image.subject import TissueMaps
from ndflow.options import Options, Preparing
from ndflow.study.bids_names import read_filters
from ndflow.study.bids_query import BidsImage, find_scans, joint_visits
from ndflow.study.channel_studies import (
    check_channel_studies,
    folders_of_channels,
    read_channel_tables,
    write_shared_references,
)
from ndflow.study.folder import PROVENANCE
from ndflow.study.from_bids import (
    check_derivative,
    check_joint_dataset,
    folders_of_suffixes,
    joint_study_of_dataset,
    lacking_masks,
    run_group,
    run_joint_dataset,
    run_participants,
    scans_of_dataset,
    site_hints,
    unused_columns,
    unused_derivatives,
    unused_lesions,
)
from ndflow.study.joint_plan import JointStudy, joint_study, named_channels
from ndflow.study.joint_reference import check_joint_study
from ndflow.study.joint_run import run_joint_study
from ndflow.study.passes import Summary
from ndflow.study.plan import Preparation, Study
from ndflow.study.prepare_run import check_preparation, run_preparation
from ndflow.study.prepared_study import check_suffixes, with_preparation
from ndflow.study.references import with_choices
from ndflow.study.rehearsal import (
    Rehearsed,
    rehearse_all,
    rehearse_joint_study,
    rehearse_preparation,
)
from ndflow.study.run import check_cohort, run_cohort
from ndflow.study.table import named_scans
from ndflow.subject.channels import listed
from ndflow.subject.outputs import make_folder
from ndflow.subject.presets import Choices

_NAMED = 5  # subjects that are left out, in warnings
_ONE_CONTRAST = {
    "--pattern": "channels are columns of a table",
    "--prepare": "it is for T1w images alone; prepare them first, with ndflow prepare",
    "--mask brain": (
        "it finds brains in T1w images alone; find them first, with ndflow prepare, and give them "
        "as masks"
    ),
}


@dataclass(frozen=True)
class Asked:
    """What a command asks for, besides the choices about results."""

    choices: Choices
    reference: str | None = None
    preparing: Preparing | None = None
    unmasked: FoundMask | None = None
    jobs: int = 1
    scheduler: str | None = None
    report: bool = True
    dry_run: bool = False
    verbosity: Verbosity = field(default_factory=Verbosity)

    def study(self, folder: Path, scans: Sequence[Any] = (), **more: Any) -> Study:
        """Return a study with all of this."""
        return Study(
            folder,
            scans,
            options=Options(**self.choices.options),
            given=self.reference,
            jobs=self.jobs,
            scheduler=self.scheduler,
            **more,
        )


@dataclass(frozen=True)
class Run:
    """One of the studies of a command.

    Attributes
    ----------
    study : what it is; of a joint study, what its channels share.
    source : what messages call the list of its scans.
    check, rehearse, run : raise an error before any work, say what would be done, and do it.
    unused, skipped, warnings : what was not understood about the scans.
    joint : whether it maps channels together.
    group : whether images are written; otherwise densities only.
    """

    study: Study
    source: str
    check: Callable[[], None]
    rehearse: Callable[[], list[Rehearsed]]
    run: Callable[..., Summary]
    unused: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    joint: bool = False
    group: bool = True


def refuse_several(options: Mapping[str, bool], what: str) -> None:
    """Refuse options that are for one contrast only, where there are several."""
    for option, given in options.items():
        if given:
            raise InvalidValueError(f"{what} with {option}: {_ONE_CONTRAST[option]}")


# ── tables ────────────────────────────────────────────────────────────────────────────────────────


def table_runs(lists: Mapping[str, ListedScans], place: Path, asked: Asked) -> list[Run]:
    """Return the study of each channel of a table, by itself."""
    runs = []
    for name, one in lists.items():
        study = asked.study(
            one.out,
            named_scans(one.scans.scans, unmasked=asked.unmasked),
            channel=name,
            table=one.table,
            within=None if len(lists) == 1 else place,
        )
        if asked.preparing is not None:
            study = with_preparation(study, one.root, asked.preparing)
        study = with_choices(study, asked.choices)
        force = study.options.force
        runs.append(
            Run(
                study,
                one.source if len(lists) == 1 else f"{one.source} ({name})",
                partial(check_cohort, study, force=force),
                partial(rehearse_all, study),
                partial(run_cohort, study, command=command_line(), force=force),
                one.scans.unused,
                one.skipped,
                one.scans.warnings,
            )
        )
    return runs


def channels_of_table(
    table: str, out: Path, channels: Sequence[str], *, joint: bool
) -> dict[str, ListedScans]:
    """Return the scans of each of several channels of a table."""
    tables = read_channel_tables(table, channels)
    root = Path(table).absolute().parent
    folders = dict.fromkeys(channels, out) if joint else folders_of_channels(out, channels)
    return {
        name: ListedScans(folders[name], table, root, table, one) for name, one in tables.items()
    }


def joint_table_run(table: str, lists: Mapping[str, ListedScans], asked: Asked) -> Run:
    """Return the joint study of all channels of a table."""
    first = next(iter(lists.values()))
    named = named_channels(
        {name: one.scans.scans for name, one in lists.items()}, unmasked=asked.unmasked
    )
    names = [scan.person or "" for scan in first.scans.scans]
    study = asked.study(first.out, table=table)
    plan = joint_study(study, named, names, asked.choices)
    unused = dict(first.scans.unused)
    for name in TissueMaps._fields:
        if any(getattr(scan.tissues, name) is not None for scan in first.scans.scans):
            unused[name] = "tissues are known for one channel at a time"
    force = study.options.force
    return Run(
        plan.study,
        _together(table, plan),
        partial(check_joint_study, plan, force=force),
        partial(rehearse_joint_study, plan),
        partial(run_joint_study, plan, command=command_line(), force=force),
        unused,
        warnings=first.scans.warnings,
        joint=True,
    )


def _together(source: str, plan: JointStudy) -> str:
    return f"{source} ({listed(plan.channel_names)} together)"


# ── datasets ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Dataset:
    """A BIDS dataset, and what of it is asked for.

    Attributes
    ----------
    path : as the user named it.
    out : the folder for the results.
    suffixes, participants, sessions, filter_file, site_column : which images.
    derivatives : folders with masks, by name.
    group : whether images are written; otherwise densities are estimated.
    """

    path: str
    out: Path
    suffixes: Sequence[str]
    participants: Sequence[str]
    sessions: Sequence[str]
    filter_file: str | None
    site_column: str | None
    derivatives: Mapping[str, Path]
    group: bool

    @property
    def root(self) -> Path:
        """The folder of the dataset."""
        return Path(self.path).absolute()

    def images(self) -> tuple[dict[str, list[BidsImage]], list[str]]:
        """Return the images of each suffix, and what to warn of."""
        filters = self.filter_file and read_filters(self.filter_file, [*self.suffixes])
        hints = []
        if filters and filters.unused:
            unused = ", ".join(filters.unused)
            hints = [f"{self.filter_file}: queries for other images are not used: {unused}"]
        found = {
            name: find_scans(
                self.path,
                suffix=name,
                participants=self.participants,
                sessions=self.sessions,
                site_column=self.site_column,
                derivatives=self.derivatives.values(),
                chosen=filters.of[name] if filters else None,
            )
            for name in self.suffixes
        }
        return found, hints

    def site_hints(self, found: Sequence[BidsImage]) -> list[str]:
        """Return what to warn of about sites."""
        return [] if self.site_column else [*site_hints(found, self.root)]


def dataset_runs(dataset: Dataset, asked: Asked) -> list[Run]:
    """Return the study of each suffix of a dataset, by itself."""
    folders = folders_of_suffixes(dataset.out, dataset.suffixes)
    several = len(folders) > 1
    if asked.reference is not None and several and kind_in(asked.reference) != "references":
        raise InvalidValueError(
            "--reference is of one contrast; give one --suffix at a time, or the reference.json of "
            "a study of all of them"
        )
    if asked.preparing is not None:
        check_suffixes([*folders])
    images, hints = dataset.images()
    runs: list[Run] = []
    for name, folder in folders.items():
        found = images[name]
        masked = asked.unmasked is not None or asked.preparing is not None
        if not masked and (error := lacking_masks(found, dataset.derivatives)):
            raise error
        study = asked.study(
            folder,
            scans_of_dataset(found, unmasked=asked.unmasked, derivatives=dataset.derivatives),
            channel=name,
            within=dataset.out if several else None,
        )
        if asked.preparing is not None:
            study = with_preparation(
                study, dataset.root, asked.preparing, dataset=True, partial=not dataset.group
            )
        study = with_choices(study, asked.choices)
        runs.append(
            Run(
                study if dataset.group else replace(study, preset=None),  # the group decides
                f"{dataset.path} ({name})" if several else dataset.path,
                partial(_check_dataset_study, study, dataset),
                partial(rehearse_all, study, images=dataset.group),
                partial(
                    run_group if dataset.group else run_participants,
                    study,
                    dataset.root,
                    command=command_line(),
                    derivatives=dataset.derivatives,
                    force=study.options.force,
                ),
                unused_columns(found),
                warnings=[
                    *dataset.site_hints(found),
                    *([] if runs else hints),  # which are about all suffixes
                    *unused_derivatives(found, dataset.derivatives),
                    *unused_lesions(found),
                ],
                group=dataset.group,
            )
        )
    return runs


def _check_dataset_study(study: Study, dataset: Dataset) -> None:
    check_derivative(study, dataset.root, force=study.options.force)
    if dataset.group:
        check_cohort(study, force=study.options.force, ours=True)


def joint_dataset_run(dataset: Dataset, asked: Asked) -> Run:
    """Return the joint study of all suffixes of a dataset."""
    if len(dataset.suffixes) < 2:
        raise InvalidValueError("--joint: name the channels, for example --suffix T1w FLAIR")
    if len({name.lower() for name in dataset.suffixes}) < len(dataset.suffixes):
        words = " ".join(dataset.suffixes)
        raise InvalidValueError(f"--suffix: {words}: the same twice; leave one out")
    found, hints = dataset.images()
    visits = joint_visits(found)
    if not visits.names:
        name, why = next(iter(visits.left_out.items()))
        cause = f"no subject has all of {listed([*found])}; {name}, for example, {why}"
        raise FileError(dataset.path, cause, "give other suffixes, or leave out --joint")
    masked = [
        replace(row[0], mask=next((one.mask for one in row if one.mask), None))
        for row in zip(*visits.images.values(), strict=True)
    ]
    if asked.unmasked is None and (error := lacking_masks(masked, dataset.derivatives)):
        raise error
    plan = joint_study_of_dataset(
        asked.study(dataset.out),
        visits,
        asked.choices,
        unmasked=asked.unmasked,
        derivatives=dataset.derivatives,
    )
    out = [f"{dataset.path}: {name} {why}; left out" for name, why in visits.left_out.items()]
    more = [f"{dataset.path}: {len(out) - _NAMED} more left out"] if len(out) > _NAMED else []
    force = plan.study.options.force
    return Run(
        plan.study if dataset.group else replace(plan.study, preset=None),
        _together(dataset.path, plan),
        partial(check_joint_dataset, plan, dataset.root, force=force),
        partial(rehearse_joint_study, plan, images=dataset.group),
        partial(
            run_joint_dataset,
            plan,
            dataset.root,
            group=dataset.group,
            command=command_line(),
            derivatives=dataset.derivatives,
            force=force,
        ),
        skipped=Counter(f"that {why}" for why in visits.left_out.values()),
        warnings=[
            *dataset.site_hints(next(iter(found.values()))),
            *hints,
            *unused_derivatives(masked, dataset.derivatives),
            *out[:_NAMED],
            *more,
        ],
        joint=True,
        group=dataset.group,
    )


# ── carrying out ──────────────────────────────────────────────────────────────────────────────────


def carry_out(runs: Sequence[Run], out: Path, asked: Asked) -> int:
    """Carry out the studies of a command, and return the exit code.

    Parameters
    ----------
    runs : one, or one per channel.
    out : the folder for the results of all.
    asked : what else the command asks for.
    """
    if len(runs) == 1:
        return _carry_out(runs[0], asked)
    studies = [run.study for run in runs]
    check_channel_studies(out, studies)
    for run in runs:  # before any work on the first of them
        run.check()
    codes = []
    for place, run in enumerate(runs):
        if place and not asked.verbosity.quiet:
            print_line("")
        codes.append(_carry_out(run, asked))
    code = codes[0] if len({*codes}) == 1 else 1
    if asked.dry_run or not runs[0].group:
        return code
    return _write_shared(out, studies, asked) or code


def _carry_out(run: Run, asked: Asked) -> int:
    study, verbosity = run.study, asked.verbosity
    print_understood(
        study,
        run.source,
        verbosity=verbosity,
        unused=run.unused,
        skipped=run.skipped,
        warnings=run.warnings,
    )
    if asked.dry_run:
        run.check()
        return print_rehearsed(run.rehearse(), verbosity)
    make_folder(study.within)
    with ProgressDisplay(verbosity) as progress:
        summary = run.run(progress=progress)
        if not run.group:
            return conclude_fits(summary, study, verbosity)
        page = _page(study.folder, summary.done, study.options, progress, asked)
    return conclude(summary, study, verbosity, page, joint=run.joint)


def carry_out_preparation(plan: Preparation, listed: ListedScans, asked: Asked) -> int:
    """Prepare scans, and return the exit code.

    Parameters
    ----------
    plan : which scans, and how.
    listed : where they were listed.
    asked : what else the command asks for.
    """
    print_understood(
        plan,
        listed.source,
        verbosity=asked.verbosity,
        unused=listed.scans.unused,
        skipped=listed.skipped,
        warnings=listed.scans.warnings,
    )
    if asked.dry_run:
        check_preparation(plan)
        return print_rehearsed(rehearse_preparation(plan), asked.verbosity)
    with ProgressDisplay(asked.verbosity) as progress:
        summary = run_preparation(plan, progress, command=command_line())
        page = _page(plan.folder, summary.done, plan.options, progress, asked)
    return conclude_preparation(summary, plan, asked.verbosity, page)


def _page(
    folder: Path, done: int, options: Options, progress: ProgressDisplay, asked: Asked
) -> PageOutcome:
    """Write the report, if it was asked for and there is something to show."""
    if not done or not asked.report:
        return PageOutcome(None, "not written (--no-report)" if done else "none")
    return write_page(folder, progress, options.max_bytes, force=options.force)


def _write_shared(out: Path, studies: Sequence[Study], asked: Asked) -> int:
    """Write the references of all channels to one file, and the page about all of them."""
    by_name = {study.channel: study for study in studies}
    code, lines = 0, []
    try:
        path = write_shared_references(out, by_name)
        if path is not None:
            lines.append(f"wrote {shown_path(path)}, the references of {listed([*by_name])}")
        done = [name for name, study in by_name.items() if (study.folder / PROVENANCE).exists()]
        if asked.report and done and find_spec("jinja2") is not None:
            from ndflow.reporting.build import write_channel_index

            written = write_channel_index(out, done, force=studies[0].options.force)
            lines.append(f"wrote {shown_path(written)}")
    except FileError as error:
        print_error(str(error))
        code = 1
    for line in () if asked.verbosity.quiet else lines:
        print_result(line)
    return code

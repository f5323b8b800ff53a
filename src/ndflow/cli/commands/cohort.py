"""``ndflow cohort``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from ndflow.cli.options import (
    INPUT,
    DryRun,
    Expert,
    FindTissues,
    GivenReference,
    Jobs,
    Joint,
    NoBiasField,
    NoReport,
    Pattern,
    Prepare,
    Preset,
    Scheduler,
    StudyOptions,
    UnmaskedScans,
    Verbosity,
    VerbosityOptions,
    chosen,
)

if TYPE_CHECKING:
    from ndflow.cli.listed_scans import ListedScans
    from ndflow.study.plan import Study


def cohort(
    table: Annotated[str, Parameter(metavar="TABLE")],
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    pattern: Pattern = None,
    channels: Annotated[
        tuple[str, ...], Parameter(metavar="NAME...", consume_multiple=1, group=INPUT)
    ] = (),
    joint: Joint = False,
    mask: UnmaskedScans = None,
    prepare: Prepare = False,
    tissues: FindTissues = "given",
    no_bias_field: NoBiasField = False,
    reference: GivenReference = None,
    preset: Preset = "auto",
    options: StudyOptions = None,
    expert: Expert = (),
    no_report: NoReport = False,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    dry_run: DryRun = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise all scans of a study to a reference, made from them or given.

    OUT will hold the images, intensity maps, models, references and a report, report.html. Run the
    same command again to resume. Raw scans need --prepare.

    Example: `ndflow cohort study.tsv OUT --jobs 4`

    Parameters
    ----------
    table
        TSV or CSV with one row per scan: `image`, and optionally `subject`, `site`, `mask`,
        `lesion` (not part of the estimate), `csf`, `gm`, `wm` and covariates; paths are relative to
        it. Or a folder: all images in it, with the folder that each is in as its site.
    out
        The folder for the results.
    channels
        What the images show, such as T1w. Several: columns of images in TABLE instead of `image`,
        each normalised by itself, to OUT/T1w and so on.
    joint
        With several --channels: bring those of a subject to a joint reference together.
    """
    from pathlib import Path

    from ndflow.cli.channel_cohort import (
        conclude_channels,
        joint_study_of,
        listed_by_channel,
        run_together,
        unused_together,
    )
    from ndflow.cli.listed_scans import listed_scans
    from ndflow.errors import InvalidValueError
    from ndflow.image.mask import found_for
    from ndflow.options import Options
    from ndflow.study.plan import ANY_CHANNEL, Study
    from ndflow.study.prepared_study import preparing_for, with_preparation
    from ndflow.study.references import with_choices
    from ndflow.study.table import named_scans
    from ndflow.subject.presets import Choices

    several = len(channels) > 1
    if joint and not several:
        raise InvalidValueError("--joint: name the channels, for example --channels T1w FLAIR")
    place = Path(out).absolute()
    if several:
        others = {"--pattern": pattern is not None, "--prepare": prepare}
        others["--mask brain"] = mask == "brain"
        lists = listed_by_channel(table, place, channels, others, joint=joint)
    else:
        lists = {channels[0] if channels else ANY_CHANNEL: listed_scans(table, place, pattern)}
    preparing = preparing_for(prepare, mask, tissues=tissues, no_bias_field=no_bias_field)
    unmasked = None if preparing else found_for(mask)
    choices = Choices(preset, chosen(options, expert))
    if joint:
        plan = joint_study_of(
            Study(place, (), given=reference, jobs=jobs, scheduler=scheduler, table=table),
            {name: one.scans for name, one in lists.items()},
            unmasked,
            choices,
        )
        return run_together(
            plan,
            table,
            unused=unused_together(lists),
            warnings=next(iter(lists.values())).scans.warnings,
            page=not no_report,
            dry_run=dry_run,
            verbosity=verbosity,
        )
    runs = []
    for name, one in lists.items():
        study = Study(
            one.out,
            named_scans(one.scans.scans, unmasked=unmasked),
            options=Options(**choices.options),
            given=reference,
            channel=name,
            jobs=jobs,
            scheduler=scheduler,
            table=one.table,
            within=place if several else None,
        )
        if preparing is not None:
            study = with_preparation(study, one.root, preparing)
        runs.append(_Run(with_choices(study, choices), one))
    asked = _Asked(no_report=no_report, dry_run=dry_run, verbosity=verbosity)
    if not several:
        return _run(runs[0], asked)
    return conclude_channels(
        place,
        [run.study for run in runs],
        [partial(_run, run, asked) for run in runs],
        page=not no_report,
        dry_run=dry_run,
        verbosity=verbosity,
    )


class _Run(NamedTuple):
    """A study, and where its scans were listed."""

    study: Study
    listed: ListedScans


class _Asked(NamedTuple):
    """What to do with a study, and how much to print."""

    no_report: bool
    dry_run: bool
    verbosity: Verbosity


def _run(run: _Run, asked: _Asked) -> int:
    """Run a study, and return the exit code."""
    from ndflow.cli.endings import conclude
    from ndflow.cli.listed_scans import print_understood
    from ndflow.cli.report_page import PageOutcome, write_page
    from ndflow.cli.run import ProgressDisplay, command_line, dry_run_study
    from ndflow.study.run import check_cohort, run_cohort
    from ndflow.subject.outputs import make_folder

    study, listed = run
    verbosity, force = asked.verbosity, study.options.force
    print_understood(
        study,
        listed.source if study.within is None else f"{listed.source} ({study.channel})",
        verbosity=verbosity,
        unused=listed.scans.unused,
        skipped=listed.skipped,
        warnings=listed.scans.warnings,
    )
    if asked.dry_run:
        check_cohort(study, force=force)
        return dry_run_study(study, verbosity=verbosity)
    make_folder(study.within)
    with ProgressDisplay(verbosity) as progress:
        summary = run_cohort(study, progress, command=command_line(), force=force)
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if summary.done and not asked.no_report:
            page = write_page(study.folder, progress, study.options.max_bytes, force=force)
    return conclude(summary, study, verbosity, page)

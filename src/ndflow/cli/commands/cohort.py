"""``ndflow cohort``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from ndflow.cli.options import (
    AveragingOptions,
    DryRun,
    FittingOptions,
    Jobs,
    Joint,
    MatchingOptions,
    NewTissues,
    NoBiasField,
    NoReport,
    NoTissues,
    Prepare,
    Preset,
    ReadingOptions,
    Scheduler,
    UnmaskedScans,
    Verbosity,
    VerbosityOptions,
    WritingOptions,
)
from ndflow.methods.matching import MatchingChoices
from ndflow.subject.settings import AveragingChoices, Fitting, Reading, Writing

if TYPE_CHECKING:
    from ndflow.cli.listed_scans import ListedScans
    from ndflow.study.plan import Study


def cohort(
    table: Annotated[str, Parameter(metavar="TABLE")],
    out: Annotated[str | None, Parameter(metavar="OUT")] = None,
    /,
    *,
    from_folder: Annotated[str | None, Parameter(metavar="DIR")] = None,
    pattern: Annotated[str | None, Parameter(metavar="PATTERN")] = None,
    mask: UnmaskedScans = None,
    prepare: Prepare = False,
    no_bias_field: NoBiasField = False,
    no_tissues: NoTissues = False,
    new_tissues: NewTissues = False,
    channel: Annotated[str, Parameter(metavar="NAME")] = "intensity",
    channels: Annotated[tuple[str, ...], Parameter(metavar="NAME...", consume_multiple=1)] = (),
    joint: Joint = False,
    reference: Annotated[str | None, Parameter(metavar="R.json|builtin:T1w")] = None,
    preset: Preset = "auto",
    averaging: AveragingOptions = AveragingChoices(),
    matching: MatchingOptions = MatchingChoices(),
    fitting: FittingOptions = Fitting(),
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    no_report: NoReport = False,
    dry_run: DryRun = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise all scans of a study to a reference, made from them or given.

    OUT will hold the images, intensity maps, models and references, a list of failures, and a
    report, report.html (requires pip install 'ndflow[report]'). Run the same command again to
    resume: only what is missing or out of date is done.

    First correct bias fields and make brain masks, or let --prepare do both;
    docs/concepts/before-you-start.md says what else matters.

    Example: `ndflow cohort study.tsv OUT --jobs 4`

    Parameters
    ----------
    table
        TSV or CSV with one row per scan and a column `image`; optionally `subject`, `site`, `mask`,
        `lesion` (voxels to leave out of the estimate), `csf`, `gm`, `wm` and covariates. Paths are
        relative to the table. What was understood is printed first.
    out
        The folder for the results.
    from_folder
        Instead of TABLE: all images in this folder and its subfolders, without masks and results
        of ndflow. The site of a scan is the folder that it is in.
    pattern
        With --from-folder: a pattern for the names of the images, such as `*_T1w.nii.gz`. Default:
        all images.
    channel
        The contrast of the images, such as T1w, which the reference and the report name.
    channels
        Several channels of each subject, such as T1w FLAIR: columns of images in TABLE, instead of
        `image`. Each is normalised by itself, to OUT/T1w and so on, and OUT/reference.json holds
        the references of all. Default: one channel, in the column `image`.
    joint
        With --channels: bring all channels of a subject to a joint reference together, so that
        their dependence on each other becomes that of the reference, too (see
        docs/guides/channels.md).
    reference
        The reference to match scans to, or `builtin:T1w`, which comes with ndflow (see
        docs/reference/builtin.md); with --mode site and two-level, those of sites
        (`reference_SITE.json`) are looked for beside it. Default: references made from these scans.
    """
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
    from ndflow.study.plan import ANY_CHANNEL, Study
    from ndflow.study.prepared_study import preparing_for, with_preparation
    from ndflow.study.references import with_choices
    from ndflow.study.table import named_scans
    from ndflow.subject.presets import Choices

    words = (table,) if out is None else (table, out)
    if joint and not channels:
        raise InvalidValueError("--joint: name the channels, for example --channels T1w FLAIR")
    if channels:
        others = {
            "--from-folder": from_folder is not None,
            "--channel": channel != ANY_CHANNEL,
            "--prepare": prepare,
            "--mask brain": mask == "brain",
        }
        place, lists = listed_by_channel(words, channels, others, joint=joint)
    else:
        listed = listed_scans(words, from_folder=from_folder, pattern=pattern)
        place, lists = listed.out, {channel: listed}
    preparing = preparing_for(
        prepare,
        mask,
        no_bias_field=no_bias_field,
        no_tissues=no_tissues,
        new_tissues=new_tissues,
    )
    unmasked = None if preparing else found_for(mask)
    choices = Choices(preset, averaging, matching)
    if joint:
        plan = joint_study_of(
            Study(
                place,
                (),
                fitting=fitting,
                reading=reading,
                writing=writing,
                given=reference,
                jobs=jobs,
                scheduler=scheduler,
                table=table,
            ),
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
            fitting=fitting,
            reading=reading,
            writing=writing,
            given=reference,
            channel=name,
            jobs=jobs,
            scheduler=scheduler,
            table=one.table,
            within=place if channels else None,
        )
        if preparing is not None:
            study = with_preparation(study, one.root, preparing)
        runs.append(_Run(with_choices(study, choices), one))
    asked = _Asked(no_report=no_report, dry_run=dry_run, verbosity=verbosity)
    if not channels:
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
    verbosity, force = asked.verbosity, study.writing.force
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
            page = write_page(study.folder, progress, study.reading.max_bytes, force=force)
    return conclude(summary, study, verbosity, page)

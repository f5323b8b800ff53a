"""``ndflow cohort``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from ndflow.cli.options import (
    AveragingOptions,
    BoilerplateOnly,
    DryRun,
    FindLesions,
    FittingOptions,
    Jobs,
    MatchingOptions,
    NewTissues,
    NoBiasField,
    NoReport,
    NoTissues,
    Prepare,
    Preset,
    ReadingOptions,
    Scheduler,
    StopEarly,
    Title,
    UnmaskedScans,
    Verbosity,
    VerbosityOptions,
    WritingOptions,
)
from ndflow.scan.settings import AveragingChoices, Fitting, MatchingChoices, Reading, Writing

__all__ = ["cohort"]


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
    reference: Annotated[str | None, Parameter(metavar="R.json|builtin:T1w")] = None,
    preset: Preset = "auto",
    averaging: AveragingOptions = AveragingChoices(),
    matching: MatchingOptions = MatchingChoices(),
    find_lesions: FindLesions = False,
    fitting: FittingOptions = Fitting(),
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    title: Title = None,
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    stop_on_first_failure: StopEarly = False,
    no_report: NoReport = False,
    boilerplate_only: BoilerplateOnly = False,
    dry_run: DryRun = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise all scans of a study to a reference, made from them or given.

    OUT will hold the images, intensity maps, models and references, a list of failures, and a
    report, report.html (requires pip install 'ndflow[report]'). Run the same command again to
    resume: only what is missing or out of date is done.

    First correct bias fields and make brain masks, or let --prepare do both;
    docs/before-you-start.md says what else matters.

    Example: `ndflow cohort study.tsv OUT --jobs 4`

    Parameters
    ----------
    table
        TSV or CSV with one row per scan and a column `image`; optionally `subject`, `site` (or
        `centre`), `mask`, `lesion` (voxels to leave out of the estimate), `csf`, `gm`, `wm` and
        covariates. Paths are relative to the table. What was understood is printed first.
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
    reference
        The reference to match scans to, or `builtin:T1w`, which comes with ndflow (see
        docs/builtin.md); with --mode site, those of sites (`reference_SITE.json`) are looked for
        beside it. Default: references made from these scans.
    """
    from ndflow.cli.cite import print_boilerplate, write_boilerplate
    from ndflow.cli.endings import conclude
    from ndflow.cli.listed_scans import listed_scans
    from ndflow.cli.progress import ProgressDisplay
    from ndflow.cli.report_page import PageOutcome, write_page
    from ndflow.cli.run_scans import command_line, dry_run_study
    from ndflow.cli.understood import print_understood
    from ndflow.image.found_masks import found_for
    from ndflow.scan.presets.preset_rules import Choices
    from ndflow.study.listing.scan_table import named_scans
    from ndflow.study.plan import Study
    from ndflow.study.preparing.preparation_plan import PREPARED
    from ndflow.study.preparing.prepared_study import preparing_for, with_preparation
    from ndflow.study.presets.planned_study import with_choices
    from ndflow.study.run import check_cohort, run_cohort

    words = (table,) if out is None else (table, out)
    listed = listed_scans(words, from_folder=from_folder, pattern=pattern)
    if find_lesions:
        matching = replace(matching, lesions="auto")
    preparing = preparing_for(
        prepare,
        mask,
        no_bias_field=no_bias_field,
        no_tissues=no_tissues,
        new_tissues=new_tissues,
    )
    folder, unmasked = listed.out, None if preparing else found_for(mask)
    study = Study(
        folder,
        named_scans(listed.scans.scans, unmasked=unmasked),
        fitting=fitting,
        reading=reading,
        writing=writing,
        given=reference,
        channel=channel,
        jobs=jobs,
        scheduler=scheduler,
        stop_early=stop_on_first_failure,
        table=listed.table,
        title=title,
    )
    if preparing is not None:
        study = with_preparation(study, listed.root, preparing)
    study = with_choices(study, Choices(preset, averaging, matching))
    print_understood(
        study,
        listed.source,
        verbosity=verbosity,
        unused=listed.scans.unused,
        skipped=listed.skipped,
        warnings=listed.scans.warnings,
    )
    if boilerplate_only:
        check_cohort(study, force=writing.force)
        return print_boilerplate(study, dry_run=dry_run)
    if dry_run:
        check_cohort(study, force=writing.force)
        return dry_run_study(study, verbosity=verbosity)
    with ProgressDisplay(verbosity, folder / PREPARED) as progress:
        summary = run_cohort(study, progress, command=command_line(), force=writing.force)
        page = PageOutcome(None, "not written (--no-report)" if summary.done else "none")
        if not summary.finished:
            page = PageOutcome(None, "not written (--stop-on-first-failure)")
        elif summary.done and not no_report:
            page = write_page(folder, progress, reading.max_bytes)
    if summary.done and write_boilerplate(study):
        page = page._replace(code=1)
    return conclude(summary, study, verbosity, page)

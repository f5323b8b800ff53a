"""``ndflow bids``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from ndflow.cli.options import (
    METHOD,
    AutoMask,
    AveragingOptions,
    DryRun,
    FittingOptions,
    Jobs,
    MatchingOptions,
    NoReport,
    ReadingOptions,
    Scheduler,
    StopEarly,
    Verbosity,
    VerbosityOptions,
    WritingOptions,
)
from ndflow.scan.settings import Averaging, Fitting, Matching, Reading, Writing

__all__ = ["bids"]

_DATASET = Group("Dataset", sort_key=0)

Labels = Annotated[
    tuple[str, ...], Parameter(metavar="LABEL...", consume_multiple=1, group=_DATASET)
]


def bids(
    bids_dir: Annotated[str, Parameter(metavar="BIDS_DIR")],
    out: Annotated[str, Parameter(metavar="OUT")],
    level: Literal["participant", "group"],
    /,
    *,
    participant_label: Labels = (),
    session_label: Labels = (),
    suffix: Annotated[str, Parameter(metavar="NAME", group=_DATASET)] = "T1w",
    site_column: Annotated[str | None, Parameter(metavar="NAME", group=_DATASET)] = None,
    masks: Annotated[str | None, Parameter(metavar="DIR", group=_DATASET)] = None,
    auto_mask: AutoMask = False,
    skull_stripped: Annotated[bool, Parameter(group=_DATASET)] = False,
    averaging: AveragingOptions = Averaging(),
    reference: Annotated[str | None, Parameter(metavar="R.json", group=METHOD)] = None,
    matching: MatchingOptions = Matching(),
    fitting: FittingOptions = Fitting(),
    writing: WritingOptions = Writing(),
    reading: ReadingOptions = Reading(),
    jobs: Jobs = 1,
    scheduler: Scheduler = None,
    stop_on_first_failure: StopEarly = False,
    no_report: NoReport = False,
    dry_run: DryRun = False,
    verbosity: VerbosityOptions = Verbosity(),
) -> int:
    """Normalise all scans of a BIDS dataset to a reference, as a BIDS App.

    OUT becomes a BIDS derivative, whose images are labelled desc-ndflow. A run that was stopped
    resumes where it left off, as with `ndflow cohort`.

    Example: `ndflow bids BIDS_DIR OUT group --jobs 4`

    Parameters
    ----------
    bids_dir
        The dataset.
    out
        The folder for the results.
    level
        `participant` estimates densities, and can run for many participants at the same time;
        `group` makes the references and normalises all scans.
    participant_label
        Only these participants, with or without sub-.
    session_label
        Only these sessions, with or without ses-.
    suffix
        The suffix of the images, such as T1w or FLAIR.
    site_column
        The column of participants.tsv, or of a participant's sessions.tsv, that names the site.
        Default: site, centre, center or site_id.
    masks
        A derivatives folder with brain masks (desc-brain_mask), such as that of fMRIPrep.
        Default: masks next to the images.
    skull_stripped
        Record in the sidecars of the results that the images are skull-stripped, unless the
        sidecar of a scan already says whether it is.
    reference
        Use this reference instead of making one; see `ndflow cohort --help`.
    """
    from ndflow.bids.query import find_scans
    from ndflow.cli.progress import ProgressDisplay, conclude, write_page
    from ndflow.cli.run_scans import command_line, dry_run_study
    from ndflow.cli.understood import print_understood
    from ndflow.errors import FileError
    from ndflow.study.from_bids import (
        check_derivative,
        run_group,
        run_participants,
        scans_of_dataset,
        site_hints,
        unused_columns,
    )
    from ndflow.study.plan import Study
    from ndflow.study.run import check_cohort

    found = find_scans(
        bids_dir,
        suffix=suffix,
        participants=participant_label,
        sessions=session_label,
        site_column=site_column,
        masks=masks,
    )
    unmasked = [scan.relative for scan in found if scan.mask is None]
    if masks is not None and unmasked and not auto_mask:
        cause = f"no mask for {len(unmasked)} of {len(found)} scans, such as {unmasked[0]}"
        raise FileError(masks, cause, "add --auto-mask to find their foreground")
    root, folder = Path(bids_dir).absolute(), Path(out).absolute()
    study = Study(
        folder,
        scans_of_dataset(found, auto_mask=auto_mask, skull_stripped=skull_stripped),
        averaging,
        fitting,
        matching,
        reading,
        writing,
        given=reference,
        channel=suffix,
        jobs=jobs,
        scheduler=scheduler,
        stop_early=stop_on_first_failure,
    )
    force, group = writing.force, level == "group"
    print_understood(
        study,
        bids_dir,
        verbosity=verbosity,
        unused=unused_columns(found),
        warnings=[] if site_column else site_hints(found, root),
    )
    if dry_run:
        check_derivative(study, root, force=force)
        if group:
            check_cohort(study, force=force, prepared=True)
        return dry_run_study(study, verbosity=verbosity, images=group)
    with ProgressDisplay(verbosity) as progress:
        if group:
            summary = run_group(study, root, progress, command=command_line(), force=force)
        else:
            summary = run_participants(study, root, progress, force=force)
    page = 0
    if group and not no_report and summary.done:
        page = write_page(folder, verbosity, reading.max_bytes)
    return conclude(summary, study, verbosity, page=page)

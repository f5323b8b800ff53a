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
from ndflow.settings import Averaging, Fitting, Matching, Reading, Writing

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
    talk: VerbosityOptions = Verbosity(),
) -> int:
    """Bring all scans of a BIDS dataset to a reference: a BIDS App.

    OUT becomes a BIDS derivative with images called desc-ndflow. A run that was stopped goes on
    where it was, like `ndflow cohort`.

    Example: `ndflow bids BIDS_DIR OUT group --jobs 4`

    Parameters
    ----------
    bids_dir
        The dataset.
    out
        The folder for the results.
    level
        `participant` estimates densities, and may run for many participants at once; `group`
        makes the references and normalises all scans.
    participant_label
        Only these participants, with or without sub-.
    session_label
        Only these sessions, with or without ses-.
    suffix
        What the images are called.
    site_column
        The column of participants.tsv, or of the sessions.tsv of a participant, that names the
        site. Default: site, or the like.
    masks
        A derivatives folder with masks (desc-brain_mask), for example of fMRIPrep. Default: masks
        beside the images.
    skull_stripped
        Say of the results that only the brain is left in them, unless the JSON of a scan knows.
    reference
        Use this reference instead of making one, see `ndflow cohort --help`.
    """
    from ndflow.bids.query import find_scans
    from ndflow.cli.progress import ProgressDisplay, conclude, write_page
    from ndflow.cli.run_scans import command_line, dry_run_study
    from ndflow.errors import FileError
    from ndflow.scan.tissue_maps import needs_tissues
    from ndflow.study.from_bids import bids_members, check_derivative, run_group, run_participants
    from ndflow.study.passes import Study, check_study

    scans = find_scans(
        bids_dir,
        suffix=suffix,
        participants=participant_label,
        sessions=session_label,
        site_column=site_column,
        masks=masks,
    )
    bare = [scan.relative for scan in scans if scan.mask is None]
    if masks is not None and bare and not auto_mask:
        cause = f"no mask for {len(bare)} of {len(scans)} scans, such as {bare[0]}"
        raise FileError(masks, cause, "add --auto-mask to find their foreground")
    root, folder = Path(bids_dir).absolute(), Path(out).absolute()
    members, rows = bids_members(scans, folder, auto_mask=auto_mask, skull_stripped=skull_stripped)
    study = Study(
        folder,
        members,
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
    force = writing.force
    if dry_run:
        check_derivative(study, root, force=force)
        if level == "group":
            check_study(study)
        maps = needs_tissues(matching)
        return dry_run_study(members, images=level == "group", maps=maps)
    with ProgressDisplay(talk) as watch:
        if level == "participant":
            summary = run_participants(study, root, watch, force=force)
        else:
            summary = run_group(study, rows, root, watch, command=command_line(), force=force)
    if level == "group" and not no_report and summary.done:
        write_page(folder, talk, reading.max_bytes)
    return conclude(summary, study, talk)

"""``ndflow cohort``, ``ndflow bids`` and ``ndflow prepare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ndflow.cli import options as shared
from ndflow.cli.options import INPUT, OUTPUT, PREPARATION
from ndflow.errors import InvalidValueError
from ndflow.options import NoMask, Options, Preparing, Space, expert_options

Labels = Annotated[tuple[str, ...], shared.several("LABEL...")]


def cohort(
    table: Annotated[str, Parameter(metavar="TABLE")],
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    pattern: shared.Pattern = None,
    channels: shared.Names = (),
    joint: shared.Joint = False,
    study: Annotated[shared.StudyOptions, shared.FLAT] = shared.StudyOptions(),
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
    pattern
        With a folder: the names of the images, such as `*_T1w.nii.gz`. Default: all images.
    channels
        What the images show, such as T1w. Several: columns of images in TABLE instead of `image`,
        each normalised by itself, to OUT/T1w and so on.
    joint
        With several --channels: bring those of a subject to a joint reference together.
    """
    from ndflow.cli.studies import asked_of, assemble_each, carry_out, list_scans

    if joint and len(channels) < 2:
        raise InvalidValueError("--joint: name the channels, for example --channels T1w FLAIR")
    asked = asked_of(study)
    place = Path(out).absolute()
    listing = list_scans(table, place, pattern, channels)
    apart = len(channels) > 1 and not joint
    listings = {name: listing.alone(name) for name in channels} if apart else {"": listing}
    return carry_out(assemble_each(listings, place, asked), listings, study.run)


def bids(
    bids_dir: Annotated[str, Parameter(metavar="BIDS_DIR")],
    out: Annotated[str, Parameter(metavar="OUT")],
    level: Literal["participant", "group"],
    /,
    *,
    participant_label: Labels = (),
    session_label: Labels = (),
    suffix: shared.Names = ("T1w",),
    joint: shared.Joint = False,
    derivatives: Annotated[
        tuple[str, ...], shared.several("[NAME=]DIR...", "--derivatives", "-d")
    ] = (),
    participants: Annotated[str | None, Parameter(metavar="FILE", group=INPUT)] = None,
    shard: Annotated[str | None, Parameter(metavar="PART/PARTS", group=INPUT)] = None,
    study: Annotated[shared.StudyOptions, shared.FLAT] = shared.StudyOptions(),
) -> int:
    """Normalise all scans of a BIDS dataset to a reference, as a BIDS App.

    OUT becomes a BIDS derivative, whose images are labelled desc-ndflow; with several suffixes,
    OUT/T1w and so on do, each with a reference of its own, and OUT/reference.json holds all of
    them. Run the same command again to resume.

    Example: `ndflow bids BIDS_DIR OUT group --jobs 4`

    Parameters
    ----------
    bids_dir
        The dataset.
    out
        The folder for the results.
    level
        `participant` estimates densities or, with --reference, normalises scans, and can run for
        many participants at the same time; `group` makes the references, and whatever is missing.
    participant_label
        Only these participants, with or without sub-. Default: all.
    session_label
        Only these sessions, with or without ses-. Default: all.
    suffix
        The suffix of the images, such as T1w or FLAIR. Each of several is a study of its own, in
        OUT/SUFFIX, unless --joint is given.
    joint
        Bring the images of all suffixes of a participant, in each session, to a joint reference
        together (see docs/guides/channels.md). Those who lack one are left out. They must share a
        grid, unless they are prepared.
    derivatives
        Derivatives folders, such as that of fMRIPrep. Images preprocessed there (desc-preproc) in
        their own space are normalised instead of those of BIDS_DIR. Brain masks (desc-brain_mask),
        lesion masks (label-lesion_mask) and tissue probability maps (label-GM_probseg) are used.
        Default: masks next to the images.
    participants
        The table that names the site (site, centre, center or site_id) and covariates of each
        participant_id. Default: participants.tsv in BIDS_DIR.
    shard
        With `participant`: only one of several parts of the participants, such as 3/100.
    """
    from ndflow.cli.studies import asked_of, assemble_each, carry_out
    from ndflow.study.bids_query import Dataset, named_derivatives, read_dataset

    if joint and len(suffix) < 2:
        raise InvalidValueError("--joint: name the channels, for example --suffix T1w FLAIR")
    if shard is not None and level == "group":
        raise InvalidValueError("--shard is for the level participant; leave it out")
    folders = named_derivatives(derivatives)
    asked = asked_of(study, partial=level == "participant", derivatives=folders)
    labels, raw = (participant_label, session_label), asked.preparing is not None
    dataset = Dataset(bids_dir, suffix, *labels, shard, participants, folders)
    needed, shared = asked.unmasked is None and not raw, len(suffix) > 1 and raw
    listings = read_dataset(dataset, joint=joint or shared, masks_needed=needed, raw=raw)
    if shared and not joint:
        listings = {name: listings[""].alone(name) for name in suffix}
    studies = assemble_each(listings, Path(out).absolute(), asked)
    return carry_out(studies, listings, study.run)


def prepare(
    table: Annotated[str, Parameter(metavar="TABLE")],
    out: Annotated[str, Parameter(metavar="OUT")],
    /,
    *,
    pattern: shared.Pattern = None,
    channel: Annotated[str | None, Parameter(metavar="NAME", group=INPUT)] = None,
    mask: Annotated[NoMask, Parameter(group=INPUT)] = "brain",
    raw: Annotated[shared.RawOptions, shared.FLAT] = shared.RawOptions(),
    space: Annotated[Space, Parameter(group=PREPARATION)] = "own",
    resolution: Annotated[float | None, Parameter(metavar="MM", group=PREPARATION)] = None,
    force: Annotated[bool, Parameter(group=OUTPUT)] = False,
    expert: shared.ReadSetting = (),
    run: Annotated[shared.RunOptions, shared.FLAT] = shared.RunOptions(),
) -> int:
    """Prepare raw scans for a study: brain masks, bias fields and tissue maps.

    For each scan, the brain is found (deepbet), the bias field removed (N4), and a template brain
    deformed to the scan (greedy) to find CSF, GM and WM. Results have the names of a BIDS
    derivative; OUT/study.tsv lists them for `ndflow cohort`, and OUT/report.html shows them. Run
    the same command again to resume: only what is missing or out of date is done.

    Requires the extra `prepare`; docs/guides/preparation.md says more.

    Example: `ndflow prepare raw.tsv OUT --jobs 4`, then `ndflow cohort OUT/study.tsv OUT2`

    Parameters
    ----------
    table
        TSV or CSV with one row per scan and a column `image`; optionally `subject`, `site`,
        `mask`, `lesion` (voxels that bias field, registration and tissues do not see), `csf`,
        `gm`, `wm` and covariates. Or a folder of images.
    out
        The folder for the results.
    pattern
        With a folder: the names of the images, such as `*_T1w.nii.gz`. Default: all images.
    channel
        The contrast of the images, such as T1w; scans of another contrast need masks. Default:
        what the name of each file ends with, if it is known, or else T1w.
    mask
        For scans without a mask: find the brain, in T1w images (brain); or take all nonzero voxels
        of scans that are skull-stripped already (nonzero).
    space
        Leave scans where they are (own); or write copies in a common space beside them, aligned
        with the ICBM152 template by rotation and shift alone (MNI).
    resolution
        With --space MNI: the size of the voxels of the copies, from 0.5 to 8. Default: 2.
    force
        Use a folder that holds something else, or prepared scans that are not listed now. Never
        replaces a file that ndflow did not write, or one that was changed by hand since: delete
        such a file to have it made again.
    """
    from ndflow.cli.studies import carry_out, list_scans
    from ndflow.study.run import assemble_preparation

    place = Path(out).absolute()
    listing = list_scans(table, place, pattern, (channel,) if channel else ())
    preparing = Preparing(mask, raw.tissues, raw.no_bias_field, space, resolution)
    options = Options(**expert_options(expert, "read"), force=force)
    study = assemble_preparation(
        listing, place, preparing, options, jobs=run.jobs, scheduler=run.scheduler
    )
    return carry_out({"": study}, {"": listing}, run)

"""``ndflow bids``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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
    Prepare,
    Preset,
    Scheduler,
    StudyOptions,
    UnmaskedScans,
    Verbosity,
    VerbosityOptions,
    chosen,
)

Several = Annotated[tuple[str, ...], Parameter(metavar="LABEL...", consume_multiple=1, group=INPUT)]


def bids(
    bids_dir: Annotated[str, Parameter(metavar="BIDS_DIR")],
    out: Annotated[str, Parameter(metavar="OUT")],
    level: Literal["participant", "group"],
    /,
    *,
    participant_label: Several = (),
    session_label: Several = (),
    suffix: Annotated[
        tuple[str, ...], Parameter(metavar="NAME...", consume_multiple=1, group=INPUT)
    ] = ("T1w",),
    joint: Joint = False,
    bids_filter_file: Annotated[str | None, Parameter(metavar="FILE", group=INPUT)] = None,
    derivatives: Annotated[
        tuple[str, ...],
        Parameter(
            name=("--derivatives", "-d"),
            metavar="[NAME=]DIR...",
            consume_multiple=1,
            group=INPUT,
        ),
    ] = (),
    mask: UnmaskedScans = None,
    site_column: Annotated[str | None, Parameter(metavar="NAME", group=INPUT)] = None,
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
        `participant` estimates densities, and can run for many participants at the same time;
        `group` makes the references and normalises all scans.
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
        grid.
    bids_filter_file
        A JSON file that chooses images by their entities, as for fMRIPrep, such as {"t1w":
        {"acquisition": "mprage", "run": null}}. Default: all images.
    derivatives
        Derivatives folders with brain masks (desc-brain_mask), lesion masks (label-lesion_mask)
        and tissue probability maps (label-GM_probseg), such as that of fMRIPrep. Default: masks
        next to the images.
    site_column
        The column of participants.tsv, or of a participant's sessions.tsv, that names the site.
        Default: site, centre, center or site_id.
    """
    from ndflow.cli.channel_cohort import write_shared
    from ndflow.cli.dataset_run import (
        DatasetRun,
        check_joint_options,
        run_dataset,
        run_dataset_together,
    )
    from ndflow.errors import InvalidValueError
    from ndflow.files.model_files import kind_in
    from ndflow.image.mask import found_for
    from ndflow.options import Options
    from ndflow.study.bids_masks import named_derivatives
    from ndflow.study.bids_names import read_filters
    from ndflow.study.bids_query import find_scans
    from ndflow.study.channel_studies import check_channel_studies
    from ndflow.study.from_bids import (
        folders_of_suffixes,
        lacking_masks,
        scans_of_dataset,
        site_hints,
        unused_columns,
        unused_derivatives,
        unused_lesions,
    )
    from ndflow.study.plan import Study
    from ndflow.study.prepared_study import check_suffixes, preparing_for, with_preparation
    from ndflow.study.references import with_choices
    from ndflow.subject.presets import Choices

    root, place = Path(bids_dir).absolute(), Path(out).absolute()
    if joint:
        check_joint_options(suffix, {"--prepare": prepare, "--mask brain": mask == "brain"})
        folders = dict.fromkeys(suffix, place)
    else:
        folders = folders_of_suffixes(place, suffix)
    if (
        reference is not None
        and len(folders) > 1
        and not joint
        and kind_in(reference) != "references"
    ):
        raise InvalidValueError(
            "--reference is of one contrast; give one --suffix at a time, or the reference.json of "
            "a study of all of them"
        )
    preparing = preparing_for(prepare, mask, tissues=tissues, no_bias_field=no_bias_field)
    choices = Choices(preset, chosen(options, expert))
    if preparing is not None:
        check_suffixes([*folders])
    unmasked = None if preparing else found_for(mask)
    pipelines = named_derivatives(derivatives)
    filters = None if bids_filter_file is None else read_filters(bids_filter_file, [*folders])
    hints = []
    if filters and filters.unused:
        listed = ", ".join(filters.unused)
        hints = [f"{bids_filter_file}: queries for other images are not used: {listed}"]
    images = {
        name: find_scans(
            bids_dir,
            suffix=name,
            participants=participant_label,
            sessions=session_label,
            site_column=site_column,
            derivatives=pipelines.values(),
            chosen=filters and filters.of[name],
        )
        for name in folders
    }
    if joint:
        found = next(iter(images.values()))
        return run_dataset_together(
            Study(place, (), given=reference, jobs=jobs, scheduler=scheduler),
            images,
            choices,
            bids_dir=bids_dir,
            level=level,
            unmasked=unmasked,
            derivatives=pipelines,
            warnings=[*([] if site_column else site_hints(found, root)), *hints],
            page=not no_report,
            dry_run=dry_run,
            verbosity=verbosity,
        )
    runs: list[DatasetRun] = []
    for name, folder in folders.items():
        found = images[name]
        if unmasked is None and preparing is None and (error := lacking_masks(found, pipelines)):
            raise error
        study = Study(
            folder,
            scans_of_dataset(found, unmasked=unmasked, derivatives=pipelines),
            options=Options(**choices.options),
            given=reference,
            channel=name,
            jobs=jobs,
            scheduler=scheduler,
            within=place if folder != place else None,
        )
        if preparing is not None:
            partial = level == "participant"
            study = with_preparation(study, root, preparing, dataset=True, partial=partial)
        study = with_choices(study, choices)
        warnings = [] if site_column else [*site_hints(found, root)]
        warnings += [] if runs else hints  # which are about all suffixes
        warnings += [*unused_derivatives(found, pipelines), *unused_lesions(found)]
        runs.append(DatasetRun(study, unused_columns(found), warnings))
    studies = [one.study for one in runs]
    if len(studies) > 1:
        check_channel_studies(place, studies)
    codes = [
        run_dataset(
            one,
            bids_dir,
            level,
            derivatives=pipelines,
            no_report=no_report,
            dry_run=dry_run,
            verbosity=verbosity,
        )
        for one in runs
    ]
    code = codes[0] if len({*codes}) == 1 else 1
    if len(studies) > 1 and level == "group" and not dry_run:
        shared = write_shared(place, studies, page=not no_report, verbosity=verbosity)
        return code or shared
    return code

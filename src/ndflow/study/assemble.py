"""From scans that were listed, and what is asked of them, to a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ndflow.errors import InvalidValueError
from ndflow.image.mask import FoundMask, found_for
from ndflow.image.subject import Subject
from ndflow.options import Options, Preparing, TissueSource
from ndflow.study import table
from ndflow.study.bids_names import bids_output
from ndflow.study.plan import PREPARED, Study
from ndflow.study.prepare_step import PrepareStep, scans_to_prepare
from ndflow.study.references import read_reference, settled
from ndflow.subject.presets import Choices
from ndflow.subject.target import full_name, is_builtin


@dataclass(frozen=True)
class Asked:
    """What is asked of a study, besides its scans.

    Attributes
    ----------
    choices : about results.
    reference : that was given, if any.
    preparing : how raw scans are prepared first; None if they are not.
    unmasked : the mask to find for scans without one.
    jobs, scheduler, partial : see `Study`.
    derivatives : folders that masks of a BIDS dataset come from, by name; None where the scans are
        not those of a dataset.
    """

    choices: Choices = field(default_factory=Choices)
    reference: str | None = None
    preparing: Preparing | None = None
    unmasked: FoundMask | None = None
    jobs: int = 1
    scheduler: str | None = None
    partial: bool = False
    derivatives: Mapping[str, Path] | None = None


def preparing_for(
    prepare: bool,
    mask: str | None,
    *,
    tissues: TissueSource = "given",
    no_bias_field: bool = False,
) -> tuple[Preparing | None, FoundMask | None]:
    """Return how raw scans are prepared, if they are; and the mask to find if they are not.

    Parameters
    ----------
    prepare : whether they are.
    mask : for scans without a mask.
    tissues, no_bias_field : see `Preparing`.
    """
    if prepare and mask == "auto":
        words = "--prepare finds brain masks, and --mask auto the foreground"
        raise InvalidValueError(f"{words}; leave out one of them")
    if prepare:
        return Preparing("nonzero" if mask == "nonzero" else "brain", tissues, no_bias_field), None
    if tissues != "given" or no_bias_field:
        given = "--no-bias-field" if no_bias_field else f"--tissues {tissues}"
        raise InvalidValueError(f"{given} is about --prepare; add --prepare, or leave it out")
    return None, found_for(mask)


def assemble(
    listing: table.Listing, folder: Path, asked: Asked, *, within: Path | None = None
) -> Study:
    """Return the study of some scans.

    Parameters
    ----------
    listing : the scans.
    folder : for the results.
    asked : what is asked of it.
    within : the folder of several studies that this is one of.
    """
    naming: table.Naming = table.plain_names
    if asked.derivatives is not None:
        naming = partial(bids_output, listing.root, asked.derivatives)
    study = Study(
        folder,
        table.named(listing.subjects, naming, asked.unmasked),
        Options(**asked.choices.options),
        asked.reference,
        asked.jobs,
        asked.scheduler,
        listing.table,
        within,
        listing.root,
        asked.derivatives is not None,
        asked.derivatives or {},
        asked.partial,
    )
    if asked.preparing is not None:
        within = within or folder
        raw = replace(study, folder=folder / PREPARED, given=None, table=None, within=within)
        step = PrepareStep.of(raw := as_preparation(raw, asked.preparing))
        pairs = zip(raw.scans, study.scans, strict=True)
        study = replace(study, raw=raw, scans=[_ready(step, one, scan) for one, scan in pairs])
    study, given = replace(study, choices=asked.choices), None
    if study.given is not None:
        name = full_name(study.given) if is_builtin(study.given) else study.given
        study, given = replace(study, given=name), read_reference(name, study.channels)[0]
    return settled(study, given)


def as_preparation(study: Study, preparing: Preparing) -> Study:
    """Return the preparation of the scans of a study."""
    return replace(study, scans=scans_to_prepare(study.scans, study.root), preparing=preparing)


def _ready(step: PrepareStep, raw: Subject, scan: Subject) -> Subject:
    """Return a scan as it will be when it is prepared, with the places of its own results."""
    mask = step.paths(raw).mask.relative_to(step.study.folder).as_posix()
    outputs = {}
    for channel, own in scan.outputs.items():
        metadata, before = dict(own.metadata), raw.outputs[channel]
        if "Sources" in metadata:
            metadata["Sources"] = [f"bids:{PREPARED}:{one}" for one in (before.image, mask)]
            if raw.mask is None and step.preparing.mask == "nonzero":
                metadata["SkullStripped"] = before.metadata.get("SkullStripped", True)
        outputs[channel] = own._replace(metadata=metadata)
    return replace(step.prepared(raw), outputs=outputs)


def assemble_preparation(
    listing: table.Listing,
    folder: Path,
    preparing: Preparing,
    options: Options,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
) -> Study:
    """Return the preparation of some scans, by itself.

    Parameters
    ----------
    listing, folder : the scans, and the folder for the results.
    preparing, options : what the user chose.
    jobs, scheduler : see `Study`.
    """
    scans = table.named(listing.subjects)
    study = Study(folder, scans, options, None, jobs, scheduler, listing.table, root=listing.root)
    return as_preparation(study, preparing)

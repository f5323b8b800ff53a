"""A study of prepared scans: where each of the prepared files is, and what they are called."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.model_files import read_text
from ndflow.image.subject import Subject
from ndflow.options import Preparing, TissueSource
from ndflow.preparation.brain import T1W, contrast_called, contrast_in_name, ending_of
from ndflow.study.bids_masks import RAW
from ndflow.study.bids_names import Entities, check_label, entities_of
from ndflow.study.plan import ANY_CHANNEL, PREPARED, Preparation, Study
from ndflow.study.table import alike
from ndflow.subject.outputs import sidecar_of, stem

# ── metadata of an image ──────────────────────────────────────────────────────────────────────────

_INHERITED = ("SkullStripped", "Resolution", "SpatialReference")  # what results share with scans
_MAX_SIDECAR = 1 << 20


def inherited_metadata(image: AnyPath) -> dict[str, Any]:
    """Return what the sidecar of a scan says that holds for its results as well.

    Numbers that JSON does not have (NaN, which some programs write) count as missing.
    """
    path = sidecar_of(image)
    if not os.path.lexists(path):
        return {}
    try:
        said = json.loads(
            read_text(path, max_bytes=_MAX_SIDECAR), parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"not JSON ({error})", "correct it, or remove it") from None
    if not isinstance(said, dict):
        raise FileError(path, "not a sidecar of BIDS: no JSON object", "correct it, or remove it")
    return {name: said[name] for name in _INHERITED if said.get(name) is not None}


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# ── names of prepared files ───────────────────────────────────────────────────────────────────────
# What prepared scans are called: by the names of BIDS derivatives.
#
# ``sub-01_ses-1_run-2_T1w.nii.gz`` becomes
# ``sub-01/ses-1/anat/sub-01_ses-1_run-2_desc-preproc_T1w``. An image whose name is not of BIDS gets
# a subject of its own, called like the image without all that BIDS does not allow in a label: ``my
# scan_3.nii`` becomes ``sub-myscan3/anat/sub-myscan3_desc-…``.

_OTHERWISE = re.compile("[^0-9A-Za-z]")
_PROCESSED = ("desc", "label")  # entities that say what was made of an image
_HASH = 6  # digits that tell labels apart which would be the same


def contrast_of(scan: Subject, channel: str | None = None) -> str:
    """Return what an image shows: as the user says, else by the end of its name, else T1w."""
    if channel:
        return contrast_called(channel)
    return contrast_in_name(scan.path) or T1W


def preprocessed_name(entities: Entities, suffix: str) -> str:
    """Return the path of a prepared image, relative to the folder of the results.

    Parameters
    ----------
    entities : of the scan.
    suffix : what it shows.

    Examples
    --------
    >>> preprocessed_name({"sub": "01", "ses": "1", "desc": "defaced"}, "T1w")
    'sub-01/ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz'
    """
    kept = {key: label for key, label in entities.items() if key not in _PROCESSED}
    parts = [f"{key}-{label}" for key, label in kept.items()]
    folders = [f"{key}-{kept[key]}" for key in ("sub", "ses") if key in kept]
    return "/".join([*folders, "anat", "_".join([*parts, "desc-preproc", f"{suffix}.nii.gz"])])


def scans_to_prepare(scans: Sequence[Subject], source: Path, channel: str | None = None) -> list[Subject]:
    """Return scans whose results have the names of a BIDS derivative.

    Parameters
    ----------
    scans : with names of their own.
    source : the folder that they come from, to which the sidecars of results refer.
    channel : what all of them show, if the user said so.

    Raises
    ------
    FileError
        Where two scans would share their masks, as the T1w and the FLAIR image of one visit would,
        or two versions of one image.
    """
    if channel is not None:
        check_label("channel", channel)
    of_bids = {scan.name: found for scan in scans if (found := _entities(scan)) is not None}
    subjects = {alike(entities["sub"]) for entities in of_bids.values()}
    labels = _labels([scan.name for scan in scans if scan.name not in of_bids], subjects)
    taken: dict[str, Subject] = {}
    named: list[Subject] = []
    for scan in scans:
        inherited = inherited_metadata(scan.path) if scan.name in of_bids else {}
        entities = of_bids.get(scan.name) or {"sub": labels[scan.name]}
        stripped = {"SkullStripped": True} if scan.metadata.get("SkullStripped") is True else {}
        output = preprocessed_name(entities, contrast_of(scan, channel))
        other = taken.setdefault(alike(output.rpartition("_desc-")[0]), scan)
        if other is not scan:
            cause = f"{scan.origin}: by its name, of the same subject and visit as {other.path}"
            hint = "list one of them only, or prepare each to a folder of its own"
            if contrast_of(scan, channel) != contrast_of(other, channel):
                hint = "prepare one contrast at a time, each to a folder of its own"
            raise FileError(scan.path, f"{cause} ({other.origin})", hint)
        named.append(
            replace(
                scan,
                output=output,
                sidecar=sidecar_of(output).as_posix(),
                metadata={"Sources": [_uri(scan.path, source)], **stripped, **inherited},
            )
        )
    return named


def _entities(scan: Subject) -> Entities | None:
    """Return the entities of a scan whose name is of BIDS, and is its own; None otherwise."""
    file = Path(scan.path).name
    return entities_of(file) if stem(file) == scan.name else None


def _uri(path: str, source: Path) -> str:
    """Return the BIDS URI of a scan."""
    try:
        relative = os.path.relpath(os.path.abspath(path), source)  # noqa: PTH100
    except ValueError:  # on two drives
        relative = Path(path).name
    return f"bids:{RAW}:{quote(os.fsencode(Path(relative).as_posix()))}"


def _labels(names: Sequence[str], taken: set[str]) -> dict[str, str]:
    """Return different labels of BIDS for the names of scans, whatever the order of these.

    Parameters
    ----------
    names : of scans.
    taken : the labels of other scans, as of `alike`.
    """
    taken = {*taken}
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (_plain(name) != name, name)):
        label = _plain(name)
        if not label or alike(label) in taken:
            label += hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:_HASH]
        taken.add(alike(label))
        found[name] = label
    return found


def _plain(name: str) -> str:
    """Return a name without all that BIDS does not allow in a label."""
    short = name.removesuffix(ending_of(name)) or name
    plain = normalize("NFKD", short.removeprefix("sub-"))
    return _OTHERWISE.sub("", plain)


# ── the study ─────────────────────────────────────────────────────────────────────────────────────


def check_suffixes(suffixes: Sequence[str]) -> None:
    """Refuse to prepare images of a dataset that are not T1w."""
    for suffix in suffixes:
        if suffix != T1W:
            raise InvalidValueError(
                f"--prepare is for T1w images, not for {suffix}; leave out one of the two"
            )


def preparing_for(
    prepare: bool,
    mask: str | None,
    *,
    tissues: TissueSource = "given",
    no_bias_field: bool = False,
) -> Preparing | None:
    """Return how the scans of a study are prepared; None if they are not.

    Parameters
    ----------
    prepare : whether they are.
    mask : for scans without one, if the user said so.
    tissues, no_bias_field : see `Preparing`.

    Raises
    ------
    InvalidValueError
        For choices that make sense only with a preparation, or only without one.
    """
    if not prepare:
        if tissues != "given" or no_bias_field:
            given = "--no-bias-field" if no_bias_field else f"--tissues {tissues}"
            raise InvalidValueError(f"{given} is about --prepare; add --prepare, or leave it out")
        return None
    if mask == "auto":
        raise InvalidValueError(
            "--prepare finds brain masks, and --mask auto the foreground; leave out one of them"
        )
    return Preparing("nonzero" if mask == "nonzero" else "brain", tissues, no_bias_field)


def with_preparation(
    study: Study,
    source: Path,
    preparing: Preparing,
    *,
    dataset: bool = False,
    partial: bool = False,
) -> Study:
    """Return a study whose scans are prepared first.

    Parameters
    ----------
    study : of the raw scans; those with ``Sources`` in their metadata will refer to prepared ones.
    source : the folder that they come from.
    preparing : how they are prepared.
    dataset : whether that is a BIDS dataset.
    partial : whether other runs prepare more of its scans.
    """
    channel = None if study.channel == ANY_CHANNEL else study.channel
    plan = Preparation(
        study.folder / PREPARED,
        scans_to_prepare(study.scans, source, channel),
        preparing,
        study.options,
        channel,
        study.options.force,
        study.jobs,
        study.scheduler,
        source=source,
        any_source=not dataset,
        within=True,
        partial=partial,
    )
    ready = [_ready(plan, raw, one) for raw, one in zip(plan.scans, study.scans, strict=True)]
    return replace(study, scans=ready, preparation=plan)


def _ready(plan: Preparation, raw: Subject, scan: Subject) -> Subject:
    ready = plan.prepared(raw, scan)
    if "Sources" not in scan.metadata:
        return ready
    mask = plan.paths(raw).mask.relative_to(plan.folder).as_posix()
    sources = [f"bids:{PREPARED}:{raw.output}", f"bids:{PREPARED}:{mask}"]
    metadata = {**scan.metadata, "Sources": sources}
    if raw.mask is None and plan.preparing.mask == "nonzero":
        metadata["SkullStripped"] = raw.metadata.get("SkullStripped", True)
    return replace(ready, metadata=metadata)

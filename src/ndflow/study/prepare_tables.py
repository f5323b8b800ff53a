"""What prepared scans are called, and the tables about them.

Names are those of BIDS derivatives: ``sub-01_ses-1_run-2_T1w.nii.gz`` becomes
``sub-01/ses-1/anat/sub-01_ses-1_run-2_desc-preproc_T1w``. An image whose name is not of BIDS gets a
subject of its own, called like the image without all that BIDS does not allow in a label: ``my
scan_3.nii`` becomes ``sub-myscan3/anat/sub-myscan3_desc-…``.

``study.tsv`` has the rows of the user with the prepared files instead of the raw ones, relative to
the table, so the folder can be moved. Scans that failed are not in it. ``study_space-MNI.tsv`` is
the same for aligned copies, where they are asked for; ``preparation.tsv`` is for people.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize
from urllib.parse import quote

from ndflow.errors import FileError
from ndflow.files.outputs import sidecar_of, stem
from ndflow.files.tables import write_table
from ndflow.image.subject import ANY_CHANNEL, Output, Subject
from ndflow.preparation.brain import ending_of
from ndflow.study.bids_derivative import inherited_metadata
from ndflow.study.bids_names import RAW, Entities, check_label, entities_of
from ndflow.study.plan import Study
from ndflow.study.prepare_step import PreparationRecord, PrepareStep, contrast_of
from ndflow.study.table import alike

STUDY = "study.tsv"
ALIGNED = "study_space-MNI.tsv"
MEASURES = "preparation.tsv"

_MEASURED = (
    *("name", "subject", "site", "mask", "bias_field", "tissues", "brain_ml"),
    *("csf_ml", "gm_ml", "wm_ml", "field_min", "field_max", "overlap", "likeness", "agreement"),
    *("doubts", "seconds", "image"),
)
_OTHERWISE = re.compile("[^0-9A-Za-z]")
_PROCESSED = ("desc", "label")  # entities that say what was made of an image
_HASH = 6  # digits that tell labels apart which would be the same


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def scans_to_prepare(scans: Sequence[Subject], source: Path) -> list[Subject]:
    """Return scans whose results have the names of a BIDS derivative.

    Parameters
    ----------
    scans : with names of their own.
    source : the folder that they come from, to name them in BIDS URIs.

    Raises
    ------
    FileError : if two scans would have the same name.
    """
    of_bids = {scan.name: found for scan in scans if (found := _entities(scan)) is not None}
    subjects = {alike(entities["sub"]) for entities in of_bids.values()}
    labels = _labels([scan.name for scan in scans if scan.name not in of_bids], subjects)
    taken: dict[str, Subject] = {}
    named: list[Subject] = []
    for scan in scans:
        entities = of_bids.get(scan.name) or {"sub": labels[scan.name]}
        outputs = {}
        for channel, image in scan.images.items():
            if channel != ANY_CHANNEL:
                check_label("channel", channel)
            path = str(image)
            inherited = inherited_metadata(path) if scan.name in of_bids else {}
            output = preprocessed_name(entities, contrast_of(path, channel))
            metadata = {"Sources": [_uri(path, source)], **inherited}
            name = scan.outputs[channel].name
            outputs[channel] = Output(name, output, sidecar_of(output).as_posix(), metadata)
        first = next(iter(outputs.values())).image
        other = taken.setdefault(alike(first.rpartition("_desc-")[0]), scan)
        if other is not scan:
            cause = f"{scan.origin}: by its name, of the same subject and visit as {other.path}"
            hint = "list one of them only, or one contrast at a time, each to a folder of its own"
            raise FileError(scan.path, f"{cause} ({other.origin})", hint)
        named.append(replace(scan, outputs=outputs))
    return named


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


def _entities(scan: Subject) -> Entities | None:
    """Return the entities of a scan whose name is of BIDS, and is its own; None otherwise."""
    file = Path(scan.path).name
    own = stem(file) == scan.output.name
    return entities_of(file) if own else None


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


# ── tables ────────────────────────────────────────────────────────────────────────────────────────

Row = Mapping[str, str | None]


def write_tables(study: Study, scans: Sequence[Subject]) -> list[str]:
    """Write all tables about scans that were prepared, and return their names."""
    step = PrepareStep.of(study)
    more = sorted({name for scan in scans for name in scan.covariates})
    images = study.channels if len(study.channels) > 1 else ("image",)
    columns = ("subject", "site", *images, "mask", "csf", "gm", "wm", "lesion", *more)
    tables: dict[str, tuple[Sequence[str], list[Row]]] = {
        STUDY: (columns, [_listed(study, step.prepared(scan), images) for scan in scans]),
        MEASURES: (_MEASURED, [_measured(step, scan) for scan in scans]),
    }
    if step.preparing.resolution is not None:
        copies = [step.prepared(scan, copy=True) for scan in scans]
        tables[ALIGNED] = (columns, [_listed(study, copy, images) for copy in copies])
    for name, (names, rows) in tables.items():
        cells = ([row.get(column) for column in names] for row in rows)
        write_table(study.folder / name, names, cells)
    return [*tables]


def _listed(study: Study, ready: Subject, images: Sequence[str]) -> Row:
    files = {
        **dict(zip(images, ready.images.values(), strict=True)),
        "mask": ready.mask,
        "lesion": ready.lesion,
        **ready.tissues._asdict(),
    }
    relative = {
        what: source and Path(os.path.relpath(str(source), study.folder)).as_posix()
        for what, source in files.items()
    }
    return {**ready.covariates, "subject": ready.person, "site": ready.site, **relative}


def _measured(step: PrepareStep, scan: Subject) -> Row:
    record = PreparationRecord.read(step.paths(scan).record)
    known = record.measures
    numbers = {
        "brain_ml": known.brain_ml,
        **dict(zip(("csf_ml", "gm_ml", "wm_ml"), known.tissues_ml or (), strict=False)),
        **dict(zip(("field_min", "field_max"), known.field or (), strict=False)),
        "overlap": known.overlap,
        "likeness": known.likeness,
        "agreement": known.agreement,
        "seconds": record.seconds,
    }
    coarse = ("brain_ml", "csf_ml", "gm_ml", "wm_ml", "seconds")
    return {
        "name": scan.name,
        "subject": scan.person,
        "site": scan.site,
        **{step.replace(" ", "_"): done for step, done in record.steps.items()},
        **{
            name: f"{number:.{1 if name in coarse else 3}f}"
            for name, number in numbers.items()
            if number is not None
        },
        "doubts": "; ".join(doubt.kind for doubt in record.doubts) or None,
        "image": scan.output.image,
    }

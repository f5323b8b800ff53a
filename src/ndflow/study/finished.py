"""Finished studies, read back from their folders.

The sidecar of a result holds the hashes of the files that were read and written, and the density
that its map was made for. So a file that was replaced, or that belongs to another scan, is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ndflow._version import __version__
from ndflow.density import GaussianMixture
from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath, reading
from ndflow.files.model_files import outputs_in, read_model
from ndflow.files.stream import Hashes, contents, fingerprint_of, sha256_of
from ndflow.image.mask import AUTO
from ndflow.image.subject import Subject
from ndflow.image.volume import Volume
from ndflow.options import Options, chosen_options
from ndflow.study import plan
from ndflow.study.manifest import read_record
from ndflow.study.plan import PROVENANCE, ResultPaths, Study
from ndflow.study.table import read_study_scans
from ndflow.study.tasks import FAILURES
from ndflow.subject.records import MapRecord, ScanModel, StudyRecord
from ndflow.subject.voxels import Voxels, read_voxels
from ndflow.values import JSON

_NO_STUDY = "give the OUT of 'ndflow cohort' or 'ndflow bids'"
_AGAIN = "run the study again; 'ndflow verify' finds everything that has changed"


@dataclass(frozen=True)
class FinishedStudy:
    """A finished study.

    Attributes
    ----------
    name : what tables call it.
    study : what was done, and how; its scans are those that were normalised.
    record : how it ended.
    results : the fingerprint of its results when it was read.
    """

    name: str
    study: Study
    record: StudyRecord
    results: str

    @property
    def scans(self) -> dict[str, Subject]:
        """The scans that were normalised, by name."""
        return {scan.name: scan for scan in self.study.scans}


def read_finished(folders: Sequence[AnyPath], channel: str | None = None) -> list[FinishedStudy]:
    """Read finished studies; they are named after their folders.

    Parameters
    ----------
    folders : of the studies.
    channel : the only one to look at, of several that were normalised together.
    """
    paths = [Path(os.path.realpath(folder)) for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise FileError(folders[place], "given twice", "leave one out")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1  # same name: add the folder they lie in, and so on
    names = ["/".join(path.parts[-depth:]) for path in paths]
    return [_read(Path(one), name, channel) for one, name in zip(folders, names, strict=True)]


def _read(folder: Path, name: str, channel: str | None) -> FinishedStudy:
    if not folder.is_dir():
        raise FileError(folder, "not a folder", _NO_STUDY)
    record = read_record(folder)
    if record.is_preparation:
        raise FileError(folder, "holds a preparation, not a study", _NO_STUDY)
    refuse_changed_table(folder, plan.SCANS)
    listed = read_study_scans(folder / plan.SCANS, record.channels)
    scans = [scan for scan in listed if (folder / scan.output.sidecar).exists()]
    if not scans:
        raise FileError(folder, "holds no normalised scan", "look at its failures.tsv")
    if channel is not None:
        if channel not in record.channels:
            cause = f"a study of {', '.join(record.channels)}, not of {channel}"
            raise FileError(folder, cause, "compare studies of the same channels")
        scans = [scan.alone(channel) for scan in scans]
    try:
        options = Options(**chosen_options(record.settings))
    except (InvalidValueError, TypeError, ValueError) as error:
        raise FileError(folder / PROVENANCE, f"{error}", "the file is damaged") from None
    study = Study(
        folder,
        scans,
        options,
        preset=record.preset,
        # A reference that was given is in the folder too, even where the original has gone.
        given=None if record.reference is None else str(folder / plan.reference_name(None)),
    )
    return FinishedStudy(name, study, record, results_fingerprint(study))


def refuse_changed_table(folder: Path, name: str) -> None:
    """Refuse a study whose list of scans is not as the run wrote it."""
    path, listed = folder / name, outputs_in(folder / PROVENANCE)
    if listed.get(path.absolute()) != sha256_of(path):
        cause = "changed since the study was run"
        raise FileError(path, cause, "restore it, or run the study again with --force")


def results_fingerprint(study: Study) -> str:
    """Return a hash of all results of a study, as its files are now: it changes when they do."""
    results = {}
    for scan in study.scans:
        for output in scan.outputs.values():
            with suppress(FileError):  # a damaged sidecar belongs to no result
                file = read_model(study.folder / output.sidecar, MapRecord.kind)
                results[output.name] = file.payload.get("outputs")
    return fingerprint_of(outputs=results)


@contextmanager
def unchanging(
    folders: Sequence[AnyPath], channel: str | None = None
) -> Iterator[list[FinishedStudy]]:
    """Read finished studies, and keep other runs away from them while the block runs.

    Raises
    ------
    FileError : if a folder holds no finished study, or a run is at work in it.
    """
    with reading(Path(one) for one in folders if (Path(one) / PROVENANCE).exists()):
        yield read_finished(folders, channel)


def read_raw_voxels(scan: Subject, record: MapRecord, *, max_bytes: int) -> Voxels:
    """Read a scan of one channel with the mask that a study used.

    If that was the foreground, only the sidecar knows.
    """
    mask = AUTO if record.setting("mask") == AUTO else scan.mask
    return read_voxels(replace(scan, mask=mask), max_bytes=max_bytes)


# ── the results of a scan ─────────────────────────────────────────────────────────────────────────


class Results(NamedTuple):
    """The density of one channel of a scan, and the sidecar of its image.

    Attributes
    ----------
    model : of all channels of the scan.
    record : how the image was made.
    mixture : the density of the channel that the image shows.
    """

    model: ScanModel
    record: MapRecord
    mixture: GaussianMixture


def read_results(paths: ResultPaths) -> Results:
    """Read what a study knows about a scan; refuse files that belong to different scans."""
    model, record = ScanModel.read(paths.model), MapRecord.read(paths.sidecar)
    same_files = _mapped(model.sha256 or {}) == _mapped(contents(record.inputs or {}))
    if record.mixture != model.mixture or not same_files:
        cause = f"not the model that {paths.sidecar} was made with"
        raise FileError(paths.model, cause, _AGAIN)
    mixture = model.mixture
    if record.channel and model.marginals:
        mixture = model.marginals[(model.channel_names or ()).index(record.channel)]
    return Results(model, record, mixture)


def refuse_other_inputs(paths: ResultPaths, record: MapRecord, read: Hashes) -> None:
    """Refuse an image, a mask or a lesion mask that is no longer what the study read.

    Parameters
    ----------
    paths, record : where the results of the scan are, and its sidecar.
    read : the hashes of the files that were read now, by what they are.
    """
    known, now = contents(record.inputs or {}), contents(read)
    known["image"] = known.get(record.channel or "image", ())  # a file by itself is an image
    for what, called in (("mask", "mask"), ("lesion", "lesion mask"), ("image", "image")):
        was, found = known.get(what, ()), now.get(what, ())
        may_be_missing = what == "lesion"  # in another study of the same scan
        if was != found and not (may_be_missing and not (was and found)):
            path = read[what][0].file if found else paths.sidecar
            raise FileError(path, f"not the {called} that {paths.sidecar} was made from", _AGAIN)


def refuse_other_image(record: MapRecord, image: Volume) -> None:
    """Refuse a normalised image that is not the one that the study wrote."""
    if record.image != tuple(file.sha256 for file in image.files):
        raise FileError(image.path, "not the image that the study wrote", _AGAIN)


def _mapped(files: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the hashes of the files that voxels are made from, without those of the density."""
    left_out = ("lesion", "csf", "gm", "wm")
    return {what: found for what, found in files.items() if what not in left_out and found}


# ── its report ────────────────────────────────────────────────────────────────────────────────────


def page_fingerprint(folder: Path) -> str:
    """Return a hash of everything that the report of a study depends on.

    That is the record of the run, which holds the hashes of all results; the list of failures; the
    evaluation; the record of the preparation in the same folder; and the version of ndflow. It is
    found without the packages that draw a report, so that a run with nothing to do ends at once.
    """
    shown: dict[str, JSON] = {"ndflow": __version__, "folder": Path(os.path.realpath(folder)).name}
    with suppress(FileError):  # there need be none, nor any of what follows
        shown[FAILURES] = sha256_of(folder / FAILURES)
    # That of each channel, where there are several:
    evaluations = sorted((folder / plan.EVALUATION).rglob(plan.EVALUATION_RECORD))
    names = [str(path.relative_to(folder)) for path in evaluations]
    for name in (PROVENANCE, *names, f"{plan.PREPARED}/{PROVENANCE}"):
        with suppress(FileError):
            payload = dict(read_model(folder / name).payload)
            outputs = payload.get("outputs") or {}
            payload["outputs"] = {file: sha for file, sha in outputs.items() if file != plan.REPORT}
            # Not how a result was asked for (-j, -q), and not the report itself.
            shown[name] = {k: v for k, v in payload.items() if k not in ("command", "checksum")}
    return fingerprint_of(**shown)


def page_is_current(folder: Path) -> bool:
    """Return whether the report of a study shows what the study holds now."""
    return is_page(folder / plan.REPORT, page_fingerprint(folder))


def is_page(path: AnyPath, fingerprint: str) -> bool:
    """Tell whether a file is a report with a fingerprint."""
    expected = f'<meta name="ndflow-content" content="{fingerprint}">'
    try:
        with Path(path).open("rb") as file:
            return expected.encode() in file.read(1 << 14)
    except OSError:
        return False

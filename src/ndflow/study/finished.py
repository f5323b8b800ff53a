"""Finished studies, read back from their folders."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.evaluation.statistics import covariate_effect
from ndflow.files.atomic import AnyPath, reading
from ndflow.files.model_files import kind_in, read_model
from ndflow.image.mask import AUTO, BRAIN
from ndflow.image.preview import is_ours
from ndflow.image.subject import Subject
from ndflow.options import Options, chosen_options
from ndflow.study.folder import PROVENANCE, SCANS, studies_in
from ndflow.study.joint_plan import JointStudyRecord
from ndflow.study.plan import FIGURES, ResultPaths, Study
from ndflow.study.prepare_records import AlignedRecord, PreparationRecord
from ndflow.study.references import reference_name
from ndflow.study.table import read_study_scans
from ndflow.subject.outputs import sidecar_of, stem
from ndflow.subject.records import MapRecord, StudyRecord

_STOPPED = "holds a study that was stopped"
_UNFINISHED = "run the same command again to finish it"
_NO_STUDY = "give the OUT of 'ndflow cohort' or 'ndflow bids'"


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

    @property
    def only_aligns(self) -> bool:
        """Whether it is the plain alignment that others are compared with."""
        return self.study.method.only_aligns and not self.study.mode.by_site


@dataclass(frozen=True)
class SharedScan:
    """A scan that several studies have.

    Attributes
    ----------
    scan : in the first of them; with its lesion mask, if any of them has one.
    paths : of its results in each of them.
    """

    scan: Subject
    paths: Sequence[ResultPaths]


def read_finished(folders: Sequence[AnyPath]) -> list[FinishedStudy]:
    """Read finished studies; they are named after their folders."""
    paths = [Path(os.path.realpath(folder)) for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise FileError(folders[place], "given twice", "leave one out")
    names = [path.name for path in paths]
    depth = 1
    while len(set(names)) < len(names):  # same name: add the folder they lie in, and so on
        depth += 1
        names = ["/".join(path.parts[-depth:]) for path in paths]
    return [_read(Path(folder), name) for folder, name in zip(folders, names, strict=True)]


def read_joint_record(folder: Path) -> JointStudyRecord:
    """Read the record of a finished joint study."""
    record = JointStudyRecord.read(folder / PROVENANCE)
    if not record.finished:
        raise FileError(folder, _STOPPED, _UNFINISHED)
    return record


def _read(folder: Path, name: str) -> FinishedStudy:
    if not folder.is_dir():
        raise FileError(folder, "not a folder", _NO_STUDY)
    if not (folder / PROVENANCE).exists():
        if inside := studies_in(folder):
            cause = f"holds a study of each channel: {', '.join(inside)}"
            raise FileError(folder, cause, f"give one of them, such as {folder / inside[0]}")
        raise FileError(folder, "holds no study", _NO_STUDY)
    if kind_in(folder / PROVENANCE) == JointStudyRecord.kind:
        cause = "holds a joint study, whose maps are of several channels at once"
        raise FileError(folder, cause, "give a study of one channel, or look at its report")
    record = StudyRecord.read(folder / PROVENANCE)
    if not record.finished:
        raise FileError(folder, _STOPPED, _UNFINISHED)
    scans = [scan for scan in read_study_scans(folder / SCANS) if (folder / scan.sidecar).exists()]
    if not scans:
        raise FileError(folder, "holds no normalised scan", "look at its failures.tsv")
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
        given=None if record.reference is None else str(folder / reference_name(None)),
        channel=record.channel,
    )
    return FinishedStudy(name, study, record, results_fingerprint(study))


def results_fingerprint(study: Study) -> str:
    """Return a hash of all results of a study, as its files are now: it changes when they do."""
    results = {}
    for scan in study.scans:
        with suppress(FileError):  # a damaged sidecar belongs to no result
            file = read_model(study.paths(scan).sidecar, MapRecord.kind)
            results[scan.name] = file.payload.get("outputs")
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()


@contextmanager
def unchanging(folders: Sequence[AnyPath]) -> Iterator[list[FinishedStudy]]:
    """Read finished studies, and make sure that they stay as they are while the block runs.

    Other runs are kept away by a lock. Not every system has locks, so the results are compared
    before and after as well.

    Raises
    ------
    FileError : if a folder holds no finished study, a run is at work in it, or its results changed.
    """
    with reading(Path(one) for one in folders if (Path(one) / PROVENANCE).exists()):
        runs = read_finished(folders)
        yield runs
        for run in runs:
            if results_fingerprint(run.study) != run.results:
                cause = "its results changed while they were read"
                raise FileError(run.study.folder, cause, "wait for the other run, and try again")


def mask_used(scan: Subject, record: MapRecord) -> str | None:
    """Return the mask that a study used; if it was the foreground, only the sidecar knows."""
    return AUTO if record.setting("mask") == AUTO else scan.mask  # type: ignore[return-value]


def shared_scans(runs: Sequence[FinishedStudy]) -> list[SharedScan]:
    """Return the scans that all studies have, in the order of the first."""
    shared = []
    by_name = [run.scans for run in runs]
    for scan in runs[0].study.scans:
        if all(scan.name in scans for scans in by_name):
            same = [scans[scan.name] for scans in by_name]
            paths = [run.study.paths(one) for run, one in zip(runs, same, strict=True)]
            _refuse_disagreement(scan.name, same, paths)
            lesion = next((one.lesion for one in same if one.lesion is not None), None)
            shared.append(SharedScan(replace(scan, lesion=lesion), paths))
    if len(shared) < 2:
        raise InvalidValueError("the runs share fewer than two scans; compare runs of one table")
    return shared


def _refuse_disagreement(name: str, scans: Sequence[Subject], paths: Sequence[ResultPaths]) -> None:
    """Refuse a scan that is not the same in all studies, or has another mask or site.

    A lesion mask may be missing in some of them: what it does may be the very question.
    """
    known: Mapping[str, list[str | None]] = {
        "image": [os.path.realpath(scan.path) for scan in scans],
        "mask": [_mask_called(*one) for one in zip(scans, paths, strict=True)],
        "lesion mask": [os.path.realpath(str(scan.lesion)) for scan in scans if scan.lesion],
        "site": [scan.site for scan in scans],
    }
    for what, values in known.items():
        different = sorted({"not given" if value is None else value for value in values})
        if len(different) > 1:
            raise InvalidValueError(
                f"the {what} of {name} is {different[0]} in one run and {different[1]} in "
                f"another; compare runs of the same table"
            )


def _mask_called(scan: Subject, paths: ResultPaths) -> str | None:
    """Return what to call a mask that may be another file in each study, but found alike."""
    if not scan.mask:
        return None
    file = os.path.realpath(str(scan.mask))
    return BRAIN if file == os.path.realpath(paths.mask) else file


class Covariate(NamedTuple):
    """A column of the table of scans, as numbers.

    Attributes
    ----------
    label : its name; of one with two values, also that which counts as 1.
    values : of each scan; NaN where it is not known.
    """

    label: str
    values: list[float]


def check_covariates(scans: Sequence[Subject], names: Sequence[str]) -> None:
    """Refuse covariates that no scan has, that are no numbers, or that cannot be tested."""
    for name in names:
        _check_covariate(scans, name)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidValueError(f"covariate: {name!r} is given twice; leave one out")
    values = [covariate_values(scans, name).values for name in names]
    sites = [scan.site or "" for scan in scans]
    for place, own in enumerate(values if len(names) > 1 else ()):
        covariate_effect(range(len(scans)), own, sites, values[:place] + values[place + 1 :])


def _check_covariate(scans: Sequence[Subject], name: str) -> None:
    known = sorted({column for scan in scans for column in scan.covariates})
    if name not in known:
        there = ", ".join(known) or "none"
        raise InvalidValueError(
            f"covariate: no column is called {name!r}; the covariates are: {there}"
        )
    values = covariate_values(scans, name).values
    if not all(scan.tissues.complete for scan in scans):
        raise InvalidValueError(
            "covariate: its effect is on tissues, but not all scans have tissue probability maps "
            "of WM, GM and CSF"
        )
    # Refuses a covariate that is the same for all scans of a site, or known of too few.
    covariate_effect(range(len(values)), values, [scan.site or "" for scan in scans])


def covariate_values(scans: Sequence[Subject], name: str) -> Covariate:
    """Return a covariate of all scans: a number, or one of two words, the second of which is 1."""
    texts = {scan.name: scan.covariates.get(name) for scan in scans}
    levels = sorted({text for text in texts.values() if text is not None})
    if len(levels) == 2 and not any(map(_is_number, levels)):
        values = [
            math.nan if text is None else float(levels.index(text)) for text in texts.values()
        ]
        return Covariate(f"{name} ({levels[1]})", values)
    return Covariate(name, [covariate_of(scan, name) for scan in scans])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def covariate_of(scan: Subject, name: str) -> float:
    """Return a covariate of a scan; NaN where it is not known."""
    text = scan.covariates.get(name)
    if text is None:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        cause = f"{name} of {scan.name} is {text!r}, which is not a number"
        raise InvalidValueError(f"{cause}; choose a covariate with numbers, or with two values")
    return number


# ── how a scan was prepared ───────────────────────────────────────────────────────────────────────

_DEPTH = 4  # folders above an image: anat, session, subject, and that of the preparation


class PreparedImage(NamedTuple):
    """What is known about an image that ndflow has prepared.

    Attributes
    ----------
    record : its sidecar.
    picture : for quality control; None if it is not there.
    """

    record: PreparationRecord
    picture: Path | None


def preparation_of(image: AnyPath, sha256: str | None = None) -> PreparedImage | None:
    """Return how an image was prepared; None if ndflow has not prepared it.

    That of an aligned copy is that of the image which it is a copy of.

    Parameters
    ----------
    image : the file.
    sha256 : its hash. Somebody may have changed it after it was prepared; then the sidecar is about
        another image.
    """
    path = Path(image)
    sidecar = sidecar_of(path)
    if not sidecar.is_file():
        return None
    try:
        if kind_in(sidecar) == AlignedRecord.kind:
            copy = AlignedRecord.read(sidecar)
            same = sha256 is None or copy.outputs.get("image") == sha256
            return preparation_of(path.with_name(copy.copy_of)) if same else None
        record = PreparationRecord.read(sidecar)
    except FileError:  # that of somebody else
        return None
    if sha256 is not None and record.outputs.get("image") != sha256:
        return None
    places = (folder / FIGURES / f"{stem(path)}.png" for folder in path.parents[:_DEPTH])
    return PreparedImage(record, next((place for place in places if is_ours(place)), None))

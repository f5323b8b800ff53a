"""Finished studies, read back from their folders to be compared."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.files.json_model import read_model
from ndflow.files.scan_table import Row, read_table
from ndflow.metrics.covariate import covariate_effect
from ndflow.settings import Averaging, Fitting, Matching, Writing, settings_from
from ndflow.study.plan import Study
from ndflow.study.references import reference_name
from ndflow.study.run import PROVENANCE, SCANS
from ndflow.study.scan_jobs import Member

__all__ = [
    "FinishedStudy",
    "Subject",
    "check_covariate",
    "covariate_of",
    "read_finished",
    "results_fingerprint",
    "shared_scans",
]

_OURS = {"name", "output", "record"}  # columns that are not the user's
_UNFINISHED = "finish it: type the command again that made it"


@dataclass(frozen=True)
class FinishedStudy:
    """A finished study.

    Attributes
    ----------
    name : what tables call it.
    study : what was done, and how.
    rows : what is known of each scan that was normalised, by its name.
    """

    name: str
    study: Study
    rows: Mapping[str, Row]

    @property
    def members(self) -> dict[str, Member]:
        """The scans that were normalised, by name."""
        return {member.name: member for member in self.study.members}

    @property
    def is_affine(self) -> bool:
        """Whether it is the plain alignment that others are compared with."""
        averaging, matching = self.study.averaging, self.study.matching
        return matching.method == "affine" and averaging.mode == "individual"


@dataclass(frozen=True)
class Subject:
    """A scan that all runs have.

    Attributes
    ----------
    name : of the scan.
    row : what is known of it.
    members : the scan in each of the runs.
    """

    name: str
    row: Row
    members: Sequence[Member]


def read_finished(folders: Sequence[AnyPath]) -> list[FinishedStudy]:
    """Read finished studies; they are called like their folders."""
    paths = [Path(os.path.realpath(folder)) for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise FileError(folders[place], "given twice", "leave one out")
    names = [path.name for path in paths]
    depth = 1
    while len(set(names)) < len(names):  # called alike: with the folder they lie in, and so on
        depth += 1
        names = ["/".join(path.parts[-depth:]) for path in paths]
    return [_read(Path(folder), name) for folder, name in zip(folders, names, strict=True)]


def _read(folder: Path, name: str) -> FinishedStudy:
    if not folder.is_dir():
        raise FileError(folder, "not a folder", "give the OUT of 'ndflow cohort' or 'ndflow bids'")
    if not (folder / PROVENANCE).exists():
        hint = "give the OUT of 'ndflow cohort' or 'ndflow bids'"
        raise FileError(folder, "holds no study", hint)
    _, record = read_model(folder / PROVENANCE, "study")
    if record.get("finished") is not True:
        raise FileError(folder, "holds a study that was stopped", _UNFINISHED)
    rows = {row.more.get("name", ""): row for row in read_table(folder / SCANS)}
    members = [
        member
        for name, row in rows.items()
        if (member := _member(folder, name, row)).place.record.exists()
    ]
    if not members:
        raise FileError(folder, "holds no normalised scan", "look at its failures.tsv")
    try:
        study = _study(folder, members, record)
    except (InvalidValueError, TypeError, ValueError) as error:
        raise FileError(folder / PROVENANCE, f"{error}", "the file is damaged") from None
    return FinishedStudy(name, study, {member.name: rows[member.name] for member in members})


def _member(folder: Path, name: str, row: Row) -> Member:
    return Member(
        name=name,
        image=row.image,
        mask=row.mask,
        folder=folder,
        output=row.more.get("output", "images/*.nii.gz"),
        record=row.more.get("record", "maps/*.json"),
        site=row.site,
        maps=row.tissue_maps,
        origin=f"row {row.number}",
    )


def _study(folder: Path, members: Sequence[Member], record: Mapping[str, Any]) -> Study:
    settings = record.get("settings")
    if not isinstance(settings, dict):
        raise InvalidValueError("it holds no settings")
    averaging, fitting, matching, writing = settings_from(
        settings, Averaging, Fitting, Matching, Writing
    )
    return Study(
        folder,
        members,
        averaging,
        fitting,
        matching,
        writing=writing,
        # The reference that was given stands in the folder too, also where the original has gone.
        given=None if record.get("reference") is None else str(folder / reference_name(None)),
        channel=record.get("channel", "intensity"),
    )


def results_fingerprint(run: FinishedStudy) -> str:
    """Return a hash of all results of a run: another one, and they have changed."""
    results = {}
    for member in run.study.members:
        with suppress(FileError):  # a record that is damaged is not that of any result
            results[member.name] = read_model(member.place.record, "map")[1].get("outputs")
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()


def shared_scans(runs: Sequence[FinishedStudy]) -> list[Subject]:
    """Return the scans that all runs have, in the order of the first."""
    members = [run.members for run in runs]
    shared = [
        Subject(name, row, [those[name] for those in members])
        for name, row in runs[0].rows.items()
        if all(name in those for those in members)
    ]
    for subject in shared:
        _refuse_disagreement(subject)
    if len(shared) < 2:
        raise InvalidValueError("the runs share fewer than two scans; compare runs of one table")
    return shared


def _refuse_disagreement(subject: Subject) -> None:
    """Refuse a scan that is not the same in all runs, or not looked at in the same way."""
    known: dict[str, list[str | None]] = {
        "image": [os.path.realpath(member.image) for member in subject.members],
        "mask": [member.mask and os.path.realpath(member.mask) for member in subject.members],
        "site": [member.site for member in subject.members],
    }
    for what, values in known.items():
        different = sorted({str(value) for value in values})
        if len(different) > 1:
            raise InvalidValueError(
                f"the {what} of {subject.name} is {different[0]} in one run and {different[1]} in "
                f"another; compare runs of the same table"
            )


def check_covariate(subjects: Sequence[Subject], name: str) -> None:
    """Refuse a covariate that no scan has, that is not a number, or that has nothing to act on."""
    known = sorted({more for subject in subjects for more in subject.row.more} - _OURS)
    if name not in known:
        there = ", ".join(known) or "none"
        raise InvalidValueError(f"covariate: no column is called {name!r}; there are: {there}")
    values = [covariate_of(subject, name) for subject in subjects]
    if any(None in (subject.row.gm, subject.row.wm, subject.row.csf) for subject in subjects):
        raise InvalidValueError(
            "covariate: its effect is on tissues, but not all scans have maps of WM, GM and CSF"
        )
    # It refuses a covariate that is the same for all scans of a site, or known of too few.
    covariate_effect(range(len(values)), values, [subject.row.site or "" for subject in subjects])


def covariate_of(subject: Subject, name: str) -> float:
    """Return a covariate of a scan; NaN where it is not known."""
    text = subject.row.more.get(name)
    if text is None:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        cause = f"{name} of {subject.name} is {text!r}, which is not a number"
        raise InvalidValueError(f"{cause}; choose a covariate of numbers")
    return number

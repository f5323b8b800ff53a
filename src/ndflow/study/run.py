"""A study that is described by a table, or by a folder of scans, and the folder of its results.

OUT/images/<name>.nii.gz   the normalised scans
OUT/models/<name>.json     their densities
OUT/maps/<name>.json       the maps that made the images, and how
OUT/reference.json         the reference of all; reference_<site>.json of each site, and
                           map_<site>.json its map to that of all, where there is one
OUT/scans.tsv              what the scans are called, and where they came from
OUT/failures.tsv           those that failed, and why
OUT/provenance.json        what was run
OUT/report.html            the page of it, see `ndflow.report.build`
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from ndflow._version import versions
from ndflow.errors import FileError
from ndflow.files.atomic import remove_abandoned
from ndflow.files.json_model import read_model, write_model
from ndflow.files.lock import folder_lock
from ndflow.files.scan_table import Row, read_table, write_table
from ndflow.scan.outputs import check_folder, make_folder
from ndflow.scan.reading import AUTO
from ndflow.scan.results import safe_name, stem
from ndflow.study.parallel.tasks import Failure, record_failures
from ndflow.study.passes import (
    Pass,
    Progress,
    Study,
    build_references,
    check_study,
    fit_scans,
    normalise_scans,
)
from ndflow.study.scan_jobs import Member

__all__ = [
    "PROVENANCE",
    "REPORT",
    "SCANS",
    "Summary",
    "check_cohort",
    "members_of",
    "refuse_strange",
    "rows_of_folder",
    "run_cohort",
]

PROVENANCE = "provenance.json"
REPORT = "report.html"
SCANS = "scans.tsv"

_IMAGES = ("*.nii", "*.nii.gz", "*.mgh", "*.mgz")


class Summary(NamedTuple):
    """How a study ended.

    Attributes
    ----------
    done, kept : scans that were normalised, and those of them that had been before.
    failures : of the others.
    """

    done: int
    kept: int
    failures: list[Failure]


def rows_of_folder(folder: Path, out: Path, pattern: str | None = None) -> list[Row]:
    """Return the images in a folder and below as rows; their site is the folder they lie in.

    Parameters
    ----------
    folder : where to look.
    out : where not to look, because results go there.
    pattern : what their names are like, for example ``"*_T1w.nii.gz"``. Default: any image.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise FileError(folder, "not a folder", "check the spelling, and the folder you are in")
    patterns = _IMAGES if pattern is None else (pattern,)
    found = sorted(
        str(path)
        for path in folder.rglob("*")
        if any(fnmatch(path.name, one) for one in patterns)
        and not path.name.startswith(".")
        and not path.is_relative_to(out)
        and path.is_file()
    )
    if not found:
        cause = f"no image in it is called {' or '.join(patterns)}"
        raise FileError(folder, cause, "choose another --pattern")
    return [Row(number, path, site=_parent(path, folder)) for number, path in enumerate(found, 1)]


def _parent(path: str, top: Path) -> str | None:
    """Return the name of the folder that a file lies in, unless that is the top one."""
    folder = Path(path).parent
    return None if folder == top else intern(folder.name)


def members_of(
    rows: Sequence[Row], folder: Path, origin: str = "row", *, auto_mask: bool = False
) -> list[Member]:
    """Return the scans of some rows, with the places of their results.

    A scan is called like its image; where two images are called the same, like subject and image.

    Parameters
    ----------
    rows : the scans.
    folder : of the results.
    origin : what a row is called in messages.
    auto_mask : whether to look for the foreground of scans without a mask.
    """
    called = Counter(stem(row.image) for row in rows)
    members: dict[str, Member] = {}
    for row in rows:
        name = stem(row.image)
        if called[name] > 1:
            name = "_".join(part for part in (row.subject or row.site, name) if part)
        name = safe_name(name)
        if name in members:
            cause = (
                f"{origin} {row.number}: the scan would be called {name}, like that of "
                f"{members[name].origin}"
            )
            raise FileError(row.image, cause, "give them different subjects, or other file names")
        members[name] = Member(
            name=name,
            image=row.image,
            mask=row.mask or (AUTO if auto_mask else None),
            folder=folder,
            output="images/*.nii.gz",
            record="maps/*.json",
            site=row.site,
            maps=row.tissue_maps,
            origin=f"{origin} {row.number}",
        )
    return list(members.values())


def run_cohort(
    study: Study,
    rows: Sequence[Row],
    watch: Progress,
    *,
    command: Sequence[str],
    force: bool,
    prepared: bool = False,
) -> Summary:
    """Run a study from the first scan to the last.

    Parameters
    ----------
    study : what to do.
    rows : what its scans are, in the same order.
    watch : who looks on.
    command : what the user typed, for the record.
    force : whether the folder may hold something else, or a study of other scans.
    prepared : whether the caller has looked at what else the folder holds.
    """
    folder = study.folder
    check_cohort(study, force=force, prepared=prepared)
    make_folder(folder)
    with folder_lock(folder):
        _remove_leftovers(study)
        _record(study, command, None)
        _list_scans(study, rows)
        try:
            fitted = fit_scans(study, watch)
            normalised = Pass()
            if fitted.made and not (fitted.failures and study.stop_early):
                goals = build_references(study, fitted.made)
                normalised = normalise_scans(study, fitted.made, goals, watch)
        except BaseException:
            _remove_leftovers(study)  # of workers that had to stop at once
            raise
        failures = [*fitted.failures, *normalised.failures]
        _remove_results(study, fitted.failures, normalised.failures)
        if normalised.kept < len(study.members):
            _remove_page(folder)
        tried = {"fit": fitted.tried, "normalise": fitted.tried} if study.stop_early else None
        done = len(normalised.made)
        counts = {"fitted": len(fitted.made), "normalised": done, "failed": len(failures)}
        _record(study, command, counts)
        record_failures(folder, tried, {"fit": fitted.failures, "normalise": normalised.failures})
    return Summary(done, normalised.kept, failures)


def check_cohort(study: Study, *, force: bool, prepared: bool = False) -> None:
    """Say before any work what would stand in its way, see `run_cohort`."""
    check_study(study)
    check_folder(study.folder)
    if not prepared:
        refuse_strange(study.folder, study.channel, force=force)
    if not force:
        _refuse_others(study)
    inside = os.path.join(os.path.realpath(study.folder), "")  # noqa: PTH118
    for member in study.members:
        for name in (member.image, member.mask, *(member.maps or ())):
            if name and name != AUTO and os.path.realpath(name).startswith(inside):
                cause = f"lies in the folder for the results ({member.origin})"
                raise FileError(name, cause, "choose another folder for the results")


def refuse_strange(folder: Path, channel: str, *, force: bool) -> None:
    """Refuse a folder that holds something, but no study of such images."""
    if force or not folder.is_dir():
        return
    if all(path.name.startswith(".ndflow-") for path in folder.iterdir()):
        return  # nothing but the lock of a run that begins at the same time
    try:
        before = read_model(folder / PROVENANCE, "study")[1].get("channel")
    except FileError:
        cause = "not empty, and not the result of a study"
        raise FileError(folder, cause, "choose another folder, or --force to use it") from None
    if before != channel:
        cause = f"holds a study of {before!r}, not of {channel!r}"
        raise FileError(folder, cause, "choose another folder, or --force to use it")


def _record(study: Study, command: Sequence[str], counts: dict[str, int] | None) -> None:
    """Write what is run; at the end, with what came of it."""
    sites = Counter(member.site for member in study.members)
    record: dict[str, Any] = {
        "command": list(command),
        "versions": versions(),
        "settings": study.settings,
        "reference": study.given,
        "channel": study.channel,
        "scans": len(study.members),
        "sites": {site: count for site, count in sorted(sites.items(), key=str) if site},
        "finished": counts is not None,
        **(counts or {}),
    }
    write_model(study.folder / PROVENANCE, "study", record, force=True)


def _list_scans(study: Study, rows: Sequence[Row]) -> None:
    ours = ("name", "output", "record")
    more = sorted({name for row in rows for name in row.more} - set(ours))
    columns = (*ours, "subject", "site", "image", "mask", "gm", "wm", "csf", *more)
    lines = (
        (
            member.name,
            *(str(path.relative_to(study.folder)) for path in member.place[1:]),
            row.subject,
            member.site,
            member.image,
            row.mask,
            row.gm,
            row.wm,
            row.csf,
            *(row.more.get(name) for name in more),
        )
        for member, row in zip(study.members, rows, strict=True)
    )
    write_table(study.folder / SCANS, columns, lines)


def _refuse_others(study: Study) -> None:
    """Refuse a folder with results of other scans, which were brought to another reference."""
    path = study.folder / SCANS
    if not path.exists():
        return
    names = {member.name for member in study.members}
    others = [row.more.get("name", "") for row in read_table(path)]
    others = [name for name in others if name not in names]
    if others:
        cause = f"holds {len(others)} scans that are not in this study, such as {others[0]}"
        raise FileError(study.folder, cause, "choose another folder, or --force to mix them")


def _remove_results(
    study: Study, unfitted: Sequence[Failure], unwritten: Sequence[Failure]
) -> None:
    """Remove what an earlier run made of scans that have failed now; densities that hold stay."""
    without_model = {failure.scan for failure in unfitted}
    without_image = without_model | {failure.scan for failure in unwritten}
    for member in study.members:
        if member.name in without_image:
            model, *others = member.place
            for path in (*others, *([model] if member.name in without_model else [])):
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def _remove_page(folder: Path) -> None:
    """Remove the page of an earlier run, which showed something else; but nobody else's."""
    path = folder / REPORT
    with suppress(OSError):
        if b"<title>ndflow: " in path.read_bytes():
            path.unlink()


def _remove_leftovers(study: Study) -> None:
    """Remove the temporaries of runs that were killed."""
    folders = {path.parent for member in study.members for path in member.place}
    for folder in {study.folder, *folders}:
        remove_abandoned(folder)

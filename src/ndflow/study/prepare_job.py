"""The work on one raw scan: read it, prepare it in memory, write what was found.

The sidecar is written last, and removed before anything that it describes is replaced. So a scan
with a sidecar is complete; and where a file is not what the sidecar says, somebody has changed it,
for example a mask by hand. Such work is never overwritten: the user has to move or delete it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ndflow._version import PREPARATIONS, versions
from ndflow.doubt import Doubt
from ndflow.errors import FileError
from ndflow.files.atomic import new_file
from ndflow.files.fingerprints import contents, fingerprint_of
from ndflow.files.stream import sha256_of
from ndflow.image.mask import BRAIN
from ndflow.image.subject import Subject
from ndflow.preparation.brain import deepbet_version
from ndflow.preparation.picture import preparation_picture
from ndflow.preparation.volume import PreparedVolume, preparation_doubts, prepare_volume
from ndflow.study.plan import PreparedPaths
from ndflow.study.prepare_copies import copied_before, make_copy, refuse_edited_copy
from ndflow.study.prepare_records import PreparationRecord
from ndflow.study.prepared_images import (
    copy_map,
    in_steps,
    write_mask,
    write_on_grid,
    write_probabilities,
)
from ndflow.study.raw_scan import (
    TISSUE_COLUMNS,
    Choices,
    RawScan,
    brain_of,
    read_raw,
    with_given_maps,
)
from ndflow.subject.results import all_files, hashes

PACKAGES = ("antspyx", "deepbet", "nilearn", "torch")  # that preparations depend on

_GIVEN = ("mask", "lesion", *TISSUE_COLUMNS)  # what a table may name


class ScanPrepared(NamedTuple):
    """What was done for a scan; the results are in its files.

    Attributes
    ----------
    kept : whether it had been done before.
    warnings : for the user.
    doubts : what to check by eye.
    content : the SHA-256 of the files of its image.
    seconds : how long it took now.
    """

    kept: bool
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    content: tuple[str, ...] = ()
    seconds: float = 0.0


class _Clock:
    """Measures how long each step takes."""

    def __init__(self) -> None:
        self._step, self._since = "", time.perf_counter()
        self.seconds: dict[str, float] = {}

    def begin(self, step: str) -> None:
        """Note that a step begins; an empty one ends the last."""
        now = time.perf_counter()
        if self._step:
            self.seconds[self._step] = round(now - self._since, 2)
        self._step, self._since = step, now


def prepare_job(
    scan: Subject,
    paths: PreparedPaths,
    choices: Choices,
    *,
    settings: Mapping[str, Any],
    max_bytes: int,
) -> ScanPrepared:
    """Prepare a scan, and make its aligned copy if it has one, unless that was done before.

    Parameters
    ----------
    scan, paths : the scan, and where its results go.
    choices : what is to be done.
    settings : what the user chose, for the record.
    max_bytes : the largest file to read.
    """
    before = prepared_before(scan, paths, choices)
    if before is not None:
        return before
    own = prepared_on_own_grid(scan, paths, choices)
    if own is None:
        refuse_edited(scan, paths, choices)
    if choices.resolution is not None:
        refuse_edited_copy(paths, choices.resolution)
    done = own or _prepared(scan, paths, choices, settings, max_bytes)
    if choices.resolution is None:
        return done
    keep = all_files(scan.files(tissues=True))
    more = make_copy(scan, paths, choices.resolution, max_bytes=max_bytes, keep=keep)
    return done._replace(kept=False, seconds=done.seconds + more)


def prepared_before(scan: Subject, paths: PreparedPaths, choices: Choices) -> ScanPrepared | None:
    """Return what is known about a scan that is up to date, with its copy; None if it is not."""
    own = prepared_on_own_grid(scan, paths, choices)
    if own is None or choices.resolution is None:
        return own
    return own if copied_before(scan, paths, choices.resolution) else None


def prepared_on_own_grid(scan: Subject, paths: PreparedPaths, choices: Choices) -> ScanPrepared | None:
    """Return what is known about a scan that is up to date but for its copy; None if it is not."""
    if not paths.sidecar.exists():
        return None
    now = _now(scan, choices)
    try:
        record = PreparationRecord.read(paths.sidecar)
        written = _written(record, paths)
    except FileError:
        return None
    if record.fingerprint != _fingerprint(scan, now, choices) or written != record.outputs:
        return None
    return ScanPrepared(kept=True, doubts=record.doubts, content=now["image"])


def preparation_settings(scan: Subject, choices: Choices) -> dict[str, Any]:
    """Return what the results of a scan depend on, beside its files."""
    return {
        **choices.steps,
        **package_versions(choices),
        "name": Path(scan.output).name,
        **{name: part for name, part in scan.metadata.items() if name != "Sources"},
    }


def package_versions(choices: Choices) -> dict[str, str]:
    """Return the versions of the packages that the results of a scan depend on."""
    known = versions(*choices.packages)
    return {name: known[name] for name in choices.packages if name in known}


def with_site(scan: Subject, paths: PreparedPaths, choices: Choices) -> PreparationRecord:
    """Return the sidecar of a scan that is prepared; its site, if that was corrected, is renewed.

    No image depends on the site.
    """
    record = PreparationRecord.read(paths.sidecar)
    if record.site == scan.site:
        return record
    record = replace(record, site=scan.site)
    keep = all_files(scan.files(tissues=True))
    record.write(paths.sidecar, force=True, inputs=keep, metadata=_metadata(scan, choices))
    return record


def _prepared(
    scan: Subject,
    paths: PreparedPaths,
    choices: Choices,
    settings: Mapping[str, Any],
    max_bytes: int,
) -> ScanPrepared:
    clock = _Clock()
    clock.begin("read")
    given = read_raw(scan, choices, max_bytes)
    volume = given.volume
    clock.begin("mask")
    brain = brain_of(given, choices)
    found = prepare_volume(
        volume,
        brain,
        lesion=given.lesion,
        bias_field=choices.bias_field,
        tissues=choices.tissues == "found",
        step=clock.begin,
    )
    warnings = given.warnings
    if given.maps:
        found, noted = with_given_maps(found, given)
        warnings += noted
    clock.begin("write")
    keep = all_files(scan.files(tissues=True))
    for folder in {paths.image.parent, paths.picture.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    paths.unfinished.touch()
    paths.sidecar.unlink(missing_ok=True)
    deepbet = deepbet_version() if choices.mask == BRAIN else None
    outputs = _write(paths, given, found, keep, deepbet)
    record = PreparationRecord(
        steps=choices.steps,
        settings=dict(settings),
        versions=versions(*PACKAGES),
        inputs=given.files,
        measures=found.measures,
        site=scan.site,
        warnings=warnings,
        doubts=preparation_doubts(found.measures),
        fingerprint=_fingerprint(scan, contents(given.files), choices),
    )

    def describe(written: Any) -> None:
        nonlocal record
        clock.begin("")
        hashed = outputs | {"image": written.sha256[0]}
        record = replace(record, outputs=hashed, seconds=clock.seconds)
        record.write(paths.sidecar, force=True, inputs=keep, metadata=_metadata(scan, choices))

    write_on_grid(paths.image, volume, found.corrected, keep=keep, then=describe)
    paths.unfinished.unlink(missing_ok=True)
    return ScanPrepared(
        False,
        record.warnings,
        record.doubts,
        contents(given.files)["image"],
        sum(record.seconds.values()),
    )


def _write(
    paths: PreparedPaths,
    given: RawScan,
    found: PreparedVolume,
    keep: list[str],
    deepbet: str | None,
) -> dict[str, str]:
    """Write all files of a scan but the image and its sidecar; return their hashes.

    `deepbet` is the version that found the mask, if it was not given.
    """
    volume = given.volume
    outputs = {"mask": write_mask(paths.mask, volume, found.brain, keep=keep, deepbet=deepbet)}
    unused = [*(() if found.tissues is not None else paths.tissues)]
    if given.maps:
        for tissue, path, one in zip(TISSUE_COLUMNS, paths.tissues, given.maps, strict=True):
            outputs[tissue] = copy_map(path, one, keep=keep)
    elif found.tissues is not None:
        levels = in_steps(found.tissues)
        for tissue, path, part in zip(TISSUE_COLUMNS, paths.tissues, levels, strict=True):
            outputs[tissue] = write_probabilities(path, volume, part, keep=keep)
    if given.lesion is not None:
        outputs["lesion"] = write_mask(paths.lesion, volume, given.lesion, keep=keep)
    else:
        unused.append(paths.lesion)
    for path in unused:  # of an earlier run with other choices
        path.unlink(missing_ok=True)
    picture = preparation_picture(volume, found, given.lesion)
    with new_file(paths.picture, force=True, inputs=keep) as file:
        file.write(picture)
    return outputs | {"picture": hashlib.sha256(picture).hexdigest()}


def _metadata(scan: Subject, choices: Choices) -> dict[str, Any]:
    """Return what BIDS wants to know about a prepared image."""
    return {"SkullStripped": choices.mask == "nonzero", **scan.metadata}


def _now(scan: Subject, choices: Choices) -> dict[str, tuple[str, ...]]:
    """Return the hashes of the files that are read for a scan, by what they are."""
    return contents(hashes(scan.files(tissues=choices.tissues == "given")))


def _fingerprint(scan: Subject, inputs: Mapping[str, Any], choices: Choices) -> str:
    return fingerprint_of(
        results=f"preparation {PREPARATIONS}",
        inputs=inputs,
        settings=preparation_settings(scan, choices),
    )


def _written(record: PreparationRecord, paths: PreparedPaths) -> dict[str, str]:
    """Return the hashes of a scan's files as they are now."""
    return {what: sha256_of(path) for what, path in paths.named(record.outputs).items()}


def refuse_edited(scan: Subject, paths: PreparedPaths, choices: Choices) -> None:
    """Refuse to replace a result that somebody has changed, unless it was given as an input."""
    try:
        record = PreparationRecord.read(paths.sidecar)
    except FileError:
        return
    given: set[str] = set()
    for what, path in paths.named(record.outputs).items():
        if not path.exists() or (now := sha256_of(path)) == record.outputs[what]:
            continue
        given = given or {one for part in _now(scan, choices).values() for one in part}
        if now not in given:
            column = (
                f" and name the copy in the column {what} of the table" if what in _GIVEN else ""
            )
            hint = f"to keep it, copy it elsewhere{column}; to have it made again, delete it"
            raise FileError(path, "changed since ndflow wrote it", hint)

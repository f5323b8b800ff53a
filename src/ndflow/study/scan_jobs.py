"""One scan of a study: its density, and its image brought to the study's reference.

Both are made only if they are not there yet, as their stamps tell; so a study that was stopped, or
whose table has grown, goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.files.fingerprints import content_hashes, fingerprint_of, read_if_current
from ndflow.files.stream import sha256_of
from ndflow.methods.model import Portrait, needs_landmarks
from ndflow.methods.modes import Goal
from ndflow.scan.fit import fit_source
from ndflow.scan.map_voxels import mapped
from ndflow.scan.model_files import load_described, save
from ndflow.scan.reading import input_files, read_masked, selection
from ndflow.scan.results import deliver, hashes
from ndflow.scan.tissue_maps import TissueMaps, needs_tissues
from ndflow.settings import Fitting, Matching, Reading, Writing, flat

__all__ = [
    "Member",
    "ResultPaths",
    "ScanDone",
    "fit_member",
    "no_maps",
    "normalise_member",
    "portrait_of_member",
]


_SEEN_OTHERWISE = ("average", "mode", "effective_count")


class ResultPaths(NamedTuple):
    """Where the files of a scan go: its density, its image, and the record of that."""

    model: Path
    image: Path
    record: Path


@dataclass(frozen=True, slots=True)
class Member:
    """A scan of a study; there may be many, so it is kept small.

    Attributes
    ----------
    name : what its files are called; no two scans of a study share it.
    image, mask : its files.
    folder : where results go.
    output, record : the normalised image and its record, in that folder; ``*`` for its name.
    site : where it was scanned.
    maps : of its tissues: CSF, GM and WM.
    origin : where the user named it, for messages; for example ``"row 7"``.
    more : what else its record should say.
    """

    name: str
    image: str
    mask: str | None
    folder: Path
    output: str
    record: str
    site: str | None = None
    maps: tuple[str, str, str] | None = None
    origin: str = ""
    more: Mapping[str, Any] | None = None

    @property
    def place(self) -> ResultPaths:
        """Where results go."""
        names = ("models/*.json", self.output, self.record)
        return ResultPaths(*(self.folder / name.replace("*", self.name) for name in names))


class ScanDone(NamedTuple):
    """What was made of a scan; the rest is in its files.

    Attributes
    ----------
    kept : whether it was there already.
    warnings : for the user.
    """

    kept: bool
    warnings: tuple[str, ...]


def fit_member(
    member: Member, *, reading: Reading, fitting: Fitting, matching: Matching
) -> ScanDone:
    """Estimate the density of a scan, and its landmarks, unless that was done before."""
    files = input_files(image=member.image, mask=member.mask)
    chosen = selection(member.mask, None) | flat(fitting)
    if needs_landmarks(matching):
        chosen |= {"method": matching.method, "landmarks": matching.landmarks}
    if matching.target == "tissue" and member.maps is None:
        raise no_maps(member)
    maps = TissueMaps(*member.maps) if member.maps and needs_tissues(matching) else None
    if maps is not None:
        files |= input_files(**maps._asdict())
    mark = fingerprint_of(inputs=content_hashes(hashes(files)), settings=chosen)
    if read_if_current(member.place.model, "mixture", mark):
        return ScanDone(True, ())
    fitted = fit_source(
        member.image,
        mask=member.mask,
        exclude=None,
        reading=reading,
        fitting=fitting,
        matching=matching,
        maps=maps,
    )
    record: dict[str, Any] = {
        "stamp": mark,
        "settings": chosen,
        "voxels": fitted.voxels,
        "fit": fitted.fit.status.message,
        "misfit": fitted.misfit,
        "quantiles": fitted.quantiles.tolist(),
        "warnings": list(fitted.warnings),
    }
    if fitted.landmarks is not None:
        record["landmarks"] = fitted.landmarks.to_dict()
    if fitted.tissues is not None:
        record["tissues"] = fitted.tissues.to_dict()
    member.place.model.parent.mkdir(parents=True, exist_ok=True)
    save(member.place.model, fitted.fit, record=record, force=True)
    return ScanDone(False, fitted.warnings)


def no_maps(member: Member) -> FileError:
    """Return the error of a scan whose tissues are not known."""
    hint = (
        "give maps of its tissues: columns csf, gm and wm of the table, or, in BIDS, "
        "*_label-CSF_probseg and so on beside its *_desc-brain_mask; or use --target adaptive"
    )
    return FileError(member.image, f"not all of its tissues are known ({member.origin})", hint)


def portrait_of_member(member: Member) -> Portrait:
    """Return what was found out about a scan."""
    model = load_described(member.place.model)
    if not isinstance(model.density, GaussianMixture):
        raise FileError(member.place.model, "not a mixture", "remove it, and run again")
    return Portrait(model.density, model.landmarks, model.tissues)


def normalise_member(
    member: Member,
    goal: Goal,
    *,
    reading: Reading,
    writing: Writing,
    settings: Mapping[str, Any],
) -> ScanDone:
    """Bring a scan to the goal of its study, unless that was done before.

    Parameters
    ----------
    member : the scan.
    goal : where to.
    reading, writing : how files are read and written.
    settings : all that the user chose, for the record.
    """
    place = member.place
    portrait = portrait_of_member(member)
    files = input_files(image=member.image, mask=member.mask)
    chosen = {name: part for name, part in settings.items() if name not in ("force", "max_bytes")}
    inputs = hashes(files)
    which = selection(member.mask, None)
    mark = fingerprint_of(
        inputs=content_hashes(inputs),
        # What made the goal and the mixture shows in them.
        settings={name: chosen[name] for name in chosen if name not in _SEEN_OTHERWISE},
        mask=which["mask"],
        **portrait.to_dict(),
        goal=goal.to_dict(),
        site=member.site,
        more=dict(member.more or {}),
    )
    before = read_if_current(place.record, "map", mark)
    if before is not None and before.get("outputs") == _hashes(place.image):
        return ScanDone(True, ())
    volume, inside, warnings = read_masked(member.image, member.mask, max_bytes=reading.max_bytes)
    solution = goal.solve(portrait)
    for folder in {place.image.parent, place.record.parent}:
        folder.mkdir(parents=True, exist_ok=True)
    result = deliver(
        member.image,
        volume,
        mapped(volume, solution.imap, inside, writing.outside, writing.dtype),
        solution.imap,
        {
            **(member.more or {}),
            "stamp": mark,
            "settings": which | chosen,
            "inputs": inputs,
            "site": member.site,
            "mixture": portrait.mixture.to_dict(),
            **solution.findings(portrait.mixture, settings["objective"]),
        },
        output=place.image,
        record_file=place.record,
        inputs=files,
        writing=replace(writing, force=True),  # whatever lies there was made by an earlier run
        warnings=warnings + solution.doubts(member.image),
    )
    return ScanDone(False, result.warnings)


def _hashes(image: Path) -> list[str]:
    try:
        return [sha256_of(image)]
    except FileError:
        return []

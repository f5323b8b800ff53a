"""Whether the files of a scan still belong together: what was read, the model, map and image.

The sidecar of a result holds the hashes of the files that were read and written, and the density
that its map was made for. So a file that was replaced, or that belongs to another scan, is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ndflow.errors import FileError
from ndflow.files.fingerprints import Hashes, contents
from ndflow.image.volume import Volume
from ndflow.scan.records import MapRecord, ScanModel
from ndflow.study.plan import ResultPaths

__all__ = [
    "MAPPED",
    "Results",
    "read_results",
    "refuse_other_image",
    "refuse_other_inputs",
    "refuse_other_model",
]

MAPPED = ("image", "mask")  # the files that the image of a result is made from

_LESION = "lesion"  # the density only is estimated without it
_AGAIN = "run the study again; 'ndflow verify' finds everything that has changed"


class Results(NamedTuple):
    """The model of a scan, and the sidecar of its image."""

    model: ScanModel
    record: MapRecord


def read_results(paths: ResultPaths) -> Results:
    """Read what a study knows about a scan; refuse files that belong to different scans."""
    model, record = ScanModel.read(paths.model), MapRecord.read(paths.sidecar)
    refuse_other_model(paths, model, record)
    return Results(model, record)


def refuse_other_model(paths: ResultPaths, model: ScanModel, record: MapRecord) -> None:
    """Refuse a model that the map of a scan was not made for."""
    known = _mapped(model.sha256 or {})
    read = _mapped(contents(record.inputs or {}))
    if (record.mixture is not None and record.mixture != model.mixture) or (
        known and read and known != read
    ):
        cause = f"not the model that {paths.sidecar} was made with"
        raise FileError(paths.model, cause, _AGAIN)


def refuse_other_inputs(paths: ResultPaths, record: MapRecord, read: Hashes) -> None:
    """Refuse an image, a mask or a lesion mask that is no longer what the study read.

    The lesion mask may be that of another study, where this one had none.
    """
    known, found = contents(record.inputs or {}), contents(read)
    expected, now = _mapped(known), _mapped(found)
    if _LESION in known and _LESION in found:
        expected[_LESION], now[_LESION] = known[_LESION], found[_LESION]
    for what in sorted(now, reverse=True):  # a mask is the likelier one to be changed
        if expected.get(what) != now[what]:
            called = "lesion mask" if what == _LESION else what
            cause = f"not the {called} that {paths.sidecar} was made from"
            raise FileError(read[what][0].file, cause, _AGAIN)
    if missing := sorted(expected.keys() - now.keys()):
        cause = f"was made with a {missing[0]}, which is not known any more"
        raise FileError(paths.sidecar, cause, _AGAIN)


def refuse_other_image(record: MapRecord, image: Volume) -> None:
    """Refuse a normalised image that is not the one that the study wrote."""
    if record.outputs != tuple(file.sha256 for file in image.files):
        raise FileError(image.path, "not the image that the study wrote", _AGAIN)


def _mapped(files: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {what: files[what] for what in MAPPED if files.get(what)}

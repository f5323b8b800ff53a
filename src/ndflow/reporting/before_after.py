"""A scan before and after, as the page shows it: upright, with NaN outside the mask."""

from __future__ import annotations

from typing import NamedTuple

from ndflow.image.preview import upright
from ndflow.image.read import read_volume
from ndflow.image.subject import Scan
from ndflow.scan.reading import read_masked
from ndflow.scan.records import MapRecord
from ndflow.study.finished import mask_used
from ndflow.study.integrity import refuse_other_image, refuse_other_inputs
from ndflow.study.plan import ResultPaths
from ndflow.values import FloatArray

__all__ = ["BeforeAfter", "before_after"]


class BeforeAfter(NamedTuple):
    """Two volumes upright (x to the right, y forward, z up); NaN outside the mask.

    Attributes
    ----------
    before, after : the volumes.
    spacing : the distance of voxels along each axis, in millimetres.
    """

    before: FloatArray
    after: FloatArray
    spacing: tuple[float, ...]


def before_after(scan: Scan, paths: ResultPaths, record: MapRecord, max_bytes: int) -> BeforeAfter:
    """Read a scan and its result.

    Parameters
    ----------
    scan, paths : the scan, and where its results are.
    record : its sidecar.
    max_bytes : the largest file to read.
    """
    mask = mask_used(scan, record)
    volume, inside, _, files, _ = read_masked(scan.image, mask, max_bytes=max_bytes)
    result = read_volume(paths.image, max_bytes=max_bytes)
    refuse_other_inputs(paths, record, files)
    refuse_other_image(record, result)
    before, spacing = upright(volume, inside)
    return BeforeAfter(before, upright(result, inside)[0], spacing)

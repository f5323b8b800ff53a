"""A scan: an image, the voxels of it that count, and what their intensities look like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndflow.density import Fit, Histogram, fit, tally, trimmed
from ndflow.errors import DegenerateDataError, FileError, InvalidValueError
from ndflow.image.foreground import foreground
from ndflow.image.mask import MIN_VOXELS, BoolArray, Inside, Nonzero, read_mask
from ndflow.image.read import Source, files_of, read_volume
from ndflow.image.volume import Volume
from ndflow.methods.landmarks import Landmarks, measure
from ndflow.methods.model import needs_landmarks
from ndflow.settings import Fitting, Matching, Reading

__all__ = [
    "AUTO",
    "Scan",
    "about",
    "doubts",
    "fit_scan",
    "input_files",
    "landmarks_of",
    "read_masked",
    "read_scan",
    "selection",
]

AUTO = "auto"

_PIECE = 1 << 16  # voxels counted at a time; a histogram of the whole would double the memory
_FEW_LEVELS = 16
_BACKGROUND = 0.5  # of the voxels, with one and the same value
_MASK = "give a mask of the brain with --mask FILE, or try --mask auto"


class Scan(NamedTuple):
    """A scan that was read.

    Attributes
    ----------
    volume : the image.
    inside : where the mask is.
    histogram : of the voxels that count: inside, finite and not excluded.
    excluded : how many are inside and finite, but were excluded by the user.
    not_finite : how many of the whole image are NaN or infinite.
    warnings : for the user.
    left_out : the voxels that were excluded by the user.
    """

    volume: Volume
    inside: Inside
    histogram: Histogram
    excluded: int
    not_finite: int
    warnings: list[str]
    left_out: BoolArray | None = None

    @property
    def voxels(self) -> dict[str, int]:
        """How many voxels the fit sees, and how many not; outliers as `trimmed` has them."""
        seen = int(trimmed(self.histogram).total)
        return {
            "fitted": seen,
            "excluded": self.excluded,
            "outliers": int(self.histogram.total) - seen,
            "not_finite": self.not_finite,
        }


def read_scan(
    image: Source,
    mask: Source | None = None,
    exclude: Source | None = None,
    reading: Reading | None = None,
) -> Scan:
    """Read a scan.

    Parameters
    ----------
    image : a path, a nibabel image, or an array.
    mask : the same, or ``"auto"`` for the foreground; default: all voxels but 0.
    exclude : voxels inside the mask that do not count, for example of a lesion.
    reading : how.
    """
    limit = (reading or Reading()).max_bytes
    left_out = None
    if exclude is not None:
        left_out = read_mask(exclude, fewest=0, max_bytes=limit)
    volume, inside, warnings = read_masked(image, mask, max_bytes=limit)
    if left_out is not None:
        warnings += left_out.on(volume)
    away = None if left_out is None else _flat(left_out.inside)
    counted, excluded, not_finite = _counted(volume, inside, away)
    total = int(counted.total) if counted else 0
    if counted is None or total < MIN_VOXELS:
        cause = f"{_count(total, 'voxel')} {'is' if total == 1 else 'are'} {_which(mask, exclude)}"
        hint = _MASK if mask is None else "check the mask, and what is excluded"
        raise FileError(volume.path, cause, f"at least {MIN_VOXELS} are needed; {hint}")
    warnings += _suspicious(volume.path, counted)
    if not_finite:
        warnings.append(
            f"{volume.path}: {_count(not_finite, 'voxel')} NaN or infinite, left out of the fit"
        )
    return Scan(volume, inside, counted, excluded, not_finite, warnings, away)


def read_masked(
    image: Source, mask: Source | None, *, max_bytes: int
) -> tuple[Volume, Inside, list[str]]:
    """Return an image, which of its voxels are inside the mask, and warnings.

    The mask is read first: its file may be larger than that of the image, and is not kept.
    """
    given = None
    if mask is not None and not _is_auto(mask):
        given = read_mask(mask, max_bytes=max_bytes)
    volume = read_volume(image, max_bytes=max_bytes)
    if given is not None:
        return volume, _flat(given.inside), given.on(volume)
    if mask is None:
        return volume, Nonzero(volume), []
    with about(volume.path):
        found = foreground(_brightness(volume).reshape(volume.spatial_shape))
    return volume, _flat(found), []


def _flat(shaped: BoolArray) -> BoolArray:
    return shaped.reshape(-1, order="F")


def input_files(**sources: Source | None) -> dict[str, tuple[str, ...]]:
    """Return the files that some inputs are read from, by the name of the input."""
    return {
        name: files_of(source)
        for name, source in sources.items()
        if source is not None and not _is_auto(source)
    }


def selection(mask: Source | None, exclude: Source | None) -> dict[str, Any]:
    """Return which voxels were asked for, for the record."""
    kind = "nonzero" if mask is None else AUTO if _is_auto(mask) else "given"
    return {"mask": kind, "exclude": exclude is not None}


def doubts(path: str, fitted: Fit) -> list[str]:
    """Return a warning where the fit of a density did not end well."""
    if fitted.status.converged:
        return []
    return [f"{path}: the fit of its density is {fitted.status.message}"]


def _is_auto(mask: Source) -> bool:
    return isinstance(mask, str) and mask == AUTO


def _brightness(volume: Volume) -> NDArray[np.generic]:
    """Return the voxels in any units in which brighter is more; as they are stored, if possible."""
    return volume.stored if volume.slope > 0 else volume.values(volume.stored)


def fit_scan(scan: Scan, fitting: Fitting | None = None) -> Fit:
    """Fit the density of a scan."""
    with about(scan.volume.path):
        return fit(scan.histogram, effective_count=(fitting or Fitting()).effective_count)


@contextmanager
def about(path: str) -> Iterator[None]:
    """Name the file in errors of the mathematics, which knows no files."""
    try:
        yield
    except (DegenerateDataError, InvalidValueError) as error:
        raise FileError(path, str(error)) from error


def _counted(
    volume: Volume, inside: Inside, left_out: BoolArray | None
) -> tuple[Histogram | None, int, int]:
    """Return the histogram, and how many voxels were excluded and how many are not finite."""
    flat = volume.flat
    pieces = [slice(start, start + _PIECE) for start in range(0, flat.size, _PIECE)]
    excluded = not_finite = 0
    bounds = None
    if flat.dtype.kind == "f":
        not_finite = sum(int(np.count_nonzero(~np.isfinite(flat[piece]))) for piece in pieces)
    else:
        bounds = int(flat.min()), int(flat.max())

    def finite_inside(piece: slice) -> BoolArray:
        return inside[piece] & np.isfinite(flat[piece]) if not_finite else inside[piece]

    if left_out is not None:
        excluded = sum(
            int(np.count_nonzero(finite_inside(piece) & left_out[piece])) for piece in pieces
        )

    def chosen() -> Iterator[NDArray[Any]]:
        for piece in pieces:
            keep = finite_inside(piece)
            yield flat[piece][keep if left_out is None else keep & ~left_out[piece]]

    with about(volume.path):
        counted = tally(chosen, bounds=bounds, slope=volume.slope, inter=volume.inter)
    return counted, excluded, not_finite


def _suspicious(path: str, counted: Histogram) -> list[str]:
    """Refuse intensities that cannot be those of a scan; warn where they are strange."""
    levels, most = len(counted.counts), int(np.argmax(counted.counts))
    share = counted.counts[most] / counted.total
    value = f"{counted.values[most, 0]:g}"
    if levels == 1:
        raise FileError(path, f"all voxels that count have the value {value}", _MASK)
    if levels == 2:
        cause = "holds two values only where it counts, like a mask"
        raise FileError(path, cause, "check that it is the right file, and its mask")
    if share > _BACKGROUND:
        cause = f"{share:.0%} of the voxels that count have the value {value}: background?"
        raise FileError(path, cause, _MASK)
    if levels < _FEW_LEVELS:
        return [f"{path}: holds {levels} different values only; is it a map of labels?"]
    return []


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _which(mask: Source | None, exclude: Source | None) -> str:
    """Say which voxels were asked for."""
    rule = "not 0" if mask is None else "inside the mask"
    return f"finite and {rule}" + (", and not excluded" if exclude is not None else "")


def landmarks_of(scan: Scan, matching: Matching) -> Landmarks | None:
    """Return the landmarks of a scan, if the method needs any."""
    if not needs_landmarks(matching):
        return None
    with about(scan.volume.path):
        return measure(matching.method, scan.histogram, matching.landmarks)

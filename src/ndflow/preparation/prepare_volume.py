"""A raw scan in memory → brain mask, bias field, deformed template, tissue maps.

Each step can be left out, and each result that the user has already can be given instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ndflow.errors import DegenerateDataError, FileError
from ndflow.image.volume import Volume
from ndflow.preparation.bias_field import log_bias_field
from ndflow.preparation.registration import register_template
from ndflow.preparation.segmentation import segment
from ndflow.preparation.working_grid import (
    Bools,
    Map,
    interpolated,
    lesion_on_grid,
    working_grid,
)
from ndflow.record import Record

__all__ = ["Measures", "PreparedVolume", "Step", "prepare_volume", "tissue_volumes"]

Step = Literal["mask", "bias field", "template", "tissues"]

_NEGATIVE = 0.02  # of the brain; interpolation leaves a few where it is dark


@dataclass(frozen=True)
class Measures(Record):
    """What is known about a prepared scan, for quality control.

    Attributes
    ----------
    brain_ml : the volume of the brain mask, in millilitres.
    tissues_ml : those of CSF, GM and WM, without lesions; None without tissue maps.
    field : the least and the largest bias inside the brain, as factors; None if not corrected.
    overlap : the Dice coefficient of the deformed template's brain and the mask; None without
        tissue maps.
    agreement : the share of the brain, without lesions, where the tissue that the template expects
        most is the one that was found; None without tissue maps.
    likeness : the correlation of the deformed template with the scan inside the brain; None without
        tissue maps.
    """

    brain_ml: float
    tissues_ml: tuple[float, float, float] | None = None
    field: tuple[float, float] | None = None
    overlap: float | None = None
    agreement: float | None = None
    likeness: float | None = None


class PreparedVolume(NamedTuple):
    """A prepared scan, on its own grid.

    Attributes
    ----------
    corrected : the intensities free of bias, in the units of the scan.
    brain : which voxels are inside the brain.
    tissues : (3, ...), the probabilities of CSF, GM and WM; 0 outside the brain. None if they were
        not asked for.
    measures : for quality control.
    """

    corrected: Map
    brain: Bools
    tissues: Map | None
    measures: Measures


def prepare_volume(
    volume: Volume,
    mask: Bools,
    *,
    lesion: Bools | None = None,
    bias_field: bool = True,
    tissues: bool = True,
    step: Callable[[Step], None] = lambda _: None,
) -> PreparedVolume:
    """Correct the bias field of a scan and find its tissues.

    Parameters
    ----------
    volume : the scan.
    mask : which of its voxels are inside the brain, in three dimensions.
    lesion : voxels that the estimates of bias field and tissues and the registration do not see:
        results elsewhere do not depend on their intensities. They are corrected, and get tissues.
    bias_field, tissues : whether to correct the one and to find the others.
    step : is told what begins.

    Raises
    ------
    FileError
        Where the scan cannot be prepared.
    InvalidValueError
        Where antspyx or nilearn is not installed.
    """
    raw: Map = np.asarray(volume.spatial_values, np.float32)
    brain = mask & np.isfinite(raw)
    raw = np.where(np.isfinite(raw), raw, np.float32(0))
    if not brain.any():
        raise FileError(volume.path, "no voxel is inside the brain", "check its mask")
    measures = Measures(float(brain.sum()) * volume.voxel_mm3 / 1000)
    found = PreparedVolume(raw, brain, None, measures)
    if not (bias_field or tissues):
        return found
    seen = brain if lesion is None else brain & ~lesion
    if not seen.any():
        cause = "the lesion covers the whole brain"
        raise FileError(volume.path, cause, "check the masks of lesion and brain")
    if bias_field:
        _refuse_negative(volume.path, raw[seen])
    try:
        return _estimated(volume, found, seen, bias_field, tissues, step)
    except DegenerateDataError as error:
        raise FileError(volume.path, str(error), "check the scan and its mask") from error


def _estimated(
    volume: Volume,
    found: PreparedVolume,
    seen: Bools,
    bias_field: bool,
    tissues: bool,
    step: Callable[[Step], None],
) -> PreparedVolume:
    """Return a scan with what is estimated from the voxels that are seen: brain without lesion."""
    raw, brain = found.corrected, found.brain
    lesion = brain & ~seen
    filled = np.where(lesion, raw[seen].mean(), raw)  # a lesion must not blur into its surroundings
    coarse = working_grid(filled, volume.affine, brain)
    if not coarse.brain.any():
        raise DegenerateDataError(f"the brain is too small: {found.measures.brain_ml:.2g} ml")
    damaged = lesion_on_grid(lesion, volume.affine, coarse) if lesion.any() else None

    def at_scan(part: Map) -> Map:
        return interpolated(part, coarse.affine, raw.shape, volume.affine)

    if bias_field:
        step("bias field")
        log = log_bias_field(coarse, damaged)
        here = np.exp(at_scan(log))
        field = float(here[brain].min()), float(here[brain].max())
        found = found._replace(corrected=raw / here, measures=replace(found.measures, field=field))
        coarse = coarse._replace(values=coarse.values / np.exp(log))
    if not tissues:
        return found
    step("template")
    warped = register_template(coarse, damaged)
    step("tissues")
    gm, wm = map(at_scan, (warped.gm, warped.wm))
    expected = np.stack([np.clip(1 - gm - wm, 0, 1), gm, wm])
    shares = segment(found.corrected, brain, expected, lesion).tissues
    likely = expected[:, seen].argmax(axis=0)
    measures = replace(
        found.measures,
        tissues_ml=tissue_volumes(shares, seen, volume),
        overlap=warped.overlap,
        agreement=float(np.mean(shares[:, seen].argmax(axis=0) == likely)),
        likeness=warped.likeness,
    )
    return found._replace(tissues=shares, measures=measures)


def tissue_volumes(tissues: Map, where: Bools, volume: Volume) -> tuple[float, float, float]:
    """Return the volumes of CSF, GM and WM in millilitres.

    Parameters
    ----------
    tissues : (3, ...), their probabilities.
    where : which voxels count.
    volume : the scan.
    """
    csf, gm, wm = (
        float(part[where].sum(dtype=np.float64)) * volume.voxel_mm3 / 1000 for part in tissues
    )
    return csf, gm, wm


def _refuse_negative(path: str, values: Map) -> None:
    """Refuse intensities whose 0 is not that of the signal, which no factor can correct.

    Voxels of the value 0 are no reason: a mask that is too wide for a skull-stripped scan has many.
    """
    share = float(np.mean(values < 0))
    if share > _NEGATIVE:
        cause = f"{share:.0%} of the brain is negative, but a bias field is a factor, and needs"
        hint = "give the raw scan and not one that is normalised already, or --no-bias-field"
        raise FileError(path, f"{cause} intensities above 0", hint)

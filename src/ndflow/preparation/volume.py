"""A raw scan in memory → brain mask, bias field, deformed template, tissue maps.

Each step can be left out, and each result that the user has already can be given instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ndflow.errors import DegenerateDataError, FileError
from ndflow.image.mask_doubts import LARGEST, SMALLEST, TOO_SMALL, TOO_WIDE
from ndflow.image.volume import Volume
from ndflow.preparation import registration
from ndflow.preparation.registration import Bools, Map
from ndflow.preparation.segmentation import segment
from ndflow.values import Doubt, FloatArray, Record

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
    channels : how others were brought to the grid of the scan, by name; None if none were.
    """

    brain_ml: float
    tissues_ml: tuple[float, float, float] | None = None
    field: tuple[float, float] | None = None
    overlap: float | None = None
    agreement: float | None = None
    likeness: float | None = None
    channels: dict[str, registration.ChannelFit] | None = None


class PreparedVolume(NamedTuple):
    """A prepared scan, on its own grid.

    Attributes
    ----------
    corrected : the intensities free of bias, in the units of the scan.
    brain : which voxels are inside the brain.
    tissues : (3, ...), the probabilities of CSF, GM and WM; 0 outside the brain. None if they were
        not asked for.
    measures : for quality control.
    linear : (4, 4), from its millimetres to those of the template; None where the template was not
        registered with it.
    """

    corrected: Map
    brain: Bools
    tissues: Map | None
    measures: Measures
    linear: FloatArray | None = None


def prepare_volume(
    volume: Volume,
    mask: Bools,
    *,
    lesion: Bools | None = None,
    bias_field: bool = True,
    tissues: bool = True,
) -> PreparedVolume:
    """Correct the bias field of a scan and find its tissues.

    Parameters
    ----------
    volume : the scan.
    mask : which of its voxels are inside the brain, in three dimensions.
    lesion : voxels that the estimates of bias field and tissues and the registration do not see:
        results elsewhere do not depend on their intensities. They are corrected, and get tissues.
    bias_field, tissues : whether to correct the one and to find the others.

    Raises
    ------
    FileError
        Where the scan cannot be prepared.
    InvalidValueError
        Where nilearn is not installed.
    """
    try:
        return _prepared(volume, mask, lesion, bias_field, tissues)
    except DegenerateDataError as error:
        raise FileError(volume.path, str(error), "check the scan and its masks") from error


def _prepared(
    volume: Volume, mask: Bools, lesion: Bools | None, bias_field: bool, tissues: bool
) -> PreparedVolume:
    raw: Map = np.asarray(volume.spatial_values, np.float32)
    brain = mask & np.isfinite(raw)
    raw = np.where(np.isfinite(raw), raw, np.float32(0))
    if not brain.any():
        raise DegenerateDataError("no voxel is inside the brain")
    brain_ml = float(brain.sum()) * volume.voxel_mm3 / 1000
    found = PreparedVolume(raw, brain, None, Measures(brain_ml))
    if not (bias_field or tissues):
        return found
    seen = brain if lesion is None else brain & ~lesion
    if not seen.any():
        raise DegenerateDataError("the lesion covers the whole brain")
    negative = float(np.mean(raw[seen] < 0))
    if bias_field and negative > _NEGATIVE:  # no factor can correct what is below 0
        cause = f"{negative:.0%} of the brain is negative, but a bias field is a factor, and needs"
        hint = "give the raw scan and not one that is normalised already, or --no-bias-field"
        raise FileError(volume.path, f"{cause} intensities above 0", hint)
    lesion = brain & ~seen
    filled = np.where(lesion, raw[seen].mean(), raw)  # a lesion must not blur into its surroundings
    coarse = registration.working_grid(filled, volume.affine, brain)
    if not coarse.brain.any():
        raise DegenerateDataError(f"the brain is too small: {brain_ml:.2g} ml")
    damaged = registration.lesion_on_grid(lesion, volume.affine, coarse)

    def at_scan(part: Map) -> Map:
        return registration.interpolated(part, coarse.affine, raw.shape, volume.affine)

    if bias_field:
        log = registration.log_bias_field(coarse, damaged)
        here = np.exp(at_scan(log))
        field = float(here[brain].min()), float(here[brain].max())
        found = found._replace(
            corrected=np.asarray(raw / here, np.float32), measures=Measures(brain_ml, field=field)
        )
        coarse = coarse._replace(values=np.asarray(coarse.values / np.exp(log), np.float32))
    if not tissues:
        return found
    warped = registration.register_template(coarse, damaged)
    gm, wm = map(at_scan, (warped.gm, warped.wm))
    expected = np.stack([np.clip(1 - gm - wm, 0, 1), gm, wm])
    shares = segment(found.corrected, brain, expected, lesion)
    likely = expected[:, seen].argmax(axis=0)
    measures = replace(
        found.measures,
        tissues_ml=tissue_volumes(shares, seen, volume),
        overlap=warped.overlap,
        agreement=float(np.mean(shares[:, seen].argmax(axis=0) == likely)),
        likeness=warped.likeness,
    )
    return found._replace(tissues=shares, measures=measures, linear=warped.affine)


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


# ── doubts ────────────────────────────────────────────────────────────────────────────────────────
# What is doubtful about a prepared scan: the bounds, and their reasons.
#
# They are about human brains at any age beyond six months: each is far from what healthy people,
# atrophy or large lesions do to a brain, and is reached when a mask, a header or a registration is
# wrong. What was measured is in ``docs/guides/preparation.md``.

_OVERLAP = 0.94  # Dice; brains had 0.98 and more, with large lesions 0.95, upper halves below 0.94
_LIKENESS = 0.65  # brains had 0.72 and more, backwards 0.55 and less, upside down 0.50 and less
_BIAS = 4.0  # largest by smallest; raw heads at 3 T had up to 1.8, and stronger magnets have more
# Of the brain. Raw heads of adults had 0.20 to 0.23 of CSF, 0.45 to 0.49 of GM, 0.30 to 0.32 of WM.
# The bounds are a judgement, wide enough for children and for atrophy.
_SHARES = {
    "CSF": (0.02, 0.5),  # more than half: a mask of the head had 0.53
    "GM": (0.25, 0.75),
    "WM": (0.12, 0.6),  # where contrast is lost, one of GM and WM takes the voxels of both
}

_MOVED = 30.0  # mm: by 15°, for example
_MUTUAL = 1.05  # channels of one brain had 1.08 and more; 4 mm away, mirrored or of others, 1.04
_COVERED = 0.95  # of the brain

_UNFIT = ("template does not fit", "does its picture show a mask of the brain, and nothing else?")
_UNLIKE = (
    "unlike the template",
    "look at its picture: is the head upright, and is the mask that of this scan? If not, correct "
    "the header or the mask; tissue probability maps of other contrasts than T1w must be given",
)
_TISSUES = ("unusual tissues", "look at the borders in its picture: do they follow the tissues?")
_FIELD = ("strong bias field", "compare both rows of its picture, or try --no-bias-field")
_CHANNEL = ("channel does not fit", "do the outlines in its picture follow its tissues?")


def preparation_doubts(measures: Measures) -> tuple[Doubt, ...]:
    """Return what is doubtful about a prepared scan.

    Parameters
    ----------
    measures : what was measured.

    Examples
    --------
    >>> [doubt.kind for doubt in preparation_doubts(Measures(730.0, overlap=0.88))]
    ['template does not fit']
    """
    brain, overlap, likeness = measures.brain_ml, measures.overlap, measures.likeness
    found: list[tuple[tuple[str, str], str]] = []
    holds = f"The mask holds {brain:,.0f} ml"
    if brain > LARGEST:
        found.append((TOO_WIDE, f"{holds}, but a brain with all its CSF at most {LARGEST:,.0f} ml"))
    if brain < SMALLEST:
        found.append((TOO_SMALL, f"{holds}, but a brain at least {SMALLEST:,.0f} ml"))
    if overlap is not None and overlap < _OVERLAP:
        text = f"The deformed template and the mask have a Dice coefficient of {overlap:.2f}"
        found.append((_UNFIT, f"{text}, but brains at least {_OVERLAP:.2f}"))
    if likeness is not None and likeness < _LIKENESS:
        text = f"The deformed template and the scan have a correlation of {likeness:.2f}"
        found.append((_UNLIKE, f"{text}, but brains at least {_LIKENESS:.2f}"))
    total = sum(measures.tissues_ml or ())
    odd = [
        f"{ml / total:.0%} of the brain is {tissue}, where {low:.0%} to {high:.0%} would be usual"
        for (tissue, (low, high)), ml in zip(
            _SHARES.items(), measures.tissues_ml or (), strict=False
        )
        if total > 0 and not low <= ml / total <= high
    ]
    if odd:
        found.append((_TISSUES, ", and ".join(odd)))
    least, most = measures.field or (1.0, 1.0)
    if most > _BIAS * least:
        text = f"The bias in the brain goes from {least:.2f} to {most:.2f}"
        found.append((_FIELD, f"{text}, by a factor of more than {_BIAS:.0f}"))
    for name, fit in (measures.channels or {}).items():
        if fit.likeness < _MUTUAL or fit.moved > _MOVED or fit.covered < _COVERED:
            text = f"{name} was moved by {fit.moved:.0f} mm, shows {fit.covered:.0%} of the brain, "
            text += f"and has a normalised mutual information of {fit.likeness:.2f} with the scan"
            usual = f"usual are at most {_MOVED:.0f} mm, and at least {_COVERED:.0%} and {_MUTUAL}"
            found.append((_CHANNEL, f"{text}; {usual}"))
    return tuple(Doubt(kind, f"{text}.", hint) for (kind, hint), text in found)

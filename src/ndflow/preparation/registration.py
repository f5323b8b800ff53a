"""The template brain, deformed to that of a scan: where to expect which tissue.

The ICBM152 average [fonov2011] is registered by ANTs (SyN) [avants2008] on the working grid, where
it takes about ten seconds.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage

from ndflow.errors import DegenerateDataError
from ndflow.preparation.ants_images import SEED, ants_image, import_ants
from ndflow.preparation.template import halved_anatomy
from ndflow.preparation.working_grid import RESOLUTION, Bools, Map, WorkingGrid

__all__ = ["WarpedTemplate", "register_template"]

_TRANSFORM = "antsRegistrationSyNQuick[s]"
_COARSE = 10.0  # mm: the standard deviation of what counts as coarse
_LEAST = 1e-3
_BRIGHTEST = 99.5  # percentile to which intensities are limited: vessels and fat are brighter


class WarpedTemplate(NamedTuple):
    """The template on the working grid of a scan.

    Attributes
    ----------
    gm, wm : the probabilities of GM and WM.
    overlap : the Dice coefficient of the template's brain and that of the scan.
    likeness : the correlation of the template's intensities with those of the scan, where both
        have brain and no lesion, without what changes over centimetres, such as a bias field. A
        brain that is upside down is filled by the template as well as any other, but its sulci and
        ventricles are elsewhere.
    """

    gm: Map
    wm: Map
    overlap: float
    likeness: float


def register_template(coarse: WorkingGrid, lesion: Bools | None = None) -> WarpedTemplate:
    """Deform the template to a scan.

    Parameters
    ----------
    coarse : the brain on the working grid, free of bias.
    lesion : voxels that the registration does not look at.

    Raises
    ------
    DegenerateDataError
        Where ANTs finds no way to do so.
    """
    ants = import_ants()
    anatomy = halved_anatomy()
    brightest = np.percentile(coarse.values[coarse.brain], _BRIGHTEST)
    fixed = ants_image(np.minimum(coarse.values, brightest), coarse.affine)
    moving = ants_image(anatomy.t1, anatomy.affine)
    options: dict[str, Any] = {}
    if lesion is not None and lesion.any():
        options = {"mask": ants_image(~lesion, coarse.affine), "mask_all_stages": True}
    with TemporaryDirectory(prefix="ndflow-") as folder:
        try:
            found = ants.registration(
                fixed,
                moving,
                _TRANSFORM,
                outprefix=str(Path(folder) / "template"),
                random_seed=SEED,
                **options,
            )
        except RuntimeError as error:  # all that ANTs says, as for a brain of a few voxels
            raise DegenerateDataError("ANTs cannot register the template with it") from error
        gm, wm, brain = (
            ants.apply_transforms(
                fixed, ants_image(part, anatomy.affine), found["fwdtransforms"]
            ).numpy()
            for part in (anatomy.gm, anatomy.wm, anatomy.brain)
        )
        expected = found["warpedmovout"].numpy()
    inside = coarse.brain & (brain > 0.5)
    if lesion is not None:
        inside &= ~lesion
    likeness = _likeness(expected, fixed.numpy(), inside)
    return WarpedTemplate(gm, wm, _dice(brain > 0.5, coarse.brain), likeness)


def _dice(one: Bools, other: Bools) -> float:
    return 2 * float((one & other).sum()) / max(1.0, float(one.sum() + other.sum()))


def _likeness(one: Map, other: Map, inside: Bools) -> float:
    """Return the correlation of what is finer than `_COARSE`; 0 where one of the two is flat."""
    share = ndimage.gaussian_filter(inside.astype(np.float32), _COARSE / RESOLUTION)

    def detail(array: Map) -> Map:
        smooth = ndimage.gaussian_filter(np.where(inside, array, 0), _COARSE / RESOLUTION)
        found: Map = (array - smooth / np.maximum(share, _LEAST))[inside]
        return found

    fine, finer = detail(one), detail(other)
    if fine.size < 2 or not (np.ptp(fine) and np.ptp(finer)):
        return 0.0
    return float(np.corrcoef(fine, finer)[0, 1])

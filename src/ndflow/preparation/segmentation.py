"""Tissue probability maps of a scan, from its intensities and the deformed template.

`ndflow.preparation.tissue_em` finds the intensities of the tissues. Then neighbours count: with the
likelihood `L` and the prior `π` of a class, the probability of class `k` in voxel `i` is

    r_ik ∝ π_ik L_ik exp(β Σ_{j ∼ i} q_jk),

the mean-field solution of a Potts model, with the sum over the six neighbours. `q` is the expected
share of the tissue; for a mixed class, it is the mean of those of its two tissues. A mild β = 0.15
removes single voxels of noise and leaves thin structures.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import ndimage

from ndflow.errors import DegenerateDataError
from ndflow.preparation.tissue_em import TissueClasses, class_priors, fit_tissues
from ndflow.preparation.working_grid import Bools, Map

__all__ = ["Segmentation", "segment"]

_BETA = np.float32(0.15)
_SWEEPS = 4
_ENOUGH = 150_000  # voxels to estimate the intensities of tissues from
_BRIGHTEST = 99.8  # percentile; what is brighter by a tenth, such as vessels, is limited


class Segmentation(NamedTuple):
    """The tissues of a scan.

    Attributes
    ----------
    tissues : (3, ...), the probabilities of CSF, GM and WM; 0 outside the brain.
    classes : their intensities.
    """

    tissues: Map
    classes: TissueClasses


def segment(values: Map, brain: Bools, template: Map, lesion: Bools | None = None) -> Segmentation:
    """Find the tissues of a scan.

    Parameters
    ----------
    values : its intensities, free of bias.
    brain : which voxels are inside the brain.
    template : (3, ...), the probabilities of CSF, GM and WM in the deformed template.
    lesion : voxels that neither the estimate nor their neighbours see; they get probabilities like
        all others.

    Raises
    ------
    DegenerateDataError
        Where the intensities cannot be told apart.
    """
    (box,) = ndimage.find_objects(brain.astype(np.int8))
    inside = brain[box]
    intensity = values[box][inside]
    hidden = np.zeros_like(inside) if lesion is None else inside & lesion[box]
    seen = np.flatnonzero(~hidden[inside])
    chosen = seen[:: 1 + seen.size // _ENOUGH]
    if not chosen.size:
        raise DegenerateDataError("the lesion covers the whole brain")
    limit = 1.1 * float(np.percentile(intensity[chosen], _BRIGHTEST))
    intensity = np.minimum(intensity, np.float32(limit))
    priors = class_priors(template[(slice(None), *box)][:, inside])
    classes = fit_tissues(
        intensity[chosen].astype(np.float64), priors[:, chosen].astype(np.float64)
    )
    joint = classes.weights[:, None].astype(np.float32) * priors
    joint *= classes.likelihoods(intensity) / joint.sum(axis=0)
    joint += np.float32(1e-30)
    mixing = classes.mixing(intensity)
    posterior = joint / joint.sum(axis=0)
    tissues = np.zeros((3, *inside.shape), np.float32)
    for _ in range(_SWEEPS):
        tissues[:, inside] = classes.tissues(posterior, mixing)
        tissues[:, hidden] = 0
        posterior = joint * np.exp(_BETA * _of_classes(_neighbours(tissues)[:, inside]))
        posterior /= posterior.sum(axis=0)
    tissues[:, inside] = classes.tissues(posterior, mixing)
    whole = np.zeros((3, *brain.shape), np.float32)
    whole[(slice(None), *box)] = tissues
    return Segmentation(whole, classes)


def _of_classes(tissues: Map) -> Map:
    csf, gm, wm = tissues
    return np.stack([csf, gm, wm, (csf + gm) / 2, (gm + wm) / 2])


def _neighbours(maps: Map) -> Map:
    """Return the sum over the six neighbours; what is beyond the edge counts as 0."""
    total = np.zeros_like(maps)
    for axis in (1, 2, 3):
        first, last = [slice(None)] * 4, [slice(None)] * 4
        first[axis], last[axis] = slice(None, -1), slice(1, None)
        total[tuple(first)] += maps[tuple(last)]
        total[tuple(last)] += maps[tuple(first)]
    return total

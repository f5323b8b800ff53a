"""The bias field of a scan: a smooth change of brightness, caused by the coils and not by tissue.

It is estimated by N4 [tustison2010] from the brain on the working grid. Its geometric mean
over the brain is made 1, so a corrected scan keeps its units.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from ndflow.errors import DegenerateDataError
from ndflow.preparation.ants_images import ants_image, import_ants
from ndflow.preparation.working_grid import Bools, Map, WorkingGrid

__all__ = ["log_bias_field"]

_SPLINE = 160.0  # mm between the knots of the first level
_CONVERGENCE = {"iters": [30, 30, 25], "tol": 1e-5}
_SHRINK = 2


def log_bias_field(coarse: WorkingGrid, lesion: Bools | None = None) -> Map:
    """Estimate the logarithm of the bias field.

    Parameters
    ----------
    coarse : the brain on the working grid.
    lesion : voxels that the estimate does not see.

    Returns
    -------
    Map
        On the same grid, with a mean of 0 over the brain. Outside the brain it stays within the
        range that it has inside.

    Raises
    ------
    DegenerateDataError
        Where nothing is left to estimate it from.
    """
    inner = ndimage.binary_erosion(coarse.brain) & (coarse.values > 0)
    if lesion is not None:
        inner &= ~lesion
    if not inner.any():
        raise DegenerateDataError("the brain is too small for a bias field, or has no signal")
    field = (
        import_ants()
        .n4_bias_field_correction(
            ants_image(coarse.values, coarse.affine),
            mask=ants_image(inner, coarse.affine),
            shrink_factor=_SHRINK,
            spline_param=_SPLINE,
            convergence=_CONVERGENCE,
            return_bias_field=True,
        )
        .numpy()
    )
    log = np.log(np.maximum(field, 1e-3))
    inside = log[coarse.brain]
    limited: Map = np.clip(log, inside.min(), inside.max()) - inside.mean()
    return limited.astype(np.float32)

"""Maps in the history of a volume, as plain numbers, from which they can be repeated and undone.

By default, 0 outside the mask stays 0 and all other voxels are mapped. The mask itself may be gone
when a map is undone, and is needed for nothing but to tell which zeros are inside. So their places
are recorded, if there are any, and the mask is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.scan.map_voxels import map_array
from ndflow.transport import IntensityMap

__all__ = ["RecordedMap", "apply_recorded", "record_map"]

RecordedMap = dict[str, Any]


def record_map(
    imap: IntensityMap, voxels: NDArray[Any], mask: NDArray[np.bool_] | None = None
) -> RecordedMap:
    """Return how a volume is mapped, as numbers, lists and dictionaries.

    Parameters
    ----------
    imap : the map.
    voxels : the volume, before it is mapped.
    mask : which of its voxels are inside; None for all but 0.

    Returns
    -------
    The ``map``, and the places of the ``zeros`` that are mapped like other voxels, in C order, in a
    volume of this ``shape``.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> scan = np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> record = record_map(Affine(2.0, 3.0), scan, np.array([[True, True], [False, True]]))
    >>> record["zeros"]
    [0]
    >>> apply_recorded(record, scan)
    array([[3., 5.],
           [0., 7.]], dtype=float32)
    """
    zeros = [] if mask is None else np.flatnonzero((voxels == 0) & mask).tolist()
    return {"map": imap.to_dict(), "zeros": zeros, "shape": list(voxels.shape)}


def apply_recorded(
    record: RecordedMap, voxels: NDArray[Any], *, inverse: bool = False
) -> NDArray[np.float32]:
    """Map a volume as another was mapped, or undo the map.

    Parameters
    ----------
    record : from `record_map`.
    voxels : the volume; in one of another shape, all zeros stay 0.
    inverse : whether to undo the map.
    """
    imap = IntensityMap.from_dict(record["map"])
    if inverse:  # zeros inside the mask are no zeros any more, and those outside stay
        return map_array(voxels, imap.inverse(), None, None)
    inside: NDArray[np.bool_] | None = None
    if record["zeros"] and record["shape"] == list(voxels.shape):
        inside = np.zeros(voxels.shape, np.bool_)
        inside.flat[record["zeros"]] = True
    return map_array(voxels, imap, inside, None)

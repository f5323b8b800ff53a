"""Volumes in memory, normalised as quickly as the training of a network asks for.

What comes out is, to the last bit, what `ndflow.normalise` returns for the same array. Only the
quality control is left out, which looks at masks and matches and takes about as long again.

To one reference, with the same settings, the intensity map of a scan depends on nothing but the
voxels inside its mask. So a map is remembered under the SHA-256 of these: a scan that comes back in
the next epoch is recognised by its content, whatever it is called, and a scan that was changed is
not taken for the one it was. The least recently used maps are forgotten first.

Pipelines keep a map in the history of an image, as plain numbers (`record_map`), to repeat or undo
it. By default, 0 outside the mask stays 0 and all other voxels are mapped. The mask itself may be
gone when a map is undone, and is needed for nothing but to tell which zeros are inside. So their
places are recorded, if there are any, and the mask is not.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ndflow import density
from ndflow.image.mask import MIN_VOXELS, BoolArray
from ndflow.image.read import read_grid, read_volume
from ndflow.image.subject import Subject
from ndflow.methods.base import DensityModel, method_of
from ndflow.options import Options, Scale
from ndflow.subject.presets import Choices, TargetFacts, settled_match
from ndflow.subject.target import AnyTarget, in_units, known_target, read_target
from ndflow.subject.voxels import Voxels, count_voxels, error_about, map_array, read_voxels
from ndflow.transport import IntensityMap

RecordedMap = dict[str, Any]

_LOCK = Lock()  # of the maps in memory; it stays here where they are sent to other processes


class VolumeNormaliser:
    """Find the maps that bring volumes in memory to a reference.

    It may be used by several threads at once, and sent to other processes, which then remember
    maps of their own besides those sent.

    Parameters
    ----------
    reference : what volumes are brought to, as for `ndflow.normalise`: a reference, the path of
        one, ``"builtin:T1w"``, or anything else that is accepted there. It is read at once.
    scale, range : the units of the result, as for `ndflow.normalise`.
    remember : how many maps are kept in memory.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> scan = generator.normal(300, 40, size=(20, 20, 20)).astype(np.float32)
    >>> imap = VolumeNormaliser("builtin:T1w").map_of(scan)
    >>> bool(490 < apply_recorded(record_map(imap, scan), scan).mean() < 510)
    True
    """

    def __init__(
        self,
        reference: AnyTarget,
        *,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        remember: int = 1024,
    ) -> None:
        self._remember = remember
        choices = Choices(options={"scale": scale, "range": range})
        known = known_target(reference)
        facts = TargetFacts() if known is None else known.facts
        options = settled_match(choices, facts, maps=False).options
        target, self._options = read_target(known or reference, None, options=options)
        self._goal = in_units(target, self._options)
        self._maps: OrderedDict[str, IntensityMap] = OrderedDict()

    def map_of(self, voxels: NDArray[Any], mask: BoolArray | None = None) -> IntensityMap:
        """Return the map of a volume.

        Parameters
        ----------
        voxels : real numbers, in three dimensions or fewer.
        mask : of the same shape, True inside. Default: all voxels but 0.

        Raises
        ------
        FileError
            Where there are too few distinct voxels to estimate a density.
        InvalidValueError
            Where `voxels` are not a volume, or the mask has another shape.
        """
        read_grid(voxels)  # refuses what is not a volume of real numbers
        if mask is not None and mask.shape != voxels.shape:
            _count(voxels, mask)  # says so
        chosen = _chosen(voxels, mask)
        digest = hashlib.sha256(chosen.dtype.str.encode())
        digest.update(chosen.view(np.uint8).data)
        key = digest.hexdigest()
        with _LOCK:
            known = self._maps.get(key)
            if known is not None:
                self._maps.move_to_end(key)
                return known
        imap = self._found(voxels, mask, chosen)
        with _LOCK:
            self._maps[key] = imap
            while len(self._maps) > self._remember:
                self._maps.popitem(last=False)
        return imap

    def _found(
        self, voxels: NDArray[Any], mask: BoolArray | None, chosen: NDArray[Any]
    ) -> IntensityMap:
        """Find the map of a volume, from its voxels that count."""
        if chosen.size < MIN_VOXELS:
            _count(voxels, mask)  # says what is wrong
        scan = Subject({"image": chosen}, None if mask is None else chosen)
        read = Voxels((read_volume(chosen),), np.ones(chosen.size, np.bool_), (), {})
        histogram = count_voxels(scan, read).histogram
        method = method_of(self._options)
        with error_about("the image"):
            fitted = density.fit(histogram, effective_count=Options().effective_count)
            landmarks = method.measure(histogram, self._options)
        model = DensityModel(fitted.mixture, landmarks)
        return method.solve(model, self._goal, self._options).imap


def record_map(
    imap: IntensityMap, voxels: NDArray[Any], mask: BoolArray | None = None
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
    inside: BoolArray | None = None
    if record["zeros"] and record["shape"] == list(voxels.shape):
        inside = np.zeros(voxels.shape, np.bool_)
        inside.flat[record["zeros"]] = True
    return map_array(voxels, imap, inside, None)


def _count(voxels: NDArray[Any], mask: BoolArray | None) -> None:
    """Read and count a volume as the commands do, for the sake of their messages."""
    subject = Subject({"image": voxels}, mask)
    count_voxels(subject, read_voxels(subject, max_bytes=Options.max_bytes))


def _chosen(voxels: NDArray[Any], inside: BoolArray | None) -> NDArray[Any]:
    """Return the voxels that count, in their order in memory."""
    order: Literal["C", "F"] = "F" if voxels.flags.f_contiguous else "C"
    flat = voxels.reshape(-1, order=order)
    return flat[flat != 0] if inside is None else flat[inside.reshape(-1, order=order)]

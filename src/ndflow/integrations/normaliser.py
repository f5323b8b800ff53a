"""Volumes in memory, normalised as quickly as the training of a network asks for.

What comes out is, to the last bit, what `ndflow.normalise` returns for the same array, and it is
judged in the same way, which takes a fifth of the time. That happens where a map is found, and not
when a scan comes again. Of each kind of warning, a process gives the first one only.

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
import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ndflow.image.mask import BoolArray, read_mask
from ndflow.image.read import read_grid, refuse_other_shape
from ndflow.image.subject import Subject
from ndflow.methods.modes import Goal
from ndflow.options import Scale
from ndflow.subject.doubts import match_doubts
from ndflow.subject.fit import fit_voxels
from ndflow.subject.normalise import target_doubts
from ndflow.subject.presets import Choices, TargetFacts, settled_match
from ndflow.subject.target import AnyTarget, in_units, known_target, read_target
from ndflow.subject.voxels import Voxels, in_order, map_array
from ndflow.transport import IntensityMap
from ndflow.values import Doubt

RecordedMap = dict[str, Any]

_LOCK = Lock()  # of the maps in memory; it stays here where they are sent to other processes
_GIVEN: set[str] = set()  # kinds of warning, by this process


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
        self._target, chosen = read_target(known or reference, None, options=options)
        self._goal = Goal(in_units(self._target, chosen), chosen)
        self._maps: OrderedDict[str, IntensityMap] = OrderedDict()

    def map_of(
        self,
        voxels: NDArray[Any],
        mask: BoolArray | None = None,
        *,
        affine: NDArray[Any] | None = None,
        name: str = "the image",
    ) -> IntensityMap:
        """Return the map of a volume; warn where that is doubtful.

        Parameters
        ----------
        voxels : real numbers, in three dimensions or fewer.
        mask : of the same shape, True inside. Default: all voxels but 0.
        affine : from voxels to millimetres. The identity is that of arrays of no known size, of
            which whole heads are not told from brains.
        name : what messages call the volume: its file, if it has one.

        Raises
        ------
        FileError
            Where there are too few distinct voxels to estimate a density.
        InvalidValueError
            Where `voxels` are not a volume, or the mask has another shape.
        """
        grid = read_grid(voxels, called=name)  # refuses what is not a volume of real numbers
        if mask is not None:
            refuse_other_shape("the mask", mask.shape, grid)
        order: Literal["C", "F"] = "F" if voxels.flags.f_contiguous else "C"  # in memory
        flat = voxels.reshape(-1, order=order)
        chosen = flat[flat != 0] if mask is None else flat[mask.reshape(-1, order=order)]
        digest = hashlib.sha256(chosen.dtype.str.encode())
        digest.update(chosen.view(np.uint8).data)
        key = digest.hexdigest()
        with _LOCK:
            known = self._maps.get(key)
            if known is not None:
                self._maps.move_to_end(key)
                return known
        imap = self._found(voxels, mask, affine, name)
        with _LOCK:
            self._maps[key] = imap
            while len(self._maps) > self._remember:
                self._maps.popitem(last=False)
        return imap

    def record_of(self, voxels: NDArray[Any], mask: Any, **about: Any) -> RecordedMap:
        """Return how a volume is mapped, see `record_map`; parameters as for `map_of`.

        The mask is one of any values, see `inside_of`; or None.
        """
        inside = None if mask is None else inside_of(mask, about["name"])
        return record_map(self.map_of(voxels, inside, **about), voxels, inside)

    def _found(
        self,
        voxels: NDArray[Any],
        mask: BoolArray | None,
        affine: NDArray[Any] | None,
        name: str,
    ) -> IntensityMap:
        """Find the map of a volume, as `ndflow.normalise` does, and give its warnings."""
        volume, inside, turned = in_order(voxels, mask)
        volume = replace(volume, path=name)
        if affine is not None and voxels.ndim == 3 and not np.array_equal(affine, np.eye(4)):
            axes = [2, 1, 0, 3] if turned else [0, 1, 2, 3]
            volume = replace(volume, affine=affine[:, axes].astype(np.float64), placed=True)
        read = Voxels((volume,), inside, (), {})
        model = fit_voxels(Subject({"image": voxels}, mask), read, options=self._goal.options).model
        solution = self._goal.solve(model.model)
        goal, shown = self._goal.reference, self._target.channels
        about = target_doubts(read, model, self._target, goal, shown)
        doubts = (*model.doubts, *sum(about, ()), *match_doubts(model, solution, self._goal)[0])
        _warn(name, (*model.warnings, *solution.warnings(name)), doubts)
        return solution.imap


def inside_of(mask: NDArray[Any], name: str = "the image") -> BoolArray:
    """Return which voxels a mask has inside, by the rule of all masks; see `read_mask`.

    Parameters
    ----------
    mask : in three dimensions or fewer.
    name : what messages call the image.
    """
    turned = mask.T  # in the order of files
    read = read_mask(turned, read_grid(turned))
    _warn(name, read.warnings)
    return read.inside.T


def _warn(name: str, lines: Iterable[str], doubts: Iterable[Doubt] = ()) -> None:
    """Give warnings about an image, but for those of a kind that this process has given."""
    found = {re.sub(r"\d", "", line.removeprefix(name)): line for line in lines}
    found |= {doubt.kind: str(doubt) for doubt in doubts}
    for kind, text in found.items():
        with _LOCK:
            new = kind not in _GIVEN
            _GIVEN.add(kind)
        if new:
            about = f"{name}: {text.removeprefix(f'{name}: ')}"
            warnings.warn(f"{about} (given once per process)", stacklevel=2)


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

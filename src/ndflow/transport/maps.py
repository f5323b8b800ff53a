"""The interface of all intensity maps, and chains of maps.

A map provides three things: where it takes a point, ``y = f(x)``, how it stretches space there,
``ln |det Df(x)|``, and its inverse. Our maps, those of other methods and combinations of them all
have this interface, so code that applies or evaluates a map need not ask where it came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Value, instance, points

__all__ = ["Chain", "IntensityMap"]

_SHOWN = 6  # maps of a chain in its repr


class IntensityMap(Value, ABC):
    """An invertible map of intensities: ``f(x)`` maps, ``~f`` undoes it, ``g @ f`` is f, then g.

    With one channel, it applies to each element of an array of any shape; with several, the last
    axis of the array is the channel. Subclasses implement ``channels``, ``inverse`` and two private
    methods on points ``(n, d)``.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> imap = Affine(4.0, 1.0)
    >>> imap([1.0, 2.0])
    array([5., 9.])
    >>> imap.log_det_jacobian([1.0, 2.0]).round(3)
    array([1.386, 1.386])
    >>> (~imap)([5.0, 9.0])
    array([1., 2.])
    >>> (Affine(1.0, -1.0) @ imap)([1.0, 2.0])
    array([4., 8.])
    """

    @property
    @abstractmethod
    def channels(self) -> int:
        """The number d of channels."""

    @abstractmethod
    def inverse(self) -> IntensityMap:
        """Return the map that undoes this one."""

    @abstractmethod
    def _mapped(self, x: FloatArray) -> FloatArray:
        """Map points, (n, d) to (n, d)."""

    @abstractmethod
    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map points, (n, d) to (n, d), and return the log-Jacobian at each as well, (n,)."""

    def __invert__(self) -> IntensityMap:
        return self.inverse()

    def __matmul__(self, first: IntensityMap) -> Chain:
        return Chain((first, self)) if isinstance(first, IntensityMap) else NotImplemented

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Return the mapped intensities, in the shape of `x`."""
        flat, _ = points(x, self.channels)
        return self._mapped(flat).reshape(np.shape(x))

    def log_det_jacobian(self, x: ArrayLike) -> FloatArray:
        """Return ``ln |det Df|``, one number per point; positive where the map expands."""
        flat, shape = points(x, self.channels)
        return self._with_log_det(flat)[1].reshape(shape)

    def with_log_det_jacobian(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mapped intensities and ``ln |det Df|``, for less than the cost of both."""
        flat, shape = points(x, self.channels)
        y, log_det = self._with_log_det(flat)
        return y.reshape(np.shape(x)), log_det.reshape(shape)


@dataclass(frozen=True, eq=False, repr=False)
class Chain(IntensityMap):
    """Maps applied one after the other, from left to right.

    Attributes
    ----------
    maps : one or more maps with the same channels; chains among them are unrolled.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> chain = Chain((Affine(2.0, 0.0), Affine(1.0, 3.0)))
    >>> chain
    Chain(Affine, Affine)
    >>> chain([1.0, 2.0])
    array([5., 7.])
    >>> chain.inverse()([5.0, 7.0])
    array([1., 2.])
    """

    _most: ClassVar[Mapping[str, int]] = {"maps": 100}

    maps: tuple[IntensityMap, ...]

    def __post_init__(self) -> None:
        """Unroll chains, and check that the maps fit together."""
        instance(self.maps, "maps", tuple | list)
        unrolled: list[IntensityMap] = []
        for part in self.maps:
            instance(part, "each of maps", IntensityMap)
            unrolled += part.maps if isinstance(part, Chain) else [part]
        if not unrolled:
            raise InvalidValueError("maps must hold at least one map")
        if len({part.channels for part in unrolled}) > 1:
            raise InvalidValueError("maps must all have the same number of channels")
        object.__setattr__(self, "maps", tuple(unrolled))

    def __repr__(self) -> str:
        """Return the types of the maps in order; the first few and the last of a long chain."""
        names = [type(part).__name__ for part in self.maps]
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "...", names[-1]]
        return f"Chain({', '.join(shown)})"

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return self.maps[0].channels

    def inverse(self) -> Chain:
        """Return the inverses in the opposite order."""
        return Chain(tuple(part.inverse() for part in reversed(self.maps)))

    def _mapped(self, x: FloatArray) -> FloatArray:
        for part in self.maps:
            x = part._mapped(x)
        return x

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        total = np.zeros(len(x))
        for part in self.maps:
            x, log_det = part._with_log_det(x)
            total = total + log_det
        return x, total

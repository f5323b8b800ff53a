"""The contract of every map of intensities, and the chain of several.

A map knows three things: where it takes a point, ``y = f(x)``, how it stretches space there,
``ln |det Df(x)|``, and its inverse. Ours, the baselines' and combinations of them all keep to this
contract, so nothing that applies or judges a map asks where it came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Value, instance, points

__all__ = ["Chain", "IntensityMap"]


class IntensityMap(Value, ABC):
    """An invertible map of intensities.

    With one channel it applies to each element of an array of any shape; with several, the last
    axis holds the channels. A kind of map implements the methods on points ``(n, d)``.
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
        """Map points, and return the log-Jacobian there as well, (n,)."""

    def __call__(self, x: ArrayLike) -> FloatArray:
        """Map intensities; the result has the shape of `x`."""
        flat, _ = points(x, self.channels)
        return self._mapped(flat).reshape(np.shape(x))

    def log_det_jacobian(self, x: ArrayLike) -> FloatArray:
        """Return ``ln |det Df|`` at each point; positive where the map expands."""
        flat, shape = points(x, self.channels)
        return self._with_log_det(flat)[1].reshape(shape)

    def with_log_det_jacobian(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return both at once, for less than the price of each."""
        flat, shape = points(x, self.channels)
        y, log_det = self._with_log_det(flat)
        return y.reshape(np.shape(x)), log_det.reshape(shape)


@dataclass(frozen=True, eq=False)
class Chain(IntensityMap):
    """Maps one after the other, from left to right. Chains within are unrolled."""

    maps: tuple[IntensityMap, ...]

    def __post_init__(self) -> None:
        """Unroll, and check that the maps fit each other."""
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

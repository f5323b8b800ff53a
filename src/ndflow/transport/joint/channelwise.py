"""A map for each channel, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, instance

__all__ = ["Channelwise"]


@dataclass(frozen=True, eq=False, repr=False)
class Channelwise(IntensityMap):
    """Maps of one channel each, the first for the first channel and so on.

    Attributes
    ----------
    maps : one map of one channel for each channel.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> both = Channelwise((Affine(2.0, 0.0), Affine(1.0, 3.0)))
    >>> both
    Channelwise(Affine, Affine)
    >>> both([[1.0, 1.0]])
    array([[2., 4.]])
    >>> both.inverse()([[2.0, 4.0]])
    array([[1., 1.]])
    """

    maps: tuple[IntensityMap, ...]

    def __post_init__(self) -> None:
        """Check that each map has one channel."""
        instance(self.maps, "maps", tuple | list)
        for part in self.maps:
            instance(part, "each of maps", IntensityMap)
        if not self.maps or any(part.channels != 1 for part in self.maps):
            raise InvalidValueError("maps must hold one map of one channel for each channel")
        object.__setattr__(self, "maps", tuple(self.maps))

    def __repr__(self) -> str:
        """Return the types of the maps in order."""
        return f"Channelwise({', '.join(type(part).__name__ for part in self.maps)})"

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return len(self.maps)

    def inverse(self) -> Channelwise:
        """Return the inverse of each map."""
        return Channelwise(tuple(part.inverse() for part in self.maps))

    def _mapped(self, x: FloatArray) -> FloatArray:
        y = np.empty_like(x)
        for channel, part in enumerate(self.maps):
            y[:, channel] = part._mapped(x[:, [channel]])[:, 0]
        return y

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        y, total = np.empty_like(x), np.zeros(len(x))
        for channel, part in enumerate(self.maps):
            mapped, log_det = part._with_log_det(x[:, [channel]])
            y[:, channel] = mapped[:, 0]
            total = total + log_det
        return y, total

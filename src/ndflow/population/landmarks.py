"""Landmarks: the few intensities by which landmark-based methods describe a scan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ndflow.errors import InvalidValueError
from ndflow.transport import Affine
from ndflow.values import FloatArray, Value, instance, plural, real_array

__all__ = ["Landmarks"]


@dataclass(frozen=True, eq=False, repr=False)
class Landmarks(Value):
    """The landmarks of a scan or of a target, in one channel.

    What they mean, and how many there are, is up to the method.

    Attributes
    ----------
    method : the name of the method that measured them, for example ``"nyul"``.
    values : (n,), intensities that never fall; if there are several, the last exceeds the first.

    Examples
    --------
    >>> from ndflow import Affine
    >>> landmarks = Landmarks("nyul", [0.0, 250.0, 900.0])
    >>> landmarks
    Landmarks(nyul, 3 values from 0 to 900)
    >>> landmarks.transformed(Affine(0.5, 10.0)).values
    array([ 10., 135., 460.])
    """

    method: str
    values: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        instance(self.method, "method", str)
        values = real_array(self.values, "values", None)
        if not values.size:
            raise InvalidValueError(f"values of {self.method} must be one or more, not 0")
        if (np.diff(values) < 0).any() or (values.size > 1 and not values[-1] > values[0]):
            raise InvalidValueError("landmarks must rise; check image and mask")
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        """Return the method, and the number and range of the landmarks."""
        count = plural(self.values.size, "value")
        return f"Landmarks({self.method}, {count} from {self.values[0]:g} to {self.values[-1]:g})"

    def transformed(self, affine: Affine) -> Landmarks:
        """Return the landmarks of the same scan in other units, which rise with these."""
        return Landmarks(self.method, affine(self.values))

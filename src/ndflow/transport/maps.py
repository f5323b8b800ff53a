"""The interface of all intensity maps, and chains of maps.

A map provides three things: where it takes a point, ``y = f(x)``, how it stretches space there,
``ln |det Df(x)|``, and its inverse. Our maps, those of other methods and combinations of them all
have this interface, so code that applies or evaluates a map need not ask where it came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.values import FloatArray, Value, einsum, instance, points, real_array


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
        return self.with_log_det_jacobian(x)[1]

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
        unrolled: list[IntensityMap] = []
        for part in self.maps:
            instance(part, "each of maps", IntensityMap)
            unrolled += part.maps if isinstance(part, Chain) else [part]
        if not unrolled:
            raise InvalidValueError("maps must hold at least one map")
        if len({part.channels for part in unrolled}) > 1:
            raise InvalidValueError("maps must all have the same number of channels")
        self._set(maps=tuple(unrolled))

    def __repr__(self) -> str:
        """Return the types of the maps in order."""
        return f"Chain({', '.join(type(part).__name__ for part in self.maps)})"

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


# ── alignment ─────────────────────────────────────────────────────────────────────────────────────
# Moment alignment: the affine map that precedes any matching.
#
# It is not optional: the L2 divergence is nearly flat where two densities hardly overlap, so a
# match of densities that are not aligned goes nowhere.

_SINGULAR = 1e13  # condition number beyond which an inverse would consist of rounding errors


@dataclass(frozen=True, eq=False, repr=False)
class Affine(IntensityMap):
    """The affine map ``y = M x + b``.

    Attributes
    ----------
    matrix : M, (d, d), invertible; may be given as a number for one channel.
    offset : b, (d,); may be given as a number for one channel.

    Raises
    ------
    InvalidValueError : the matrix is singular, or shapes do not fit.

    Examples
    --------
    >>> affine = Affine(2.0, -1.0)
    >>> affine
    Affine(matrix=2, offset=-1)
    >>> affine([0.0, 10.0])
    array([-1., 19.])
    >>> affine.inverse()(19.0)
    array(10.)
    """

    matrix: FloatArray
    offset: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        offset = real_array(self.offset, "offset", None)
        matrix = real_array(self.matrix, "matrix", offset.size, offset.size)
        rows = np.abs(matrix).max(axis=1, initial=0.0)
        regular = rows.size and rows.all()
        if not regular or not np.linalg.cond(matrix / rows[:, np.newaxis]) < _SINGULAR:
            raise InvalidValueError("matrix must be invertible")
        self._set(matrix=matrix, offset=offset)

    def __repr__(self) -> str:
        """Return the two numbers for one channel, and the number of channels for several."""
        if self.channels > 1:
            return f"Affine(channels={self.channels})"
        return f"Affine(matrix={self.matrix.item():g}, offset={self.offset.item():g})"

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return self.offset.size

    def inverse(self) -> Affine:
        """Return ``x = M⁻¹ (y − b)``."""
        back = np.linalg.inv(self.matrix).astype(np.float64, copy=False)
        return Affine(back, -einsum("ij,j->i", back, self.offset))

    def _mapped(self, x: FloatArray) -> FloatArray:
        y: FloatArray = gaussian.times(self.matrix[np.newaxis], x[np.newaxis])[0] + self.offset
        return y

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._mapped(x), np.full(len(x), np.linalg.slogdet(self.matrix)[1])


def align(source: GaussianMixture, target: GaussianMixture | None = None) -> Affine:
    """Return the affine map that gives `source` the mean and standard deviation of `target`.

    Parameters
    ----------
    source : a density.
    target : a density with the same channels. By default, zero mean and unit variance.

    Raises
    ------
    InvalidValueError : the numbers of channels differ.

    Examples
    --------
    >>> scan = GaussianMixture([1.0], [100.0], [1 / 400])
    >>> align(scan)([80.0, 100.0, 120.0])
    array([-1.,  0.,  1.])
    """
    mean, variances = np.zeros(source.channels), np.ones(source.channels)
    if target is not None:
        if target.channels != source.channels:
            raise InvalidValueError(f"source has {source.channels} channels, not {target.channels}")
        mean, variances = target.mean(), np.diagonal(target.covariance())
    matrix = np.diag(np.sqrt(variances / np.diagonal(source.covariance())))
    return Affine(matrix, mean - einsum("ij,j->i", matrix, source.mean()))


# ── piecewise linear maps ─────────────────────────────────────────────────────────────────────────

LARGEST = 1e150  # bound of knots and values, so that products of them are finite
_STEEPEST = 1e100  # largest slope, and inverse of the smallest
MAX_POINTS = 1 << 16


def rising(value: ArrayLike, name: str, length: int | None = None) -> FloatArray:
    """Return the knots of a map, or their values, which must rise; messages call it `name`."""
    array = real_array(value, name, length)
    if not 2 <= array.size <= MAX_POINTS:
        raise InvalidValueError(f"{name} must number between 2 and {MAX_POINTS}, not {array.size}")
    if not (array[1:] > array[:-1]).all() or np.abs(array).max() > LARGEST:
        raise InvalidValueError(f"{name} must be strictly increasing, within ±{LARGEST:g}")
    return array


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseLinear(IntensityMap):
    """A piecewise linear map of one channel; its outer pieces continue beyond the outer knots.

    Attributes
    ----------
    knots : (n,), at least two intensities, strictly increasing.
    values : (n,), what they are mapped to, strictly increasing.

    Raises
    ------
    InvalidValueError : knots or values that do not increase, or slopes beyond 1e100 or 1e-100.

    Examples
    --------
    >>> imap = PiecewiseLinear([0.0, 1.0, 3.0], [0.0, 10.0, 12.0])
    >>> imap([-1.0, 0.5, 2.0, 4.0])
    array([-10.,   5.,  11.,  13.])
    >>> imap.inverse()
    PiecewiseLinear(3 points from 0 to 12)
    """

    knots: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        knots = rising(self.knots, "knots")
        values = rising(self.values, "values", knots.size)
        self._set(knots=knots, values=values)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            slopes = np.diff(values) / np.diff(knots)
        if slopes.max() > _STEEPEST or slopes.min() < 1 / _STEEPEST:
            raise InvalidValueError(f"slopes must lie between {1 / _STEEPEST:g} and {_STEEPEST:g}")

    def __repr__(self) -> str:
        """Return the number and range of the knots."""
        first, last = self.knots[0], self.knots[-1]
        return f"PiecewiseLinear({self.knots.size} points from {first:g} to {last:g})"

    channels = 1

    def inverse(self) -> PiecewiseLinear:
        """Return the map with knots and values exchanged."""
        return PiecewiseLinear(self.values, self.knots)

    @cached_property
    def _slopes(self) -> FloatArray:
        return np.diff(self.values) / np.diff(self.knots)

    def _cell(self, x: FloatArray) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.knots, x, side="right") - 1, 0, self.knots.size - 2)

    def _mapped(self, x: FloatArray) -> FloatArray:
        cell = self._cell(x)
        return self.values[cell] + self._slopes[cell] * (x - self.knots[cell])

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._mapped(x), np.log(self._slopes[self._cell(x)])[:, 0]


# ── maps of each channel ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Channelwise(IntensityMap):
    """Maps of one channel each, the first for the first channel and so on.

    Attributes
    ----------
    maps : one map of one channel for each channel.

    Examples
    --------
    >>> from ndflow.transport import Affine
    >>> both = Channelwise((Affine(2.0, 0.0), Affine(1.0, 3.0)))
    >>> both([[1.0, 1.0]])
    array([[2., 4.]])
    >>> both.inverse()([[2.0, 4.0]])
    array([[1., 1.]])
    """

    maps: tuple[IntensityMap, ...]

    def __post_init__(self) -> None:
        """Check that each map has one channel."""
        if not self.maps or any(part.channels != 1 for part in self.maps):
            raise InvalidValueError("maps must hold one map of one channel for each channel")
        self._set(maps=tuple(self.maps))

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

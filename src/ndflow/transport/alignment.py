"""Moment alignment: the affine map that precedes any matching.

It is not optional: the L2 divergence is nearly flat where two densities hardly overlap, so a match
of densities that are not aligned goes nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ndflow.density import GaussianMixture, gaussian
from ndflow.errors import InvalidValueError
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, einsum, real_array

__all__ = ["Affine", "align"]

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
        if (
            not rows.size
            or not rows.all()
            or not np.linalg.cond(matrix / rows[:, np.newaxis]) < _SINGULAR
        ):
            raise InvalidValueError("matrix must be invertible")
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "matrix", matrix)

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


def align(
    source: GaussianMixture, target: GaussianMixture | None = None, *, whiten: bool = False
) -> Affine:
    """Return the affine map that gives `source` the mean and standard deviation of `target`.

    Parameters
    ----------
    source : a density.
    target : a density with the same channels. By default, zero mean and unit variance.
    whiten : align the whole covariance, with the symmetric matrix of optimal transport, instead of
        the variance of each channel. With one channel there is no difference.

    Raises
    ------
    InvalidValueError : the numbers of channels differ.

    Examples
    --------
    >>> scan = GaussianMixture([1.0], [100.0], [1 / 400])
    >>> align(scan)([80.0, 100.0, 120.0])
    array([-1.,  0.,  1.])
    """
    d = source.channels
    mean, covariance = np.zeros(d), np.eye(d)
    if target is not None:
        if target.channels != d:
            raise InvalidValueError(f"source has {d} channels, but target {target.channels}")
        mean, covariance = target.mean(), target.covariance()
    own = source.covariance()
    if whiten:
        matrix = gaussian.monge(own[np.newaxis], covariance[np.newaxis])[0]
    else:
        matrix = np.diag(np.sqrt(np.diagonal(covariance) / np.diagonal(own)))
    return Affine(matrix, mean - einsum("ij,j->i", matrix, source.mean()))

"""Scanners: how contrast differs between them, and new ones drawn from these differences.

A study has brought each of its scans to a reference. The inverse of the map of scan i, T_i, leads
back from the reference to the scan: it is how the scanner shows what the reference shows. Gain and
offset of a scanner are arbitrary, so we look at the *contrast curve*,

    c_i(x) = ln T_i'(x) − ∫ ln T_i' dR,

with R the distribution of intensities of the reference; multiplying or shifting the intensities of
a scan does not change it. It is 0 for a scan with the contrast of the reference, and positive where
the scan shows intensities farther apart. Any function on the grid is the curve of some strictly
increasing map, so curves can be averaged, added and multiplied as one likes. With c̄_s the mean
curve of the scans of site s and c̄ that of the sites, a new scanner is

    c = c̄ + b Σ_s ξ_s (c̄_s − c̄) / √(S − 1) + w Σ_i ζ_i (c_i − c̄_s(i)) / √(N − S),

where ξ and ζ are standard normal. For b = w = 1 its mean is that of the sites, and its covariance
is that of the sites plus that of scans within sites: the empirical ones, exactly. The last sum
ranges over many scans but few dimensions, so it is kept as as many rows as it has dimensions, which
hold no curve of any single person.

The drawn map is ``T(x) = p + q ∫ exp c``, with p and q such that intensities with the distribution
of the reference keep their mean and their standard deviation. It is the piecewise cubic through the
values of the trapezoidal rule with the slopes exp c. Between two knots its secant is the mean of
the two slopes, which is enough for it to increase strictly. Beyond the ends of the grid, it goes on
in straight lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.transport import DETERMINED_RANGE, Affine, IntensityMap, Tabulated
from ndflow.values import FloatArray, Value, einsum, instance, plural, positive, real_array, whole

__all__ = ["ScannerMaps", "contrast_curve", "contrast_grid", "scanner_maps"]

_POINTS = 65  # of a grid: 1/12 of a standard deviation apart, finer than any detail of a mixture
_FEWEST = 5  # scans
_DIGITS = 6  # of curves, after the point: more would only make files longer
_FLAT = 1e-6  # largest contrast curve of maps that are all straight
_STEEPEST = 30.0  # bound of the curves of a file, so that products of slopes are finite
_RISING = 10.0  # bound of the curve of a map, so that it rises strictly in double precision
_STRONGEST = 10.0  # multiple of the standard deviations of a study
_FARTHEST = 1e6  # bound of a grid, in standard deviations of the reference
_NARROWEST = 1e-3  # standard deviation of the reference, as a share of the grid
_NEGLIGIBLE = 1e-4  # share of the largest standard deviation that a direction must have


@dataclass(frozen=True, eq=False, repr=False)
class ScannerMaps(Value):
    """The distribution of maps from a reference to scanners, from which new ones are drawn.

    Attributes
    ----------
    reference : the density of the reference, with zero mean and unit variance.
    grid : (n,), intensities of the reference, strictly increasing.
    mean : (n,), the mean contrast curve of the sites.
    between, within : (any, n), contrast curves whose sum, each times a standard normal number,
        varies like sites, and like scans of one site; none where there is one site only, or one
        scan at each.
    scans, sites : how many there were.
    channel : what the images show, for example ``"T1w"``.

    Examples
    --------
    >>> reference = GaussianMixture([1.0], [0.0], [1.0])
    >>> curves = [[0.0, 0.2, 0.0], [0.0, -0.2, 0.0], [0.1, 0.0, -0.1], [0.0, 0.0, 0.0]]
    >>> grid = contrast_grid(reference, points=3)
    >>> scanners = scanner_maps(reference, grid, [*curves, curves[0]], ["A", "A", "B", "B", "B"])
    >>> scanners
    ScannerMaps(intensity, 5 scans of 2 sites)
    >>> scanners.draw(1)
    Tabulated(3 points from -3.29053 to 3.29053)
    >>> scanners.draw(1) == scanners.draw(np.random.default_rng(1))
    True
    """

    _most: ClassVar[dict[str, int]] = {"between": 1 << 10, "within": 1 << 10}

    reference: GaussianMixture
    grid: FloatArray
    mean: FloatArray
    between: FloatArray
    within: FloatArray
    scans: int
    sites: int
    channel: str = "intensity"

    def __post_init__(self) -> None:
        """Validate."""
        instance(self.reference, "reference", GaussianMixture)
        instance(self.channel, "channel", str)
        if self.reference.channels != 1:
            raise InvalidValueError("reference must have one channel")
        grid = real_array(self.grid, "grid", None)
        if not 2 <= grid.size <= 1 << 10 or not (np.diff(grid) > 0).all():
            raise InvalidValueError("grid must be 2 to 1024 numbers, strictly increasing")
        parts = {"grid": grid, "mean": real_array(self.mean, "mean", grid.size)}
        for name in ("between", "within"):
            rows = np.asarray(getattr(self, name))
            rows = rows.reshape(0, grid.size) if rows.size == 0 else rows
            parts[name] = real_array(rows, name, None, grid.size)
        bounds = {"grid": _FARTHEST, **dict.fromkeys(("mean", "between", "within"), _STEEPEST)}
        for name, bound in bounds.items():
            if np.abs(parts[name]).max(initial=0.0) > bound:
                raise InvalidValueError(f"{name} must lie within ±{bound:g}")
        for name, array in parts.items():
            object.__setattr__(self, name, array)
        object.__setattr__(self, "scans", whole(self.scans, "scans", 1, 1 << 53))
        object.__setattr__(self, "sites", whole(self.sites, "sites", 1, self.scans))
        if _moments(grid, self._shares)[1] < _NARROWEST * np.ptp(grid):
            raise InvalidValueError("grid must cover the intensities of the reference")

    def __repr__(self) -> str:
        """Return what the images show, and the numbers of scans and sites."""
        of = f"{plural(self.scans, 'scan')} of {plural(self.sites, 'site')}"
        return f"ScannerMaps({self.channel}, {of})"

    def draw(
        self,
        random: np.random.Generator | int,
        *,
        between: float = 1.0,
        within: float = 1.0,
        units: Affine | None = None,
    ) -> Tabulated:
        """Draw a scanner: a map from the intensities of the reference to those of the scanner.

        Parameters
        ----------
        random : a generator of random numbers, or the seed of one.
        between, within : how much scanners differ, and scans of one scanner, as multiples of the
            standard deviations that the study has found, at most 10; 0 leaves that part out.
        units : from the reference, which has zero mean and unit variance, to the units of the
            images. By default, they have those of the reference.

        Returns
        -------
        A strictly increasing map. It keeps the mean and the standard deviation of the reference.
        """
        generator = np.random.default_rng(random)
        numbers = generator.standard_normal(len(self.between) + len(self.within))
        strengths = [positive(between, "between", zero=True), positive(within, "within", zero=True)]
        if max(strengths) > _STRONGEST:
            raise InvalidValueError(
                f"between and within must be at most {_STRONGEST:g}, not {between:g} and "
                f"{within:g}; they are multiples of what the study has found, so try 1 or 2"
            )
        numbers[: len(self.between)] *= strengths[0]
        numbers[len(self.between) :] *= strengths[1]
        rows = np.concatenate([self.between, self.within])
        return self.map_of(self.mean + einsum("r,rn->n", numbers, rows), units)

    def map_of(self, curve: ArrayLike, units: Affine | None = None) -> Tabulated:
        """Return the map with a given contrast curve, cut at ±10; `units` as for `draw`."""
        given = real_array(curve, "curve", self.grid.size)
        slopes = np.exp(np.clip(given - _mean(given, self._shares), -_RISING, _RISING))
        steps = 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(self.grid)
        values = np.concatenate([[0.0], np.cumsum(steps)])
        own, new = (_moments(x, self._shares) for x in (self.grid, values))
        gain = own[1] / new[1]
        values = own[0] + gain * (values - new[0])
        factor, offset = (1.0, 0.0) if units is None else (units.matrix[0, 0], units.offset[0])
        return Tabulated(offset + factor * self.grid, offset + factor * values, gain * slopes)

    @cached_property
    def _shares(self) -> FloatArray:
        return _shares(self.reference, self.grid)


def contrast_grid(reference: GaussianMixture, *, points: int = _POINTS) -> FloatArray:
    """Return equidistant intensities over the range in which a reference determines maps."""
    low, high = reference.quantile(DETERMINED_RANGE).tolist()
    return np.linspace(low, high, points)


def contrast_curve(imap: IntensityMap, reference: GaussianMixture, grid: FloatArray) -> FloatArray:
    """Return the contrast curve of a map from a reference to a scan.

    Parameters
    ----------
    imap : the map.
    reference : the density of the reference.
    grid : (n,), intensities of the reference.

    Returns
    -------
    The logarithm of the slopes at these intensities, with a mean of 0 over the reference.

    Examples
    --------
    >>> reference = GaussianMixture([1.0], [0.0], [1.0])
    >>> contrast_curve(Affine(7.0, 300.0), reference, np.linspace(-2, 2, 3))
    array([0., 0., 0.])
    """
    slopes = imap.log_det_jacobian(grid)
    curve: FloatArray = slopes - _mean(slopes, _shares(reference, grid))
    return curve


def scanner_maps(
    reference: GaussianMixture,
    grid: ArrayLike,
    curves: Sequence[ArrayLike],
    sites: Sequence[str],
    *,
    channel: str = "intensity",
) -> ScannerMaps:
    """Return the distribution of scanners that scans of some sites belong to.

    Parameters
    ----------
    reference : the density of the reference.
    grid : (n,), intensities of the reference.
    curves : the contrast curve of each scan on this grid.
    sites : where each scan was made.
    channel : what the images show.

    Raises
    ------
    InvalidValueError : there are too few scans, their maps are straight, or all of them have the
        same contrast.
    """
    if len(curves) < _FEWEST:
        raise InvalidValueError(
            f"{plural(len(curves), 'scan')} cannot show how scanners differ; at least {_FEWEST} "
            f"are needed, better 5 of each site"
        )
    if len(sites) != len(curves):
        raise InvalidValueError(f"sites must be {len(curves)}, one per scan, not {len(sites)}")
    table = real_array(np.stack([np.asarray(one, float) for one in curves]), "curves", None, None)
    names = sorted(set(sites))
    if np.abs(table).max() < _FLAT:
        raise InvalidValueError(
            "the maps of all scans are straight lines, which change no contrast; "
            "use a study made with the method 'ndflow'"
        )
    if np.ptp(table, axis=0).max() < _FLAT:
        raise InvalidValueError(
            "all scans have the same contrast curve, which does not show how scanners differ; use "
            "a study of several sites, or the mode 'individual', in which each scan has a map of "
            "its own"
        )
    place = np.array([names.index(site) for site in sites])
    means = np.stack([table[place == site].mean(axis=0) for site in range(len(names))])
    mean = means.mean(axis=0)
    apart = (means - mean) / np.sqrt(max(1, len(names) - 1))
    inside = (table - means[place]) / np.sqrt(max(1, len(table) - len(names)))
    return ScannerMaps(
        reference,
        np.asarray(grid),
        mean.round(_DIGITS),
        _condensed(apart),
        _condensed(inside),
        len(table),
        len(names),
        channel,
    )


def _condensed(rows: FloatArray) -> FloatArray:
    """Return as few rows as possible with the same sum of outer products: the same covariance."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    kept = sizes > _NEGLIGIBLE * max(float(sizes.max()), _FLAT)
    found = directions[kept]
    largest = found[np.arange(len(found)), np.abs(found).argmax(axis=1)]
    condensed: FloatArray = found * (np.sign(largest) * sizes[kept])[:, np.newaxis]
    return condensed.round(_DIGITS)


def _shares(reference: GaussianMixture, grid: FloatArray) -> FloatArray:
    """Return the share of the reference that is nearest to each point of a grid."""
    edges = reference.cdf(0.5 * (grid[1:] + grid[:-1]))
    return np.diff(edges, prepend=0.0, append=1.0)


def _mean(values: FloatArray, shares: FloatArray) -> float:
    return float((values * shares).sum())


def _moments(values: FloatArray, shares: FloatArray) -> tuple[float, float]:
    """Return mean and standard deviation."""
    mean = _mean(values, shares)
    return mean, float(np.sqrt(_mean((values - mean) ** 2, shares)))

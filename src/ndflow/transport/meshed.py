"""Meshed flows: integrated at the nodes of a mesh, then interpolated at millions of voxels.

The displacement ``f(x) − x`` of a flow is smooth, so a cubic spline through its values on a regular
mesh is close to it wherever the mesh is fine enough. Most voxels lie in such places: peaks of the
density, where one component rules. Between components the displacement changes faster, and a mesh
that is fine enough there would have millions of nodes. So the spline is compared with the flow in
the middle of each cell of the mesh. A cell is used if the two agree there and in all cells around
it; points in other cells, and beyond the mesh, are integrated one by one. Cells without voxels are
not looked at: those beyond the densest ones that hold nearly all of the flow's source. Only the
flow and the shape of the mesh are stored; nodes are integrated when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.transport.flow import Flow
from ndflow.transport.maps import IntensityMap
from ndflow.values import FloatArray, real_array

_RANGE = (0.0005, 0.9995)  # quantiles of each channel between which there is a mesh
_INHABITED = 0.995  # share of the source in cells that are looked at
_MARGIN = 2  # nodes beyond, so that the conditions at the ends of a spline matter little
_SPACINGS = {2: (0.1, 0.07, 0.05, 0.035), 3: (0.1,)}  # to try, by channels, in sds of the target
_MAX_NODES = 1 << 22
_SAFE = 0.5  # of the tolerance, in the middle of a cell
_PROBES = 10_000  # points at which a mesh is compared with the flow itself
_BLOCK = 1 << 16  # points at a time
_FEWEST_STEPS, _MOST_STEPS = 4, 512
_STEP_SHARE = 0.25  # of the tolerance, for the integration


@dataclass(frozen=True, eq=False, repr=False)
class Meshed(IntensityMap):
    """A flow, interpolated on a regular mesh where that is accurate, and else integrated.

    Attributes
    ----------
    flow : the flow.
    low, high : (d,), the box that the mesh covers.
    spacing : (d,), the distance of the nodes in each channel.
    tolerance : (d,), the largest error of the interpolation in each channel.

    Raises
    ------
    InvalidValueError : an empty box, or too many nodes.

    Examples
    --------
    >>> from ndflow import GaussianMixture
    >>> one = GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    >>> two = GaussianMixture([1.0], [[1.0, 0.0]], [4 * np.eye(2)])
    >>> mesh = Meshed(Flow(one, two), [-3.0, -3.0], [3.0, 3.0], [0.5, 0.5], [1e-3, 1e-3])
    >>> mesh
    Meshed(289 nodes in 2 channels)
    >>> mesh([[2.0, 2.0]]).round(3)
    array([[2., 1.]])
    """

    flow: Flow
    low: FloatArray
    high: FloatArray
    spacing: FloatArray
    tolerance: FloatArray

    def __post_init__(self) -> None:
        """Validate."""
        d = self.flow.channels
        names = ("low", "high", "spacing", "tolerance")
        self._set(**{name: real_array(getattr(self, name), name, d) for name in names})
        if not all(part.min() > 0 for part in (self.high - self.low, self.spacing, self.tolerance)):
            raise InvalidValueError("high must exceed low; spacing and tolerance must be positive")
        if not _nodes_along(self.high - self.low, self.spacing).prod() <= _MAX_NODES:
            raise InvalidValueError(f"spacing must be wide enough for {_MAX_NODES} nodes at most")

    def __repr__(self) -> str:
        """Return the number of nodes and of channels."""
        return f"Meshed({self.nodes} nodes in {self.channels} channels)"

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return self.flow.channels

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return int(np.prod(self._shape))

    def inverse(self) -> IntensityMap:
        """Return the flow back, on a mesh of its own."""
        points = self.flow.target.sample(_PROBES, np.random.default_rng(0))
        return meshed(self.flow.inverse(), points, tolerance=self.tolerance).map

    @property
    def integrated(self) -> int:
        """The number of points that are integrated to make the mesh."""
        return int(self._needed.sum() + self._inhabited.sum())

    def interpolated(self, x: FloatArray) -> NDArray[np.bool_]:
        """Return which points, (n, d), are interpolated."""
        within = np.asarray(((x >= self.low) & (x <= self.high)).all(axis=1))
        places = np.floor(self._places(x[within])).astype(np.intp)
        within[within] = self._accurate[tuple(places)]
        return within

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(_nodes_along(self.high - self.low, self.spacing).astype(int).tolist())

    @cached_property
    def _inhabited(self) -> NDArray[np.bool_]:
        """Which cells are among the densest that hold nearly all of the source."""
        shape = tuple(count - 1 for count in self._shape)
        mass = self.flow.source.pdf(self._lattice(0.5, shape))
        order = np.argsort(-mass, kind="stable")
        share = np.cumsum(mass[order])
        result = np.zeros(mass.size, dtype=bool)
        result[order[: 1 + np.searchsorted(share, _INHABITED * share[-1])]] = True
        return result.reshape(shape)

    @cached_property
    def _needed(self) -> NDArray[np.bool_]:
        """Which nodes are corners of cells that are looked at, or near them."""
        from scipy import ndimage

        padded = np.zeros(self._shape, dtype=bool)
        padded[tuple(slice(0, -1) for _ in self._shape)] = self._inhabited
        corners = ndimage.maximum_filter(padded, size=2)  # a cell, and those before it
        result: NDArray[np.bool_] = ndimage.maximum_filter(corners, size=2 * _MARGIN + 1)
        return result

    @cached_property
    def _splines(self) -> list[FloatArray]:
        """The spline coefficients of the displacement in each channel.

        Nodes that are not needed get the displacement of the nearest one that is.
        """
        from scipy import ndimage

        needed = self._needed
        nodes = self._lattice(0.0, self._shape)[needed.ravel()]
        moved = self.flow._mapped(nodes) - nodes
        nearest = ndimage.distance_transform_edt(
            ~needed, return_distances=False, return_indices=True
        )
        number = np.cumsum(needed.ravel()).reshape(self._shape) - 1
        like = number[tuple(nearest)]
        return [ndimage.spline_filter(column[like], order=3, mode="mirror") for column in moved.T]

    @cached_property
    def _accurate(self) -> NDArray[np.bool_]:
        """Which cells are used: inhabited, and the spline is accurate there and around."""
        from scipy import ndimage

        inhabited = self._inhabited
        middles = self._lattice(0.5, inhabited.shape)[inhabited.ravel()]
        off = np.abs(self._interpolation(middles) - self.flow._mapped(middles))
        wrong = np.zeros(inhabited.shape, dtype=bool)
        wrong[inhabited] = (off > _SAFE * self.tolerance).any(axis=1)
        result: NDArray[np.bool_] = inhabited & ~ndimage.maximum_filter(wrong, size=3)
        return result

    def _lattice(self, shift: float, shape: tuple[int, ...]) -> FloatArray:
        """Return the points of a lattice, (n, d): the nodes, or the middles of cells."""
        axes = (
            start + step * (np.arange(count) - _MARGIN + shift)
            for start, step, count in zip(self.low, self.spacing, shape, strict=True)
        )
        grids = np.meshgrid(*axes, indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    def _places(self, x: FloatArray) -> FloatArray:
        """Return points in units of the mesh, (d, n)."""
        return np.ascontiguousarray(((x - self.low) / self.spacing + _MARGIN).T)

    def _mapped(self, x: FloatArray) -> FloatArray:
        y = np.empty_like(x)
        for start in range(0, len(x), _BLOCK):
            y[start : start + _BLOCK] = self._block(x[start : start + _BLOCK])
        return y

    def _block(self, x: FloatArray) -> FloatArray:
        near = self.interpolated(x)
        y = np.empty_like(x)
        y[near] = self._interpolation(x[near])
        y[~near] = self.flow._mapped(x[~near])
        return y

    def _interpolation(self, x: FloatArray) -> FloatArray:
        from scipy import ndimage

        places = self._places(x)
        y = x.copy()
        for channel, spline in enumerate(self._splines):
            y[:, channel] += ndimage.map_coordinates(
                spline, places, order=3, mode="mirror", prefilter=False
            )
        return y

    def _with_log_det(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._mapped(x), self.flow._with_log_det(x)[1]


def _nodes_along(size: FloatArray, spacing: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        result: FloatArray = np.ceil(size / spacing) + 1 + 2 * _MARGIN
    return result


@dataclass(frozen=True)
class MeshedFlow:
    """The result of `meshed`.

    Attributes
    ----------
    map : the flow on a mesh; or as it is, where a mesh would not pay.
    error : the largest error of the mesh at the points, as a multiple of the tolerance; 0 where
        there is none.
    share : of the points that are interpolated.
    """

    map: Meshed | Flow
    error: float
    share: float

    @property
    def flow(self) -> Flow:
        """The flow."""
        return self.map if isinstance(self.map, Flow) else self.map.flow


def meshed(
    flow: Flow, points: FloatArray, *, tolerance: FloatArray, voxels: int = 1_000_000
) -> MeshedFlow:
    """Put a flow on a mesh, as fine as pays for a number of voxels.

    With more than three channels none does: a mesh would need more nodes than there are voxels.

    Parameters
    ----------
    flow : the flow; its number of steps is chosen anew, for a quarter of the tolerance.
    points : (n, d), at least a hundred, a sample of what is to be mapped.
    tolerance : (d,), the largest error allowed in each channel.
    voxels : how many points are to be mapped; a mesh must save more than it costs.

    Examples
    --------
    >>> from ndflow import GaussianMixture
    >>> one = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [2.0, 1.0]], [np.eye(2)] * 2)
    >>> two = GaussianMixture([0.5, 0.5], [[0.0, 0.5], [2.0, 0.5]], [2 * np.eye(2)] * 2)
    >>> points = one.sample(1000, np.random.default_rng(0))
    >>> found = meshed(Flow(one, two), points, tolerance=np.full(2, 1e-3))
    >>> found.error < 1, found.share > 0.9
    (True, True)
    """
    probes = points[:: max(1, len(points) // _PROBES)][:_PROBES]
    accurate, truth = _integrated(flow, probes, tolerance)
    low, high = np.quantile(points, _RANGE, axis=0)
    unit = np.sqrt(np.diagonal(flow.target.covariance()))
    high = np.maximum(high, low + 1e-9 * unit)
    best, least, spent = MeshedFlow(accurate, 0.0, 0.0), float(voxels), 0.0
    if 0.5 * voxels < (2 + 2 * _MARGIN) ** flow.channels:
        return best  # the nodes around a single cell cost more than they save
    for spacing in _SPACINGS.get(flow.channels, ()):
        if _nodes_along(high - low, spacing * unit).prod() > _MAX_NODES:
            break
        trial = Meshed(accurate, low, high, spacing * unit, tolerance)
        spent += trial.integrated
        if spent > 0.5 * least:
            break
        share = float(trial.interpolated(probes).mean())
        error = float((np.abs(trial._mapped(probes) - truth) / tolerance).max())
        cost = (1 - share) * voxels
        if cost < least and error <= 1:
            best, least = MeshedFlow(trial, error, share), cost
    return best


def _integrated(flow: Flow, probes: FloatArray, tolerance: FloatArray) -> tuple[Flow, FloatArray]:
    """Return the flow with as many steps as it needs, and where it takes the probes.

    Twice as many steps have a sixteenth of the error, so their difference is the error of the fewer
    ones. The way back must end where the way there began: where the flow compresses, errors grow on
    the way back.

    Parameters
    ----------
    flow : the flow; its number of steps is chosen anew, for a quarter of the tolerance.
    probes : (n, d), points that tell.
    tolerance : (d,), the largest error allowed in each channel.
    """
    steps = _FEWEST_STEPS
    rough = flow.with_steps(steps)._mapped(probes)
    while steps < _MOST_STEPS:
        fine = flow.with_steps(2 * steps)._mapped(probes)
        if (np.abs(fine - rough) <= _STEP_SHARE * tolerance).all():
            back = flow.with_steps(steps).inverse()._mapped(rough)
            if (np.abs(back - probes) <= tolerance).all():
                break
        steps, rough = 2 * steps, fine
    return flow.with_steps(steps), rough

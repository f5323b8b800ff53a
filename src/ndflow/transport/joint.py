"""From the voxels of several channels to a density, in three stages.

1. Each channel is mapped to the marginal of the target by itself, as if it were alone. These maps
   are exact, and do most of the work; what they cannot change is how channels depend on each other.
2. The density of the mapped voxels is fitted anew, matched to the target, and carried there along a
   flow. The match starts from blurred densities, so that components find peaks that are further
   away than they are wide, and the flow fades out far from all voxels.
3. Each channel is mapped to its marginal once more, because a match of densities of several
   channels is less exact than that.

How far the voxels are from the target is measured after each stage by their sliced Wasserstein
distance. A stage that does not bring them closer is left out, so that the result is never further
away than that of the maps of each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, fit, histogram
from ndflow.density.condense import joint_histogram
from ndflow.density.mixture import marginal, projected
from ndflow.errors import InvalidValueError
from ndflow.transport.flow import Flow, with_far_field
from ndflow.transport.maps import Chain, Channelwise, IntensityMap, align
from ndflow.transport.match import match
from ndflow.transport.normalising_map import DETERMINED_RANGE, normalising_map
from ndflow.transport.tabulated import tabulate
from ndflow.values import FloatArray, Record, einsum, real_array

# ── sliced distances ──────────────────────────────────────────────────────────────────────────────
# How far points of several channels are from a density: sliced Wasserstein distance [bonneel2015].
#
# The distance W1 of two distributions on a line is the mean difference of their quantiles. Slices
# of several channels are such distributions: the points and the density, projected onto a
# direction. The distance is the mean over directions that are fixed once and for all, in units in
# which the density has unit variance in each channel. A projected mixture is a mixture, so only the
# points are a sample.

_LEVELS = (np.arange(400) + 0.5) / 400
_DIRECTIONS = 64


@dataclass(frozen=True, eq=False)
class Slices:
    """A density that is sliced once, for the distances of several samples from it.

    Attributes
    ----------
    mixture : the density, with d channels.

    Examples
    --------
    >>> normal = Slices(GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)]))
    >>> points = normal.mixture.sample(10_000, np.random.default_rng(0))
    >>> round(normal.distance(points), 1), round(normal.distance(points + 1.0), 1)
    (0.0, 0.9)
    """

    mixture: GaussianMixture

    def distance(self, points: FloatArray) -> float:
        """Return the sliced Wasserstein distance of points from the density.

        Parameters
        ----------
        points : (n, d), a sample.

        Returns
        -------
        The mean distance over directions, in standard deviations of the density.
        """
        differences = []
        for vector, goal in zip(self._vectors, self._goals, strict=True):
            line = einsum("ni,i->n", points, vector)
            differences.append(np.abs(_quantiles(np.sort(line)) - goal).mean())
        return float(np.mean(differences))

    @cached_property
    def _vectors(self) -> FloatArray:
        d = self.mixture.channels
        spread = np.sqrt(np.diagonal(self.mixture.covariance()))
        vectors = np.random.default_rng(0).standard_normal((_DIRECTIONS, d))
        vectors /= np.sqrt((vectors**2).sum(axis=1, keepdims=True)) * spread
        return vectors

    @cached_property
    def _goals(self) -> list[FloatArray]:
        """The quantiles of the density along each direction."""
        return [projected(self.mixture, vector).quantile(_LEVELS) for vector in self._vectors]


def _quantiles(ordered: FloatArray) -> FloatArray:
    places = _LEVELS * len(ordered) - 0.5
    return np.interp(places, np.arange(len(ordered)), ordered)


# ── meshed flows ──────────────────────────────────────────────────────────────────────────────────
# Meshed flows: integrated at the nodes of a mesh, then interpolated at millions of voxels.
#
# The displacement ``f(x) − x`` of a flow is smooth, so a cubic spline through its values on a
# regular mesh is close to it wherever the mesh is fine enough. Most voxels lie in such places:
# peaks of the density, where one component rules. Between components the displacement changes
# faster, and a mesh that is fine enough there would have millions of nodes. So the spline is
# compared with the flow in the middle of each cell of the mesh. A cell is used if the two agree
# there and in all cells around it; points in other cells, and beyond the mesh, are integrated one
# by one. Cells without voxels are not looked at: those beyond the densest ones that hold nearly all
# of the flow's source. Only the flow and the shape of the mesh are stored; nodes are integrated
# when they are needed.

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


@dataclass(frozen=True, eq=False)
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

    @property
    def channels(self) -> int:
        """The number d of channels."""
        return self.flow.channels

    def inverse(self) -> IntensityMap:
        """Return the flow back, on a mesh of its own."""
        points = self.flow.target.sample(_PROBES, np.random.default_rng(0))
        return meshed(self.flow.inverse(), points, tolerance=self.tolerance)

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
        return ndimage.maximum_filter(corners, size=2 * _MARGIN + 1)

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
        return inhabited & ~ndimage.maximum_filter(wrong, size=3)

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
        y = x.copy()
        for start in range(0, len(x), _BLOCK):
            block = y[start : start + _BLOCK]
            near = self.interpolated(block)
            block[near] = self._interpolation(block[near])
            block[~near] = self.flow._mapped(block[~near])
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


def meshed(
    flow: Flow, points: FloatArray, *, tolerance: FloatArray, voxels: int = 1_000_000
) -> Meshed | Flow:
    """Put a flow on a mesh, as fine as pays for a number of voxels.

    With more than three channels none does: a mesh would need more nodes than there are voxels.

    Parameters
    ----------
    flow : the flow; its number of steps is chosen anew, for a quarter of the tolerance.
    points : (n, d), at least a hundred, a sample of what is to be mapped.
    tolerance : (d,), the largest error allowed in each channel.
    voxels : how many points are to be mapped; a mesh must save more than it costs.

    Returns
    -------
    The flow on a mesh that is within the tolerance at all points; or as it is, where no mesh pays.

    Examples
    --------
    >>> from ndflow import GaussianMixture
    >>> one = GaussianMixture([0.5, 0.5], [[0.0, 0.0], [2.0, 1.0]], [np.eye(2)] * 2)
    >>> two = GaussianMixture([0.5, 0.5], [[0.0, 0.5], [2.0, 0.5]], [2 * np.eye(2)] * 2)
    >>> points = one.sample(1000, np.random.default_rng(0))
    >>> mesh = meshed(Flow(one, two), points, tolerance=np.full(2, 1e-3))
    >>> bool(mesh.interpolated(points).mean() > 0.9)
    True
    """
    probes = points[:: max(1, len(points) // _PROBES)][:_PROBES]
    accurate, truth = _integrated(flow, probes, tolerance)
    low, high = np.quantile(points, _RANGE, axis=0)
    unit = np.sqrt(np.diagonal(flow.target.covariance()))
    high = np.maximum(high, low + 1e-9 * unit)
    best: Meshed | Flow = accurate
    least, spent = float(voxels), 0.0
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
            best, least = trial, cost
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
    rough = replace(flow, steps=steps)._mapped(probes)
    while steps < _MOST_STEPS:
        fine = replace(flow, steps=2 * steps)._mapped(probes)
        if (np.abs(fine - rough) <= _STEP_SHARE * tolerance).all():
            back = replace(flow, steps=steps).inverse()._mapped(rough)
            if (np.abs(back - probes) <= tolerance).all():
                break
        steps, rough = 2 * steps, fine
    return replace(flow, steps=steps), rough


# ── the three stages ──────────────────────────────────────────────────────────────────────────────

EFFECTIVE_COUNT = 1e5  # voxels that several channels are worth: a joint density has more to it
_BLURS = (1.0, 0.5, 0.25)
REGULARISATION = 3e-4  # with less, where components go is hardly determined
_TABLE = 1e-4  # error of the map of one channel, in standard deviations
_MESH = 2e-4  # error of the mesh, in standard deviations of the target
_SAMPLE = 50_000  # voxels at which distances and the Jacobian are measured


@dataclass(frozen=True)
class JointFigures(Record):
    """What was measured on the way.

    Attributes
    ----------
    aligned, channelwise, finished : the sliced Wasserstein distance of the voxels from the target,
        in standard deviations: after alignment of mean and standard deviation alone, after the maps
        of each channel, and after the last maps of each channel.
    kept : whether the joint flow is part of the map; it is not if it would lead away from the
        target.
    components : of the density of the mapped voxels.
    determinants : the smallest and the largest determinant of the Jacobian of the joint flow, at
        voxels.
    moved : the root mean square displacement by the joint flow, in standard deviations.
    """

    aligned: float
    channelwise: float
    finished: float
    kept: bool
    components: int
    determinants: tuple[float, float]
    moved: float


@dataclass(frozen=True)
class JointMap:
    """The result of `joint_map`.

    Attributes
    ----------
    map : the map of all channels.
    figures : what was measured on the way.
    """

    map: IntensityMap
    figures: JointFigures


def joint_map(
    voxels: FloatArray,
    marginals: Sequence[GaussianMixture],
    target: GaussianMixture,
    *,
    regularisation: float = REGULARISATION,
    effective_count: float = EFFECTIVE_COUNT,
) -> JointMap:
    """Return the map that takes the voxels of several channels to a density.

    Parameters
    ----------
    voxels : (n, d), finite.
    marginals : the density of each of the d channels of the voxels, as `fit` estimates it.
    target : the density to reach, with d channels.
    regularisation : γ of the joint match, see `match`.
    effective_count : how many independent voxels the mapped voxels are worth, see `fit`.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> voxels = generator.normal(size=(20_000, 2)) * [10.0, 20.0] + [100.0, 200.0]
    >>> marginals = [fit(histogram(column)).mixture for column in voxels.T]
    >>> tilted = GaussianMixture([1.0], [[0.0, 0.0]], [np.linalg.inv([[1.0, 0.6], [0.6, 1.0]])])
    >>> found = joint_map(voxels, marginals, tilted)
    >>> np.cov(found.map(voxels).T).round(1)
    array([[1. , 0.6],
           [0.6, 1. ]])
    """
    sd = np.sqrt(np.diagonal(target.covariance()))
    first = _channel_maps(marginals, target)
    mapped = first(voxels)
    fitted = fit(joint_histogram(mapped), effective_count=effective_count).mixture
    affine = align(fitted, target)
    aligned = fitted.transformed(affine.matrix, affine.offset)
    found = match(aligned, target, regularisation=regularisation, blurs=_BLURS)
    sample = _thinned(mapped)
    start = affine(sample)
    flow = Flow(*with_far_field(found.source, found.matched))
    way = meshed(flow, start, tolerance=_MESH * sd, voxels=len(voxels))
    end, log_det = way.with_log_det_jacobian(start)
    after_flow = [fit(histogram(column)).mixture for column in end.T]
    last = _channel_maps(after_flow, target)
    slices = Slices(target)
    before, after, finished = (slices.distance(x) for x in (sample, end, last(end)))
    stages: list[IntensityMap] = [first, affine, way, last]
    kept = min(after, finished) < before
    if not kept:
        stages = [first]
    elif after <= finished:
        stages.pop()
    figures = JointFigures(
        aligned=_aligned_distance(_thinned(voxels), slices),
        channelwise=before,
        finished=finished,
        kept=kept,
        components=fitted.components,
        determinants=(float(np.exp(log_det.min())), float(np.exp(log_det.max()))),
        moved=float(np.sqrt(np.mean((((end - start) / sd) ** 2).sum(axis=1)))),
    )
    return JointMap(Chain(tuple(stages)), figures)


def _thinned(voxels: FloatArray) -> FloatArray:
    """Return a sample of the voxels, evenly spread over them."""
    return voxels[:: max(1, len(voxels) // _SAMPLE)]


def _channel_maps(marginals: Sequence[GaussianMixture], target: GaussianMixture) -> Channelwise:
    """Return the map of each channel by itself."""
    maps = []
    for channel, source in enumerate(marginals):
        goal = marginal(target, channel)
        exact = normalising_map(source, goal, objective="cramer")
        low, high = source.quantile(DETERMINED_RANGE).tolist()
        spread = float(np.sqrt(goal.covariance()[0, 0]))
        maps.append(tabulate(exact, low, high, tolerance=_TABLE * spread))
    return Channelwise(tuple(maps))


def _aligned_distance(sample: FloatArray, slices: Slices) -> float:
    target = slices.mixture
    centred = sample - sample.mean(axis=0)
    scale = np.sqrt(np.diagonal(target.covariance())) / sample.std(axis=0)
    return slices.distance(centred * scale + target.mean())

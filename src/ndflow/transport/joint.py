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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ndflow.density import GaussianMixture, fit, histogram
from ndflow.density.condense import joint_histogram
from ndflow.density.mixture import marginal, projected
from ndflow.transport.flow import Flow, with_far_field
from ndflow.transport.maps import Chain, Channelwise, IntensityMap, align
from ndflow.transport.match import match
from ndflow.transport.meshed import meshed
from ndflow.transport.normalising_map import DETERMINED_RANGE, normalising_map
from ndflow.transport.tabulated import tabulate
from ndflow.values import FloatArray, Record, einsum

# ── sliced distances ──────────────────────────────────────────────────────────────────────────────
# How far points of several channels are from a density: sliced Wasserstein distance [bonneel2015].
#
# The distance W1 of two distributions on a line is the mean difference of their quantiles. Slices
# of several channels are such distributions: the points and the density, projected onto a
# direction. The distance is the mean over directions that are fixed once and for all, in units in
# which the density has unit variance in each channel. A projected mixture is a mixture, so only the
# points are a sample.

_LEVELS = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True, eq=False)
class Slices:
    """A density that is sliced once, for the distances of several samples from it.

    Attributes
    ----------
    mixture : the density, with d channels.
    directions : how many.

    Examples
    --------
    >>> normal = Slices(GaussianMixture([1.0], [[0.0, 0.0]], [np.eye(2)]))
    >>> points = normal.mixture.sample(10_000, np.random.default_rng(0))
    >>> round(normal.distance(points), 1), round(normal.distance(points + 1.0), 1)
    (0.0, 0.9)
    """

    mixture: GaussianMixture
    directions: int = 64

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
        vectors = np.random.default_rng(0).standard_normal((self.directions, d))
        vectors /= np.sqrt((vectors**2).sum(axis=1, keepdims=True)) * spread
        return vectors

    @cached_property
    def _goals(self) -> list[FloatArray]:
        """The quantiles of the density along each direction."""
        return [projected(self.mixture, vector).quantile(_LEVELS) for vector in self._vectors]


def _quantiles(ordered: FloatArray) -> FloatArray:
    places = _LEVELS * len(ordered) - 0.5
    result: FloatArray = np.interp(places, np.arange(len(ordered)), ordered)
    return result


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
    aligned, channelwise, joint, finished : the sliced Wasserstein distance of the voxels from the
        target, in standard deviations: after alignment of mean and standard deviation alone, after
        the maps of each channel, after the joint flow, and after the last maps of each channel.
    kept : whether the joint flow is part of the map; it is not if it would lead away from the
        target.
    converged : whether the match did.
    components : of the density of the mapped voxels.
    steps : of the integration.
    interpolated : the share of the voxels that are interpolated on a mesh; the others are
        integrated.
    mesh_error : the largest difference of the two, in standard deviations.
    determinants : the smallest and the largest determinant of the Jacobian of the joint flow, at
        voxels.
    moved : the root mean square displacement by the joint flow, in standard deviations.
    """

    aligned: float
    channelwise: float
    joint: float
    finished: float
    kept: bool
    converged: bool
    components: int
    steps: int
    interpolated: float
    mesh_error: float
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
    found = match(
        fitted.transformed(affine.matrix, affine.offset),
        target,
        regularisation=regularisation,
        blurs=_BLURS,
    )
    sample = _thinned(mapped)
    start = affine(sample)
    flow = Flow(*with_far_field(found.source, found.matched))
    way = meshed(flow, start, tolerance=_MESH * sd, voxels=len(voxels))
    end, log_det = way.map.with_log_det_jacobian(start)
    after_flow = [fit(histogram(column)).mixture for column in end.T]
    last = _channel_maps(after_flow, target)
    slices = Slices(target)
    before, after, finished = (slices.distance(x) for x in (sample, end, last(end)))
    stages: list[IntensityMap] = [first, affine, way.map, last]
    kept = min(after, finished) < before
    if not kept:
        stages = [first]
    elif after <= finished:
        stages.pop()
    figures = JointFigures(
        aligned=_aligned_distance(_thinned(voxels), slices),
        channelwise=before,
        joint=after,
        finished=finished,
        kept=kept,
        converged=found.status.converged,
        components=fitted.components,
        steps=way.flow.steps,
        interpolated=way.share,
        mesh_error=_MESH * way.error,
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

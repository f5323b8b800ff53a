"""Lesion detection: mass that a scan has, but no scan of the healthy population.

The aligned density q of a scan is compared with the highest density of healthy scans, the *ceiling*
``P(x) = max_i max_{|y−x| ≤ δ} q_i(y)`` over the training scans i. Component k of the scan has the
excess

    e_k = E_{q_k} [max(0, 1 − (1 − m) P(x) / q(x))],                                          (1)

the share of the component that no healthy scan accounts for; m is the mass of the lesions already
found. The ceiling is used, and not the average density, because the amount of CSF differs a lot
between healthy people: what one of them has should raise no alarm in another. Densities below
`_FAINT` are ignored: a few voxels of a vessel are not a lesion.

Components whose excess exceeds a threshold are lesions. The threshold is the largest excess that
any component of a training scan has under the ceiling of the *other* training scans, but at least
`_CLEARLY`. The probability of a false alarm in another healthy scan of the same kind is therefore
at most about 1/(n + 1) for n training scans.

Scans of *another* kind, such as those of a scanner that the reference does not know, are another
matter, and three rules keep them from being taken for ill.

*Not at the end of CSF.* Most false alarms are CSF: how much of it there is depends on age and on
the mask, and how far it lies from GM and WM depends on the scanner. So components on that side of
the median of the reference have no excess. CSF is the longer tail of a brain: below the median on
T1w and FLAIR, above it on T2w. Lesions that look like CSF cannot be found in a histogram anyway.

*Only if the rest is familiar.* The healthy part of the scan, with the mass of its lesions given
back to the nearest tissue, must overlap with that of some training scan as much as those overlap
with each other (`ndflow.population.healthy_densities`), less m/2: up to half of what is given back
may have come from another tissue.

*Never more than a tenth.* Loads of bright lesions reach about 100 ml of the 1400 ml of a brain, or
7 %. Where more than `_LARGEST` would be a lesion, nothing is.

Aligning moments does not work here, because a lesion moves them, and so does CSF. Scans are aligned
with the reference as in `ndflow.population.robust_alignment` instead. What remains of the effect of
a lesion on the alignment vanishes when the lesion is removed: detect, align without what was found,
detect again, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.population.healthy_densities import HealthyDensities
from ndflow.population.lesion_preserving import healed, without_components
from ndflow.population.robust_alignment import robust_align
from ndflow.transport import Affine
from ndflow.values import FloatArray, Value, instance, plural, real, real_array, whole

__all__ = ["HealthyCeiling", "LesionFinding", "find_lesions", "learn_ceiling"]

_NODES = np.arange(-256, 257) / 32  # of the ceiling, in standard deviations
_AROUND = 3  # nodes to either side: δ, by how much the alignment of a tissue may be off
_FAINT = 1e-3  # density: a thousandth of the mass per standard deviation
_CLEARLY = 0.1  # smallest threshold
_ROUNDS = 10
_MOST = 0.25  # of the mass, in one round; what is left of a scan could not be aligned
_LARGEST = 0.1  # share of a scan that may be a lesion
_TAILS = (0.01, 0.5, 0.99)  # quantiles by which the longer tail is found
_EVEN = 1e-6  # of their range: tails that differ by less are equal, and CSF is dark
_SCORES = special.ndtri((np.arange(200) + 0.5) / 200)  # points that carry equal mass


@dataclass(frozen=True, eq=False, repr=False)
class HealthyCeiling(Value):
    """The highest densities of healthy scans, and how much more than that is a lesion.

    Attributes
    ----------
    nodes : (n,), at least two increasing intensities, in the space of the reference.
    log_density : (n,), the logarithm of the highest density that any training scan has there.
    threshold : the excess above which a component is a lesion; with 1, the largest, nothing is.
    scans : the number of training scans.
    densities : how the training scans look as a whole; None in references of older versions.

    Examples
    --------
    >>> HealthyCeiling([-9.0, 9.0], np.log([0.4, 0.4]), threshold=0.1, scans=20)
    HealthyCeiling(20 scans, threshold=0.1)
    """

    nodes: FloatArray
    log_density: FloatArray
    threshold: float
    scans: int
    densities: HealthyDensities | None = None

    def __post_init__(self) -> None:
        """Validate."""
        nodes = real_array(self.nodes, "nodes", None)
        if nodes.size < 2 or not (np.diff(nodes) > 0).all():
            raise InvalidValueError("nodes must be two or more increasing numbers")
        object.__setattr__(self, "nodes", nodes)
        log_density = real_array(self.log_density, "log_density", nodes.size)
        object.__setattr__(self, "log_density", log_density)
        threshold = real(self.threshold, "threshold")
        if not 0 < threshold <= 1:
            raise InvalidValueError(f"threshold must lie between 0 and 1, not {threshold:g}")
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "scans", whole(self.scans, "scans", 1, 1 << 53))
        instance(self.densities, "densities", HealthyDensities | None)

    def __repr__(self) -> str:
        """Return the number of scans and the threshold."""
        return f"HealthyCeiling({plural(self.scans, 'scan')}, threshold={self.threshold:.3g})"

    def transformed(self, affine: Affine) -> HealthyCeiling:
        """Return the ceiling in other units, which increase with these."""
        slope = float(affine.matrix[0, 0])
        return HealthyCeiling(
            affine(self.nodes),
            self.log_density - np.log(slope),
            self.threshold,
            self.scans,
            self.densities and self.densities.transformed(affine),
        )


@dataclass(frozen=True, eq=False, repr=False)
class LesionFinding(Value):
    """The result of `find_lesions`.

    Attributes
    ----------
    indices : the components that are lesions, in increasing order; often none.
    excesses : (K,), the excess of every component, see equation (1) of the module; zero at the end
        of CSF.
    mass : the share of the scan in these components, at most a tenth.
    suspected : the share that exceeds the healthy ceiling, lesion or not.
    overlap : that of its healthy part with the most similar training scan.
    needed : the overlap that it should have.

    Examples
    --------
    >>> found = LesionFinding((1,), [0.0, 0.8], mass=0.05, suspected=0.05, overlap=0.97, needed=0.9)
    >>> found
    LesionFinding(1 of 2 components, mass=0.05)
    >>> found.unlike
    False
    """

    indices: tuple[int, ...]
    excesses: FloatArray
    mass: float
    suspected: float
    overlap: float
    needed: float

    def __post_init__(self) -> None:
        """Validate."""
        excesses = real_array(self.excesses, "excesses", None)
        instance(self.indices, "indices", tuple | list)
        places = tuple(whole(i, "each of indices", 0, excesses.size - 1) for i in self.indices)
        object.__setattr__(self, "indices", places)
        object.__setattr__(self, "excesses", excesses)
        for name in ("mass", "suspected", "overlap", "needed"):
            object.__setattr__(self, name, real(getattr(self, name), name))

    def __repr__(self) -> str:
        """Return how many components are lesions, and their mass."""
        count = plural(self.excesses.size, "component")
        return f"LesionFinding({len(self.indices)} of {count}, mass={self.mass:.3g})"

    @property
    def unlike(self) -> bool:
        """Whether the scan as a whole differs from the training scans: nothing is a lesion then."""
        return self.suspected > _LARGEST or self.overlap < self.needed


def learn_ceiling(
    mixtures: Sequence[GaussianMixture], reference: GaussianMixture
) -> HealthyCeiling:
    """Return the highest densities of healthy scans.

    Parameters
    ----------
    mixtures : densities of scans without lesions, of one channel, in any units and order. There
        should be twenty or more, of the scanners on which lesions will be looked for. With five
        training scans, one healthy scan in ten is a false alarm; with one, there are no alarms at
        all.
    reference : the density that they are aligned with.

    Raises
    ------
    InvalidValueError : no mixtures, or several channels.

    Examples
    --------
    >>> scans = [
    ...     GaussianMixture([csf, 0.5, 0.5 - csf], [-1.6, 0.0, 1.1], [8.0, 9.0, 25.0])
    ...     for csf in np.linspace(0.1, 0.3, 20)
    ... ]
    >>> learn_ceiling(scans, scans[10])
    HealthyCeiling(20 scans, threshold=0.1)
    """
    if not mixtures:
        raise InvalidValueError("mixtures must hold at least one training scan")
    aligned = []
    for mixture in mixtures:
        affine = robust_align(mixture, reference)
        aligned.append(mixture.transformed(affine.matrix, affine.offset))
    around = np.array([_widened(np.maximum(own.pdf(_NODES), _FAINT)) for own in aligned])
    top = around.max(axis=0)
    highest = around.argmax(axis=0)
    # Without one scan, the ceiling is the second highest density wherever that scan is highest.
    second = np.sort(around, axis=0)[-2] if len(around) > 1 else np.full(top.size, _FAINT)
    threshold = _CLEARLY if len(around) > 1 else 1.0
    for i, own in enumerate(aligned):
        others = np.log(np.where(highest == i, second, top))
        threshold = max(threshold, float(_excesses(own, reference, _NODES, others).max()))
    return HealthyCeiling(
        _NODES,
        np.log(top),
        min(threshold, 1.0),
        len(mixtures),
        HealthyDensities.learn(aligned),
    )


def find_lesions(
    mixture: GaussianMixture, reference: GaussianMixture, ceiling: HealthyCeiling
) -> LesionFinding:
    """Return the components of a scan that the healthy population does not account for.

    Parameters
    ----------
    mixture : the density of the scan, in one channel and any units.
    reference : the density that `learn_ceiling` was given.
    ceiling : the result of `learn_ceiling`.

    Examples
    --------
    >>> scans = [
    ...     GaussianMixture([csf, 0.5, 0.5 - csf], [-1.6, 0.0, 1.1], [8.0, 9.0, 25.0])
    ...     for csf in np.linspace(0.1, 0.3, 20)
    ... ]
    >>> means, precisions = [-1.6, 0.0, 1.1, 3.0], [8.0, 9.0, 25.0, 20.0]
    >>> scan = GaussianMixture([0.2, 0.5, 0.25, 0.05], means, precisions)
    >>> found = find_lesions(scan, scans[10], learn_ceiling(scans, scans[10]))
    >>> found.indices, found.mass
    ((3,), 0.05)
    """
    instance(ceiling, "ceiling", HealthyCeiling)
    densities = ceiling.densities or HealthyDensities.of_average(reference)
    found: tuple[int, ...] = ()
    for _ in range(_ROUNDS):
        affine = robust_align(without_components(mixture, found), reference)
        own = mixture.transformed(affine.matrix, affine.offset)
        log_density = ceiling.log_density + np.log(1 - _share(mixture, found))
        excesses = _excesses(own, reference, ceiling.nodes, log_density)
        suspects = tuple(np.flatnonzero(excesses > ceiling.threshold).tolist())
        suspected = _share(mixture, suspects)
        if suspected >= _MOST or suspects == found:
            break
        found = suspects
    overlap = densities.overlap(healed(own, found))
    needed = densities.least - _share(mixture, found) / 2
    if suspected > _LARGEST or overlap < needed:
        found = ()
    return LesionFinding(
        found, excesses, _share(mixture, found), suspected, overlap, max(needed, 0.0)
    )


def _share(mixture: GaussianMixture, components: tuple[int, ...]) -> float:
    return float(mixture.weights[list(components)].sum())


def _excesses(
    mixture: GaussianMixture,
    reference: GaussianMixture,
    nodes: FloatArray,
    log_density: FloatArray,
) -> FloatArray:
    """Return the excess of each component, equation (1); zero at the end of CSF."""
    x = mixture.means + np.sqrt(mixture.covariances[:, :, 0]) * _SCORES
    log_ratio = np.interp(x, nodes, log_density) - mixture.logpdf(x)
    excesses = (1 - np.exp(np.minimum(log_ratio, 0.0))).mean(axis=1)
    low, middle, high = reference.quantile(_TAILS).tolist()
    above = mixture.means[:, 0] > middle
    bright_csf = high + low - 2 * middle > _EVEN * (high - low)
    result: FloatArray = np.where(above == bright_csf, 0.0, excesses)
    return result


def _widened(density: FloatArray) -> FloatArray:
    """Return the largest value within δ of each node."""
    padded = np.pad(density, _AROUND, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1)
    result: FloatArray = windows.max(axis=1)
    return result

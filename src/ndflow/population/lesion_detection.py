"""Lesions: mass that a scan has and its population has not.

A scan's aligned density q is compared with the most that healthy scans have, the *ceiling*
``P(x) = max_i max_{|y−x| ≤ δ} q_i(y)`` over the training scans i. Component k of the scan has the
excess

    e_k = E_{q_k} [max(0, 1 − (1 − m) P(x) / q(x))],                                          (1)

the share of it that no healthy scan accounts for; m is the mass of what was already found. A
ceiling, and not the average density, because the amount of fluid differs a lot between healthy
people: what one of them has is no alarm in another. Below a least density `_FAINT` nobody looks:
a few voxels of a vessel are not a lesion.

Components whose excess exceeds a threshold are lesions. The threshold is the largest excess that
any component of a training scan has under the ceiling of the *other* training scans, but
`_CLEARLY` at least. A healthy scan that is one more of the same kind therefore raises an alarm with
a probability of about 1/(n + 1) at most, where n scans were trained on.

Moments are no good alignment here: a lesion moves them, and so does fluid. Scans are *overlaid* on
the reference instead, see `ndflow.population.robust_alignment`. What is left of the lesion's
pull goes when it is taken out: find, overlay without what was found, find again, until
nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from ndflow.density import GaussianMixture
from ndflow.errors import InvalidValueError
from ndflow.population.lesion_preserving import without_components
from ndflow.population.robust_alignment import robust_align
from ndflow.transport import Affine
from ndflow.values import FloatArray, Value, instance, real, real_array, whole

__all__ = ["HealthyCeiling", "LesionFinding", "find_lesions", "learn_ceiling"]

_NODES = np.arange(-256, 257) / 32  # of the ceiling, in standard deviations
_AROUND = 3  # nodes to either side: δ, how far an overlaid tissue may be off
_FAINT = 1e-3  # density: a thousandth of the mass in a standard deviation
_CLEARLY = 0.1
_ROUNDS = 10
_MOST = 0.25  # of the mass; a scan with more of it is unlike the others as a whole
_SCORES = special.ndtri((np.arange(200) + 0.5) / 200)  # points that carry equal mass


@dataclass(frozen=True, eq=False)
class HealthyCeiling(Value):
    """What healthy scans have at most, and how much more than that is a lesion.

    Attributes
    ----------
    nodes : (n,), intensities in the space of the reference, rising.
    ceiling : (n,), the log of the most density that training scans have there.
    threshold : the excess beyond which a component is a lesion, at most 1 (nothing ever is).
    scans : how many were trained on.
    """

    nodes: FloatArray
    ceiling: FloatArray
    threshold: float
    scans: int

    def __post_init__(self) -> None:
        """Validate."""
        nodes = real_array(self.nodes, "nodes", None)
        if nodes.size < 2 or not (np.diff(nodes) > 0).all():
            raise InvalidValueError("nodes must be two or more numbers that rise")
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "ceiling", real_array(self.ceiling, "ceiling", nodes.size))
        threshold = real(self.threshold, "threshold")
        if not 0 < threshold <= 1:
            raise InvalidValueError(f"threshold must lie between 0 and 1, not {threshold:g}")
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "scans", whole(self.scans, "scans", 1, 1 << 53))

    def transformed(self, affine: Affine) -> HealthyCeiling:
        """Return the same in other units, which rise with these."""
        slope = float(affine.matrix[0, 0])
        return HealthyCeiling(
            affine(self.nodes), self.ceiling - np.log(slope), self.threshold, self.scans
        )


@dataclass(frozen=True, eq=False)
class LesionFinding(Value):
    """What was found in a scan.

    Attributes
    ----------
    indices : the components that are lesions, rising; often none.
    excesses : (K,), of every component, see (1).
    mass : the share of the scan in the components found.
    unlike : whether a quarter of the scan or more would have to be a lesion. Then it differs from
        the training scans as a whole, and nothing is called a lesion.
    """

    indices: tuple[int, ...]
    excesses: FloatArray
    mass: float
    unlike: bool

    def __post_init__(self) -> None:
        """Validate."""
        excesses = real_array(self.excesses, "excesses", None)
        instance(self.indices, "indices", tuple | list)
        places = tuple(whole(i, "each of indices", 0, excesses.size - 1) for i in self.indices)
        instance(self.unlike, "unlike", bool)
        object.__setattr__(self, "indices", places)
        object.__setattr__(self, "excesses", excesses)
        object.__setattr__(self, "mass", real(self.mass, "mass"))


def learn_ceiling(
    mixtures: Sequence[GaussianMixture], reference: GaussianMixture
) -> HealthyCeiling:
    """Return what training scans have at most.

    Parameters
    ----------
    mixtures : densities of scans without lesions, one channel, in any units and order. Twenty or
        more, and of all ages: fluid that none of them has is an alarm. From five scans a tenth of
        the healthy ones are alarms; from one, nothing ever is.
    reference : the density they are overlaid on.
    """
    if not mixtures:
        raise InvalidValueError("mixtures must hold at least one training scan")
    overlaid = []
    for mixture in mixtures:
        affine = robust_align(mixture, reference)
        overlaid.append(mixture.transformed(affine.matrix, affine.offset))
    around = np.array([_widened(np.maximum(own.pdf(_NODES), _FAINT)) for own in overlaid])
    top = around.max(axis=0)
    highest = around.argmax(axis=0)
    # Without a scan the ceiling is the second highest where that scan is the highest.
    second = np.sort(around, axis=0)[-2] if len(around) > 1 else np.full(top.size, _FAINT)
    threshold = _CLEARLY if len(around) > 1 else 1.0
    for i, own in enumerate(overlaid):
        others = np.log(np.where(highest == i, second, top))
        threshold = max(threshold, float(_excesses(own, _NODES, others).max()))
    return HealthyCeiling(_NODES, np.log(top), min(threshold, 1.0), len(mixtures))


def find_lesions(
    mixture: GaussianMixture, reference: GaussianMixture, alarm: HealthyCeiling
) -> LesionFinding:
    """Return which components of a scan its population has not.

    Parameters
    ----------
    mixture : the scan's density, one channel.
    reference, alarm : of `learn_ceiling`.
    """
    instance(alarm, "alarm", HealthyCeiling)
    found: tuple[int, ...] = ()
    for _ in range(_ROUNDS):
        affine = robust_align(without_components(mixture, found), reference)
        own = mixture.transformed(affine.matrix, affine.offset)
        healthy = 1 - mixture.weights[list(found)].sum()
        excesses = _excesses(own, alarm.nodes, alarm.ceiling + np.log(healthy))
        suspects = tuple(np.flatnonzero(excesses > alarm.threshold).tolist())
        if mixture.weights[list(suspects)].sum() >= _MOST:
            return LesionFinding((), excesses, 0.0, unlike=True)
        if suspects == found:
            break
        found = suspects
    return LesionFinding(found, excesses, float(mixture.weights[list(found)].sum()), unlike=False)


def _excesses(mixture: GaussianMixture, nodes: FloatArray, ceiling: FloatArray) -> FloatArray:
    """Equation (1), for each component."""
    x = mixture.means + np.sqrt(mixture.covariances[:, :, 0]) * _SCORES
    short = np.interp(x, nodes, ceiling) - mixture.logpdf(x)
    result: FloatArray = (1 - np.exp(np.minimum(short, 0.0))).mean(axis=1)
    return result


def _widened(density: FloatArray) -> FloatArray:
    """Return the largest value around each node."""
    padded = np.pad(density, _AROUND, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1)
    result: FloatArray = windows.max(axis=1)
    return result

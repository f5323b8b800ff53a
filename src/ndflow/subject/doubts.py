"""What is doubtful about the fit and the match of one scan, whatever command made them.

Everything is judged by the scan's own voxels and its target:

- *misfit*: the largest difference between the distribution functions of histogram and mixture;
- *distance*: the Wasserstein distance ``W1 = ∫ |f(Q(p)) − T(p)| dp`` of a result from its target,
  where the scan has the quantiles Q and the target T, in standard deviations of the target;
- *slopes*: how many voxels lie where the map is much steeper or flatter than the alignment.

A joint map is judged channel by channel. The slope of a channel is ``∂y_i/∂x_i``, with the other
channels as they are. Where voxels have to change places with others so that channels depend on each
other as in the target, it may even be negative: of two voxels that differ in this channel only, the
brighter one becomes the darker one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.density import GaussianMixture, Histogram, trimmed
from ndflow.density.binning import QUANTILE_LEVELS, TAIL_LEVELS
from ndflow.density.mixture import marginal
from ndflow.errors import FileError
from ndflow.files.model_files import outputs_in
from ndflow.files.outputs import stem
from ndflow.image.mask_doubts import BESIDE, JUDGED, T1W_LEAST, T1W_RISE, MaskFigures
from ndflow.image.subject import ANY_CHANNEL, T1W, contrast_called, other_by_name
from ndflow.methods.base import Solution, histogram_quantiles
from ndflow.methods.modes import Goal
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.subject.voxels import VoxelCounts, Voxels
from ndflow.transport import IntensityMap, Tabulated
from ndflow.values import Doubt, FloatArray, plural

OTHER_CONTRAST = "other contrast"
RISE = "A voxel in the middle of the brain is brighter than one of its rim in"

_SCANS = 5  # the fewest of a reference
_MISFIT = 0.03  # Kolmogorov–Smirnov distance of a mixture from the histogram
# Alignment alone leaves .09, and .14 at most, in 68 scans of three sites; a match .01, and .03 at
# most. Matched to a single scan of another site, 1 in 100 of them is left with more than .11.
_FAR = 0.15
_FURTHER = 0.005  # how well 199 quantiles of a fitted density agree with those of its voxels
_STEEP, _FLAT = 4.0, 0.2  # slope of a map, as a multiple of the alignment's
# Of the voxels. Stretched ones leave the scale of the others, so 1 or 2 ml of a brain are too much.
# Squeezed ones stay near, and any match that brings two peaks together squeezes the few in between.
_STEEP_SHARE, _FLAT_SHARE = 1e-3, 1e-2
_SAMPLE = 20_000  # voxels to measure distances at
_ENDLESS = 1e6  # widths of the histogram: what is further out may as well be infinitely far
_PIECES = 8  # slopes between two neighbouring quantiles


def voxel_quantiles(histogram: Histogram) -> tuple[FloatArray, FloatArray]:
    """Return how the voxels of a scan are distributed.

    Returns
    -------
    tuple of array
        Quantiles at `QUANTILE_LEVELS`, without outliers; and at `TAIL_LEVELS`, of all voxels.
    """
    inner = histogram_quantiles(trimmed(histogram), QUANTILE_LEVELS)
    away = _ENDLESS * (inner[-1] - inner[0])
    tails = histogram_quantiles(histogram, TAIL_LEVELS)
    return inner, np.clip(tails, inner[0] - away, inner[-1] + away)


def _spread(model: ScanModel) -> tuple[FloatArray, FloatArray]:
    """Return intensities that span all voxels, and the share of the voxels near each."""
    levels = np.concatenate([TAIL_LEVELS, QUANTILE_LEVELS])
    order = np.argsort(levels, kind="stable")
    levels, knots = levels[order], np.array([*model.tails, *model.quantiles])[order]  # type: ignore[misc]
    knots = np.maximum.accumulate(knots)  # outliers count in the tails only
    middles = (np.arange(_PIECES) + 0.5) / _PIECES
    intensities = knots[:-1, np.newaxis] + np.diff(knots)[:, np.newaxis] * middles
    return intensities.ravel(), np.repeat(np.diff(levels) / _PIECES, _PIECES)


def fit_doubts(misfit: float, counts: VoxelCounts) -> tuple[Doubt, ...]:
    """Return what is doubtful about the density of a scan, and the voxels that it comes from."""
    found, out = [], counts.excluded
    if out > (inside := counts.fitted + counts.outliers + out) / 2:
        text = f"{out / inside:.0%} of the voxels inside the mask are excluded."
        hint = "is the lesion mask that of the brain, or the other way round?"
        found.append(Doubt("mostly excluded", text, hint))
    if misfit > _MISFIT:
        text = f"The mixture deviates from the histogram by up to {misfit:.1%} of the voxels."
        hint = "look for spikes or a cut-off in the histogram, and check the mask"
        found.append(Doubt("poor fit", text, hint))
    return tuple(found)


def image_doubts(
    path: str,
    channel: str = ANY_CHANNEL,
    mixture: GaussianMixture | None = None,
    reference: GaussianMixture | None = None,
    mask: MaskFigures | None = None,
) -> tuple[Doubt, ...]:
    """Return what is doubtful about an image that is to be mapped, at most one thing.

    Parameters
    ----------
    path : the image.
    channel : what it, and its target, should show.
    mixture, reference : its density, and that of its target if this is a reference.
    mask : what was measured about it.
    """
    image, sidecar = Path(path), f"{stem(path)}.json"
    records = (image.parent / sidecar, image.parent.parent / "maps" / sidecar)
    if "_desc-ndflow_" in image.name or any(_has_made(record, image) for record in records):
        text = f"ndflow has normalised {image.name} before."
        return (Doubt("already normalised", text, "give the image that it was made from"),)
    if shown := other_by_name(path, channel):
        text = f"By its name, it is a {shown} image, but {channel} is expected."
        return (Doubt(OTHER_CONTRAST, text, "look at the image, and correct the list or the name"),)
    rise = mask.rise if mask and (mask.volume or 0) >= JUDGED else None
    if contrast_called(channel) == T1W and rise is not None and rise < T1W_LEAST:
        text = f"{RISE} {rise:.0%} of all pairs, in T1w images in about {T1W_RISE:.0%}."
        hint = "look at the image: is it T1w, and not inverted?"
        return (Doubt(OTHER_CONTRAST, text, hint),)
    apart = density_distance(mixture, reference) if mixture and reference else 0.0
    text = f"Z-scored, it is {apart:.2f} sd from the reference; other scanners explain about 0.2."
    return (Doubt(UNLIKE[0], text, _HINT),) if apart > _UNLIKE else ()


def expected(own: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return what channels should show: the same as their target or, if it does not say, as called.

    Parameters
    ----------
    own, wanted : the names of the channels, and of those of the target.
    """
    pairs = zip(own, wanted, strict=True)
    return [called if shown == ANY_CHANNEL else shown for called, shown in pairs]


def _has_made(record: Path, image: Path) -> bool:
    """Tell whether a record is that of the map that made an image, not of one that undid it."""
    try:
        undone = MapRecord.read(record).setting("inverse")
    except FileError:
        return False
    return not undone and image.absolute() in outputs_in(record)


def reference_doubts(scans: int) -> tuple[Doubt, ...]:
    """Return a doubt about a reference of so few scans that each of them shows in all results."""
    text = f"The reference is the average of {plural(scans, 'scan')} only."
    hint = f"what is peculiar to one of them goes into all results; make it from {_SCANS} or more"
    return (Doubt("few scans", text, hint),) if scans < _SCANS else ()


def match_doubts(
    model: ScanModel, solution: Solution, goal: Goal, rows: FloatArray | None = None
) -> list[tuple[Doubt, ...]]:
    """Return what is doubtful about the map of a subject, for each of its channels.

    Parameters
    ----------
    model, solution, goal : its density, its map, and what it is brought to.
    rows : of several channels, the values of its voxels, (n, d).
    """
    if rows is not None:
        return _doubts_of_channels(rows, solution.imap, goal.reference.mixture)
    found = []
    target, affine = goal.matched_density(solution), solution.affine
    if target is not None and affine is not None:
        inner = np.array(model.quantiles)
        found += _distance_doubts(solution.imap(inner), affine(inner), target)
        if goal.visits:
            hint = "is this one person on one scanner? Name people and sites, or --set visits=apart"
            found = [replace(doubt, hint=hint) for doubt in found]
    at, shares = _spread(model)
    if any(doubt.kind in BESIDE for doubt in model.doubts):  # which says all about dark voxels
        bright = at > np.median(at)
        at, shares = at[bright], shares[bright]
    own = 1.0 if affine is None else abs(float(affine.matrix[0, 0]))
    slopes = np.exp(solution.imap.log_det_jacobian(at)) / own
    return [(*found, *_slope_doubts(at, slopes, shares))]


def _distance_doubts(
    result: NDArray[Any], plain: NDArray[Any], target: GaussianMixture
) -> list[Doubt]:
    """Return what is doubtful about how far a result is from its target.

    Parameters
    ----------
    result, plain : quantiles at `QUANTILE_LEVELS` of the result, and after alignment alone.
    target : the density that they should have.
    """
    wanted = target.quantile(QUANTILE_LEVELS)
    sd = float(np.sqrt(target.covariance()[0, 0]))
    left, aligned = (float(np.abs(one - wanted).mean()) / sd for one in (result, plain))
    found = []
    if left > _FAR:
        text = f"The result is still {left:.2f} sd from its target (Wasserstein distance)."
        hint = "compare their histograms: does the scan show what the target does not, or more?"
        found.append(Doubt("far from target", text, hint))
    if left > aligned + _FURTHER:
        text = f"It is further from its target ({left:.3f} sd) than after z-scoring "
        text += f"({aligned:.3f})."
        hint = "try a target more like the scan, or take --method affine"
        found.append(Doubt("worse than z-scoring", text, hint))
    return found


def _slope_doubts(at: FloatArray, slopes: FloatArray, shares: FloatArray) -> list[Doubt]:
    """Return what is doubtful about how steep a map is.

    Parameters
    ----------
    at : intensities of the scan.
    slopes : of the map there, as multiples of that of the alignment.
    shares : of the voxels near each of them.
    """
    found = []
    steep, flat = slopes > _STEEP, slopes < _FLAT
    if (share := float(shares[steep].sum())) > _STEEP_SHARE:
        text = f"The map stretches {share:.1%} of the voxels more than {_STEEP:g} times as much as "
        text += f"z-scoring does (up to {slopes.max():.3g} times; {_ends(at[steep])})."
        hint = "noise is stretched there too, so look at these voxels in the result"
        found.append(Doubt("noise amplified", text, hint))
    if (share := float(shares[flat].sum())) > _FLAT_SHARE:
        text = f"The map squeezes {share:.1%} of the voxels to less than {_FLAT:g} of what "
        text += f"z-scoring leaves (down to {slopes.min():.2g}; {_ends(at[flat])})."
        hint = "contrast may be lost there, so look at these voxels in the result"
        found.append(Doubt("flat map", text, hint))
    return found


def _ends(intensities: FloatArray) -> str:
    return f"intensities from {intensities.min():.4g} to {intensities.max():.4g} of the scan"


# ── maps of other scans ───────────────────────────────────────────────────────────────────────────

_OWN_RANGE = np.array([1e-3, 1 - 1e-3])  # quantiles of the scan that a map was made from
_BEYOND = 0.05  # of the voxels: 0 to 3 % in other scans of one scanner and scaling
_AROUND = 0.75  # of the voxels of a head may be darker than its brain


def range_doubts(saved: MapRecord, voxels: Voxels, *, masked: bool) -> list[tuple[Doubt, ...]]:
    """Return for each channel a doubt if many voxels lie beyond all that a map was made for.

    Parameters
    ----------
    saved : the map, with the density of the scan that it was made from.
    voxels : of the image that it is applied to.
    masked : whether these show what that density does, and not the air around it, too.
    """
    found, mixture = list[tuple[Doubt, ...]](), saved.mixture
    some = slice(None, None, max(1, int(np.count_nonzero(voxels.inside)) // _SAMPLE))
    for place, volume in enumerate(voxels.volumes):
        values = volume.values(volume.flat[some][voxels.inside[some]])
        low, high = -np.inf, np.inf
        if mixture is not None and mixture.channels == saved.map.channels:
            low, high = marginal(mixture, place).quantile(_OWN_RANGE).tolist()
        elif isinstance(saved.map, Tabulated):
            low, high = saved.map.knots[[0, -1]].tolist()
        above, below = np.sum([values > high, values < low], axis=1) / max(1, values.size)
        beyond = above + (below if masked or below > _AROUND else 0)
        text = f"{beyond:.0%} of the voxels are beyond the range of the scan that the map was made "
        text += f"from ({low:.4g} to {high:.4g}), where the map is a guess."
        hint = "does it belong to this scan, or to one of the same scanner and scaling?"
        found.append((Doubt("beyond the map", text, hint),) if beyond > _BEYOND else ())
    return found


# ── several channels ──────────────────────────────────────────────────────────────────────────────

_SLOPES = 5000  # voxels to measure slopes at
_STEP = 1e-3  # standard deviations, of a difference that stands for a slope
_REVERSED = 1e-3  # of the voxels: 1 ml of a brain


def _doubts_of_channels(
    rows: FloatArray, imap: IntensityMap, target: GaussianMixture
) -> list[tuple[Doubt, ...]]:
    """Return what is doubtful about each channel: its distance from the target, and its slopes.

    Parameters
    ----------
    rows : the voxels that count, (n, d).
    imap : the joint map.
    target : the joint density, in the units of the result.
    """
    sample, x = (rows[:: max(1, len(rows) // most)] for most in (_SAMPLE, _SLOPES))
    mapped, y = imap(sample), imap(x)
    steps = _STEP * x.std(axis=0)
    found = []
    for place, (step, unit) in enumerate(zip(steps, np.eye(x.shape[1]), strict=True)):
        before, after, own = sample[:, place], mapped[:, place], marginal(target, place)
        stretch = float(np.sqrt(own.covariance()[0, 0])) / float(before.std())
        aligned = float(own.mean()[0]) + stretch * (before - before.mean())
        result, plain = (np.quantile(one, QUANTILE_LEVELS) for one in (after, aligned))
        slopes = (imap(x + step * unit)[:, place] - y[:, place]) / step / stretch
        doubts = [
            *_distance_doubts(result, plain, own),
            *_slope_doubts(x[:, place], np.abs(slopes), np.full(len(x), 1 / len(x))),
        ]
        share = float((slopes < 0).mean())
        if share > _REVERSED:
            text = f"The joint map reverses the contrast of {share:.1%} of the voxels."
            hint = "look at the result, and compare with that without --joint"
            doubts.append(Doubt("reversed contrast", text, hint))
        found.append(tuple(doubts))
    return found


# ── plausible densities ───────────────────────────────────────────────────────────────────────────
# Whether the density of a scan is plausible: how far it is from others of its kind.
#
# Densities are compared after alignment to zero mean and unit variance, because units of intensity
# mean nothing, by the distance W1: the mean difference of their quantiles, in standard deviations.
#
# How far is too far is known for a reference only in general. Between brains in T1w that were
# scanned in different places, we have seen distances up to 0.22 from the reference of the other
# places; a T2w image is 0.45 away. Among the scans of a site, what is usual can be seen: the
# distances of the scans from the median of their quantiles, which a few wrong scans hardly change.
#
# A mask that is a little too wide changes the density by less than the differences between
# scanners, 0.06 on average: it is found by its rim (`ndflow.image.mask_doubts`), not here.

FEWEST = 6  # scans, to know what is usual among them
UNLIKE = ("unlike the reference", "unlike the others")  # kinds of doubt
_UNLIKE = 0.3  # standard deviations, from a reference
_LEAST = 0.1  # less than this is nothing to worry about, however similar the other scans are
_TIMES = 4.0  # as far as usual

_HINT = "check its mask, and that it shows the same contrast, with the same part of the body"


def density_distance(one: GaussianMixture, other: GaussianMixture) -> float:
    """Return the distance W1 of two aligned densities of one channel, in standard deviations.

    Examples
    --------
    >>> one = GaussianMixture([0.5, 0.5], [0.0, 5.0], [1.0, 1.0])
    >>> density_distance(one, one.transformed([[3.0]], [100.0])) < 1e-9
    True
    """
    return float(np.abs(one.aligned_quantiles - other.aligned_quantiles).mean())


def unlike_others(mixtures: Sequence[GaussianMixture]) -> list[tuple[Doubt, ...]]:
    """Return for each of several scans a doubt if its density is not like those of the others.

    Parameters
    ----------
    mixtures : of scans that should be alike, such as those of a site, in any order.

    Returns
    -------
    list
        The doubts, none where there are too few scans to know what is usual.
    """
    if len(mixtures) < FEWEST:
        return [()] * len(mixtures)
    quantiles = np.array([mixture.aligned_quantiles for mixture in mixtures])
    apart = np.abs(quantiles - np.median(quantiles, axis=0)).mean(axis=1)
    usual = float(np.median(apart))
    bound = max(_TIMES * usual, _LEAST)
    text = "Z-scored, its density is {:.2f} sd from that of the other scans, where {:.2f} is usual."
    return [
        (Doubt(UNLIKE[1], text.format(far, usual), _HINT),) if far > bound else ()
        for far in apart.tolist()
    ]


def far_from(values: FloatArray, *, least: float) -> FloatArray:
    """Return how far numbers are from their median, where that is too far, and 0 elsewhere.

    Parameters
    ----------
    values : one number per scan.
    least : less than this is never too far; four standard deviations are, estimated robustly from
        the median deviation.
    """
    away = values - np.median(values)
    spread = 1.4826 * float(np.median(np.abs(away)))  # for a normal distribution, its sd
    return np.where(np.abs(away) > max(_TIMES * spread, least), away, 0.0)

"""The numbers of a comparison, in tables: one file each, one row per scan or per condition.

`features.tsv` has the features of every scan under every condition, with site and covariates. It is
what ComBat and dashboards of harmonisation read: select the rows of a condition, take the columns
after the covariates as features, `site` as batch, and the covariates as what to preserve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ndflow.evaluation.classification import FLOORS, accuracy, confidence, entropy
from ndflow.evaluation.comparison import AFFINE, UNNORMALISED, Comparison, Condition
from ndflow.evaluation.distribution import (
    HistogramFit,
    Smoothness,
    average_distribution,
    histogram_fit,
    smoothness,
)
from ndflow.evaluation.measure import TISSUE_ROWS
from ndflow.evaluation.sites import (
    distance_between_scans,
    distance_between_sites,
    distance_within_sites,
    repeatability,
)
from ndflow.evaluation.statistics import (
    CovariateEffect,
    covariate_effect,
    intraclass_correlation,
    paired_t,
)
from ndflow.evaluation.tissues import (
    QuartileSummary,
    coefficient_of_variation,
    separability,
    tissue_table,
)
from ndflow.study.finished import covariate_values
from ndflow.values import FloatArray

Part = float | int | str | None


class Table(NamedTuple):
    """A table.

    Attributes
    ----------
    name : of its file.
    columns : their names.
    rows : as many parts each.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[Part, ...]]


# ── histograms, sites and predictions ─────────────────────────────────────────────────────────────

TABLES = (  # all there may be
    "fitness_scans",
    "fitness",
    "tissue_scans",
    "tissue",
    "sites",
    "classification",
    "predictions",
    "repeats",
    "contrast",
    "reliability",
    "covariate",
    "features",
)


def tables(comparison: Comparison, covariates: Sequence[str] = ()) -> list[Table]:
    """Return all tables that the scans allow."""
    scans = _fitness(comparison)
    made = [scans, _fitness_summary(comparison, scans)]
    if comparison.conditions[0].quartiles is not None:
        made += [_tissue_scans(comparison), _tissue(comparison)]
    if comparison.sites is not None:
        made.append(_sites(comparison, comparison.sites))
    if comparison.classified and comparison.sites is not None:
        made += [_classification(comparison, comparison.sites), _predictions(comparison)]
    made += _repeats(comparison)
    made += tissue_tables(comparison, covariates)
    made.append(feature_table(comparison))
    return made


def tissue_cells(comparison: Comparison, condition: Condition) -> list[QuartileSummary]:
    """Return the quartiles of tissues under one condition, tested against the alignment."""
    if condition.quartiles is None:
        return []
    medians = condition.quartiles[:, :, 1].mean(axis=0)
    gap = abs(float(medians[TISSUE_ROWS.index("WM")] - medians[TISSUE_ROWS.index("GM")]))
    # What is not normalised, and the alignment itself, are not tested against it.
    tested = condition.name not in (UNNORMALISED, AFFINE)
    baseline = comparison.affine.quartiles if tested else None
    return tissue_table(condition.quartiles, baseline, TISSUE_ROWS, gap)


def _fitness(comparison: Comparison) -> Table:
    measures = (
        *HistogramFit._fields,
        *(f"{name}_own" for name in ("rmse", "w1")),
        *Smoothness._fields,
    )
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        own = average_distribution(condition.distributions)
        for place, scan in enumerate(comparison.scans):
            distribution = condition.distributions[place]
            to_own = histogram_fit(distribution, own)
            smooth: tuple[Part, ...] = (None, None)
            if condition.slopes is not None:
                smooth = smoothness(condition.slopes[place])
            to_target = histogram_fit(distribution, comparison.target)
            parts = (*to_target, to_own.rmse, to_own.w1, *smooth)
            rows.append((condition.name, scan.name, scan.site, *parts))
    return Table("fitness_scans", ("condition", "scan", "site", *measures), rows)


def _fitness_summary(comparison: Comparison, whole: Table) -> Table:
    """The medians over scans; of the jump, also the largest."""
    measures = (*whole.columns[3:], "largest_jump")
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        own = [row[3:] for row in whole.rows if row[0] == condition.name]
        columns = list(zip(*own, strict=True))
        medians = (_over(np.median, column) for column in columns)
        rows.append((condition.name, *medians, _over(max, columns[-1])))
    return Table("fitness", ("condition", *measures), rows)


def _over(function: Callable[[Sequence[float]], float], column: Sequence[Part]) -> Part:
    known = [float(part) for part in column if isinstance(part, float | int)]
    return float(function(known)) if known else None


def _tissue_scans(comparison: Comparison) -> Table:
    names = tuple(f"{tissue}_Q{quartile}" for tissue in TISSUE_ROWS for quartile in (1, 2, 3))
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        if condition.quartiles is not None:
            for scan, own in zip(comparison.scans, condition.quartiles, strict=True):
                rows.append((condition.name, scan.name, scan.site, *own.ravel()))
    return Table("tissue_scans", ("condition", "scan", "site", *names), rows)


def _tissue(comparison: Comparison) -> Table:
    rows: list[tuple[Part, ...]] = [
        (condition.name, *cell)
        for condition in comparison.conditions
        for cell in tissue_cells(comparison, condition)
    ]
    return Table("tissue", ("condition", *QuartileSummary._fields), rows)


def _sites(comparison: Comparison, sites: list[str]) -> Table:
    """Distances between and within sites, and both as shares of what the alignment leaves."""

    def distances(condition: Condition) -> tuple[float, float | None, float]:
        quantiles = condition.quantiles
        inside = distance_within_sites(quantiles, sites) if len(set(sites)) < len(sites) else None
        return (
            distance_between_sites(quantiles, sites),
            inside,
            distance_between_scans(quantiles, sites),
        )

    base = distances(comparison.affine)
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        own = distances(condition)
        shares = [None if a is None or not b else a / b for a, b in zip(own, base, strict=True)]
        rows.append((condition.name, *own, *shares[:2]))
    columns = ("condition", "between", "within", "pairwise", "between_share", "within_share")
    return Table("sites", columns, rows)


def _classification(comparison: Comparison, sites: list[str]) -> Table:
    names = sorted(set(sites))
    rows: list[tuple[Part, ...]] = []
    base = comparison.classified.get(AFFINE)
    for condition, found in comparison.classified.items():
        right = accuracy(found.predictions, sites)
        bits = entropy(found.predictions.probabilities)
        p = None
        if base is not None and condition not in (UNNORMALISED, AFFINE, *FLOORS):
            p = paired_t(bits, entropy(base.predictions.probabilities)).p
        parts: tuple[Part, ...] = (right.pooled, right.balanced, *(found.chance or (None,) * 3))
        sure = confidence(found.predictions.probabilities).mean()
        per_class = (right.per_class[name] for name in names)
        rows.append((condition, *per_class, *parts, float(bits.mean()), float(sure), p))
    columns = (
        "pooled",
        "balanced",
        "chance",
        "chance_95",
        "chance_p",
        "entropy",
        "confidence",
        "entropy_p",
    )
    return Table("classification", ("condition", *names, *columns), rows)


def _predictions(comparison: Comparison) -> Table:
    rows: list[tuple[Part, ...]] = []
    names: tuple[str, ...] = ()
    for condition, found in comparison.classified.items():
        probabilities, names = found.predictions
        sure = zip(entropy(probabilities), confidence(probabilities), strict=True)
        for scan, own, (bits, most) in zip(comparison.scans, probabilities, sure, strict=True):
            guess = names[int(np.argmax(own))]
            known = (condition, scan.name, scan.site, guess)
            rows.append((*known, *own.tolist(), float(bits), float(most)))
    columns = ("condition", "scan", "site", "predicted", *names, "entropy", "confidence")
    return Table("predictions", columns, rows)


def _repeats(comparison: Comparison) -> list[Table]:
    subjects = [scan.person for scan in comparison.scans]
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        found = repeatability(condition.quantiles, subjects)
        if found is not None:
            rows.append((condition.name, *found))
    columns = ("condition", "pairs", "within_subjects", "between_subjects", "ratio")
    return [Table("repeats", columns, rows)] if rows else []


# ── tissues ───────────────────────────────────────────────────────────────────────────────────────

_WM, _GM = TISSUE_ROWS.index("WM"), TISSUE_ROWS.index("GM")


def tissue_tables(comparison: Comparison, covariates: Sequence[str]) -> list[Table]:
    """Return the tables that the scans allow."""
    made = []
    if comparison.conditions[0].moments is not None:
        made.append(_contrast(comparison))
        made += _reliability(comparison)
        if covariates:
            made.append(_covariate(comparison, covariates))
    return made


def separabilities(condition: Condition) -> FloatArray:
    """Return d′ of GM and WM in each scan; without tissue probability maps, none."""
    if condition.moments is None:
        return np.zeros(0)
    return separability(condition.moments[:, _WM], condition.moments[:, _GM])


def covariate_effects(
    comparison: Comparison, condition: Condition, covariates: Sequence[str]
) -> dict[tuple[str, str], CovariateEffect]:
    """Return the effect of each covariate on the median of each tissue, given the others.

    The keys are the label of the covariate, and the tissue.
    """
    if condition.quartiles is None:
        return {}
    known = [covariate_values(comparison.scans, name) for name in covariates]
    sites = [scan.site or "" for scan in comparison.scans]
    found = {}
    for place, covariate in enumerate(known):
        others = [one.values for one in known[:place] + known[place + 1 :]]
        for tissue, medians in zip(TISSUE_ROWS, condition.quartiles[:, :, 1].T, strict=True):
            effect = covariate_effect(medians, covariate.values, sites, others)
            found[covariate.label, tissue] = effect
    return found


def _contrast(comparison: Comparison) -> Table:
    offset, scale = comparison.conditions[0].units
    rows: list[tuple[Part, ...]] = []
    base = separabilities(comparison.affine)
    for condition in comparison.conditions:
        if condition.moments is None or condition.quartiles is None:
            continue
        contrast = condition.moments[:, _WM, 0] - condition.moments[:, _GM, 0]
        apart = separabilities(condition)
        p = None if condition.name in (UNNORMALISED, AFFINE) else paired_t(apart, base).p
        # The zero of the scanner, see `ndflow.evaluation.tissues`.
        medians = condition.quartiles[:, :, 1].T
        vary = (coefficient_of_variation(one, -offset / scale) for one in medians)
        figures = (contrast.mean(), contrast.std(ddof=1), apart.mean(), apart.std(ddof=1))
        rows.append((condition.name, *(float(one) for one in figures), p, *vary))
    columns = ("contrast", "contrast_sd", "dprime", "dprime_sd", "dprime_p")
    vary_names = (f"cv_{tissue}" for tissue in TISSUE_ROWS)
    return Table("contrast", ("condition", *columns, *vary_names), rows)


def _reliability(comparison: Comparison) -> list[Table]:
    """Agreement of the medians of tissues in scans of one subject."""
    subjects = [scan.person for scan in comparison.scans]
    sites = [scan.site for scan in comparison.scans]
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        if condition.quartiles is None:
            continue
        for tissue, medians in zip(TISSUE_ROWS, condition.quartiles[:, :, 1].T, strict=True):
            made = intraclass_correlation(medians, subjects, sites)
            if made is not None:
                found = made.found or (None,) * 3
                rows.append((condition.name, tissue, made.subjects, made.scans, *found, made.model))
    columns = ("condition", "tissue", "subjects", "scans", "icc", "icc_low", "icc_high", "model")
    return [Table("reliability", columns, rows)] if rows else []


def _covariate(comparison: Comparison, covariates: Sequence[str]) -> Table:
    """What covariates do to the median of each tissue, within sites."""
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        found = covariate_effects(comparison, condition, covariates)
        for (label, tissue), one in found.items():
            slope = (one.slope, one.se, *one.slope_interval)
            correlation = (one.correlation, *one.correlation_interval)
            rows.append((condition.name, label, tissue, *slope, *correlation, one.p, one.n))
    slope_names = ("slope", "se", "slope_low", "slope_high")
    names = ("correlation", "correlation_low", "correlation_high", "p", "scans")
    return Table("covariate", ("condition", "covariate", "tissue", *slope_names, *names), rows)


# ── features ──────────────────────────────────────────────────────────────────────────────────────

_KNOWN = ("condition", "scan", "subject", "site")


def feature_table(comparison: Comparison) -> Table:
    """Return the table; without tissue probability maps, it has features of whole brains only."""
    covariates = sorted({name for scan in comparison.scans for name in scan.covariates})
    names = _feature_names(with_tissues=comparison.conditions[0].moments is not None)
    taken = {*_KNOWN, *names}
    columns = (f"covariate_{name}" if name in taken else name for name in covariates)
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        for place, scan in enumerate(comparison.scans):
            known = (condition.name, scan.name, scan.person, scan.site)
            own = (scan.covariates.get(name) for name in covariates)
            rows.append((*known, *own, *_features(condition, place)))
    return Table("features", (*_KNOWN, *columns, *names), rows)


def _feature_names(*, with_tissues: bool) -> tuple[str, ...]:
    brain = ("mean", "sd")
    if not with_tissues:
        return brain
    each = ("Q1", "Q2", "Q3", "mean", "sd")
    tissues = (f"{tissue}_{part}" for tissue in TISSUE_ROWS for part in each)
    return (*brain, *tissues, "contrast", "dprime")


def _features(condition: Condition, place: int) -> list[float]:
    scan = condition.distributions[place]
    found = [scan.mean(), scan.sd()]
    if condition.quartiles is None or condition.moments is None:
        return found
    quartiles, moments = condition.quartiles[place], condition.moments[place]
    for three, two in zip(quartiles, moments, strict=True):
        found += [*three.tolist(), *two.tolist()]
    contrast = float(moments[_WM, 0] - moments[_GM, 0])
    return [*found, contrast, float(separability(moments[_WM], moments[_GM]))]

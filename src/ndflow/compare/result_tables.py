"""The numbers of a comparison, in tables: one file each, one row per scan or per condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ndflow.compare.comparison import AFFINE, UNNORMALISED, Comparison, Condition
from ndflow.compare.feature_table import feature_table
from ndflow.compare.measure import TISSUE_ROWS
from ndflow.compare.site_classifier import FLOORS
from ndflow.compare.table import Part, Table
from ndflow.compare.tissue_tables import tissue_tables
from ndflow.metrics.distribution import average_distribution
from ndflow.metrics.histogram_fit import HistogramFit, Smoothness, histogram_fit, smoothness
from ndflow.metrics.predictions import accuracy, confidence, entropy
from ndflow.metrics.repeatability import repeatability
from ndflow.metrics.site_distance import (
    distance_between_scans,
    distance_between_sites,
    distance_within_sites,
)
from ndflow.metrics.statistics import paired_t
from ndflow.metrics.tissue_quartiles import QuartileSummary, tissue_table

__all__ = ["TABLES", "tables", "tissue_cells"]

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
    subjects = [scan.subject for scan in comparison.scans]
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        found = repeatability(condition.quantiles, subjects)
        if found is not None:
            rows.append((condition.name, *found))
    columns = ("condition", "pairs", "within_subjects", "between_subjects", "ratio")
    return [Table("repeats", columns, rows)] if rows else []

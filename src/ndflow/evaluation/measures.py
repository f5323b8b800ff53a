"""The measures of each condition, and how they change from one to another, with 95 % intervals.

Every run is compared with z-scoring, the least that anybody would do, and further runs with the
first. `ndflow.evaluation.statistics` describes the intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndflow.evaluation import sites, statistics
from ndflow.evaluation.classification import Indices, accuracy, known_subjects
from ndflow.evaluation.comparison import Comparison, Condition, covariate_values
from ndflow.evaluation.tissues import TISSUE_ROWS, separability
from ndflow.study.visits import later_scans
from ndflow.values import FloatArray

Row = dict[str, Any]  # text and numbers by the names of their columns; None where there is nothing

RECOGNISED = "recognised"
_RATIOS = ("tissues", *TISSUE_ROWS, "between", "within", "dprime", "repeats")  # are their changes
_PERSON = ("person", *(f"person_{tissue}" for tissue in TISSUE_ROWS))
_VISITS = (*_PERSON, "shading")  # of people with several scans; so are these


def measures(comparison: Comparison) -> list[Row]:
    """Return a row for each condition."""
    every = [np.arange(len(comparison.scans))]
    rows = []
    for one in comparison.conditions:
        found = {name: float(value) for name, (value,) in _measured(comparison, one, every).items()}
        rows.append({"condition": one.name, **found})
    return rows


def _measured(
    comparison: Comparison, condition: Condition, parts: Sequence[Indices]
) -> dict[str, FloatArray]:
    """Return each measure on several parts of the scans; NaN where it is not known."""
    quantiles, tissues = condition.quantiles, condition.tissues
    at = np.array(comparison.sites or [""] * len(comparison.scans))
    subjects = [scan.person for scan in comparison.scans]
    repeated = bool(later_scans(comparison.scans))
    distances = sites.wasserstein_matrix(quantiles) if repeated else None
    classified = comparison.classified.get(condition.name)
    names, rows = (*_RATIOS, *(_VISITS if repeated else ()), RECOGNISED), []
    for part in parts:
        where = at[part].tolist()
        row: Row = {"within": sites.distance_within_sites(quantiles[part], where)}
        if comparison.sites is not None:
            row["between"] = sites.distance_between_sites(quantiles[part], where)
        if classified is not None:
            row[RECOGNISED] = accuracy(classified.probabilities[part], where).balanced
        if tissues is not None and part.size > 1:
            sds = tissues[part, :, :3].std(axis=0, ddof=1).mean(axis=1)
            row |= zip(("tissues", *TISSUE_ROWS), (sds.mean(), *sds), strict=True)
            row["dprime"] = separability(tissues[part]).mean()
        if distances is not None:
            own = [subjects[number] for number in part]
            row["repeats"] = sites.repeatability(distances[np.ix_(part, part)], own)
            apart = condition.shading[part]
            row["shading"] = apart[np.isfinite(apart)].mean() if np.isfinite(apart).any() else None
            if tissues is not None:
                people = known_subjects([comparison.scans[number] for number in part])
                sds = statistics.sd_within(tissues[part, :, 1], people)
                row |= zip(_PERSON, (sds.mean(), *sds), strict=True)
        rows.append(row)
    return {name: np.array([row.get(name) for row in rows], np.float64) for name in names}


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def changes(comparison: Comparison) -> list[Row]:
    """Return a row for each change, of further runs from the first, then of all from z-scoring."""
    affine, *runs = comparison.conditions[1:]
    pairs = [(run, runs[0]) for run in runs[1:]] + [(run, affine) for run in runs]
    subjects = np.array(known_subjects(comparison.scans))
    at = np.array([scan.site or "" for scan in comparison.scans])
    # Those who were scanned at several sites count as a site of their own.
    where = {name: " ".join(sorted({*at[subjects == name]})) for name in np.unique(subjects)}
    count = Counter(where.values())
    # Nothing is compared without a subject who is alone at a site: that would leave out the site.
    kept = {name: (subjects != name) | (count[site] == 1) for name, site in where.items()}
    parts = [np.arange(at.size), *map(np.flatnonzero, kept.values())]
    found = {
        one.name: _measured(comparison, one, parts) | _correlations(comparison, one, parts)
        for one in comparison.conditions[1:]
    }
    rows = []
    for run, base in pairs:
        known: Row = {"condition": run.name, "against": base.name}
        for name, after in found[run.name].items():
            before = found[base.name][name]
            row = known | {"measure": name, "before": float(before[0]), "after": float(after[0])}
            rows.append(row | _change(name, before, after, [*where.values()], at.size))
    return [row for row in rows if math.isfinite(row["change"])]


def _correlations(
    comparison: Comparison, condition: Condition, parts: Sequence[Indices]
) -> dict[str, FloatArray]:
    """Return correlations with the medians of tissues, of each covariate given the others."""
    if condition.tissues is None:
        return {}
    at = np.array([scan.site or "" for scan in comparison.scans])
    known = [covariate_values(comparison.scans, name) for name in comparison.covariates]
    columns = np.array([values for _, values in known]).T
    found: dict[str, FloatArray] = {}
    for place, (label, _) in enumerate(known):
        others = np.delete(columns, place, axis=1)
        each = [
            statistics.partial_correlations(
                condition.tissues[part, :, 1], columns[part, place], at[part].tolist(), others[part]
            )
            for part in parts
        ]
        names = (f"{label}–{tissue}" for tissue in TISSUE_ROWS)
        found |= dict(zip(names, np.array(each).T, strict=True))
    return found


def _change(
    name: str, before: FloatArray, after: FloatArray, where: Sequence[str], scans: int
) -> Row:
    """Return the change of a measure of all scans, and of those without each of the subjects."""
    with np.errstate(all="ignore"):  # what is not known, or 0
        if name in (*_RATIOS, *_VISITS):
            logarithms = statistics.jackknife(np.log(after / before), where)
            kind, made = "ratio", statistics.Change(*np.exp(logarithms).tolist())
        else:
            # Shares differ by 1 at most, correlations by 2.
            more, most = (2 / scans**2, 1) if name == RECOGNISED else (0.0, 2)
            found = statistics.jackknife(after - before, where, more)
            kind, made = "difference", statistics.Change(*np.clip(found, -most, most).tolist())
    return {"kind": kind, **made._asdict()}

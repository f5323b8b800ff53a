"""Tables of what a normalisation does to tissues: contrast, reliability, covariates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ndflow.compare.comparison import AFFINE, UNNORMALISED, Comparison, Condition
from ndflow.compare.measure import TISSUE_ROWS
from ndflow.compare.table import Part, Table
from ndflow.metrics.reliability.intraclass import intraclass_correlation
from ndflow.metrics.statistics import CovariateEffect, covariate_effect, paired_t
from ndflow.metrics.tissue_contrast import separability
from ndflow.metrics.variation import coefficient_of_variation
from ndflow.study.finished import covariate_values
from ndflow.values import FloatArray

__all__ = ["covariate_effects", "separabilities", "tissue_tables"]

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
        # The zero of the scanner, see `ndflow.metrics.variation`.
        medians = condition.quartiles[:, :, 1].T
        vary = (coefficient_of_variation(one, -offset / scale) for one in medians)
        figures = (contrast.mean(), contrast.std(ddof=1), apart.mean(), apart.std(ddof=1))
        rows.append((condition.name, *(float(one) for one in figures), p, *vary))
    columns = ("contrast", "contrast_sd", "dprime", "dprime_sd", "dprime_p")
    vary_names = (f"cv_{tissue}" for tissue in TISSUE_ROWS)
    return Table("contrast", ("condition", *columns, *vary_names), rows)


def _reliability(comparison: Comparison) -> list[Table]:
    """Agreement of the medians of tissues in scans of one subject."""
    subjects = [scan.subject for scan in comparison.scans]
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

"""The features of every scan under every condition, with site and covariates, in one tidy table.

It is what ComBat and dashboards of harmonisation read: select the rows of a condition, take the
columns after the covariates as features, `site` as batch, and the covariates as what to preserve.
"""

from __future__ import annotations

from ndflow.compare.comparison import Comparison, Condition
from ndflow.compare.measure import TISSUE_ROWS
from ndflow.compare.table import Part, Table
from ndflow.metrics.tissue_contrast import separability

__all__ = ["feature_table"]

_KNOWN = ("condition", "scan", "subject", "site")
_WM, _GM = TISSUE_ROWS.index("WM"), TISSUE_ROWS.index("GM")


def feature_table(comparison: Comparison) -> Table:
    """Return the table; without tissue probability maps, it has features of whole brains only."""
    covariates = sorted({name for scan in comparison.scans for name in scan.covariates})
    names = _feature_names(with_tissues=comparison.conditions[0].moments is not None)
    taken = {*_KNOWN, *names}
    columns = (f"covariate_{name}" if name in taken else name for name in covariates)
    rows: list[tuple[Part, ...]] = []
    for condition in comparison.conditions:
        for place, scan in enumerate(comparison.scans):
            known = (condition.name, scan.name, scan.subject, scan.site)
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

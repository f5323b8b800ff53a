"""The numbers of a comparison, in tables: one file each, one row per scan or per condition.

`features.tsv` has the features of every scan under every condition, with site and covariates. It is
what ComBat and dashboards of harmonisation read: select the rows of a condition, take the columns
after the covariates as features, `site` as batch, and the covariates as what to preserve.
"""

from __future__ import annotations

import numpy as np

from ndflow.evaluation import statistics
from ndflow.evaluation.classification import accuracy, entropy
from ndflow.evaluation.comparison import Comparison, Condition, covariate_values
from ndflow.evaluation.distribution import average_distribution, histogram_fit, smoothness
from ndflow.evaluation.measures import Row, changes, measures
from ndflow.evaluation.tissues import TISSUE_ROWS, separability
from ndflow.image.subject import Subject
from ndflow.study.visits import later_scans
from ndflow.values import FloatArray

Tables = dict[str, list[Row]]

_WM, _GM = TISSUE_ROWS.index("WM"), TISSUE_ROWS.index("GM")


def tables(comparison: Comparison) -> Tables:
    """Return the rows of all tables that the scans allow, by the names of the tables."""
    made = {name: make(comparison) for name, make in _MAKERS.items()}
    made["fitness"] = _medians(made["fitness_scans"])
    return {name: [_known_parts(row) for row in rows] for name, rows in made.items() if rows}


def _known_parts(row: Row) -> Row:
    """Return a row with None for what is not a number."""
    return {name: None if part != part else part for name, part in row.items()}


# ── histograms, sites and predictions ─────────────────────────────────────────────────────────────


def _known(condition: str, scan: Subject) -> Row:
    return {"condition": condition, "scan": scan.name, "site": scan.site}


def _joined(known: Row, prefix: str, given: Row, own: Row) -> Row:
    """Return a row; names that users gave get a prefix where they are also names of our columns."""
    named = {
        f"{prefix}_{name}" if name in known | own else name: part for name, part in given.items()
    }
    return known | named | own


def _fitness_scans(comparison: Comparison) -> list[Row]:
    rows = []
    for condition in comparison.conditions:
        own = average_distribution(condition.distributions)
        for place, scan in enumerate(comparison.scans):
            distribution = condition.distributions[place]
            to_own = histogram_fit(distribution, own)
            row = _known(condition.name, scan)
            row |= histogram_fit(distribution, comparison.target)._asdict()
            row |= {"rmse_own": to_own.rmse, "w1_own": to_own.w1}
            row |= {"variation": None, "jump": None}
            if condition.slopes is not None:
                row |= smoothness(condition.slopes[place])._asdict()
            rows.append(row)
    return rows


def _medians(scans: list[Row]) -> list[Row]:
    """The medians over scans; of the jump, also the largest."""
    rows = []
    for condition in dict.fromkeys(row["condition"] for row in scans):
        own = [row for row in scans if row["condition"] == condition]
        known = {
            name: [row[name] for row in own if row[name] is not None] for name in list(own[0])[3:]
        }
        row: Row = {"condition": condition}
        row |= {name: float(np.median(some)) if some else None for name, some in known.items()}
        row["largest_jump"] = max(known["jump"], default=None)
        rows.append(row)
    return rows


def _classification(comparison: Comparison) -> list[Row]:
    rows = []
    for condition, (probabilities, chance) in comparison.classified.items():
        per_class, pooled, balanced = accuracy(probabilities, comparison.sites or [])
        bits = entropy(probabilities)
        row: Row = {"pooled": pooled, "balanced": balanced}
        row["chance"], row["chance_95"], row["chance_p"] = chance or (None,) * 3
        row["entropy"] = float(bits.mean())
        row["confidence"] = float(probabilities.max(axis=1).mean())
        rows.append(_joined({"condition": condition}, "site", per_class, row))
    return rows


def _predictions(comparison: Comparison) -> list[Row]:
    rows = []
    names = sorted(set(comparison.sites or []))
    for condition, (probabilities, _) in comparison.classified.items():
        bits = entropy(probabilities)
        for place, scan in enumerate(comparison.scans):
            own = probabilities[place]
            known = _known(condition, scan) | {"predicted": names[int(own.argmax())]}
            shares = dict(zip(names, own.tolist(), strict=True))
            row = {"entropy": float(bits[place]), "confidence": float(own.max())}
            rows.append(_joined(known, "site", shares, row))
    return rows


# ── tissues ───────────────────────────────────────────────────────────────────────────────────────


def _with_tissues(comparison: Comparison) -> list[tuple[Condition, FloatArray]]:
    """The conditions with quartiles and moments of tissues; none without tissue maps."""
    return [(one, one.tissues) for one in comparison.conditions if one.tissues is not None]


def _tissue(comparison: Comparison) -> list[Row]:
    """The quartiles of tissues over all scans."""
    rows = []
    for condition, tissues in _with_tissues(comparison):
        means, sds = tissues.mean(axis=0), tissues.std(axis=0, ddof=1)
        gap = abs(float(means[_WM, 1] - means[_GM, 1]))
        for number, tissue in enumerate(TISSUE_ROWS):
            for place in range(3):
                sd = float(sds[number, place])
                row: Row = {"condition": condition.name, "tissue": tissue, "quartile": place + 1}
                row |= {"mean": float(means[number, place]), "sd": sd, "relative_sd": sd / gap}
                rows.append(row)
    return rows


def _reliability(comparison: Comparison) -> list[Row]:
    """Agreement of the medians of tissues in scans of one subject."""
    subjects, at = zip(*((scan.person, scan.site) for scan in comparison.scans), strict=True)
    rows = []
    for condition, tissues in _with_tissues(comparison):
        for tissue, medians in zip(TISSUE_ROWS, tissues[:, :, 1].T, strict=True):
            found = statistics.intraclass_correlation(medians, subjects, at)
            if found is not None:
                row = {"condition": condition.name, "tissue": tissue}
                rows.append(row | found._asdict())
    return rows


def _visits(comparison: Comparison) -> list[Row]:
    """What has changed since the first scan of each person: medians of tissues, and shading."""
    place = {scan.name: number for number, scan in enumerate(comparison.scans)}
    rows = []
    for condition in comparison.conditions:
        for first, later in later_scans(comparison.scans):
            now, row = place[later.name], {"condition": condition.name, "subject": first.person}
            row |= {"first": first.name, "scan": later.name}
            if condition.tissues is not None:
                moved = condition.tissues[now, :, 1] - condition.tissues[place[first.name], :, 1]
                row |= dict(zip(TISSUE_ROWS, moved.tolist(), strict=True))
            rows.append(row | {"shading": float(condition.shading[now])})
    return rows


def _covariate(comparison: Comparison) -> list[Row]:
    """What covariates do to the median of each tissue within sites, each given the others."""
    known = [covariate_values(comparison.scans, name) for name in comparison.covariates]
    at = [scan.site or "" for scan in comparison.scans]
    rows = []
    for condition, tissues in _with_tissues(comparison):
        for place, (label, values) in enumerate(known):
            others = [one for _, one in known[:place] + known[place + 1 :]]
            for tissue, medians in zip(TISSUE_ROWS, tissues[:, :, 1].T, strict=True):
                effect = statistics.covariate_effect(medians, values, at, others)
                row = {"condition": condition.name, "covariate": label, "tissue": tissue}
                rows.append(row | effect._asdict())
    return rows


# ── features ──────────────────────────────────────────────────────────────────────────────────────


def _features(comparison: Comparison) -> list[Row]:
    """Features of every scan; without tissue probability maps, of whole brains only."""
    covariates = sorted({name for scan in comparison.scans for name in scan.covariates})
    parts = ("Q1", "Q2", "Q3", "mean", "sd")
    names = [f"{tissue}_{part}" for tissue in TISSUE_ROWS for part in parts]
    estimated = any(any(condition.margins) for condition in comparison.conditions)
    rows = []
    for condition in comparison.conditions:
        for place, scan in enumerate(comparison.scans):
            distribution, margins = condition.distributions[place], condition.margins[place]
            known: Row = {"condition": condition.name, "scan": scan.name}
            known |= {"subject": scan.person, "site": scan.site}
            for tissue in TISSUE_ROWS if estimated else ():
                known[f"{tissue}_margin"] = margins.get(tissue)
            own: Row = {"mean": distribution.mean(), "sd": distribution.sd()}
            if condition.tissues is not None:
                tissues = condition.tissues[place]
                own |= dict(zip(names, tissues.ravel().tolist(), strict=True))
                own["contrast"] = float(tissues[_WM, 3] - tissues[_GM, 3])
                own["dprime"] = float(separability(tissues))
            given = {name: scan.covariates.get(name) for name in covariates}
            rows.append(_joined(known, "covariate", given, own))
    return rows


_MAKERS = {
    "measures": measures,
    "changes": changes,
    "fitness_scans": _fitness_scans,
    "tissue": _tissue,
    "classification": _classification,
    "predictions": _predictions,
    "reliability": _reliability,
    "visits": _visits,
    "covariate": _covariate,
    "features": _features,
}

"""The numbers of a comparison, in tables: one file each, one row per scan or per condition.

`features.tsv` has the features of every scan under every condition, with site and covariates. It is
what ComBat and dashboards of harmonisation read: select the rows of a condition, take the columns
after the covariates as features, `site` as batch, and the covariates as what to preserve.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndflow.evaluation import sites, statistics
from ndflow.evaluation.classification import FLOORS, accuracy, balanced, entropy
from ndflow.evaluation.comparison import (
    AFFINE,
    UNNORMALISED,
    Comparison,
    Condition,
    covariate_values,
)
from ndflow.evaluation.distribution import average_distribution, histogram_fit, smoothness
from ndflow.evaluation.tissues import TISSUE_ROWS, coefficient_of_variation, separability
from ndflow.image.subject import Subject
from ndflow.values import FloatArray

Row = dict[str, Any]  # text and numbers by the names of their columns; None where there is nothing
Tables = dict[str, list[Row]]

_WM, _GM = TISSUE_ROWS.index("WM"), TISSUE_ROWS.index("GM")


def tables(comparison: Comparison) -> Tables:
    """Return the rows of all tables that the scans allow, by the names of the tables."""
    made = {name: make(comparison) for name, make in _MAKERS.items()}
    made["fitness"] = _medians(made["fitness_scans"])
    return {name: rows for name, rows in made.items() if rows}


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


def _sites(comparison: Comparison) -> list[Row]:
    """Distances between and within sites, and both as shares of what the alignment leaves."""
    known = comparison.sites
    if known is None:
        return []
    measures = {"between": sites.distance_between_sites, "pairwise": sites.distance_between_scans}
    if len(set(known)) < len(known):
        measures["within"] = sites.distance_within_sites
    rows: list[Row] = []
    for condition in comparison.conditions:
        row: Row = {"condition": condition.name, "between": None, "within": None}
        row |= {name: measure(condition.quantiles, known) for name, measure in measures.items()}
        rows.append(row)
    base = rows[1]
    for row in rows:
        for name in ("between", "within"):
            row[f"{name}_share"] = row[name] / base[name] if base[name] else None
    return rows


def _classification(comparison: Comparison) -> list[Row]:
    rows = []
    base = comparison.classified.get(AFFINE)
    for condition, (probabilities, chance) in comparison.classified.items():
        per_class, pooled = accuracy(probabilities, comparison.sites or [])
        bits = entropy(probabilities)
        row: Row = {"pooled": pooled, "balanced": balanced(per_class)}
        row["chance"], row["chance_95"], row["chance_p"] = chance or (None,) * 3
        row["entropy"] = float(bits.mean())
        row["confidence"] = float(probabilities.max(axis=1).mean())
        row["entropy_p"] = None
        if base is not None and condition not in (UNNORMALISED, AFFINE, *FLOORS):
            row["entropy_p"] = statistics.paired_t(bits, entropy(base.probabilities)).p
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


def _repeats(comparison: Comparison) -> list[Row]:
    subjects = [scan.person for scan in comparison.scans]
    found = {
        one.name: sites.repeatability(one.quantiles, subjects) for one in comparison.conditions
    }
    return [{"condition": name} | own._asdict() for name, own in found.items() if own is not None]


# ── tissues ───────────────────────────────────────────────────────────────────────────────────────


def _with_tissues(comparison: Comparison) -> list[tuple[Condition, FloatArray]]:
    """The conditions with quartiles and moments of tissues; none without tissue maps."""
    return [(one, one.tissues) for one in comparison.conditions if one.tissues is not None]


def _tissue_scans(comparison: Comparison) -> list[Row]:
    names = [f"{tissue}_Q{quartile}" for tissue in TISSUE_ROWS for quartile in (1, 2, 3)]
    return [
        _known(condition.name, scan) | dict(zip(names, own[:, :3].ravel().tolist(), strict=True))
        for condition, tissues in _with_tissues(comparison)
        for scan, own in zip(comparison.scans, tissues, strict=True)
    ]


def _tissue(comparison: Comparison) -> list[Row]:
    """The quartiles of tissues over all scans, with tests against the alignment."""
    rows = []
    tested = {
        one.name: (tissues, _quartiles(tissues)) for one, tissues in _with_tissues(comparison)
    }
    for condition, (tissues, columns) in tested.items():
        medians = tissues[:, :, 1].mean(axis=0)
        gap = abs(float(medians[_WM] - medians[_GM]))
        tests: dict[str, list[float | None]] = {}
        pairs = list(zip(columns, tested[AFFINE][1], strict=True))
        for name in ("unpaired", "paired"):
            p = [statistics.brown_forsythe(*pair, paired=name == "paired").p for pair in pairs]
            tests |= {name: [*p], f"{name}_holm": statistics.holm(p).tolist()}
        # What is not normalised, and the alignment itself, are not tested against it.
        if condition in (UNNORMALISED, AFFINE):
            tests = {name: [None] * len(p) for name, p in tests.items()}
        for number, column in enumerate(columns):
            row: Row = {"condition": condition, "tissue": TISSUE_ROWS[number // 3]}
            sd = float(column.std(ddof=1))
            row |= {"quartile": number % 3 + 1, "mean": float(column.mean())}
            row |= {"sd": sd, "relative_sd": sd / gap}
            for name in ("unpaired", "paired", "unpaired_holm", "paired_holm"):
                row[name] = tests[name][number]
            rows.append(row)
    return rows


def _quartiles(tissues: FloatArray) -> FloatArray:
    """The quartiles of the first tissue, then of the next, (9, scans)."""
    return tissues[:, :, :3].reshape(len(tissues), -1).T


def separabilities(condition: Condition) -> FloatArray:
    """Return d′ of GM and WM in each scan; without tissue probability maps, none."""
    if condition.tissues is None:
        return np.zeros(0)
    return separability(condition.tissues[:, _WM, 3:], condition.tissues[:, _GM, 3:])


def _contrast(comparison: Comparison) -> list[Row]:
    offset, scale = comparison.conditions[0].units
    rows = []
    for condition, tissues in _with_tissues(comparison):
        contrast = tissues[:, _WM, 3] - tissues[:, _GM, 3]
        apart, base = separabilities(condition), separabilities(comparison.affine)
        tested = condition.name not in (UNNORMALISED, AFFINE)
        row = {
            "condition": condition.name,
            "contrast": float(contrast.mean()),
            "contrast_sd": float(contrast.std(ddof=1)),
            "dprime": float(apart.mean()),
            "dprime_sd": float(apart.std(ddof=1)),
            "dprime_p": statistics.paired_t(apart, base).p if tested else None,
        }
        # The zero of the scanner, see `ndflow.evaluation.tissues`.
        for tissue, medians in zip(TISSUE_ROWS, tissues[:, :, 1].T, strict=True):
            row[f"cv_{tissue}"] = coefficient_of_variation(medians, -offset / scale)
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
    rows = []
    for condition in comparison.conditions:
        for place, scan in enumerate(comparison.scans):
            distribution = condition.distributions[place]
            known: Row = {"condition": condition.name, "scan": scan.name}
            known |= {"subject": scan.person, "site": scan.site}
            own: Row = {"mean": distribution.mean(), "sd": distribution.sd()}
            if condition.tissues is not None:
                tissues = condition.tissues[place]
                own |= dict(zip(names, tissues.ravel().tolist(), strict=True))
                own["contrast"] = float(tissues[_WM, 3] - tissues[_GM, 3])
                own["dprime"] = float(separability(tissues[_WM, 3:], tissues[_GM, 3:]))
            given = {name: scan.covariates.get(name) for name in covariates}
            rows.append(_joined(known, "covariate", given, own))
    return rows


_MAKERS = {
    "fitness_scans": _fitness_scans,
    "tissue_scans": _tissue_scans,
    "tissue": _tissue,
    "sites": _sites,
    "classification": _classification,
    "predictions": _predictions,
    "repeats": _repeats,
    "contrast": _contrast,
    "reliability": _reliability,
    "covariate": _covariate,
    "features": _features,
}

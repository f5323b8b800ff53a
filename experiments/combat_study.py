"""ComBat on top of intensity normalisation: does it help, and what is left for it to do?

Reads the features.tsv of an evaluation. For each condition, ComBat (neuroHarmonize) learns from
half of the scans, the same share of each site, and is applied to the other half. The figures are
about the other half only: the mean over many such halves, with the 2.5th and the 97.5th percentile.
Scans of one subject stay together.

- spread: standard deviation over scans of the quartiles of WM, GM and CSF, the mean of nine cells;
- sites: distance between the means of sites, over the same cells, the mean over pairs of sites;
- recognised: balanced accuracy of a linear discriminant of these cells that predicts the site,
  each scan left out in turn;
- a covariate: its partial correlation with the median of GM, given the site and the others.

    pip install 'ndflow[study]'
    ndflow cohort table.tsv out && ndflow evaluate out
    python experiments/combat_study.py out/evaluation --preserve age sex
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from neuroHarmonize import harmonizationApply, harmonizationLearn
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from study_intervals import Interval, text, written

from ndflow.evaluation.classification import folds
from ndflow.evaluation.statistics import covariate_effect

CELLS = [f"{tissue}_Q{quartile}" for tissue in ("WM", "GM", "CSF") for quartile in (1, 2, 3)]
MEDIAN_GM = CELLS.index("GM_Q2")

Array = NDArray[np.float64]
Splits = dict[str, list[dict[str, float]]]  # without ComBat and with it, the measures of each half
Found = dict[str, Splits]  # by condition


def numeric(column: pd.Series) -> Array:
    """Return a covariate as numbers; of two words, the second in the alphabet is 1."""
    levels = sorted(column.dropna().unique().tolist())
    if len(levels) == 2 and column.dtype.kind not in "fi":
        return np.where(column.isna(), np.nan, column == levels[1]).astype(float)
    return column.to_numpy(float)


def judged(cells: Array, sites: Array, covariates: Sequence[Array]) -> dict[str, float]:
    """Return the measures of some scans."""
    means = [cells[sites == name].mean(axis=0) for name in np.unique(sites)]
    apart = [np.abs(one - other).mean() for one, other in combinations(means, 2)]
    guess = cross_val_predict(LinearDiscriminantAnalysis(), cells, sites, cv=LeaveOneOut())
    found = {
        "spread": float(cells.std(axis=0, ddof=1).mean()),
        "sites": float(np.mean(apart)),
        "recognised": float(balanced_accuracy_score(sites, guess)),
    }
    for place, own in enumerate(covariates):
        others = [*covariates[:place], *covariates[place + 1 :]]
        effect = covariate_effect(cells[:, MEDIAN_GM], own, sites.tolist(), others)
        found[f"covariate {place}"] = effect.correlation
    return found


def halves(table: pd.DataFrame, preserve: Sequence[str], seeds: range) -> Splits:
    """Return the measures of held-out halves, without ComBat and with it."""
    cells, sites = table[CELLS].to_numpy(float), table["site"].to_numpy(str)
    subjects = table["subject"].fillna(table["scan"]).tolist()
    covariates = [numeric(table[name]) for name in preserve]
    known = pd.DataFrame(
        {"SITE": sites} | {f"c{place}": own for place, own in enumerate(covariates)}
    )
    found: Splits = {"without": [], "with": []}
    for seed in seeds:
        train, test = folds(sites.tolist(), seed, groups=subjects)[0]
        part = [own[test] for own in covariates]
        found["without"].append(judged(cells[test], sites[test], part))
        model, _ = harmonizationLearn(cells[train], known.iloc[train].reset_index(drop=True))
        after = harmonizationApply(cells[test], known.iloc[test].reset_index(drop=True), model)
        found["with"].append(judged(np.asarray(after, float), sites[test], part))
    return found


def compared(features: pd.DataFrame, preserve: Sequence[str], splits: int) -> Found:
    """Return the measures of held-out halves: the same halves for all conditions."""
    return {
        str(condition): halves(table.reset_index(drop=True), preserve, range(splits))
        for condition, table in features.groupby("condition", sort=False)
    }


def table_of(found: Found, preserve: Sequence[str]) -> str:
    """Return a table in Markdown: the mean over halves, and where 95 % of them lie."""
    titles = ["condition", "ComBat", "spread", "sites", "recognised", *preserve]
    lines = [titles, ["---", "---", *["--:"] * (len(titles) - 2)]]
    for condition, ways in found.items():
        for way, splits in ways.items():
            shown = list(splits[0])[: len(titles) - 2]
            measures = [text_of([one[name] for one in splits]) for name in shown]
            lines.append([condition, way, *measures])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(
    evaluation: Path, conditions: Sequence[str], preserve: Sequence[str], splits: int
) -> dict[str, object]:
    """Return the table for docs/study.md, and what its text quotes; `preserve` starts with age."""
    features = read_features(evaluation)
    found = compared(features[features["condition"].isin(conditions)], preserve, splits)

    def spread(condition: str, way: str) -> Array:
        return np.array([half["spread"] for half in found[condition][way]])

    aligned = spread("affine", "with")
    return {
        "table": table_of(found, preserve[:1]),
        "halves": splits,
        "gain": {
            name: text_of(spread(name, "with") / spread(name, "without"), 2) for name in found
        },
        "with": text_of(spread("auto", "with") / aligned, 2),
        "without": text_of(spread("auto", "without") / aligned, 2),
        "recognised": means_of(found, "recognised"),
        "age": means_of(found, "covariate 0"),
    }


def means_of(found: Found, name: str) -> dict[str, dict[str, str]]:
    return {
        condition: {
            way: text(float(np.mean([half[name] for half in splits])), 2)
            for way, splits in ways.items()
        }
        for condition, ways in found.items()
    }


def text_of(numbers: Sequence[float] | Array, digits: int = 3) -> str:
    low, high = np.percentile(numbers, [2.5, 97.5])
    return written(Interval(float(np.mean(numbers)), float(low), float(high)), digits)


def read_features(evaluation: Path) -> pd.DataFrame:
    """Read features.tsv of an evaluation."""
    kinds = {"subject": str, "site": str}
    return pd.read_csv(evaluation / "features.tsv", sep="\t", na_values="n/a", dtype=kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("evaluation", type=Path, help="a folder with features.tsv")
    parser.add_argument("--preserve", nargs="*", default=[], metavar="COLUMN", help="covariates")
    parser.add_argument("--splits", type=int, default=50, help="how many halves (default: 50)")
    given = parser.parse_args()
    features = read_features(given.evaluation)
    complete = features.dropna(subset=given.preserve)
    print(table_of(compared(complete, given.preserve, given.splits), given.preserve))
    left_out = features["scan"].nunique() - complete["scan"].nunique()
    print(f"\n{complete['scan'].nunique()} scans, {given.splits} halves; ", end="")
    print(f"{left_out} scans without a covariate left out")


if __name__ == "__main__":
    main()

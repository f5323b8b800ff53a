"""Measures of tissues in a comparison, against voxels, and what is left out without them."""

from dataclasses import replace

import numpy as np
import pytest
from compared_runs import AGE, NAMES, SITE, SUBJECT, Array, Desk, Rows, numbers, weights
from phantoms import voxels_of
from studies import Silent, read_json

from ndflow.evaluation.comparison import Comparison, compare
from ndflow.evaluation.summary import verdict
from ndflow.evaluation.tables import tables
from ndflow.study.finished import read_finished


def tissue_voxels(desk: Desk, number: int, tissue: str) -> Array:
    """Return the voxels of a result, each as often as its weight for a tissue says."""
    inside = voxels_of(desk.folder / f"{NAMES[number]}.nii.gz") != 0
    image = desk.run("flow") / "images" / f"{NAMES[number]}.nii.gz"
    return np.repeat(voxels_of(image)[inside], weights()[tissue][inside])


def test_features_are_those_of_the_voxels_with_site_and_covariates(
    desk: Desk, several: Rows
) -> None:
    for number, name in enumerate(NAMES):
        row = several["features"]["flow", name]
        assert (row["site"], row["subject"]) == (SITE[number], SUBJECT[number])
        assert float(str(row["age"])) == AGE[number]
        wm, gm = (tissue_voxels(desk, number, tissue) for tissue in ("WM", "GM"))
        apart = abs(wm.mean() - gm.mean()) / np.sqrt((wm.var() + gm.var()) / 2)
        assert row["dprime"] == pytest.approx(apart, rel=1e-3)
        whole = desk.voxels(desk.run("flow") / "images" / f"{name}.nii.gz", number)
        units = float(row["sd"] or 0) / whole.std()
        assert row["contrast"] == pytest.approx(units * (wm.mean() - gm.mean()), rel=0.01)
        assert row["GM_sd"] == pytest.approx(units * gm.std(), rel=0.01)
    own = [several["features"]["flow", name] for name in NAMES]
    assert np.mean([float(row["mean"] or 0) for row in own]) == pytest.approx(0, abs=1e-6)
    table = several["measures"]["flow",]
    assert table["dprime"] == pytest.approx(np.mean([float(row["dprime"] or 0) for row in own]))


def test_margins_are_those_of_sidecars_and_empty_where_none_were_estimated(desk: Desk) -> None:
    run = desk.run("adaptive", proportions="adaptive")
    comparison = compare(read_finished([run]), Silent(), permutations=0, trees=1)
    rows = numbers(comparison)["features"]
    for name in NAMES:
        known = read_json(run / "maps" / f"{name}.json")["match"]["target"]["intervals"]
        for tissue, half in known.items():
            assert rows["adaptive", name][f"{tissue}_margin"] == half
            assert rows["affine", name][f"{tissue}_margin"] is None
    columns = list(rows["adaptive", NAMES[0]])
    assert columns.index("CSF_margin") < columns.index("age") < columns.index("CSF_sd")


def test_repeated_scans_are_as_reliable_as_an_analysis_of_variance_says(several: Rows) -> None:
    medians = [float(several["features"]["flow", name]["GM_Q2"] or 0) for name in NAMES]
    table = np.reshape(medians[:10], (5, 2))  # of the subjects that have two scans
    between = 2 * table.mean(axis=1).var(ddof=1)
    inside = table.var(axis=1, ddof=1).mean()
    row = several["reliability"]["flow", "GM"]
    assert (row["subjects"], row["scans"]) == (5, 10)
    assert row["icc"] == pytest.approx((between - inside) / (between + inside))
    assert row["model"] == "ICC(1,1)"
    low, value, high = (float(row[f"icc{end}"] or 0) for end in ("_low", "", "_high"))
    assert -1 <= low < value < high <= 1


def test_without_repeats_sites_or_tissue_maps_the_rest_is_still_measured(
    comparison: Comparison,
) -> None:
    bare = [replace(condition, tissues=None) for condition in comparison.conditions]
    alone = [replace(scan, person=None, site=None) for scan in comparison.scans]
    less = replace(comparison, conditions=bare, scans=alone, classified={})
    made = tables(less)
    assert {*made} == {"measures", "changes", "fitness_scans", "fitness", "features"}
    assert {row["measure"] for row in made["changes"]} == {"within"}
    assert [*made["features"][0]] == ["condition", "scan", "subject", "site", "age", "mean", "sd"]
    assert "d′" not in verdict(less, made)


def test_a_covariate_that_is_called_like_a_feature_keeps_a_column_of_its_own(
    comparison: Comparison,
) -> None:
    odd = [replace(scan, covariates={"mean": "7"}) for scan in comparison.scans]
    features = tables(replace(comparison, scans=odd))["features"]
    assert [*features[0]][4:6] == ["covariate_mean", "mean"]
    assert {row["covariate_mean"] for row in features} == {"7"}


def test_changes_of_correlations_are_those_given_other_covariates_of_scans_where_all_are_known(
    comparison: Comparison,
) -> None:
    sexes = [*"FMMFFMMMF", None, "F", "M"]
    odd = [
        replace(scan, covariates=scan.covariates | ({"sex": sex} if sex else {}))
        for scan, sex in zip(comparison.scans, sexes, strict=True)
    ]
    made = tables(replace(comparison, scans=odd, covariates=("age", "sex")))
    effects = {
        (row["condition"], f"{row['covariate']}–{row['tissue']}"): row["correlation"]
        for row in made["covariate"]
    }
    rows = [row for row in made["changes"] if "–" in row["measure"]]
    assert len(rows) == 6
    for row in rows:
        ends = [effects[row[name], row["measure"]] for name in ("against", "condition")]
        assert [row["before"], row["after"]] == pytest.approx(ends)

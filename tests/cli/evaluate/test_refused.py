"""``ndflow evaluate``: what is refused before anything is computed."""

import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from studies import SiteStudy, contents, edit

QUICK = ("--trees", 5, "--permutations", 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{flow} {flow}/../flow -o {new}", "{flow}/../flow: given twice; "),
        ("{flow}/none", "{flow}/none"),
        ("{flow}/none -o {new}", "{flow}/none: not a folder; "),
        ("{flow}/images -o {new}", "{flow}/images: holds no study; "),
        ("{flow} -o {new}/a/b", "{new}/a/b: there is no folder {new}/a; "),
        ("{flow} -o {flow}/scans.tsv", "{flow}/scans.tsv"),
        ("{flow} --permutations -1", "permutations"),
        ("{flow} --trees 0", "trees"),
        ("{flow} --seed -1", "seed"),
        ("{flow} --jobs 0", "jobs"),
        ("{flow} --covariate height", "'height'; the covariates are: age, born, hand"),
        ("{flow} --covariate hand", "hand has values that are no numbers, such as 'l'"),
        ("{flow} --covariate born", "does not vary within any site"),
        ("{flow} --covariate name", "no scan has a covariate 'name'"),
    ],
)
def test_wrong_usage_is_refused_and_nothing_is_made(
    run: Run, flow: Path, unseen: None, words: str, said: str
) -> None:
    names = {"flow": flow, "new": flow.parent / "new"}
    before = contents(flow.parent)
    ran = run("evaluate", *QUICK, *(word.format(**names) for word in words.split()))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == ran.errors  # at once, before any scan is read
    assert len(ran.errors) == 1
    assert said.format(**names) in ran.errors[0]
    assert contents(flow.parent) == before
    assert not (flow / "evaluation").exists()


def test_a_covariate_needs_tissue_maps(run: Run, studies: SiteStudy) -> None:
    out = studies.run("bare", table=studies.table("bare", columns=["image", "site", "age"]))
    ran = run("evaluate", out, "--covariate", "age", *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert "not all scans have tissue probability maps of WM, GM and CSF" in ran.errors[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"finished": False},
            "was stopped; run the same command again to finish it",
        ),
        ({"settings": {"mode": "sideways"}}, "the file is damaged"),
        ({"settings": None}, "the file is damaged"),
        ({"settings": ...}, "the file is damaged"),
        ({"kind": "map"}, "provenance.json: "),
    ],
)
def test_a_study_that_is_unfinished_or_damaged_is_refused(
    run: Run, flow: Path, change: dict[str, Any], said: str
) -> None:
    edit(flow / "provenance.json", **change)
    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors[0].startswith(f"error: {flow}")
    assert said in ran.errors[0]


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(
    run: Run, flow: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert f"needs {package}, which is not installed" in ran.errors[0]
    assert "pip install 'ndflow[evaluate]'" in ran.errors[0]
    assert not (flow / "evaluation").exists()


def test_studies_that_disagree_about_sites_are_refused(
    run: Run, studies: SiteStudy, tmp_path: Path
) -> None:
    other = [{**row, "site": f"not {row['site']}"} for row in studies.rows]
    named = studies.run("renamed", table=studies.table("renamed", rows=other))
    ran = run("evaluate", studies.folder / "flow", named, "-o", tmp_path / "out", *QUICK)
    assert ran.code == 2
    assert "the site of s0 is " in ran.errors[0]

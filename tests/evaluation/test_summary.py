"""The tables of the summary, and the verdict in words."""

import re
from dataclasses import replace

import pytest
from compared_runs import SITE, Desk, compared

from ndflow.evaluation.comparison import Comparison
from ndflow.evaluation.summary import verdict
from ndflow.evaluation.tables import tables
from ndflow.study.site_checks import INVERTED
from ndflow.values import Doubt


def said(comparison: Comparison, *covariates: str) -> str:
    asked = replace(comparison, covariates=covariates)
    return verdict(asked, tables(asked))


def test_a_verdict_says_each_change_with_its_interval(comparison: Comparison) -> None:
    text = said(comparison, "age")
    assert max(map(len, text.splitlines())) <= 100
    found = re.search(
        r"Sites lie (\S+) times as far apart \(95 % interval (\S+) to (\S+)\): (\S+) standard "
        r"deviations, against (\S+)\.",
        " ".join(text.split()),
    )
    assert found is not None
    rows = {row["measure"]: row for row in tables(comparison)["changes"]}
    names = ("change", "change_low", "change_high", "after", "before")
    expected = [rows["between"][name] for name in names]
    assert [float(number) for number in found.groups()] == pytest.approx(expected, rel=0.06)
    assert "age–WM" in text
    assert "--covariate" not in text
    assert "add --covariate" in " ".join(said(comparison).split())


def test_the_verdict_of_a_run_that_failed_says_where_and_compares_nothing_with_it(
    desk: Desk,
) -> None:
    comparison = compared(desk.run("flow"), desk.run("nyul", method="nyul"))
    raw, affine, flow, nyul = comparison.conditions
    assert flow.tissues is not None
    tissues, last = flow.tissues.copy(), [site == SITE[-1] for site in SITE]
    tissues[last] *= -1  # the contrast is inverted
    broken = replace(comparison, conditions=[raw, affine, replace(flow, tissues=tissues), nyul])
    failed, other = said(broken).rstrip().split("\n\n")
    assert failed.startswith(f"flow failed. At {SITE[-1]}, the median of CSF is ")
    assert " times " not in failed
    assert max(map(len, failed.splitlines())) <= 100
    assert other.startswith("nyul, compared with z-scoring")
    faint = flow.tissues.copy()
    faint[last, :, 3] = 0  # the means of all tissues
    broken = replace(comparison, conditions=[raw, affine, replace(flow, tissues=faint), nyul])
    assert said(broken).startswith(f"flow failed. At {SITE[-1]}, d′ of GM and WM is 0, but ")
    # What was broken before, and is no longer, has not failed.
    mended = replace(comparison, conditions=[raw, replace(affine, tissues=tissues), flow, nyul])
    assert "failed" not in said(mended)


def test_a_run_with_an_inverted_site_has_failed_also_without_tissue_maps(desk: Desk) -> None:
    comparison = compared(desk.run("flow"))
    (run,) = comparison.runs
    seen = Doubt(INVERTED, "At B, it is the other way round.", "look at the images")
    known = replace(comparison, runs=[replace(run, record=replace(run.record, of_study=(seen,)))])
    assert "failed" not in said(known)  # tissues are measured, and alike
    bare = [replace(one, tissues=None) for one in known.conditions]
    words = said(replace(known, conditions=bare))
    assert words.startswith("flow failed. At B, it is the other way round.")
    assert " times " not in words

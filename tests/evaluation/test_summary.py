"""The tables of the summary, and the verdict in words."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ndflow.evaluation.comparison import Comparison, Condition
from ndflow.evaluation.summary import overview, sections, verdict
from ndflow.evaluation.tables import tables


def test_only_studies_are_marked_as_better_than_the_alignment(comparison: Comparison) -> None:
    first, *_ = sections(tables(comparison))
    marked = {row[0]: {"*", "†"} & set("".join(row[1:])) for row in first.rows}
    assert marked["unnormalised"] == marked["affine"] == set()
    assert marked["flow"]


def test_the_overview_shows_means_over_tissues(comparison: Comparison) -> None:
    made = tables(comparison)
    head, *lines = (line.split() for line in overview(made).splitlines())
    for line in lines[1:3]:
        sds = [row["sd"] for row in made["tissue"] if row["condition"] == line[0]]
        assert line[head.index("tissues")] == f"{np.mean(sds):.3g}"


def said(comparison: Comparison, *covariates: str) -> str:
    asked = replace(comparison, covariates=covariates)
    return verdict(asked, tables(asked))


def with_run(comparison: Comparison, **changes: object) -> Comparison:
    """Return a comparison whose run is the alignment, apart from some changes."""
    raw, affine, run = comparison.conditions
    run = replace(affine, name=run.name, study=run.study, **changes)  # type: ignore[arg-type]
    classified = comparison.classified | {run.name: comparison.classified["affine"]}
    return replace(comparison, conditions=[raw, affine, run], classified=classified)


def moved(affine: Condition, by: object) -> list[object]:
    return [
        one.transformed(1, float(shift))
        for one, shift in zip(affine.distributions, np.broadcast_to(by, 12), strict=True)
    ]


def test_a_run_that_brings_sites_together_is_said_to(comparison: Comparison) -> None:
    text = said(comparison, "age")
    assert max(map(len, text.splitlines())) <= 100
    found = re.search(
        r"Sites are closer together: (\S+) standard deviations apart, against (\S+) \((\S+) un",
        " ".join(text.split()),
    )
    assert found is not None
    now, before, raw = (float(number) for number in found.groups())
    expected = [row["between"] for row in tables(comparison)["sites"]]
    assert [raw, before, now] == pytest.approx(expected, rel=0.01)
    assert "The effect of age on the median of each tissue" in " ".join(text.split())
    assert "--covariate" not in text
    assert "add --covariate" in " ".join(said(comparison).split())


def test_averages_that_approach_while_scans_depart_are_not_called_closer(
    comparison: Comparison,
) -> None:
    """The averages of all sites coincide, but every scan is far from them."""
    middle = comparison.affine.quantiles.mean(axis=1).reshape(3, 4).mean(axis=1)  # of each site
    shift = np.tile([3.0, -3.0], 6) - np.repeat(middle, 4)
    odd = with_run(comparison, distributions=moved(comparison.affine, shift))
    assert "Sites are closer together" not in said(odd)

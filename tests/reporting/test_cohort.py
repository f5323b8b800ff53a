"""``ndflow.cohort`` writes the report of the study, unless it is told not to."""

from pathlib import Path

import pytest
from studies import SITES, SiteStudy

import ndflow


def test_a_study_from_python_has_its_report(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    study = SiteStudy(tmp_path, dict(list(SITES.items())[:1]), per_site=2)
    table, out = study.table("all"), tmp_path / "out"
    ndflow.cohort(table, out, report=False)
    assert not (out / "report.html").exists()
    assert ndflow.cohort(table, out)[:3] == (2, 2, [])
    page = out / "report.html"
    before = page.stat().st_mtime_ns
    ndflow.cohort(table, out)  # nothing has changed
    assert page.stat().st_mtime_ns == before


def test_a_report_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    study = SiteStudy(tmp_path, dict(list(SITES.items())[:1]), per_site=2)
    table, out = study.table("all"), tmp_path / "out"
    ndflow.cohort(table, out, report=False)
    (out / "report.html").write_text("of somebody else")
    with pytest.warns(UserWarning, match=r"not written: .*report\.html"):
        assert ndflow.cohort(table, out).done == 2
    assert (out / "report.html").read_text() == "of somebody else"

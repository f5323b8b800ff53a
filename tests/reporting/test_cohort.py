"""``ndflow.cohort`` writes the report of the study, unless it is told not to."""

from pathlib import Path

import pytest
from studies import SITES, SiteStudy

import ndflow

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def test_a_study_from_python_has_its_report_unless_it_cannot_be_written(tmp_path: Path) -> None:
    study = SiteStudy(tmp_path, dict(list(SITES.items())[:1]), per_site=2)
    table, out = study.table("all"), tmp_path / "out"
    ndflow.cohort(table, out, report=False)
    page = out / "report.html"
    assert not page.exists()
    page.write_text("of somebody else")
    with pytest.warns(UserWarning, match=r"not written: .*report\.html"):
        assert ndflow.cohort(table, out).done == 2
    assert page.read_text() == "of somebody else"
    page.unlink()
    assert ndflow.cohort(table, out)[:3] == (2, 2, [])
    before = page.stat().st_mtime_ns
    ndflow.cohort(table, out)  # nothing has changed
    assert page.stat().st_mtime_ns == before

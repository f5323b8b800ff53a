"""``ndflow.report`` writes the page that ``ndflow report`` writes."""

from pathlib import Path

import pytest
from commands import typed
from pages import ReportPage, report_of
from studies import SiteStudy

import ndflow
from ndflow.errors import FileError, InvalidValueError

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2).run("out")


def test_the_function_writes_the_page_of_the_command(out: Path) -> None:
    typed("report", out, "-q")
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    assert ndflow.report(out) == out / "report.html"
    assert (out / "report.html").read_bytes() == page
    assert ndflow.report(str(out)) == out / "report.html"  # it may be there already


def test_the_page_names_all_scans_and_shows_a_sample(out: Path) -> None:
    ndflow.report(out, sample=3, viewer=1)
    page: ReportPage = report_of(out)
    assert list(page.rows) == [f"s{number}" for number in range(6)]
    assert len(page.pictured()) == 3
    assert len(page.viewed()) == 1
    assert page.viewed() <= page.pictured()
    ndflow.report(out, sample=0)
    assert not report_of(out).pictured()


def test_conditions_are_called_what_they_are(out: Path) -> None:
    ndflow.report(out, sample=0)
    text = (out / "report.html").read_text("utf-8")
    for name in ("unnormalised", "aligned", "normalised"):
        assert name in text
    assert "as they came" not in text


def test_what_cannot_be_shown_is_refused(out: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no study"):
        ndflow.report(tmp_path)
    for wrong in ({"sample": -1}, {"viewer": -1}):
        with pytest.raises(InvalidValueError, match=next(iter(wrong))):
            ndflow.report(out, **wrong)
    assert list(tmp_path.iterdir()) == []

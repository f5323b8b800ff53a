"""What was prepared by ndflow is shown: on a page of its own, and on that of the study."""

import re
import shutil
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import typed
from pages import ReportPage, report_of
from phantoms import head
from studies import SMALL, write_tsv

import ndflow

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

SITES = {"s0": "A", "s1": "A", "s2": "B", "s3": "B"}
TINY = "s3"  # as large as a brain of 10 ml


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of four scans: three of the size of a brain, and a tiny one."""
    folder = tmp_path_factory.mktemp("raw")
    rows = []
    for number, (name, site) in enumerate(SITES.items()):
        affine = np.diag([2.0] * 3 + [1.0] if name == TINY else [9.0] * 3 + [1.0])
        scan = nibabel.Nifti1Image(head(number, shape=SMALL, gain=1 + number % 2), affine)
        nibabel.save(scan, folder / f"{name}.nii.gz")
        rows.append({"image": f"{name}.nii.gz", "site": site, "age": 20 + 10 * number})
    return write_tsv(folder / "raw.tsv", rows)


def _prepare(table: Path, out: Path, code: int = 0) -> None:
    choices = ("--mask", "nonzero", "--no-bias-field", "--tissues", "none")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NDFLOW_NO_REPORT")
        typed("prepare", table, out, "-q", *choices, code=code)


@pytest.fixture(scope="module")
def prepared(raw: Path) -> Path:
    _prepare(raw, raw.parent / "prepared")
    return raw.parent / "prepared"


def _pictures(page: ReportPage) -> dict[str, dict[str, str]]:
    """Return the pictures of the preparation, by the paths they have beside the page."""
    return {
        own["data-link"]: own
        for tag, own, _ in page.elements
        if tag == "img" and own["alt"].endswith("with outlines")
    }


def test_a_preparation_ends_with_its_page(prepared: Path) -> None:
    page = report_of(prepared)
    assert page.texts("h2") == ["Scans to inspect", "Preparation", "Table", "Settings"]
    (lead,) = page.texts("p", **{"class": "lead"})
    assert lead == "4 scans were prepared, none failed, and 1 of 4 images should be checked."
    assert set(page.rows) == set(SITES)
    assert next(iter(page.rows)) == TINY  # to check, so it comes first
    column = page.texts("th", scope="col").index("Brain")
    assert all(float(cells[column - 1].replace(",", "")) > 0 for cells in page.rows.values())
    pictures = _pictures(page)
    assert len(pictures) == 4
    for link in pictures:
        assert (prepared / link).is_file()


def test_a_study_shows_how_its_scans_were_prepared_unless_they_were_changed_since(
    prepared: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "prepared"
    shutil.copytree(prepared, copy)
    changed = copy / "sub-s0" / "anat" / "sub-s0_desc-preproc_T1w.nii.gz"
    image = nibabel.load(changed)
    nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj) * 2, image.affine), changed)
    typed("cohort", copy / "study.tsv", tmp_path / "out", "-q", "--no-report")
    ndflow.report(tmp_path / "out")
    page = report_of(tmp_path / "out")
    assert "Preparation" in page.texts("h2")
    links = _pictures(page)
    for link in links:
        assert link.startswith("../prepared/figures/")
        assert (tmp_path / "out" / link).is_file()
    flagged = [text for text in page.texts("li") if text.startswith(f"sub-{TINY}_")]
    assert any("ml, but a brain at least 600 ml" in text for text in flagged)
    assert {re.search("sub-(s.)_", link)[1] for link in links} == {"s1", "s2", "s3"}

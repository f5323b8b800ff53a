"""A study whose sites have tissue maps of different labellers says so, where it uses the maps."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run
from pages import report_of
from phantoms import save, tissue_shares
from studies import SMALL, SiteStudy, read_json

import ndflow


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """Scans of three sites with tissue maps; the columns csf2, … have other ones for Celle."""
    made = SiteStudy(tmp_path_factory.mktemp("scans"), per_site=2)
    shares = tissue_shares(SMALL)
    moved = 0.6 * shares["gm"]
    other = {"csf": shares["csf"], "gm": shares["gm"] - moved, "wm": shares["wm"] + moved}
    for kind, maps in (("ours", shares), ("theirs", other)):
        for tissue, share in maps.items():
            save(made.folder / f"{kind}_{tissue}.nii.gz", np.maximum(share, 0))
    return made


def table(study: SiteStudy, name: str, odd: str | None = None) -> Path:
    rows = []
    for row in study.rows:
        kind = "theirs" if row["site"] == odd else "ours"
        rows.append(row | {t: f"{kind}_{t}.nii.gz" for t in ("csf", "gm", "wm")})
    return study.table(name, rows, columns=rows[0])


KIND = "tissue maps differ by site"


@pytest.mark.parametrize("target", ["tissue", "adaptive"])
def test_terminal_record_and_page_name_the_site(run: Run, study: SiteStudy, target: str) -> None:
    out = study.folder / f"odd-{target}"
    words = ("cohort", table(study, "odd", "Celle"), out, "--proportions", target, "--no-report")
    ran = run(*words)
    assert ran.code == 0
    (line,) = (one for one in ran.err.splitlines() if KIND in one)
    assert line.startswith(f"warning: {KIND}: at Celle, ")
    assert "ndflow prepare" in line
    assert ("--proportions adaptive" in line) == (target == "tissue")
    (flagged,) = (one for one in ran.out.splitlines() if one.startswith("flagged"))
    assert KIND in flagged
    (doubt,) = read_json(out / "provenance.json")["of_study"]
    assert doubt["kind"] == KIND
    ndflow.report(out, sample=0, viewer=0)
    (shown,) = report_of(out).texts("p", **{"class": "overview doubt"})
    assert shown.startswith(f"Tissue maps differ by site. {doubt['text']} Were the maps made by")
    again = run(*words)
    assert "nothing to do" in again.out
    assert line in again.err
    assert KIND not in run(*words, "-q").err


def test_a_study_in_python_has_it_in_its_summary(study: SiteStudy, tmp_path: Path) -> None:
    listed, out = table(study, "odd", "Celle"), tmp_path / "odd"
    odd = ndflow.cohort(listed, out, proportions="tissue", report=False)
    assert [doubt.kind for doubt in odd.of_study] == [KIND]


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (None, ("--proportions", "tissue")),
        ("Celle", ("--preset", "paper")),
        ("Celle", ("--method", "nyul")),
    ],
)
def test_nothing_is_said_where_maps_agree_or_are_not_used(
    run: Run, study: SiteStudy, tmp_path: Path, odd: str | None, words: tuple[str, ...]
) -> None:
    ran = run("cohort", table(study, "same", odd), tmp_path / "out", "--no-report", *words)
    assert ran.code == 0
    assert KIND not in ran.err + ran.out
    assert read_json(tmp_path / "out" / "provenance.json")["of_study"] == []

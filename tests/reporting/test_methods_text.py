"""What a report says about how a study was done, in facts and as a methods paragraph."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.reporting.methods_text import cited, methods_paragraph
from ndflow.study.finished import FinishedStudy
from ndflow.study.plan import Study
from ndflow.study.table import named
from ndflow.subject.records import StudyRecord

SCANS = named([Subject({"T1w": f"/s{number}.nii"}, site="AB"[number % 2]) for number in range(4)])


ILL = [replace(scan, lesion="/l.nii") if place else scan for place, scan in enumerate(SCANS)]


TWICE = [replace(scan, person="ann") for scan in SCANS]


def run(scans: Any = SCANS, fitted: int | None = None, **settings: Any) -> FinishedStudy:
    study = Study(Path("/out"), scans, **settings)
    record = StudyRecord(
        settings=study.settings,
        command=("ndflow", "cohort", "a table.tsv", "out"),
        versions={"ndflow": "9.8.7", "numpy": "2.0"},
        done={"fit": len(scans) if fitted is None else fitted},
    )
    return FinishedStudy("out", study, record, "fingerprint")


def paragraph(masks: tuple[str, ...] = ("given",), **settings: Any) -> str:
    return methods_paragraph(run(**settings), masks)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"options": Options(mode="site")},
            "the resulting map was applied to all z-scored scans of the site",
        ),
        (
            {"options": Options(mode="two-level", proportions="adaptive")},
            "Then, the quantiles of each scan were mapped to those of its target. To match an aver",
        ),
        (
            {"options": Options(mode="two-level"), "scans": TWICE},
            "Scans of a person were z-scored by lines that minimise the Hellinger distance of",
        ),
        (
            {"scans": [replace(scan, site=None) for scan in TWICE]},
            "matched to the reference. Scans of a person were z-scored",
        ),
        (
            {"options": Options(mode="site", balance=("subject",)), "scans": TWICE},
            "The map of each site was found from people who were scanned at several",
        ),
        ({"options": Options(range=(0, 50))}, "lie at 0 and 50."),
        ({"options": Options(method="nyul", landmarks=7)}, "normalised by 7 percentiles"),
        ({"scans": ILL}, "Lesions were outlined in 3 images; their voxels were excluded"),
        ({"masks": ("nonzero", "given")}, "inside its mask or over all non-zero voxels were"),
    ],
)
def test_the_paragraph_names_what_was_chosen(settings: Any, words: str) -> None:
    text = paragraph(**settings)
    assert words in text
    assert text.endswith(".")
    assert ".." not in text
    assert "  " not in text


ALL_STEPS = {"mask": "brain", "bias field": "corrected", "tissues": "found"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a_T1w.nii", "b_T1.nii.gz"), "of 2 T1-weighted images from 1 site (A: 2) were"),
        (("a_PD.nii", "b_PDw.nii"), "of 2 PD-weighted images"),
        (("a_FLAIR.nii",), "of 1 FLAIR image from"),
        (("a_T1w.nii", "b_T2w.nii"), "of 2 images"),
        (("a_T1w.nii", "b.nii"), "of 2 images"),
    ],
)
def test_the_contrast_is_that_in_all_names(names: tuple[str, ...], words: str) -> None:
    scans = named([Subject(f"/{name}", site="A") for name in names])
    assert words in paragraph(scans=scans)


def test_the_paragraph_says_how_scans_were_prepared_and_what_to_cite() -> None:
    study = run()
    text = methods_paragraph(study, ("given",), [ALL_STEPS] * 4)
    for words in ("deepbet", "N4 (Tus", "greedy (Yu", "ICBM152 template (Fo", "priors (Ashb"):
        assert words in text
    assert "scan)" not in text
    references = (Path(__file__).parents[2] / "docs/references.bib").read_text("utf-8")
    entries = cited(study.study, ("given",), [ALL_STEPS] * 4).split("\n\n")[1:]
    assert [entry.partition(",")[0] for entry in entries] == [
        f"@article{{{key}"
        for key in ("fisch2024", "tustison2010", "ashburner2005", "fonov2011", "yushkevich2016")
    ]
    assert all(entry in references for entry in entries)

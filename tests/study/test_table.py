"""Tables of scans, as spreadsheets and people write them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ndflow.errors import FileError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.table import (
    PlainNames,
    named,
    read_study_scans,
    read_table,
    write_study_scans,
)


def table(folder: Path, content: str | bytes, name: str = "scans.tsv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_scans(path: Path | str) -> Sequence[Subject]:
    return read_table(path).subjects


def named_scans(subjects: Sequence[Subject], unmasked: Any = None) -> list[Subject]:
    return named(subjects, PlainNames(), unmasked)


def refused(path: Path) -> str:
    """Return why a table is refused, and check that the error has the file and a hint."""
    with pytest.raises(FileError) as caught:
        read_scans(path)
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value.cause


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("scans.tsv", "\t"),
        ("scans.csv", ","),
        ("scans.csv", ";"),
        ("scans.csv", "\t"),
        ("scans.txt", "\t"),
        ("SCANS.TSV", "\t"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_tabs_commas_and_semicolons_are_understood(
    tmp_path: Path, name: str, mark: str, end: str, bom: bytes
) -> None:
    lines = [
        ("image", "mask", "subject", "site", "gm", "wm", "csf", "age"),
        ("a.nii", "am.nii", "01", "Köln", "g.nii", "w.nii", "c.nii", "31"),
        ("b.nii", "", "02", "Bonn", "", "", "", ""),
    ]
    text = end.join(mark.join(line) for line in lines) + end
    folder = str(tmp_path)
    assert read_scans(table(tmp_path, bom + text.encode(), name)) == [
        Subject(
            f"{folder}/a.nii",
            f"{folder}/am.nii",
            tissues=TissueMaps(f"{folder}/c.nii", f"{folder}/g.nii", f"{folder}/w.nii"),
            person="01",
            site="Köln",
            origin="row 2",
            covariates={"age": "31"},
        ),
        Subject(f"{folder}/b.nii", person="02", site="Bonn", origin="row 3"),
    ]


@pytest.mark.parametrize("nothing", ["", "n/a", "N/A", "  ", " n/a "])
def test_an_empty_cell_has_no_value(tmp_path: Path, nothing: str) -> None:
    text = (
        f"image\tmask\tsubject\tsite\tgm\tage\na.nii{''.join(f'	{nothing}' for _ in range(5))}\n"
    )
    assert read_scans(table(tmp_path, text)) == [Subject(str(tmp_path / "a.nii"), origin="row 2")]


def test_paths_are_relative_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    text = f"image\tmask\n../a.nii\t{tmp_path}/elsewhere/m.nii\nb.nii\tn/a\n"
    path = table(tmp_path / "deep", text)
    one, two = read_scans(path)
    assert Path(one.image) == tmp_path / "deep" / ".." / "a.nii"
    assert one.mask == f"{tmp_path}/elsewhere/m.nii"
    monkeypatch.chdir(tmp_path)
    one, two = read_scans("deep/scans.tsv")
    assert [Path(scan.image).absolute() for scan in (one, two)] == [
        tmp_path / "deep" / ".." / "a.nii",
        tmp_path / "deep" / "b.nii",
    ]


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("scan\tsite\na.nii\tX\n", r"row 1 names no column 'image' (its columns: scan, site)"),
        ("a.nii\tX\nb.nii\tY\n", "row 1 names no column 'image' (its columns: a.nii, X)"),
        ("image,site\na.nii,X\n", "row 1 names no column 'image' (its columns: image,site)"),
        ("image\tsite\tsite\na\tX\tX\n", "row 1 names the column 'site' twice"),
        ("image\tImage\na\tb\n", "row 1 names the column 'image' twice"),
        ("image\tage\tage\na\t1\t2\n", "row 1 names the column 'age' twice"),
        ("image\tsite\na\tX\n\nb\n", "row 4 has 1 cells instead of 2"),
        ("image\tsite\na\tX\tY\nb\tX\n", "row 2 has 3 cells instead of 2"),
        ("image\tsite\na\tX\n\tX\n", "row 3 names no image"),
        ("image\tsite\na\tX\nn/a\tX\n", "row 3 names no image"),
        ("image\tsite\na\tX\nb\tX\na\tY\n", "row 4 has the image of row 2"),
        ("image\tsite\na\tX\n./a\tY\n", "row 3 has the image of row 2"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, text: str, cause: str) -> None:
    assert cause in refused(table(tmp_path, text))


# ── the list of a study's scans ───────────────────────────────────────────────────────────────────


def test_the_scans_of_a_study_read_back(tmp_path: Path) -> None:
    scans = named_scans(
        [
            Subject("/in/a.nii", "/in/m.nii", tissues=TissueMaps("/c.nii", "/g.nii", "/w.nii")),
            Subject("/in/b.nii", person="02", site="Köln", covariates={"age": "31"}),
        ]
    )
    write_study_scans(tmp_path / "scans.tsv", scans)
    read = read_study_scans(tmp_path / "scans.tsv")
    assert [scan.origin for scan in read] == ["row 2", "row 3"]
    for one, other in zip(scans, read, strict=True):
        for part in Subject.__dataclass_fields__:
            if part != "origin":
                assert getattr(one, part) == getattr(other, part), part


# ── what is not understood ────────────────────────────────────────────────────────────────────────


def test_columns_that_are_probably_misnamed_are_reported(tmp_path: Path) -> None:
    text = "image\tSites\tmasks\tage\tT2\na.nii\tX\tm.nii\t31\tb.nii\n"
    found = read_table(table(tmp_path, text))
    assert found.unused == {"Sites": "site?", "masks": "mask?", "T2": "holds images"}
    assert [warning.partition("the column ")[2] for warning in found.warnings] == [
        "'Sites' is only a covariate; rename it to 'site' if that is what it is",
        "'masks' holds images, but is not used; rename it to 'mask' if that is what it is",
        "'T2' holds images, but is not used",
    ]


def test_names_of_our_own_columns_are_reported_and_others_kept(tmp_path: Path) -> None:
    text = "image\tname\toutput\tsidecar\trecord\tage\t\na.nii\tAnn\t1\t2\t3\t31\t0\n"
    found = read_table(table(tmp_path, text))
    assert list(found.unused) == ["name", "output", "sidecar", "a column without a name"]
    assert found.subjects[0].covariates == {"record": "3", "age": "31"}
    write_study_scans(tmp_path / "list.tsv", named_scans(found.subjects))
    (scan,) = read_study_scans(tmp_path / "list.tsv")
    assert (scan.name, scan.output.sidecar) == ("a", "maps/a.json")
    assert scan.covariates == {"record": "3", "age": "31"}


@pytest.mark.parametrize("column", ["mask", "lesion", "gm"])
def test_a_cell_that_should_be_an_image_but_is_not_is_refused(tmp_path: Path, column: str) -> None:
    cause = refused(table(tmp_path, f"image\t{column}\na.nii\tm.nii\nb.nii\tyes\n"))
    assert cause == f"row 3 has the {column} 'yes', which is no image"


# ── several channels ──────────────────────────────────────────────────────────────────────────────


def test_columns_of_several_channels_belong_together(tmp_path: Path) -> None:
    text = "subject\tT1w\tFLAIR\tmask\timage\n01\ta.nii\tb.nii\tm.nii\tx.nii\n"
    found = read_table(table(tmp_path, text), ["T1w", "FLAIR"])
    (scan,) = found.subjects
    assert scan.images == {"T1w": str(tmp_path / "a.nii"), "FLAIR": str(tmp_path / "b.nii")}
    assert (scan.mask, scan.person) == (str(tmp_path / "m.nii"), "01")
    assert "image" in found.unused
    (whole,) = named_scans([scan])
    write_study_scans(tmp_path / "list.tsv", [whole])
    (read,) = read_study_scans(tmp_path / "list.tsv", ["T1w", "FLAIR"])
    assert replace(read, origin="") == replace(whole, origin="")


def test_covariates_called_like_our_columns_are_kept_or_said_to_be_unused(tmp_path: Path) -> None:
    """Those of one channel are the user's; where channels belong together, the columns are ours."""
    (tmp_path / "one.csv").write_text("image,scan,channel\na.nii,1,x\nb.nii,2,y\n")
    listing = read_table(tmp_path / "one.csv", ["T1w"])
    assert not listing.unused
    scans = named(listing.subjects, PlainNames())
    write_study_scans(tmp_path / "scans.tsv", scans)
    found = read_study_scans(tmp_path / "scans.tsv", ["T1w"])
    assert [scan.covariates for scan in found] == [scan.covariates for scan in scans] != [{}, {}]
    (tmp_path / "two.csv").write_text("T1w,FLAIR,scan,age\na.nii,b.nii,1,30\nc.nii,d.nii,2,40\n")
    listing = read_table(tmp_path / "two.csv", ["T1w", "FLAIR"])
    assert [*listing.unused] == ["scan"]
    scans = named(listing.subjects, PlainNames())
    write_study_scans(tmp_path / "scans.tsv", scans)
    found = read_study_scans(tmp_path / "scans.tsv", ["T1w", "FLAIR"])
    assert [(scan.name, dict(scan.covariates)) for scan in found] == [
        (scan.name, {"age": age}) for scan, age in zip(scans, ("30", "40"), strict=True)
    ]
    assert [scan.channels for scan in found] == [("T1w", "FLAIR")] * 2

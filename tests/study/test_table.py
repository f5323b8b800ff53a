"""Tables of scans, as spreadsheets and people write them, and what scans are called."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ndflow.errors import FileError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.table import Listing, named, read_study_scans, read_table, study_scans

# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mark", ["\t", ",", ";"])
@pytest.mark.parametrize("nothing", ["", " N/A "])
@pytest.mark.parametrize(("bom", "end"), [(b"", "\n"), (b"\xef\xbb\xbf", "\r\n")])
def test_tabs_commas_and_semicolons_are_understood(
    tmp_path: Path, mark: str, nothing: str, bom: bytes, end: str
) -> None:
    lines = [
        ("Image", "mask", "subject", "site", "gm", "WM", "csf", "age"),
        ("../a.nii", "/am.nii", "01", " Köln", "g.nii", "w.nii", "c.nii", "31"),
        ("b.nii", *[nothing] * 7),
    ]
    text = end.join(mark.join(line) for line in lines) + end
    (tmp_path / "scans.csv").write_bytes(bom + text.encode())
    assert read_table(tmp_path / "scans.csv").subjects == [
        Subject(
            str(tmp_path / "../a.nii"),
            "/am.nii",
            tissues=TissueMaps(*(str(tmp_path / f"{name}.nii") for name in "cgw")),
            person="01",
            site="Köln",
            origin="row 2",
            covariates={"age": "31"},
        ),
        Subject(str(tmp_path / "b.nii"), origin="row 3"),
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("scan\tsite\na.nii\tX\n", "row 1 names no column 'image' (its columns: scan, site)"),
        ("image\tsite\na\tX\nn/a\tX\n", "row 3 names no image"),
        ("image\tlesion\na\tx.nii\nb\tyes\n", "row 3 has the lesion 'yes', which is no image"),
        ("image\tsite\n", "a table without scans"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "scans.tsv"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_table(path)
    assert caught.value.path == str(path)
    assert cause in caught.value.cause


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    text = "image\tSites\tmasks\tage\tT2\tname\t\na.nii\tX\tm.nii\t31\tb.nii\tAnn\t0\n"
    (tmp_path / "t.tsv").write_text(text)
    found = read_table(tmp_path / "t.tsv")
    assert {*found.unused} == {"name", "a column without a name", "masks", "T2"}
    said = [warning.partition("the column ")[2].split(",")[0] for warning in found.warnings]
    assert said == ["'masks' holds images", "'T2' holds images"]


# ── the same twice ────────────────────────────────────────────────────────────────────────────────


def test_a_name_that_a_spreadsheet_made_a_number_is_the_same(tmp_path: Path) -> None:
    sites = {"1": "1", "1.0": "1", "1,00": "1", "10": "10", "1.5": "1.5", "v1.0": "v1.0"}
    lines = [f"{number}.nii\t{site}\t{site}" for number, site in enumerate(sites)]
    table = tmp_path / "t.tsv"
    table.write_text("\n".join(["image\tsite\tsubject", *lines]), "utf-8")
    for scan, name in zip(read_table(table).subjects, sites.values(), strict=True):
        assert (scan.site, scan.person) == (name, name)


def test_the_same_file_and_almost_the_same_site_are_refused(tmp_path: Path) -> None:
    scan = tmp_path / "a.nii"
    scan.touch()
    (tmp_path / "link.nii").symlink_to(scan)
    (tmp_path / "hard.nii").hardlink_to(scan)
    for other in (scan, tmp_path / "." / "a.nii", tmp_path / "link.nii", tmp_path / "hard.nii"):
        twice = [Subject(str(one), origin=one.name) for one in (scan, other)]
        with pytest.raises(FileError, match=r"is the same file as a\.nii"):
            Listing(twice, "list", tmp_path)
    for name in ("KÖLN", "Ko\u0308ln"):
        sites = [Subject(f"/{site}.nii", site=site) for site in ("Köln", name)]
        with pytest.raises(FileError, match="has the site"):
            Listing(sites, "list", tmp_path)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def called(*given: Sequence[str | None]) -> list[str]:
    """Return what scans are called, given their images, people and sites."""
    scans = [
        Subject(f"/in/{image}", person=person, site=site, origin=f"row {number}")
        for number, (image, person, site) in enumerate(given, start=2)
    ]
    return [scan.name for scan in named(scans)]


def test_a_scan_is_named_after_its_image_and_if_need_be_its_person_or_site() -> None:
    scans = [("x/a.nii.gz", "01", "X"), ("b.NII", "01", "X"), ("c.v2.mgz", None, None)]
    assert called(*scans) == ["a", "b", "c.v2"]
    assert called(("1/t.nii", "01", "X"), ("2/t.nii", None, "X")) == ["01_t", "X_t"]
    for other in ("KÖLN", "Ko\u0308ln"):  # which many discs take for the same
        same = (("1/Köln.nii", "01", None), (f"2/{other}.nii", "02", None))
        assert called(*same) == ["01_Köln", f"02_{other}"]
    for last in (("2/t1.nii", "01", "X"), ("01_t1.nii", None, None)):
        with pytest.raises(FileError, match=rf"{last[0]}: row .* like that of row 2"):
            called(("1/t1.nii", "01", "X"), ("2/t1.nii", "02", "X"), last)


# ── several channels, and the list of a study ─────────────────────────────────────────────────────


def test_channels_whose_files_have_the_same_name_are_told_apart() -> None:
    same = [
        Subject({"T1w": f"/{p}/x/t.nii", "FLAIR": f"/{p}/y/t.nii"}, person=p, origin=p)
        for p in ("p1", "p2")
    ]
    names = [out.name for one in named(same) for out in one.outputs.values()]
    assert names == ["p1_t_T1w", "p1_t_FLAIR", "p2_t_T1w", "p2_t_FLAIR"]


@pytest.mark.parametrize(
    ("text", "shown", "unused"),
    [
        ("image,mask,gm,site,scan\na.nii,m.nii,g.nii,Köln,1\nb.nii,,,,2\n", "T1w", ""),
        ("T1w,FLAIR,subject,scan,age,image\na.nii,b.nii,1,x,30,y.nii\n", "T1w FLAIR", "scan image"),
    ],
)
def test_the_scans_of_a_study_read_back(tmp_path: Path, text: str, shown: str, unused: str) -> None:
    """With all covariates, but those that have the names of our columns."""
    (tmp_path / "t.csv").write_text(text)
    listing = read_table(tmp_path / "t.csv", shown.split())
    assert [*listing.unused] == unused.split()
    scans = named(listing.subjects)
    assert all(scan.covariates and scan.channels == tuple(shown.split()) for scan in scans)
    (tmp_path / "scans.tsv").write_bytes(study_scans(tmp_path, scans))
    read = read_study_scans(tmp_path / "scans.tsv", shown.split())
    assert [replace(one, origin="") for one in read] == [replace(one, origin="") for one in scans]

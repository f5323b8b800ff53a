"""Names that are long, hold characters that cannot be seen, or look like formulas."""

import csv
from pathlib import Path

import pytest
from commands import Run
from phantoms import head, save
from studies import SITES, SMALL, SiteStudy, contents

from ndflow.files.tables import read_delimited, write_table

# Between letters, because blanks at the ends of a cell do not count.
BLANKS = "\x0b\x0c\x1c\x1f\x7f\x85\xa0\u1680\u2003\u200b\u2028\u2029\u3000\ufeff\t\n\r\0"
NAMES = {
    "Aachen": "Aachen" * 50,
    "Bonn": "=cmd|'/C calc'!A0",
    "Celle": "".join(f"C{blank}e" for blank in BLANKS),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    """A study whose table has such names in every column."""
    study = SiteStudy(tmp_path_factory.mktemp("odd"), SITES, per_site=1)
    for row in study.rows:
        row |= {"site": NAMES[row["site"]], "subject": f"@{row['subject']}{'é' * 150}"}
        row |= {"=age": "-1.5", "note": "+49 (0) 241, =1+1"}
    for number, subject in enumerate("xy"):  # two images of one name: their names have subjects
        folder = study.folder / subject
        folder.mkdir()
        row = study.rows[number] | {"image": f"{subject}/scan.nii.gz", "subject": subject * 300}
        save(study.folder / row["image"], head(10 + number, shape=SMALL))
        study.rows.append(row)
    return study


def written(study: SiteStudy, rows: list[dict[str, str]]) -> Path:
    path = study.folder / "table.tsv"
    write_table(path, list(rows[0]), [list(row.values()) for row in rows])
    return path


@pytest.fixture(scope="module")
def out(odd: SiteStudy) -> Path:
    return odd.run("out", "--mode", "two-level", table=written(odd, odd.rows))


def test_names_come_back_from_the_list_of_scans(odd: SiteStudy, out: Path) -> None:
    columns, rows = read_delimited(out / "scans.tsv")
    found = [dict(zip(columns, cells, strict=True)) for _, cells in rows]
    for name in ("site", "subject", "=age", "note"):
        assert [row[name] for row in found] == [row[name] for row in odd.rows]
    for row in found:
        assert (out / row["output"]).exists()
    assert len((out / "scans.tsv").read_text("utf-8").splitlines()) == len(odd.rows) + 1


def test_each_site_has_its_reference_and_its_map(out: Path) -> None:
    for kind in ("reference", "map"):
        assert len(list(out.glob(f"{kind}_*.json"))) == len(NAMES)


def test_no_cell_is_a_formula_and_numbers_stay_numbers(out: Path) -> None:
    with (out / "scans.tsv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert "-1.5" in rows[1]
    cells = {cell for row in rows for cell in row} - {"-1.5"}
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_the_study_is_kept_evaluated_and_reported(
    run: Run, odd: SiteStudy, out: Path, tmp_path: Path
) -> None:
    before = contents(out)
    assert run("cohort", written(odd, odd.rows), out, "--mode", "two-level", "-q").code == 0
    after = contents(out)
    assert {name: after[name] for name in before if name != "provenance.json"} == {
        name: before[name] for name in before if name != "provenance.json"
    }
    words = ("--trees", 2, "--permutations", 2, "-q")
    assert run("evaluate", out, "-o", tmp_path / "evaluation", *words).code == 0
    for table in (tmp_path / "evaluation").glob("*.tsv"):
        for line in table.read_text("utf-8").splitlines():
            for cell in line.split("\t"):
                if cell.startswith(("=", "+", "-", "@")):
                    float(cell)
    assert run("report", out, "-q").code == 0
    assert (out / "report.html").exists()


def test_failures_have_one_line_each(run: Run, odd: SiteStudy, tmp_path: Path) -> None:
    names = [f"=bad\u2028{number}\x0b.nii.gz" for number in range(2)]
    for name in names:
        (odd.folder / name).write_text(f"no image: {name}")
    rows = [*odd.rows[:3], *({**odd.rows[0], "image": name, "subject": "z"} for name in names)]
    for _ in range(2):  # the second time, the list is read and written again
        ran = run("cohort", written(odd, rows), tmp_path / "out", "-q")
        assert ran.code == 1
        lines = (tmp_path / "out" / "failures.tsv").read_text("utf-8").splitlines()
        assert [line.count("\t") for line in lines] == [3, 3, 3]
        assert not [line for line in lines if line.startswith(("=", "+", "-", "@"))]


def test_a_name_that_is_too_long_for_the_disc_is_refused(run: Run, tmp_path: Path) -> None:
    long = tmp_path / f"{'x' * 251}.nii"
    save(long, head())
    (tmp_path / "out").mkdir()
    ran = run("normalise", long, "--to", long, "-o", tmp_path / "out")
    assert ran.code == 2
    assert "File name too long" in ran.err
    assert list((tmp_path / "out").glob("*.nii*")) == []

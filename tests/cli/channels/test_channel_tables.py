"""``ndflow cohort --channels T1w FLAIR``: each channel by itself, in one run."""

from pathlib import Path

import pytest
from channel_phantoms import NAMES, save_channels
from commands import Run, typed
from studies import contents, read_json, read_tsv, write_tsv

GAINS = {1: (1.3, 0.7), 2: (0.8, 1.1), 3: (1.0, 1.0)}


def make_table(folder: Path) -> Path:
    rows = []
    for seed, gains in GAINS.items():
        files = save_channels(folder, seed, gains=gains)
        rows.append({"subject": f"s{seed}", **{name: file.name for name, file in files.items()}})
    return write_tsv(folder / "study.tsv", rows)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_table(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def out(table: Path) -> Path:
    place = table.parent / "out"
    typed("cohort", table, place, "--channels", *NAMES, "-q")
    return place


def change(table: Path, to: Path, **cells: str) -> Path:
    """Write the table again, beside the images, with other cells in its last row."""
    rows = read_tsv(table)
    rows[-1] |= cells
    return write_tsv(table.with_name(to.name), rows)


def test_each_channel_is_what_a_study_of_its_own_would_make_of_it(table: Path, out: Path) -> None:
    rows = [{"subject": row["subject"], "image": row["FLAIR"]} for row in read_tsv(table)]
    alone = table.parent / "alone"
    single = write_tsv(table.with_name("single.tsv"), rows)
    typed("cohort", single, alone, "--channels", "FLAIR", "-q")
    images = {name: data for name, data in contents(out / "FLAIR").items() if "images/" in name}
    assert len(images) == len(GAINS)
    assert images == {name: data for name, data in contents(alone).items() if "images/" in name}


def test_one_file_holds_the_references_of_all_channels(table: Path, out: Path) -> None:
    references = read_json(out / "reference.json")
    assert references["kind"] == "references"
    assert references["channel_names"] == list(NAMES)
    for name in NAMES:
        assert (
            references["references"][name]["reference"]
            == (read_json(out / name / "reference.json")["reference"])
        )
        assert read_json(out / name / "provenance.json")["channels"] == [name]
    again = table.parent / "again"
    words = ("--channels", *NAMES, "--reference", out / "reference.json", "-q")
    typed("cohort", table, again, *words)
    image = Path("FLAIR/images/1_FLAIR.nii.gz")
    assert (again / image).read_bytes() == (out / image).read_bytes()


def test_a_second_run_has_nothing_to_do(run: Run, table: Path, out: Path) -> None:
    before = {name: contents(out / name / "images") for name in NAMES}
    ran = run("cohort", table, out, "--channels", *NAMES)
    assert ran.code == 0
    assert ran.out.count("3 done (3 kept from an earlier run), 0 failed: nothing to do") == 2
    assert {name: contents(out / name / "images") for name in NAMES} == before
    ran = run("cohort", table, out, "--channels", *NAMES, "--dry-run")
    assert ran.code == 0
    assert ran.out.count("keep") == 2 * len(GAINS)


def test_a_missing_file_fails_in_its_channel(run: Run, table: Path, tmp_path: Path) -> None:
    lost = change(table, tmp_path / "lost.tsv", T1w="gone.nii.gz")
    ran = run("cohort", lost, tmp_path / "out", "--channels", *NAMES)
    assert ran.code == 1
    (failed,) = read_tsv(tmp_path / "out" / "T1w" / "failures.tsv")
    assert failed["scan"] == "gone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--channels", "T1w", "Flair"), "names no column 'Flair'|is it 'FLAIR'?"),
        (("--channels", "T1w", "T2w"), "names no column 'T2w' (its columns: subject, T1w, FLAIR)"),
        (("--channels", "T1w", "T1w"), "the same twice"),
        (("--channels", "T1w", "mask"), "'mask' has another meaning"),
        ((), "no column 'image'|--channels"),
    ],
)
def test_refused(run: Run, table: Path, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = run("cohort", table, tmp_path / "out", *words)
    assert ran.code == 2
    assert all(part in ran.errors[0] for part in said.split("|"))
    assert not (tmp_path / "out").exists()


def test_each_channel_is_prepared_in_a_study_of_its_own(
    run: Run, table: Path, tmp_path: Path
) -> None:
    how = ("--prepare", "--mask", "nonzero", "--no-bias-field", "--tissues", "none")
    ran = run("cohort", table, tmp_path / "out", "--channels", *NAMES, *how)
    assert ran.code == 0, ran.err
    for name in NAMES:
        assert len(read_tsv(tmp_path / "out" / name / "prepared" / "study.tsv")) == len(GAINS)


def test_rows_that_lack_a_channel_are_refused(run: Run, table: Path, tmp_path: Path) -> None:
    for cell, said in (
        ("n/a", "row 4 names no FLAIR"),
        ("3_T1w.nii.gz", "FLAIR of row 4 has the image of T1w"),
    ):
        odd = change(table, tmp_path / "odd.tsv", FLAIR=cell)
        ran = run("cohort", odd, tmp_path / "out", "--channels", *NAMES)
        assert ran.code == 2
        assert said in ran.errors[0]


def test_what_is_not_ours_is_not_replaced(run: Run, table: Path, tmp_path: Path) -> None:
    for name in ("report.html", "reference.json"):
        place = tmp_path / name.partition(".")[0]
        place.mkdir()
        (place / name).write_text("{}")
        ran = run("cohort", table, place, "--channels", *NAMES)
        assert ran.code == 2
        assert str(place / name) in ran.errors[0]
        assert contents(place) == {name: b"{}"}


def test_the_page_leads_to_that_of_each_channel(
    run: Run, table: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    ran = run("cohort", table, out, "--channels", *NAMES)
    assert ran.code == 0
    page = (out / "report.html").read_text()
    assert f"<h1>{out.name}</h1>" in page
    assert "3 scans of T1w and 3 scans of FLAIR were normalised, and none failed" in page
    for name in NAMES:
        assert f'href="{name}/report.html"' in page
        assert f"<h1>{name}</h1>" in (out / name / "report.html").read_text()
    for more in (("--no-report",), ()):  # it is known to be ours
        assert run("cohort", table, out, "--channels", *NAMES, *more).code == 0
    ran = run("report", out)
    assert ran.code == 2
    assert "holds a study of each channel: T1w, FLAIR" in ran.errors[0]

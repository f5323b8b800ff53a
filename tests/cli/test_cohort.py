"""``ndflow cohort``: a whole study, its progress, and scans that fail."""

import csv
import json
import re
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import Run, on_a_terminal
from phantoms import head, save
from studies import SMALL

import ndflow
from ndflow.study.table import read_table

GAINS = {"Aachen": 1.0, "Bonn": 2.5, "Celle": 0.6}


def scan(path: Path, seed: int, gain: float = 1.0) -> Path:
    path.parent.mkdir(exist_ok=True)
    return save(path, head(seed, shape=SMALL, gain=gain))


class Desk:
    """A table of five scans of three sites, and a folder for the results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.table = folder, folder / "out", folder / "scans.tsv"
        self.sites = ["Aachen", "Aachen", "Bonn", "Bonn", "Celle"]
        for number, site in enumerate(self.sites):
            scan(self.image(number), number, GAINS[site] * (1 + 0.1 * number))
        self.write()

    def image(self, number: int) -> Path:
        return self.folder / "in" / f"s{number}.nii.gz"

    def write(self) -> None:
        lines = [f"in/s{number}.nii.gz\t{site}" for number, site in enumerate(self.sites)]
        self.table.write_text("\n".join(["image\tsite", *lines, ""]))

    def failures(self) -> list[list[str]]:
        return rows(self.out / "failures.tsv")


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): b"" if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


def done(*names: str) -> set[str]:
    return {f"{kind}/{n}" for n in names for kind in ("models", "images", "maps", "figures")}


def made(out: Path) -> set[str]:
    files = [path for path in out.glob("*/*") if path.parent.name != "logs"]
    return {f"{path.parent.name}/{path.name.partition('.')[0]}" for path in files}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


# ── a study ──────────────────────────────────────────────────────────────────────────────────────


def test_the_results_folder_has_the_documented_layout(run: Run, desk: Desk) -> None:
    words = ("cohort", desk.table, desk.out, "--channels", "T1w")
    ran = run(*words)
    assert ran.code == 0
    names = [f"s{number}" for number in range(5)]
    found = {name for name in tree(desk.out) if not name.startswith(".")}
    assert found == {
        "images",
        "models",
        "maps",
        "figures",
        "scans.tsv",
        "provenance.json",
        "reference.json",
    } | {f"reference_{site}.json" for site in GAINS} | {
        f"images/{name}.nii.gz" for name in names
    } | {f"figures/{name}.png" for name in names} | {
        f"{kind}/{name}.json" for name in names for kind in ("models", "maps")
    }
    assert ndflow.load(desk.out / "reference.json").channel_names == ("T1w",)
    provenance = json.loads((desk.out / "provenance.json").read_text())
    assert provenance["command"] == ["ndflow", *map(str, words)]
    assert (provenance["finished"], provenance["failed"]) == (True, 0)
    assert provenance["done"] == {"fit": 5, "normalise": 5}
    image, given = nibabel.load(desk.out / "images" / "s0.nii.gz"), nibabel.load(desk.image(0))
    assert image.get_data_dtype() == np.float32
    assert np.array_equal(image.affine, given.affine)
    assert np.array_equal(np.asarray(image.dataobj) == 0, np.asarray(given.dataobj) == 0)


@pytest.mark.parametrize("mode", ["individual", "site"])
def test_results_are_the_same_bytes_for_any_number_of_workers(
    run: Run, desk: Desk, mode: str
) -> None:
    trees = []
    for jobs in (1, 2):
        assert run("cohort", desk.table, desk.out, "--mode", mode, "-j", jobs).code == 0
        found = tree(desk.out)
        provenance = json.loads(found.pop("provenance.json"))
        assert provenance.pop("command")[-1] == str(jobs)
        trees.append((found, provenance))
        desk.out.rename(desk.folder / f"out{jobs}")
    assert trees[0] == trees[1]


def test_the_list_of_scans_is_a_table_for_another_study(run: Run, desk: Desk) -> None:
    desk.table.write_text(
        "image\tsite\tsubject\tname\tage\n"
        "in/s0.nii.gz\tX\t01\tAnn\t31\nin/s1.nii.gz\tX\t02\tn/a\t32\n"
    )
    assert run("cohort", desk.table, desk.out).code == 0
    expected = [(str(desk.image(n)), f"0{n + 1}", "X", str(31 + n)) for n in (0, 1)]
    again = desk.folder / "again"
    assert run("cohort", desk.out / "scans.tsv", again).code == 0
    for folder in (desk.out, again):
        listed = read_table(folder / "scans.tsv").subjects
        found = [(row.image, row.person, row.site, row.covariates["age"]) for row in listed]
        assert found == expected
    assert tree(again / "images") == tree(desk.out / "images")


def test_a_mask_of_the_table_is_the_mask_of_its_scan(run: Run, desk: Desk) -> None:
    mask = save(desk.folder / "m.nii.gz", (head(0, shape=SMALL) > 500).astype(np.uint8))
    desk.table.write_text("image\tmask\nin/s0.nii.gz\tm.nii.gz\nin/s1.nii.gz\tn/a\n")
    assert run("cohort", desk.table, desk.out).code == 0
    models = [ndflow.load(desk.out / "models" / f"s{number}.json") for number in (0, 1)]
    assert models[0] == ndflow.fit(desk.image(0), mask=mask).mixture
    assert models[1] == ndflow.fit(desk.image(1)).mixture


def test_a_folder_is_a_table_whose_sites_are_folders(run: Run, desk: Desk) -> None:
    study = desk.folder / "study"
    study.mkdir()
    for number, name in enumerate(
        ["A/a_T1w.nii.gz", "B/b_T1w.nii", "top_T1w.nii.gz", "A/a_T2w.nii"]
    ):
        scan(study / name, number)
    (study / "A" / "notes.txt").write_text("mine")
    assert run("cohort", study, desk.out, "--pattern", "*_T1w.nii*").code == 0
    with (desk.out / "scans.tsv").open() as file:
        listed = {row["name"]: row["site"] for row in csv.DictReader(file, delimiter="\t")}
    assert listed == {"a_T1w": "A", "b_T1w": "B", "top_T1w": "n/a"}
    ran = run("cohort", study, desk.out, "--dry-run")
    assert len(ran.out.splitlines()) == 4
    ran = run("cohort", study, desk.out, "--pattern", "*_bold.nii")
    assert ran.code == 2
    assert f"{study}: no image in it is called *_bold.nii; " in ran.errors[0]


def test_results_inside_the_folder_of_images_are_not_taken_for_images(run: Run, desk: Desk) -> None:
    out = desk.folder / "in" / "out"
    for _ in range(2):
        assert run("cohort", desk.folder / "in", out).code == 0
        assert len(rows(out / "scans.tsv")) == 6
        assert made(out) == done(*(f"s{number}" for number in range(5)))


# ── scans that fail ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("jobs", [1, 2])
def test_scans_that_fail_are_listed_and_the_others_are_done(
    run: Run, desk: Desk, jobs: int
) -> None:
    assert run("cohort", desk.table, desk.out).code == 0
    desk.image(0).unlink()
    desk.image(1).write_bytes(desk.image(1).read_bytes()[:-200])
    save(desk.image(3), np.full(SMALL, 7, np.int16))
    ran = run("cohort", desk.table, desk.out, "-j", jobs)
    assert ran.code == 1
    assert [line[:2] for line in desk.failures()] == [
        ["scan", "stage"],
        ["s0", "fit"],
        ["s1", "fit"],
        ["s3", "fit"],
    ]
    for line, number in zip(desk.failures()[1:], (0, 1, 3), strict=True):
        assert line[2].startswith(f"{desk.image(number)}: ")
        assert line[3] not in ("", "n/a")
        assert any(str(desk.image(number)) in error for error in ran.errors)
    assert "no such file" in desk.failures()[1][2]
    assert ran.errors[-1] == f"error: 3 of 5 scans failed; see {desk.out / 'failures.tsv'}"
    assert made(desk.out) == done("s2", "s4")  # the older results of the others are gone
    assert ndflow.load(desk.out / "reference.json").scans == 2
    provenance = json.loads((desk.out / "provenance.json").read_text())
    assert (provenance["done"]["normalise"], provenance["failed"]) == (2, 3)
    for number in (0, 1, 3):
        scan(desk.image(number), number)
    assert run("cohort", desk.table, desk.out, "-j", jobs).code == 0
    assert not (desk.out / "failures.tsv").exists()


def test_a_missing_file_is_named_with_its_row(run: Run, desk: Desk) -> None:
    desk.image(3).unlink()
    ran = run("cohort", desk.table, desk.out)
    assert ran.code == 1
    assert f"{desk.image(3)}: " in ran.errors[0]
    assert "row 5" in ran.errors[0]


def test_a_scan_that_cannot_be_written_does_not_stop_the_others(run: Run, desk: Desk) -> None:
    assert run("cohort", desk.table, desk.out).code == 0
    image = desk.out / "images" / "s1.nii.gz"
    image.unlink()
    image.mkdir()
    ran = run("cohort", desk.table, desk.out, "--scale", "standard", "--force")
    assert ran.code == 1
    assert [line[:2] for line in desk.failures()[1:]] == [["s1", "normalise"]]
    assert {f"images/s{number}" for number in (0, 2, 3, 4)} < made(desk.out)


@pytest.mark.parametrize("options", [("--mode", "site"), ("-j", 2)])
def test_the_exit_code_is_2_where_all_scans_of_a_study_fail(
    run: Run, desk: Desk, options: tuple[object, ...]
) -> None:
    for number in range(5):
        desk.image(number).write_bytes(b"")
    ran = run("cohort", desk.table, desk.out, *options)
    assert ran.code == 2
    assert len(desk.failures()) == 6
    assert made(desk.out) == set()
    assert not (desk.out / "reference.json").exists()


# ── what is refused before it begins ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{table} {out} --pattern *.nii", "--pattern"),
        ("{table}", "OUT"),
        ("{folder}/no.tsv {out}", "{folder}/no.tsv: no such file; "),
        ("{table} {folder}/no/out", "{folder}/no/out: there is no folder {folder}/no; "),
        ("{table} {out} --mode hospital", "hospital"),
        ("{table} {out} -j 0", "jobs"),
        ("{table} {out} --reference {folder}/no.json", "{folder}/no.json: no such file; "),
        ("{table} {out} --dtype int16 --scale standard", "--scale positive or --range 0 1000"),
        ("{table} {out} --dtype uint8", "--range 0 255"),
        ("{table} {out} --scale target", "use --scale positive or --scale standard"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_made(
    run: Run, desk: Desk, words: str, said: str
) -> None:
    names = {"table": desk.table, "out": desk.out, "folder": desk.folder}
    before = tree(desk.folder)
    ran = run("cohort", *(word.format(**names) for word in words.split()))
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.errors) == 1
    assert said.format(**names) in ran.errors[0]
    assert tree(desk.folder) == before


def test_sites_are_needed_for_the_mode_that_goes_by_them(run: Run, desk: Desk) -> None:
    desk.sites[3] = "n/a"
    desk.write()
    ran = run("cohort", desk.table, desk.out, "--mode", "site")
    assert ran.code == 2
    assert ran.errors == [
        f"error: {desk.image(3)}: its site is not known (row 5); name it in the table or in "
        "participants.tsv, or use --mode individual"
    ]
    assert made(desk.out) == set()  # at once, before any scan is read
    assert run("cohort", desk.table, desk.out).code == 0


def test_a_folder_of_something_else_is_left_alone(run: Run, desk: Desk) -> None:
    desk.out.mkdir()
    (desk.out / "thesis.tex").write_text("precious")
    for option in ((), ("--dry-run",)):
        ran = run("cohort", desk.table, desk.out, *option)
        assert ran.code == 2
        assert ran.errors[0].startswith(f"error: {desk.out}: not empty, and not the result of ")
        assert "--force" in ran.errors[0]
        assert tree(desk.out) == {"thesis.tex": b"precious"}
    assert run("cohort", desk.table, desk.out, "--force").code == 0
    assert (desk.out / "thesis.tex").read_text() == "precious"
    assert run("cohort", desk.table, desk.out).code == 0  # now it is the folder of a study


def test_images_that_went_in_survive_whatever_happens(run: Run, desk: Desk) -> None:
    (desk.folder / "in").rename(desk.folder / "images")
    desk.table.write_text(desk.table.read_text().replace("in/", "images/"))
    before = tree(desk.folder / "images")
    ran = run("cohort", desk.table, desk.folder, "--force")
    assert ran.code == 2
    assert "lies in the folder for the results" in ran.errors[0]
    assert tree(desk.folder / "images") == before


# ── progress ────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_says_what_would_be_done_and_what_could_not(run: Run, desk: Desk) -> None:
    before = tree(desk.folder)
    ran = run("cohort", desk.table, desk.out, "--dry-run")
    assert (ran.code, ran.errors) == (0, [])
    assert ran.out.splitlines() == [f"s{number}  fit and write  new" for number in range(5)]
    assert ran.err.splitlines()[-1] == "5 scans: 5 to fit and write"
    assert tree(desk.folder) == before
    desk.image(2).unlink()
    ran = run("cohort", desk.table, desk.out, "--dry-run")
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 4
    assert f"{desk.image(2)}: no such file (row 4)" in ran.errors[0]
    assert ran.err.splitlines()[-1] == "5 scans: 4 to fit and write, 1 that would fail"
    assert not desk.out.exists()


def test_stages_are_printed_in_lines_without_a_terminal(process: Run, desk: Desk) -> None:
    ran = process("cohort", desk.table, desk.out)
    assert ran.code == 0
    lines = ran.err.splitlines()
    start = lines.index("fit: 5 scans")  # after what was understood
    assert lines[start + 1 : start + 3] == ["references", "normalise: 5 scans"]
    assert all(line.startswith("warning: ") for line in lines[start + 3 :])  # doubts


def test_quiet_prints_errors_only(run: Run, desk: Desk) -> None:
    ran = run("cohort", desk.table, desk.out, "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    desk.image(0).unlink()
    ran = run("cohort", desk.table, desk.out, "-q")
    assert ran.code == 1
    assert len(ran.err.splitlines()) == len(ran.errors) == 2


@pytest.mark.parametrize("flags", [(), ("-q",)])
def test_one_progress_display_shows_both_passes_on_a_terminal(
    desk: Desk, flags: tuple[str]
) -> None:
    desk.image(1).unlink()
    code, out, text = on_a_terminal("cohort", desk.table, desk.out, *flags)
    assert code == 1
    assert ("4 done (0 kept from an earlier run), 1 failed" in out) == (not flags)
    assert "no such file" in " ".join(text.split())  # which may be wrapped
    if flags:
        assert "\x1b[" not in text
        assert "4/4" not in text
    else:
        assert all(part in text for part in ("fit", "5/5", "normalise", "4/4", "/s", "\x1b["))


def test_results_of_other_scans_are_not_mixed_in_silently(run: Run, desk: Desk) -> None:
    assert run("cohort", desk.table, desk.out).code == 0
    desk.table.write_text("".join(desk.table.read_text().splitlines(keepends=True)[:-1]))
    ran = run("cohort", desk.table, desk.out)
    assert (ran.code, "such as s4" in ran.err) == (2, True)
    assert run("cohort", desk.table, desk.out, "--force").code == 0


def test_a_reference_of_other_images_is_refused(run: Run, desk: Desk) -> None:
    assert run("cohort", desk.table, desk.out, "--channels", "T2w").code == 0
    reference = ("--reference", desk.out / "reference.json")
    ran = run("cohort", desk.table, desk.folder / "new", *reference, "--channels", "T1w")
    assert (ran.code, "made of T2w images, but these are T1w" in ran.err) == (2, True)
    assert run("cohort", desk.table, desk.folder / "new", *reference).code == 0


def test_progress_is_printed_in_a_line_now_and_then(
    run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ndflow.cli.console._INTERVAL", -1.0)  # after every scan
    lines = run("cohort", desk.table, desk.out).err.splitlines()
    for stage in ("fit", "normalise"):
        said = [line for line in lines if line.startswith(f"{stage}: ")]
        assert len(said) == 6
        assert re.fullmatch(rf"{stage}: 2 of 5 scans, \S+ per second, \d:\d\d:\d\d left", said[2])

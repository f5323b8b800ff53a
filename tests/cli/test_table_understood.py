"""What ``ndflow cohort`` understands of a table or a folder, and what it refuses by row."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import Ran, Run
from phantoms import head, save
from studies import SMALL, contents, read_json, read_tsv, write_tsv

import ndflow

ROWS = [
    {"image": f"in/s{n}.nii.gz", "site": "AB"[n % 2], "subject": f"p{n}", "age": 30 + n}
    for n in range(4)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four scans of two sites, each with a mask and a lesion mask."""
    (tmp_path / "in").mkdir()
    for number in range(4):
        scan = head(number, shape=SMALL, gain=1 + number)
        save(tmp_path / "in" / f"s{number}.nii.gz", scan)
        save(tmp_path / "in" / f"s{number}_mask.nii.gz", (scan > 0).astype(np.uint8))
        lesion = np.zeros(SMALL, np.uint8)
        lesion[5:8, 6:9, 4:8] = 1
        save(tmp_path / "in" / f"s{number}_lesion.nii.gz", lesion)
    return tmp_path


def table(folder: Path, *names: str, **more: str) -> Path:
    """Write a table: of the columns, `names` and those of `more`, which name the files of scans."""
    rows = [
        {name: row[name] for name in names}
        | {name: f"in/s{n}_{kind}.nii.gz" for name, kind in more.items()}
        for n, row in enumerate(ROWS)
    ]
    return write_tsv(folder / "t.tsv", rows)


def about(ran: Ran) -> dict[str, str]:
    """Return what was printed about the scans."""
    lines = [line for line in ran.err.splitlines() if line.startswith("  ")]
    assert max(map(len, lines)) <= 100
    return {line[2:16].strip(): line[16:] for line in lines if line[2] != " "}


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


def test_what_was_understood_is_printed_first(run: Run, folder: Path) -> None:
    path = table(folder, "image", "site", "age", mask="mask", lesion="lesion")
    for words in ((), ("--dry-run",)):
        ran = run("cohort", path, folder / "out", *words)
        assert ran.code == 0
        assert ran.err.startswith(f"{path}: 4 scans\n")
        assert about(ran) == {
            "sites": "2 (A 2, B 2)",
            "brain masks": "4 given",
            "lesion masks": "4 of 4 scans",
            "tissue maps": "none",
            "covariates": "age",
            "reference": "made from these scans",
            "preset": "auto: individual, average proportions, averaged quantiles, because there "
            "are 2 sites",  # and more on the next line
        }
    assert run("cohort", path, folder / "out", "-q").err == ""


def test_misnamed_columns_are_named_with_the_nearest_known_name(run: Run, folder: Path) -> None:
    path = table(folder, "image", masks="mask")
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([f"{first}\tSites", *(f"{line}\tX" for line in others)]))
    ran = run("cohort", path, folder / "out", "--mask", "auto")
    assert ran.code == 0
    said = about(ran)
    assert (said["sites"], said["brain masks"]) == ("none", "4 to be found automatically")
    assert said["not used"] == "masks (mask?), Sites (site?)"
    warnings = [line for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert "'masks' holds images, but is not used; rename it to 'mask'" in warnings[0]
    assert "'Sites' is only a covariate; rename it to 'site'" in warnings[1]


def test_python_warns_about_misnamed_columns(folder: Path) -> None:
    path = table(folder, "image", brainmask="mask")
    with pytest.warns(UserWarning, match="the column 'brainmask' holds images"):
        ndflow.cohort(path, folder / "out", report=False)


def test_a_lesion_of_the_table_is_left_out_of_the_density(run: Run, folder: Path) -> None:
    path = table(folder, "image", "site", lesion="lesion")
    assert run("cohort", path, folder / "out").code == 0
    image, lesion = folder / "in" / "s1.nii.gz", folder / "in" / "s1_lesion.nii.gz"
    model = ndflow.load(folder / "out" / "models" / "s1.json")
    assert model == ndflow.fit(image, exclude=lesion).mixture != ndflow.fit(image).mixture
    sidecar = read_json(folder / "out" / "maps" / "s1.json")
    assert sidecar["inputs"]["lesion"][0]["file"] == str(lesion)
    assert sidecar["settings"]["exclude"] is True
    assert read_tsv(folder / "out" / "scans.tsv")[1]["lesion"] == str(lesion)
    # Another lesion mask makes another density.
    before = contents(folder / "out" / "models")
    small = np.zeros(SMALL, np.uint8)
    small[5:8, 6:9, 5:7] = 1
    save(lesion, small)
    ran = run("cohort", path, folder / "out", "--dry-run")
    assert "s1  fit and write  changed: lesion" in ran.out.splitlines()
    assert run("cohort", path, folder / "out").code == 0
    after = contents(folder / "out" / "models")
    assert [name for name in after if after[name] != before[name]] == ["s1.json"]


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_unclosed_quotation_mark_is_refused_by_row(run: Run, folder: Path) -> None:
    path = folder / "t.tsv"
    path.write_text('image\tsite\nin/s0.nii.gz\t"A\nin/s1.nii.gz\tB\nin/s2.nii.gz\tB"\n')
    ran = run("cohort", path, folder / "out")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{path}: row 2 has a cell that goes on until line 4; check" in ran.errors[0]
    assert not (folder / "out").exists()


@pytest.mark.parametrize("kind", ["path", "symbolic link", "hard link"])
def test_the_same_file_twice_is_refused_by_row(run: Run, folder: Path, kind: str) -> None:
    again = {"path": "in/../in/s1.nii.gz"}.get(kind, "in/again.nii.gz")
    if kind == "symbolic link":
        (folder / again).symlink_to("s1.nii.gz")
    elif kind == "hard link":
        os.link(folder / "in" / "s1.nii.gz", folder / again)
    path = write_tsv(folder / "t.tsv", [*ROWS, {"image": again, "site": "A", "subject": "p9"}])
    ran = run("cohort", path, folder / "out")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{folder / again}: row 6 is the same file as row 3, {folder}/in/s1" in ran.errors[0]
    assert not (folder / "out").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_content_twice_counts_once(run: Run, folder: Path, jobs: int) -> None:
    assert run("cohort", table(folder, "image", "site"), folder / "once").code == 0
    shutil.copy(folder / "in" / "s1.nii.gz", folder / "in" / "copy.nii.gz")
    path = write_tsv(folder / "u.tsv", [*ROWS, {"image": "in/copy.nii.gz", "site": "B"}])
    for _ in range(2):  # also where densities are there already
        ran = run("cohort", path, folder / "out", "-j", jobs)
        assert ran.code == 1
        assert f"{folder}/in/copy.nii.gz: the same image as {folder}/in/s1.nii.gz" in ran.errors[0]
        assert "(row 6 and row 3)" in ran.errors[0]
        assert [row["scan"] for row in read_tsv(folder / "out" / "failures.tsv")] == ["copy"]
    for name in ("reference.json", "reference_B.json", "images/s1.nii.gz"):
        assert (folder / "out" / name).read_bytes() == (folder / "once" / name).read_bytes()
    assert not list((folder / "out").glob("*/copy*"))
    # Without its row, the run goes on where it was.
    assert run("cohort", table(folder, "image", "site"), folder / "out").code == 0


@pytest.mark.parametrize("other", ["a", "Ko\u0308ln"])
def test_sites_that_look_the_same_are_refused_by_row(run: Run, folder: Path, other: str) -> None:
    rows = [dict(row) for row in ROWS]
    rows[0]["site"] = {"a": "A", "A": "a"}.get(other, "Köln")
    rows[1]["site"] = rows[2]["site"] = rows[3]["site"] = other
    ran = run("cohort", write_tsv(folder / "t.tsv", rows), folder / "out")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"row 3 has the site {other!r}, row 2 {rows[0]['site']!r}; " in ran.errors[0]


# ── a folder ─────────────────────────────────────────────────────────────────────────────────────


def test_results_of_another_study_are_not_taken_for_scans(run: Run, folder: Path) -> None:
    top = folder / "in"
    assert run("cohort", top, top / "out1").code == 0
    ran = run("cohort", top, top / "out2")
    assert ran.code == 0
    assert about(ran)["skipped"] == "8 masks and tissue maps, 4 results of ndflow"
    names = {row["name"] for row in read_tsv(top / "out2" / "scans.tsv")}
    assert names == {"s0", "s1", "s2", "s3"}


def test_a_bids_dataset_is_for_another_command(run: Run, folder: Path) -> None:
    (folder / "in" / "sub-1").mkdir()
    save(folder / "in" / "s0.nii.gz", head(0, shape=SMALL))
    (folder / "in").rename(folder / "anat")
    (folder / "raw" / "sub-1").mkdir(parents=True)
    (folder / "anat").rename(folder / "raw" / "sub-1" / "anat")
    ran = run("cohort", folder / "raw", folder / "out")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "would be called anat; for a BIDS dataset use 'ndflow bids'" in ran.errors[0]


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("command", "kind"), [("fit", "path"), ("normalise", "link")])
def test_the_same_scan_twice_on_a_command_line_is_refused(
    run: Run, folder: Path, command: str, kind: str
) -> None:
    scan, again = folder / "in" / "s0.nii.gz", folder / "in" / ".." / "in" / "s0.nii.gz"
    if kind == "link":
        again = folder / "other.nii.gz"
        again.symlink_to(scan)
    to = ("--to", folder / "in" / "s1.nii.gz") if command == "normalise" else ()
    ran = run(command, scan, again, "-o", folder / "out", *to)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert f"{again}: given twice, also as {scan} (arguments 1 and 2); " in ran.errors[0]
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("model", "path"),
        ("image", "link"),
        ("image", "model"),
        ("model", "copy"),
        ("image", "copy"),
        ("model", "settings"),
    ],
)
def test_a_scan_counts_once_in_a_reference(run: Run, folder: Path, kind: str, first: str) -> None:
    image, model = folder / "in" / "s0.nii.gz", folder / "m.json"
    assert run("fit", image, "-o", model).code == 0
    one = {"model": model, "image": image}[first]
    again = folder / ("again.json" if first == "model" else "again.nii.gz")
    if kind == "path":
        again = one.parent / ".." / one.parent.name / one.name
    elif kind == "link":
        again.symlink_to(one)
    elif kind == "copy":
        shutil.copy(one, again)
    elif kind == "settings":
        again = folder / "again.json"
        assert run("fit", image, "-o", again, "--set", "effective-count=5000").code == 0
    else:
        again = {"model": model, "image": image}[kind]
    ran = run("reference", one, again, folder / "in" / "s1.nii.gz", "-o", folder / "r.json")
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "(arguments 1 and 2); give " in ran.errors[0]
    assert not (folder / "r.json").exists()

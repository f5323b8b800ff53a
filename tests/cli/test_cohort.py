"""``ndflow cohort``: a whole study, what it understands and says, and scans that fail."""

import re
from pathlib import Path

import numpy as np
import pytest
from commands import Run, on_a_terminal
from numpy.typing import NDArray
from pages import report_of
from phantoms import head, save, tissue_shares, voxels_of
from studies import SITES, SMALL, SiteStudy, contents, read_json, read_tsv, write_tsv

import ndflow
from ndflow.evaluation.tissues import weighted_quantile
from ndflow.subject.records import StudyRecord


@pytest.fixture
def five(tmp_path: Path) -> SiteStudy:
    """Five scans of three sites, which may be changed."""
    (tmp_path / "in").mkdir()
    made = SiteStudy(tmp_path / "in", per_site=2)
    made.rows.pop()
    (tmp_path / "in" / "s5.nii.gz").unlink()
    made.table("all")
    return made


def made(out: Path) -> set[str]:
    return {path.name.partition(".")[0] for path in out.glob("images/*")}


def test_a_study_in_a_process_has_the_documented_layout(process: Run, five: SiteStudy) -> None:
    out, table = five.folder / "out", five.folder / "all.tsv"
    words = ("cohort", table, out, "--channels", "T1w", "--range", 0, 100, "-j", 2)
    ran = process(*words)
    assert ran.code == 0, ran.err
    names = [f"s{number}" for number in range(5)]
    assert {name for name in contents(out) if name[0] != "."} == {
        "scans.tsv", "provenance.json", "reference.json",
        *(f"reference_{site}.json" for site in SITES),
        *(f"images/{name}.nii.gz" for name in names), *(f"figures/{name}.png" for name in names),
        *(f"{kind}/{name}.json" for name in names for kind in ("models", "maps")),
    }  # fmt: skip
    assert ndflow.load(out / "reference.json").channel_names == ("T1w",)
    provenance = read_json(out / "provenance.json")
    assert provenance["command"] == ["ndflow", *map(str, words)]
    assert (provenance["finished"], provenance["failed"]) == (True, 0)
    assert provenance["settings"]["range"] == [0, 100]
    for row, given in zip(read_tsv(out / "scans.tsv"), five.rows, strict=True):
        assert (row["site"], row["subject"]) == (given["site"], given["subject"])
        scan, image = voxels_of(five.folder / given["image"]), voxels_of(out / row["output"])
        imap = ndflow.load(out / row["sidecar"])
        np.testing.assert_allclose(image[scan != 0], imap(scan[scan != 0]), rtol=1e-5, atol=1e-4)
        assert not image[scan == 0].any()


def test_a_folder_is_a_table_whose_sites_are_folders(run: Run, tmp_path: Path) -> None:
    for number, name in enumerate(["A/a_T1w.nii", "B/b_T1w.nii", "top_T1w.nii", "A/a_T2w.nii"]):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        save(tmp_path / "in" / name, head(number, shape=SMALL))
    out = tmp_path / "in" / "out"  # whose images are no images of the study
    assert run("cohort", tmp_path / "in", out, "--pattern", "*_T1w.nii*").code == 0
    listed = {row["name"]: row["site"] for row in read_tsv(out / "scans.tsv")}
    assert listed == {"a_T1w": "A", "b_T1w": "B", "top_T1w": "n/a"}


def test_scans_that_fail_are_listed_and_the_others_are_done(run: Run, five: SiteStudy) -> None:
    out, table = five.folder.parent / "out", five.folder / "all.tsv"
    scans = [five.folder / row["image"] for row in five.rows]
    assert run("cohort", table, out).code == 0
    kept = scans[1].read_bytes()
    scans[0].write_bytes(b"")
    scans[1].write_bytes(kept[:-200])
    save(scans[3], np.full(SMALL, 7, np.int16))
    ran = run("cohort", table, out)
    assert ran.code == 1
    rows = read_tsv(out / "failures.tsv")
    assert [(row["scan"], row["stage"]) for row in rows] == [(f"s{n}", "fit") for n in (0, 1, 3)]
    for row, number in zip(rows, (0, 1, 3), strict=True):
        assert row["cause"].startswith(f"{scans[number]}: ")
        assert row["try"] not in ("", "n/a")
        assert any(str(scans[number]) in error for error in ran.errors)
    assert "row 2" in rows[0]["cause"]
    assert made(out) == {"s2", "s4"}  # the older results of the others are gone
    assert ndflow.load(out / "reference.json").scans == 2
    assert ran.summary["scans"].startswith("2 done")
    for scan in scans:
        scan.write_bytes(b"")
    ran = run("cohort", table, out, "-q")
    assert (ran.code, ran.out) == (2, "")  # as none could be done
    assert ran.err.splitlines() == ran.errors
    assert made(out) == set()


def test_progress_is_shown_on_a_terminal_and_hides_no_errors(five: SiteStudy) -> None:
    (five.folder / "s1.nii.gz").write_bytes(b"")
    ran = on_a_terminal("cohort", five.folder / "all.tsv", five.folder.parent / "out")
    assert ran.code == 1
    assert "s1.nii.gz" in re.sub(r"\s+", "", ran.err)
    assert all(part in ran.err for part in ("fit", "5/5", "normalise", "4/4", "\x1b["))


def test_files_that_are_missing_are_counted_before_any_work(run: Run, five: SiteStudy) -> None:
    for name in ("s1", "s4"):
        (five.folder / f"{name}.nii.gz").unlink()
    for words in ([], ["--dry-run"]):
        ran = run("cohort", five.folder / "all.tsv", five.folder.parent / "out", *words)
        path = five.folder / "s1.nii.gz"
        cause = f"2 of 5 images not found, such as {path} (row 3)"
        message = f"{five.folder / 'all.tsv'}: {cause}; paths are relative to {five.folder}"
        assert ran == (2, "", f"error: {message}\n")
        assert not (five.folder.parent / "out").exists()


def tissues_apart(heads: list[NDArray[np.float64]]) -> float:
    """Return how far weighted medians of tissues lie apart, in percent of the gap."""
    shares = [tissue_shares(SMALL)[name] for name in ("csf", "gm", "wm")]
    medians = [[weighted_quantile(x[x != 0], w[x != 0], 0.5) for w in shares] for x in heads]
    _, gm, wm = np.mean(medians, axis=0)
    return 100 * float(np.std(medians, axis=0, ddof=1).mean() / (wm - gm))


def test_a_study_ends_with_how_far_tissues_lie_apart(run: Run, study: SiteStudy, tmp_path: Path):
    out = tmp_path / "out"
    words = ("--mode", "individual", "--proportions", "tissue")
    shown = run("cohort", study.folder / "all.tsv", out, *words).summary
    assert shown["scans"].startswith("6 done")
    assert shown["sites"] == "3: Aachen 2, Bonn 2, Celle 2"
    assert "the same tissue maps made the target" in shown["agreement"]
    own, zscored, nyul = map(float, re.findall(r"[\d.]+(?= %)", shown["agreement"]))
    heads = [voxels_of(study.folder / row["image"]) for row in study.rows]
    heads = [np.where(x, (x - x[x != 0].mean()) / x[x != 0].std(), 0) for x in heads]
    assert zscored == pytest.approx(tissues_apart(heads), rel=0.05)
    marks = [np.percentile(x[x != 0], [1, *range(10, 91, 10), 99]) for x in heads]
    usual = np.mean(marks, axis=0)
    heads = [np.where(x, np.interp(x, k, usual), 0) for x, k in zip(heads, marks, strict=True)]
    assert nyul == pytest.approx(tissues_apart(heads), abs=0.2)
    images = [voxels_of(out / "images" / row["image"]) for row in study.rows]
    assert own == pytest.approx(tissues_apart(images), abs=0.5)
    found = StudyRecord.read(out / "provenance.json").agreement
    assert found is not None
    assert max(own, nyul) < 0.2 * zscored
    assert run("report", out, "--sample", 0).code == 0
    page = report_of(out)
    assert {*found.means} <= {*page.texts("td")}
    again = ndflow.cohort(
        study.folder / "all.tsv", out, mode="individual", proportions="tissue", report=False
    )
    assert (again.kept, again.agreement) == (6, found)


TWICE, THERE = (f"3 people were scanned twice{where}; " for where in ("", ", at several sites"))
AWAY = "2 people were scanned 2 to 3 times, 1 of them at several sites; "


@pytest.mark.parametrize(
    ("people", "words", "said"),
    [
        ("aabbcc", ["--mode", "individual"], TWICE + "the scans of each share a map"),
        ("aabbac", ["--mode", "individual"], AWAY + "their scans at one site share a map"),
        ("abcabc", ["--mode", "individual"], THERE + "each scan is matched by itself"),
        ("aabbcc", ["--mode", "site"], TWICE + "each scan has a straight line of its own before"),
        ("aabbcc", ["--set", "visits=apart"], TWICE + "each scan is matched by itself"),
        ("aabbcc", ["--method", "zscore"], TWICE + "each scan is matched by itself"),
        ("abcdef", ["--mode", "individual"], None),
    ],
)
def test_plan_and_ending_say_what_the_scans_of_one_person_share(
    run: Run, study: SiteStudy, tmp_path: Path, people: str, words: list[str], said: str | None
) -> None:
    rows = [row | {"subject": who} for row, who in zip(study.rows, people, strict=True)]
    command = ("cohort", study.table("people", rows), tmp_path / "out", *words)
    plan = " ".join(run(*command, "--dry-run").err.split())
    assert f"visits {said}" in plan if said else "visits" not in plan
    if words[0] == "--mode":
        ending = run(*command, "--no-report").summary.get("visits")
        assert ending is None if said is None else str(ending).startswith(said)


def test_a_study_with_a_site_of_inverted_contrast_is_said_to_have_failed(
    run: Run, study: SiteStudy, tmp_path: Path
) -> None:
    files = ("image", "mask", "wm", "gm", "csf")
    rows = [row | {name: str(study.folder / row[name]) for name in files} for row in study.rows]
    for row in rows[-2:]:  # of Celle
        scan = voxels_of(row["image"])
        inside, name = scan != 0, Path(row["image"]).name
        scan[inside] = scan[inside].max() + scan[inside].min() - scan[inside]
        row["image"] = str(save(tmp_path / name, scan))
    table = write_tsv(tmp_path / "all.tsv", rows)
    shown = run("cohort", table, tmp_path / "out").summary
    assert shown["agreement"].startswith("failed: at Celle, the median of ")
    assert run("report", tmp_path / "out", "--sample", 0).code == 0
    page = report_of(tmp_path / "out")
    assert page.texts("p", **{"class": "lead"})[0].startswith("This study failed: at Celle, ")


def test_the_references_of_sites_that_are_read_are_named(
    run: Run, study: SiteStudy, tmp_path: Path
) -> None:
    given = study.folder / "out" / "reference.json"
    beside = sorted(path.name for path in given.parent.glob("reference_*.json"))
    words = ("cohort", study.folder / "all.tsv", tmp_path / "out", "--reference", given, "--mode")
    said = {mode: run(*words, mode, "--dry-run").err for mode in ("site", "individual")}
    assert beside
    for name in beside:
        assert name in said["site"]
        assert name not in said["individual"]  # which needs none

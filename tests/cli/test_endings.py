"""How commands end: what was written, and the summary of a study."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import Ran, Run, on_a_terminal
from files_on_disc import dataset
from phantoms import head, save
from studies import SMALL, SiteStudy, results_of

import ndflow

LABELS = ["scans", "sites", "preset", "distance", "flagged", "report", "next"]
LEVELS = np.arange(1, 200) / 200


def lines_of(ran: Ran) -> dict[str, str]:
    """Return the lines of a summary by their labels."""
    return {line[:11].strip(): line[11:] for line in ran.out.splitlines()}


# ── one line ─────────────────────────────────────────────────────────────────────────────────────


def test_single_scans_end_with_the_files_that_were_written(run: Run, inputs: Path) -> None:
    scan, reference, new = inputs / "scan.nii.gz", inputs / "reference.json", inputs / "new.nii.gz"
    assert run("normalise", scan, "--to", reference, "-o", new).out == (
        f"wrote {new} and its sidecar new.json\n"
    )
    back = inputs / "back.nii"
    assert run("apply", new, "--map", inputs / "new.json", "--inverse", "-o", back).out == (
        f"wrote {back} and its sidecar back.json\n"
    )
    model = inputs / "model.json"
    assert run("fit", scan, "-o", model).out == f"wrote {model}\n"
    assert run("reference", model, inputs / "other.nii.gz", "-o", inputs / "r.json").out == (
        f"wrote {inputs / 'r.json'}, the average of 2 scans\n"
    )
    for path in (new, inputs / "new.json", back, inputs / "back.json", model, inputs / "r.json"):
        assert path.exists()


def test_several_scans_end_with_one_line_about_those_that_did_not_fail(
    run: Run, inputs: Path
) -> None:
    scans, out = (inputs / "scan.nii.gz", inputs / "no.nii", inputs / "other.nii.gz"), inputs / "o"
    ran = run("normalise", *scans, "--to", inputs / "reference.json", "-o", out)
    assert (ran.code, ran.out) == (1, f"wrote 2 images and their sidecars to {out}\n")
    assert len(list(out.glob("*.nii.gz"))) == len(list(out.glob("*.json"))) == 2
    ran = run("fit", *scans, "-o", inputs / "models")
    assert (ran.code, ran.out) == (1, f"wrote 2 mixtures to {inputs / 'models'}\n")
    ran = run("fit", inputs / "no.nii", "-o", inputs / "models" / "no.json")
    assert (ran.code, ran.out) == (2, "")


# ── six lines ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SiteStudy:
    return SiteStudy(tmp_path_factory.mktemp("study"), per_site=3)


def apart(images: Sequence[Path], sites: Sequence[str]) -> float:
    """Return the mean distance between sites, from the voxels of images of whole heads."""
    heads = [nibabel.load(image).get_fdata() for image in images]
    quantiles = np.array([np.quantile(one[one != 0], LEVELS) for one in heads])
    quantiles /= quantiles.std(axis=1).mean()
    means = [quantiles[np.array(sites) == site].mean(axis=0) for site in sorted(set(sites))]
    pairs = [np.abs(a - b).mean() for n, a in enumerate(means) for b in means[:n]]
    return float(np.mean(pairs))


def test_a_study_ends_with_seven_lines(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("cohort", study.table("all"), out)
    said = lines_of(ran)
    assert list(said) == LABELS
    others = [line for line in ran.out.splitlines() if not line.startswith("preset ")]
    assert all(len(line) <= 80 or str(tmp_path) in line for line in others)
    assert said["scans"] == "9 done (0 kept from an earlier run), 0 failed"
    assert said["sites"] == "3: Aachen 3, Bonn 3, Celle 3"
    names, sites = [row["image"] for row in study.rows], [row["site"] for row in study.rows]
    raw, aligned, normalised = (
        float(n) for n in re.findall(r"[\d.e-]+(?= [a-z])", said["distance"])
    )
    assert raw == pytest.approx(apart([study.folder / name for name in names], sites), rel=0.05)
    assert normalised == pytest.approx(
        apart([out / "images" / name for name in names], sites), rel=0.2
    )
    assert normalised < aligned < raw
    assert said["distance"].endswith("(between sites, in sd)")
    assert said["report"] == "not written (--no-report)"
    assert said["next"] == f"ndflow evaluate {out}"


def test_distances_in_python_are_those_of_the_terminal(
    run: Run, study: SiteStudy, tmp_path: Path
) -> None:
    said = lines_of(run("cohort", study.table("all"), tmp_path / "out"))
    found = ndflow.cohort(study.table("all"), tmp_path / "new", report=False).distances
    assert found is not None
    assert said["distance"].startswith(f"{found.raw:.3g} raw → {found.aligned:.3g} aligned → ")


def test_scans_of_one_site_are_compared_with_their_average(
    run: Run, study: SiteStudy, tmp_path: Path
) -> None:
    table = study.table("plain", columns=["image"])
    said = lines_of(run("cohort", table, tmp_path / "out"))
    assert said["sites"] == "not known"
    assert said["distance"].endswith("(to the average scan, in sd)")
    one = lines_of(run("cohort", study.table("one", study.rows[:1]), tmp_path / "one"))
    assert one["sites"] == "1: Aachen 1"
    assert one["distance"] == "none, of fewer than two scans"


def test_many_sites_fit_in_a_line(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    rows = [row | {"site": f"hospital number {n}"} for n, row in enumerate(study.rows)]
    said = lines_of(run("cohort", study.table("many", rows), tmp_path / "out"))
    assert re.fullmatch(r"9: (hospital number \d 1(, )?)+ and \d more", said["sites"])


def test_failures_are_counted_and_what_to_do_is_said(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [*study.rows, {"image": "missing.nii", "site": "Bonn", "subject": "x"}]
    ran = run("cohort", study.table("more", rows), "out")
    said = lines_of(ran)
    assert ran.code == 1
    assert said["scans"] == "9 done (0 kept from an earlier run), 1 failed"
    assert said["next"] == "see out/failures.tsv, then run the same command again"


def test_flagged_scans_are_counted_by_kind(run: Run, study: SiteStudy, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    spike = np.where(rng.random(SMALL) < 0.4, 500, rng.normal(500, 150, SMALL)).clip(1)
    save(study.folder / "spike.nii.gz", spike.astype(np.int16))
    rows = [*study.rows, {"image": "spike.nii.gz", "site": "Bonn", "subject": "x"}]
    table = study.table("odd", rows)
    said = lines_of(run("cohort", table, tmp_path / "out"))
    found = ndflow.cohort(table, tmp_path / "new", report=False)
    flagged = {name for names in found.doubts.values() for name in names}
    assert "spike" in flagged
    assert said["flagged"].startswith(f"{len(flagged)} of 10: ")
    for kind, names in list(found.doubts.items())[:1]:
        assert f"{kind} {len(names)}" in said["flagged"]


def test_an_unchanged_study_has_nothing_to_do_and_starts_no_workers(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, table = tmp_path / "out", study.table("all")
    assert run("cohort", table, out, "-j", 1).code == 0
    before = results_of(out)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("workers were started")

    with monkeypatch.context() as patch:
        patch.setattr("ndflow.study.workers.run_in_workers", refuse)
        # However slow the machine is:
        patch.setattr("ndflow.study.steps._ALONE", float("inf"))
        ran = run("cohort", table, out, "-j", 2)
    assert lines_of(ran)["scans"] == (
        "9 done (9 kept from an earlier run), 0 failed: nothing to do"
    )
    assert results_of(out) == before


@pytest.mark.parametrize(("place", "jobs"), [(0, 1), (4, 2)])
def test_one_changed_scan_among_many_is_noticed(
    run: Run, study: SiteStudy, tmp_path: Path, jobs: int, place: int
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study.folder, folder)
    table, out = folder / study.table("all").name, folder / "out"
    shutil.copy(study.folder / "all.tsv", table)
    assert run("cohort", table, out).code == 0
    changed = folder / f"s{place}.nii.gz"
    stat = changed.stat()
    save(changed, head(77, shape=SMALL, gain=3))
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # dates say nothing
    ran = run("cohort", table, out, "-j", jobs)
    assert ran.code == 0
    assert "nothing to do" not in ran.out
    assert run("cohort", table, folder / "new").code == 0
    first, second = results_of(out), results_of(folder / "new")
    assert first == second


def test_every_pass_has_a_bar_on_a_terminal(study: SiteStudy, tmp_path: Path) -> None:
    ran = on_a_terminal("cohort", study.table("all"), tmp_path / "out")
    assert ran.code == 0
    for stage, total in (("fit", "9/9"), ("references", "13/13"), ("normalise", "9/9")):
        last = [line for line in ran.err.splitlines() if stage in line][-1]
        assert total in last
    assert list(lines_of(ran)) == LABELS


# ── BIDS ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_levels_of_bids_end_with_what_comes_next(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (0, 1):
        anat = dataset(tmp_path / "raw") / f"sub-{number}" / "anat"
        anat.mkdir(parents=True)
        shutil.copy(study.folder / f"s{number}.nii.gz", anat / f"sub-{number}_T1w.nii.gz")
    said = lines_of(run("bids", "raw", "out", "participant"))
    assert list(said) == ["densities", "flagged", "next"]
    assert said["densities"] == "2 estimated (0 kept from an earlier run), 0 failed"
    assert said["next"] == "run the same command with the level group, for all participants"
    said = lines_of(run("bids", "raw", "out", "group"))
    assert list(said) == LABELS
    assert said["next"] == "ndflow evaluate out"


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def test_a_page_is_made_again_only_if_it_would_change(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    words = ("cohort", study.table("two", study.rows[:2]), tmp_path / "out")
    page = tmp_path / "out" / "report.html"
    said = lines_of(run(*words))
    assert said["report"] == str(page)
    first = page.stat().st_mtime_ns

    assert "nothing to do" in lines_of(run(*words))["scans"]
    assert run(*words, "-j", 2, "-q") == (0, "", "")
    assert page.stat().st_mtime_ns == first

    # Another list of failures is something that the page shows.
    (page.parent / "failures.tsv").write_text("scan\tstage\tcause\ttry\nx\tnormalise\tit\tthis\n")
    assert run("report", page.parent).code == 0
    shown = page.stat().st_mtime_ns
    assert shown != first
    assert run(*words).code == 0  # which removes the list again
    assert page.stat().st_mtime_ns != shown

    edited = page.read_bytes().replace(b'name="ndflow-content"', b'name="other"')
    page.write_bytes(edited)
    ran = run(*words)
    assert (ran.code, "edited since ndflow wrote it" in ran.err) == (1, True)
    assert page.read_bytes() == edited
    assert run(*words, "--force").code == 0
    assert page.read_bytes() != edited


def test_a_scan_that_fails_again_is_counted_nowhere_else_and_the_page_stays(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    bad = tmp_path / "bad.nii"
    bad.write_bytes(b"no image")
    rows = [*study.rows[:3], {"image": bad, "site": study.rows[0]["site"]}]
    table = study.table("one-bad", rows, ["image", "site"])
    first = run("cohort", table, tmp_path / "out")
    page = tmp_path / "out" / "report.html"
    assert (first.code, page.exists()) == (1, True)
    sites = lines_of(first)["sites"]
    assert sum(int(number) for number in re.findall(r" (\d+)", sites.partition(":")[2])) == 3
    made = page.stat().st_mtime_ns
    assert run("cohort", table, tmp_path / "out").code == 1
    assert page.stat().st_mtime_ns == made
    # A scan that fails for the first time is not on that page.
    monkeypatch.setenv("NDFLOW_NO_REPORT", "1")
    other = study.table("two-bad", [{"image": tmp_path / "gone.nii"}, *rows], ["image", "site"])
    assert run("cohort", other, tmp_path / "out").code == 1
    assert not page.exists()


def test_one_scan_is_not_to_be_evaluated(
    run: Run, study: SiteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.delenv("NDFLOW_NO_REPORT")
    ran = run("cohort", study.table("alone", study.rows[:1]), tmp_path / "out")
    assert lines_of(ran)["next"] == "open the report in a browser"

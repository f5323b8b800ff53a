"""``ndflow evaluate``: what cannot be measured is left out, named, and the rest is done."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import Run
from phantoms import AFFINE, head, radii, save
from studies import SMALL, SiteStudy, contents, read_json, read_tsv

from ndflow.errors import InvalidValueError

QUICK = ("--trees", 5, "--permutations", 2)


def record(folder: Path) -> Any:
    return read_json(folder / "evaluation.json")


def test_images_alone_are_enough_for_tables_and_figures(run: Run, studies: SiteStudy) -> None:
    out = studies.run("images", table=studies.table("images", studies.rows[:3], ["image"]))
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    notes = record(out / "evaluation")["notes"]
    assert [note.partition(":")[0] for note in notes] == [
        "no tissue statistics",
        "no reliability of repeated scans",
        "no distances between sites, and no classification of sites",
    ]
    assert "\n".join(["Not done", *notes]) in ran.out
    figures = {
        f"{name}.{kind}" for name in ("populations", "fitness", "pair") for kind in ("svg", "png")
    }
    expected = figures | {"fitness.tsv", "fitness_scans.tsv", "features.tsv", "verdict.txt"}
    expected |= {"summary.txt", "evaluation.json"}
    assert set(contents(out / "evaluation")) == expected


@pytest.mark.parametrize("why", ["one site", "one scan", "another grid", "no common voxel"])
def test_why_sites_cannot_be_classified_is_noted(
    run: Run, studies: SiteStudy, unseen: None, why: str
) -> None:
    chosen, reason = studies.rows[:6], "not in a common space"
    if why == "one site":
        chosen, reason = studies.rows[:3], "not from two or more known sites"
    elif why == "one scan":
        chosen, reason = studies.rows[:4], "each site needs at least 2 scans"
    elif why == "another grid":
        moved = AFFINE + np.diag([0, 0, 0.5, 0])
        save(studies.folder / "g.nii.gz", head(5, shape=SMALL), moved)
        other = {"image": "g.nii.gz", "wm": "", "gm": "", "csf": ""}
        chosen = [*studies.rows[:5], {**studies.rows[5], **other}]
    else:
        halves = np.arange(SMALL[0]) < SMALL[0] // 2
        reason = "too few voxels in common"
        for name, half in (("left", halves), ("right", ~halves)):
            mask = (radii(SMALL) < 1) & half[:, np.newaxis, np.newaxis]
            save(studies.folder / f"{name}.nii.gz", mask.astype(np.uint8))
        sides = ["left.nii.gz", "right.nii.gz"] * 3
        chosen = [{**row, "mask": side} for row, side in zip(chosen, sides, strict=True)]
    name = why.replace(" ", "_")
    out = studies.run(name, table=studies.table(name, chosen, (*studies.rows[0], "mask")))
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    *_, note = record(out / "evaluation")["notes"]
    said = "no distances between sites, and " if why == "one site" else ""
    assert note.startswith(f"{said}no classification of sites: ")
    assert ("sites.tsv" in contents(out / "evaluation")) == (said == "")
    assert reason in note
    assert note in ran.out
    made = set(contents(out / "evaluation"))
    assert not {"classification.tsv", "predictions.tsv"} & made
    assert {"fitness.tsv", "repeats.tsv"} < made
    assert ("tissue.tsv" in made) == (why != "another grid")
    assert ("sites.tsv" in made) == (why != "one site")


def test_repeatability_needs_subjects_scanned_twice(
    run: Run, studies: SiteStudy, unseen: None
) -> None:
    once = [{**row, "subject": f"q{number}"} for number, row in enumerate(studies.rows)]
    out = studies.run("once", table=studies.table("once", rows=once))
    ran = run("evaluate", out, *QUICK)
    assert ran.code == 0
    assert not (out / "evaluation" / "repeats.tsv").exists()
    assert "same subject" not in ran.out


# ── scans that fail ───────────────────────────────────────────────────────────────────────────────


def damage(out: Path, kind: str) -> Path:
    """Damage the fifth scan of a study; return the file that the error must name."""
    image = out / "images" / "s4.nii.gz"
    if kind == "truncated":
        image.write_bytes(image.read_bytes()[:-200])
    elif kind == "missing":
        image.unlink()
    elif kind == "NaN":
        data = nibabel.load(image).get_fdata(dtype=np.float32)
        save(image, np.where(data == data.max(), np.nan, data).astype(np.float32))
    elif kind == "another shape":
        save(image, head(4))
    elif kind == "map":
        (out / "maps" / "s4.json").write_text("{}")
        return out / "maps" / "s4.json"
    else:  # a tissue map of this scan alone
        data = head(4) if kind == "tissue shape" else np.zeros(SMALL, np.uint8)
        wrong = save(out / "tissue.nii", data)
        listed = read_tsv(out / "scans.tsv")
        listed[4]["gm"] = str(wrong)
        lines = [list(listed[0]), *(list(row.values()) for row in listed)]
        (out / "scans.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))
        return wrong
    return image


@pytest.mark.parametrize(
    ("kind", "jobs"),
    [
        ("truncated", 1),
        ("truncated", 2),
        ("missing", 1),
        ("NaN", 1),
        ("another shape", 1),
        ("map", 1),
        ("tissue shape", 1),
        ("no tissue", 1),
    ],
)
def test_a_scan_that_fails_is_named_and_the_others_are_compared(
    run: Run, flow: Path, unseen: None, kind: str, jobs: int
) -> None:
    wrong = damage(flow, kind)
    ran = run("evaluate", flow, *QUICK, "-j", jobs)
    assert ran.code == 1
    assert len(ran.errors) == 1
    assert ran.errors[0].startswith(f"error: {wrong}: ")
    made = record(flow / "evaluation")
    assert made["failed"] == ["s4"]
    assert made["scans"] == [f"s{number}" for number in range(9) if number != 4]
    assert len(read_tsv(flow / "evaluation" / "fitness_scans.tsv")) == 3 * 8
    said = [line for line in ran.out.splitlines() if line.startswith("s4: ")]
    assert said == [f"s4: {ran.errors[0].removeprefix('error: ')}"]


def test_a_condition_that_cannot_be_classified_is_named_once(
    run: Run, flow: Path, unseen: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise InvalidValueError("the forest is on fire; call the rangers")

    monkeypatch.setattr("ndflow.evaluation.classification.classify_folds", fail)
    ran = run("evaluate", flow, *QUICK)
    assert ran.code == 1
    assert len(ran.errors) == 5
    notes = ran.out.partition("Not done\n")[2].partition("\n\n")[0]
    assert notes.splitlines() == [
        f"no classification of sites for {name}: the forest is on fire; call the rangers"
        for name in ("unnormalised", "affine", "flow", "ranks", "anatomy")
    ]


def test_the_exit_code_is_2_where_all_scans_fail(run: Run, flow: Path, unseen: None) -> None:
    for path in (flow / "maps").iterdir():
        path.write_text("{}")
    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert "nothing to compare" in ran.errors[-1]
    assert not (flow / "evaluation").exists()


def test_a_scan_that_changed_since_the_study_is_left_out(
    run: Run, studies: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    # The first scan is replaced by a brighter one after the run.
    rows = [dict(row) for row in studies.rows]
    other = nibabel.load(studies.folder / "s0.nii.gz").get_fdata() * 2
    (studies.folder / "new").mkdir(exist_ok=True)
    after = studies.folder / "new" / "s0.nii.gz"
    after.write_bytes((studies.folder / "s0.nii.gz").read_bytes())
    rows[0]["image"] = "new/s0.nii.gz"
    table = studies.table("replaced", rows=rows)
    first = studies.run("old", table=table)
    after.unlink()
    save(after, other.astype(np.int16))
    ran = run("evaluate", first, "-o", tmp_path / "out", *QUICK)
    assert (ran.code, len(ran.errors)) == (1, 1)
    sidecar = first / "maps" / "s0.json"
    assert f"{after}: not the image that {sidecar} was made from" in ran.errors[0]
    assert "s0" not in record(tmp_path / "out")["scans"]


def test_a_tissue_map_that_lies_elsewhere_is_refused(
    run: Run, studies: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    share = nibabel.load(studies.folder / "gm.nii.gz").get_fdata(dtype=np.float32)
    mirrored = AFFINE @ np.diag([-1, 1, 1, 1])
    save(studies.folder / "flipped.nii.gz", share[::-1], mirrored)
    chosen = [*studies.rows[:5], {**studies.rows[5], "gm": "flipped.nii.gz"}]
    table = studies.table("flipped", rows=chosen)
    out = studies.run("flipped", "--preset", "paper", table=table)  # which does not look at maps
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, len(ran.errors)) == (1, 1)
    assert "flipped.nii.gz: lies " in ran.errors[0]
    listed = read_tsv(out / "evaluation" / "failures.tsv")
    assert [row["scan"] for row in listed] == ["s5"]
    assert "s5: " in (out / "evaluation" / "summary.txt").read_text()

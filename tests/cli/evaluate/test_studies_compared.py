"""``ndflow evaluate``: which studies can be compared, and under which names."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from phantoms import head, save
from studies import SITES, SMALL, SiteStudy, read_json, read_tsv

QUICK = ("--trees", 5, "--permutations", 2)


def record(folder: Path) -> Any:
    return read_json(folder / "evaluation.json")


def test_studies_of_any_kind_can_be_evaluated(
    run: Run, studies: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    reference = ("--reference", studies.folder / "flow" / "reference.json")
    kinds: dict[str, tuple[object, ...]] = {
        "given": reference,
        "by site": ("--mode", "site"),
        "both": ("--mode", "site", *reference),
        "coarse": ("--method", "quantile", "--range", 0, 1000, "--dtype", "int16"),
    }
    outs = [studies.run(name, *words) for name, words in kinds.items()]
    ran = run("evaluate", *outs, studies.folder / "nyul", "-o", tmp_path / "out", *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    made = record(tmp_path / "out")
    assert made["conditions"] == ["unnormalised", "affine", *kinds, "nyul"]
    assert [note.split(" was given a reference")[0] for note in made["notes"]] == ["given", "both"]
    found = {row["condition"]: row for row in read_tsv(tmp_path / "out" / "sites.tsv")}
    for name in kinds:
        assert float(found[name]["between_share"]) < 0.7
    shares = {name: float(found[name]["within_share"]) for name in kinds}
    assert shares["by site"] > 0.9 > shares["given"]


def test_a_bids_derivative_can_be_evaluated(run: Run, tmp_path: Path, unseen: None) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    sites = ["participant_id\tsite\tage"]
    for number, site in enumerate([*SITES] * 2):
        anat = raw / f"sub-{number}" / "anat"
        anat.mkdir(parents=True)
        low, grey, gain = SITES[site]
        kinds = ((low, 60.0), (grey, 50.0), (1000.0, 40.0))
        for again in (1, 2) if number == 0 else (1,):
            data = head(number + 10 * again, shape=SMALL, tissues=kinds, gain=gain)
            save(anat / f"sub-{number}_run-{again}_T1w.nii.gz", data)
        sites.append(f"sub-{number}\t{site}\t{30 + number}")
    (raw / "participants.tsv").write_text("\n".join([*sites, ""]))
    (raw / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1.10.0"}')
    assert run("bids", raw, out, "group", "-q").code == 0
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    found = out / "evaluation"
    assert len(record(found)["scans"]) == 7
    assert record(found)["notes"] == [
        "no tissue statistics: not all scans have tissue probability maps of WM, GM and CSF"
    ]
    assert read_tsv(found / "repeats.tsv")[0]["pairs"] == "1"
    assert len(read_tsv(found / "classification.tsv")) == 4  # with ranks
    assert not (found / "tissue.tsv").exists()


@pytest.mark.parametrize("name", ["affine", "unnormalised"])
def test_a_study_may_have_the_name_of_a_built_in_condition(
    run: Run, flow: Path, tmp_path: Path, unseen: None, name: str
) -> None:
    flow.rename(tmp_path / name)
    assert run("evaluate", tmp_path / name, "-o", tmp_path / "out", *QUICK).code == 0
    conditions = record(tmp_path / "out")["conditions"]
    assert len(set(conditions)) == 3
    for table in ("fitness", "classification", "sites"):
        found = read_tsv(tmp_path / "out" / f"{table}.tsv")
        floors = ["ranks", "anatomy"] if table == "classification" else []
        assert [row["condition"] for row in found] == [*conditions, *floors]
        assert found[1] != {**found[2], "condition": found[1]["condition"]}


def test_studies_of_the_same_name_are_told_apart(
    run: Run, studies: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    for name in ("flow", "nyul"):
        shutil.copytree(studies.folder / name, tmp_path / f"by {name}" / "out")
    outs = [tmp_path / f"by {name}" / "out" for name in ("flow", "nyul")]
    assert run("evaluate", *outs, "-o", tmp_path / "all", *QUICK).code == 0
    assert record(tmp_path / "all")["conditions"][2:] == ["by flow/out", "by nyul/out"]


def test_only_scans_common_to_all_studies_are_compared(
    run: Run, studies: SiteStudy, tmp_path: Path, unseen: None
) -> None:
    fewer = studies.run("fewer", table=studies.table("fewer", rows=studies.rows[2:]))
    words = ("evaluate", studies.folder / "flow", fewer, "-o")
    ran = run(*words, tmp_path / "out", *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    assert record(tmp_path / "out")["scans"] == [f"s{number}" for number in range(2, 9)]
    assert "scans left out because they are not in all runs: 2" in ran.out
    assert {row["scan"] for row in read_tsv(tmp_path / "out" / "fitness_scans.tsv")} == {
        f"s{number}" for number in range(2, 9)
    }
    two = studies.run("two", table=studies.table("two", rows=studies.rows[:2]))
    ran = run("evaluate", fewer, two, "-o", tmp_path / "new", *QUICK)
    assert (ran.code, "fewer than two scans" in ran.errors[0]) == (2, True)
    (tmp_path / "moved").mkdir()
    for number in range(9):
        shutil.copy(studies.folder / f"s{number}.nii.gz", tmp_path / "moved")
    moved = [{**row, "image": f"{tmp_path}/moved/{row['image']}"} for row in studies.rows]
    twins = studies.run("twins", table=studies.table("twins", rows=moved))
    ran = run("evaluate", studies.folder / "flow", twins, "-o", tmp_path / "new", *QUICK)
    assert (ran.code, len(ran.errors)) == (2, 1)
    assert "the image of s0 is " in ran.errors[0]
    assert not (tmp_path / "new").exists()

"""``ndflow evaluate``: what it leaves and says, which runs it takes, and what goes wrong."""

import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from commands import typed
from phantoms import AFFINE, head, radii, save

Run = Callable[..., Any]

SHAPE = (14, 16, 12)
SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5), "Celle": (400.0, 600.0, 0.6)}
COLUMNS = ("image", "site", "subject", "age", "born", "hand", "wm", "gm", "csf")
QUICK = ("--trees", 5, "--permutations", 2)
FIGURES = ("populations", "fitness", "tissues", "predictions", "pair")
TABLES = ("sites", "classification", "fitness", "fitness_scans", "predictions", "repeats")
TABLES += ("tissue", "tissue_scans")


class Studies:
    """Nine scans of three sites, with tissue maps, and runs of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        radius = radii(SHAPE)
        white, fluid = (1 / (1 + np.exp(-x / 0.05)) for x in (0.6 - radius, radius - 0.85))
        for name, share in {"wm": white, "gm": 1 - white - fluid, "csf": fluid}.items():
            save(folder / f"{name}.nii.gz", share.astype(np.float32))
        self.rows = []
        for number in range(9):
            site = list(SITES)[number // 3]
            low, grey, gain = SITES[site]
            kinds = ((low, 60.0), (grey + 20 * (number % 3), 50.0), (1000.0, 40.0))
            data = head(number, shape=SHAPE, tissues=kinds, gain=gain * (1 + 0.03 * number))
            save(folder / f"s{number}.nii.gz", data)
            known = (f"s{number}.nii.gz", site, f"p{number // 2}", 20 + number * 4 % 9, 1950, "l")
            maps = (f"{name}.nii.gz" for name in ("wm", "gm", "csf"))
            self.rows.append(dict(zip(COLUMNS, (*map(str, known), *maps), strict=True)))

    def table(self, name: str, columns: Iterable[str] = COLUMNS, rows: Any = None) -> Path:
        """Write a table of some of what is known; paths are relative to the scans."""
        columns = list(columns)
        with (self.folder / f"{name}.tsv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, delimiter="\t", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self.rows if rows is None else rows)
        return self.folder / f"{name}.tsv"

    def run(self, name: str, *words: object, table: Path | None = None) -> Path:
        out = self.folder / name
        out.parent.mkdir(exist_ok=True)
        typed("cohort", table or self.table("all"), out, "-q", *words)
        return out


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Studies:
    made = Studies(tmp_path_factory.mktemp("studies"))
    made.run("flow")
    made.run("nyul", "--method", "nyul")
    return made


@pytest.fixture
def flow(studies: Studies, tmp_path: Path) -> Path:
    """A run of which there is a copy."""
    shutil.copytree(studies.folder / "flow", tmp_path / "flow")
    return tmp_path / "flow"


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures, which takes longer than all the rest."""
    monkeypatch.setattr("ndflow.compare.save.figures", lambda _: [])


def tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines(), delimiter="\t"))


def record(folder: Path) -> Any:
    return json.loads((folder / "evaluation.json").read_text())


# ── what it leaves ───────────────────────────────────────────────────────────────────────────────


def test_a_run_gets_tables_figures_and_a_record_that_are_the_same_each_time(
    run: Run, process: Run, flow: Path
) -> None:
    words = ("evaluate", flow, *QUICK, "--covariate", "age")
    ran = run(*words)
    assert ran.code == 0
    assert ran.err.splitlines() == ["read: 9 scans", "classify: 3 conditions"]
    out = flow / "evaluation"
    first = tree(out)
    names = {f"{name}.tsv" for name in (*TABLES, "covariate")} | {"summary.txt", "evaluation.json"}
    assert set(first) == names | {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
    assert first["summary.txt"].decode() == ran.out
    for name in FIGURES:
        assert first[f"{name}.png"].startswith(b"\x89PNG\r\n\x1a\n")
        assert b"<svg" in first[f"{name}.svg"][:1000]
    made = record(out)
    assert made["command"] == ["ndflow", *map(str, words)]
    assert made["settings"] == {"covariate": "age", "permutations": 2, "trees": 5, "seed": 0}
    assert made["conditions"] == ["unnormalised", "affine", "flow"]
    assert made["scans"] == [f"s{number}" for number in range(9)]
    assert (made["failed"], made["notes"]) == ([], [])
    assert {row["condition"] for row in rows(out / "tissue.tsv")} == set(made["conditions"])
    for condition in made["conditions"]:
        assert sum(line.startswith(f"{condition} ") for line in ran.out.splitlines()) == 5 + 3

    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors == [
        f"error: {out}: not empty; choose another folder, or --force to write there"
    ]
    assert tree(out) == first

    again = process(*words, "--force", "-j", 2, PYTHONHASHSEED="7")
    assert again.code == 0
    second = tree(out)
    assert second.pop("evaluation.json") != first.pop("evaluation.json")
    assert second == first
    assert {**record(out), "command": 0} == {**made, "command": 0}


def test_other_seeds_make_other_forests_and_nothing_else(
    run: Run, flow: Path, tmp_path: Path, unseen: None
) -> None:
    for seed in (0, 1):
        assert run("evaluate", flow, "-o", tmp_path / f"{seed}", *QUICK, "--seed", seed).code == 0
    one, other = tree(tmp_path / "0"), tree(tmp_path / "1")
    differ = {name for name in one if one[name] != other[name]}
    expected = {"classification.tsv", "predictions.tsv", "summary.txt", "evaluation.json"}
    assert differ == expected


def test_several_runs_need_a_place_and_are_compared_there(
    run: Run, studies: Studies, tmp_path: Path, unseen: None
) -> None:
    runs = (studies.folder / "flow", studies.folder / "nyul")
    ran = run("evaluate", *runs, *QUICK)
    assert (ran.code, ran.out, len(ran.errors)) == (2, "", 1)
    assert "--output DIR" in ran.errors[0]
    ran = run("evaluate", *runs, "-o", tmp_path / "out", *QUICK)
    assert ran.code == 0
    assert not any((one / "evaluation").exists() for one in runs)
    assert record(tmp_path / "out")["conditions"] == ["unnormalised", "affine", "flow", "nyul"]
    assert record(tmp_path / "out")["runs"] == {one.name: str(one) for one in runs}
    for name in ("fitness", "sites", "classification", "repeats"):
        found = [row["condition"] for row in rows(tmp_path / "out" / f"{name}.tsv")]
        assert found == ["unnormalised", "affine", "flow", "nyul"]


def test_what_an_earlier_evaluation_left_does_not_stay_beside_another(
    run: Run, flow: Path, unseen: None
) -> None:
    assert run("evaluate", flow, *QUICK, "--covariate", "age").code == 0
    assert (flow / "evaluation" / "covariate.tsv").exists()
    (flow / "evaluation" / "mine.txt").write_text("precious")
    assert run("evaluate", flow, *QUICK, "--force").code == 0
    assert record(flow / "evaluation")["settings"]["covariate"] is None
    assert not (flow / "evaluation" / "covariate.tsv").exists()
    assert (flow / "evaluation" / "mine.txt").read_text() == "precious"


def test_no_permutations_no_level_of_chance(run: Run, flow: Path, unseen: None) -> None:
    assert run("evaluate", flow, "--trees", 5, "--permutations", 0).code == 0
    found = rows(flow / "evaluation" / "classification.tsv")
    assert {(row["chance"], row["chance_95"]) for row in found} == {("n/a", "n/a")}
    assert all(0 <= float(row["balanced"]) <= 1 for row in found)


# ── which runs it takes ──────────────────────────────────────────────────────────────────────────


def test_runs_of_any_kind_are_taken(
    run: Run, studies: Studies, tmp_path: Path, unseen: None
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
    found = {row["condition"]: row for row in rows(tmp_path / "out" / "sites.tsv")}
    for name in kinds:
        assert float(found[name]["between_share"]) < 0.7
    shares = {name: float(found[name]["within_share"]) for name in kinds}
    assert shares["by site"] > 0.9 > shares["given"]


def test_a_run_of_a_bids_dataset_is_taken(run: Run, tmp_path: Path, unseen: None) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    sites = ["participant_id\tsite\tage"]
    for number, site in enumerate([*SITES] * 2):
        anat = raw / f"sub-{number}" / "anat"
        anat.mkdir(parents=True)
        low, grey, gain = SITES[site]
        kinds = ((low, 60.0), (grey, 50.0), (1000.0, 40.0))
        for again in (1, 2) if number == 0 else (1,):
            data = head(number + 10 * again, shape=SHAPE, tissues=kinds, gain=gain)
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
        "no tissue statistics: not all scans have maps of WM, GM and CSF"
    ]
    assert rows(found / "repeats.tsv")[0]["pairs"] == "1"
    assert len(rows(found / "classification.tsv")) == 3
    assert not (found / "tissue.tsv").exists()


@pytest.mark.parametrize("name", ["affine", "unnormalised"])
def test_a_run_may_be_called_like_a_condition_of_ours(
    run: Run, flow: Path, tmp_path: Path, unseen: None, name: str
) -> None:
    flow.rename(tmp_path / name)
    assert run("evaluate", tmp_path / name, "-o", tmp_path / "out", *QUICK).code == 0
    conditions = record(tmp_path / "out")["conditions"]
    assert len(set(conditions)) == 3
    for table in ("fitness", "classification", "sites"):
        found = rows(tmp_path / "out" / f"{table}.tsv")
        assert [row["condition"] for row in found] == conditions
        assert found[1] != {**found[2], "condition": found[1]["condition"]}


def test_runs_that_are_called_alike_are_told_apart(
    run: Run, studies: Studies, tmp_path: Path, unseen: None
) -> None:
    for name in ("flow", "nyul"):
        shutil.copytree(studies.folder / name, tmp_path / f"by {name}" / "out")
    outs = [tmp_path / f"by {name}" / "out" for name in ("flow", "nyul")]
    assert run("evaluate", *outs, "-o", tmp_path / "all", *QUICK).code == 0
    assert record(tmp_path / "all")["conditions"][2:] == ["by flow/out", "by nyul/out"]


def test_scans_that_all_runs_have_are_compared_and_the_rest_is_said(
    run: Run, studies: Studies, tmp_path: Path, unseen: None
) -> None:
    fewer = studies.run("fewer", table=studies.table("fewer", rows=studies.rows[2:]))
    words = ("evaluate", studies.folder / "flow", fewer, "-o")
    ran = run(*words, tmp_path / "out", *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    assert record(tmp_path / "out")["scans"] == [f"s{number}" for number in range(2, 9)]
    assert "scans left out because they are not in all runs: 2" in ran.out
    assert {row["scan"] for row in rows(tmp_path / "out" / "fitness_scans.tsv")} == {
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


# ── what cannot be done ──────────────────────────────────────────────────────────────────────────


def test_nothing_but_images_still_makes_tables_and_figures(run: Run, studies: Studies) -> None:
    out = studies.run("images", table=studies.table("images", ["image"], studies.rows[:3]))
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    notes = record(out / "evaluation")["notes"]
    assert [note.partition(":")[0] for note in notes] == [
        "no tissue statistics",
        "no distances between sites, and no classification of sites",
    ]
    assert "\n".join(["Not done", *notes]) in ran.out
    figures = {
        f"{name}.{kind}" for name in ("populations", "fitness", "pair") for kind in ("svg", "png")
    }
    expected = figures | {"fitness.tsv", "fitness_scans.tsv", "summary.txt", "evaluation.json"}
    assert set(tree(out / "evaluation")) == expected


@pytest.mark.parametrize("why", ["one site", "one scan", "another grid", "no common voxel"])
def test_sites_that_cannot_be_told_apart_are_said(
    run: Run, studies: Studies, unseen: None, why: str
) -> None:
    chosen, reason = studies.rows[:6], "not in a common space"
    if why == "one site":
        chosen, reason = studies.rows[:3], "not of two sites or more"
    elif why == "one scan":
        chosen, reason = studies.rows[:4], "a site has one scan only"
    elif why == "another grid":
        moved = AFFINE + np.diag([0, 0, 0.5, 0])
        save(studies.folder / "g.nii.gz", head(5, shape=SHAPE), moved)
        other = {"image": "g.nii.gz", "wm": "", "gm": "", "csf": ""}
        chosen = [*studies.rows[:5], {**studies.rows[5], **other}]
    else:
        halves = np.arange(SHAPE[0]) < SHAPE[0] // 2
        reason = "too few voxels in common"
        for name, half in (("left", halves), ("right", ~halves)):
            mask = (radii(SHAPE) < 1) & half[:, np.newaxis, np.newaxis]
            save(studies.folder / f"{name}.nii.gz", mask.astype(np.uint8))
        sides = ["left.nii.gz", "right.nii.gz"] * 3
        chosen = [{**row, "mask": side} for row, side in zip(chosen, sides, strict=True)]
    name = why.replace(" ", "_")
    out = studies.run(name, table=studies.table(name, (*COLUMNS, "mask"), chosen))
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, ran.errors) == (0, [])
    *_, note = record(out / "evaluation")["notes"]
    said = "no distances between sites, and " if why == "one site" else ""
    assert note.startswith(f"{said}no classification of sites: ")
    assert ("sites.tsv" in tree(out / "evaluation")) == (said == "")
    assert reason in note
    assert note in ran.out
    made = set(tree(out / "evaluation"))
    assert not {"classification.tsv", "predictions.tsv"} & made
    assert {"fitness.tsv", "repeats.tsv"} < made
    assert ("tissue.tsv" in made) == (why != "another grid")
    assert ("sites.tsv" in made) == (why != "one site")


def test_scans_of_the_same_subject_are_looked_at_where_there_are_any(
    run: Run, studies: Studies, unseen: None
) -> None:
    once = [{**row, "subject": f"q{number}"} for number, row in enumerate(studies.rows)]
    out = studies.run("once", table=studies.table("once", rows=once))
    ran = run("evaluate", out, *QUICK)
    assert ran.code == 0
    assert not (out / "evaluation" / "repeats.tsv").exists()
    assert "same subject" not in ran.out


# ── scans that fail ──────────────────────────────────────────────────────────────────────────────


def damage(out: Path, kind: str) -> Path:
    """Do something to the fifth scan of a run; return the file that will be complained of."""
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
    else:  # a tissue map, of this scan alone
        data = head(4) if kind == "tissue shape" else np.zeros(SHAPE, np.uint8)
        wrong = save(out / "tissue.nii", data)
        listed = rows(out / "scans.tsv")
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
    assert len(rows(flow / "evaluation" / "fitness_scans.tsv")) == 3 * 8


def test_scans_that_all_fail_are_worth_a_two(run: Run, flow: Path, unseen: None) -> None:
    for path in (flow / "maps").iterdir():
        path.write_text("{}")
    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert "nothing to compare" in ran.errors[-1]
    assert not (flow / "evaluation").exists()


# ── what is refused before it begins ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{flow} {flow}/../flow -o {new}", "{flow}/../flow: given twice; "),
        ("{flow}/none", "{flow}/none"),
        ("{flow}/none -o {new}", "{flow}/none: not a folder; "),
        ("{flow}/images -o {new}", "{flow}/images: holds no study; "),
        ("{flow} -o {new}/a/b", "{new}/a/b: there is no folder {new}/a; "),
        ("{flow} -o {flow}/scans.tsv", "{flow}/scans.tsv"),
        ("{flow} --permutations -1", "permutations"),
        ("{flow} --trees 0", "trees"),
        ("{flow} --seed -1", "seed"),
        ("{flow} --jobs 0", "jobs"),
        ("{flow} --covariate height", "'height'; there are: age, born, hand"),
        ("{flow} --covariate hand", "hand of s0 is 'l', which is not a number; "),
        ("{flow} --covariate born", "does not vary within any site"),
        ("{flow} --covariate name", "no column is called 'name'"),
    ],
)
def test_wrong_usage_is_refused_and_nothing_is_made(
    run: Run, flow: Path, unseen: None, words: str, said: str
) -> None:
    names = {"flow": flow, "new": flow.parent / "new"}
    before = tree(flow.parent)
    ran = run("evaluate", *QUICK, *(word.format(**names) for word in words.split()))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == ran.errors  # it is said at once, and not after hours
    assert len(ran.errors) == 1
    assert said.format(**names) in ran.errors[0]
    assert tree(flow.parent) == before
    assert not (flow / "evaluation").exists()


def test_a_covariate_needs_tissues_to_act_on(run: Run, studies: Studies) -> None:
    out = studies.run("bare", table=studies.table("bare", ["image", "site", "age"]))
    ran = run("evaluate", out, "--covariate", "age", *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert "not all scans have maps of WM, GM and CSF" in ran.errors[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"finished": False}, "holds a study that was stopped; finish it: "),
        ({"settings": {"mode": "sideways"}}, "the file is damaged"),
        ({"settings": None}, "the file is damaged"),
        ({"settings": ...}, "the file is damaged"),
        ({"kind": "map"}, "provenance.json: "),
    ],
)
def test_a_record_that_is_none_of_a_finished_run_is_refused(
    run: Run, flow: Path, change: dict[str, Any], said: str
) -> None:
    path = flow / "provenance.json"
    known = json.loads(path.read_text()) | change
    path.write_text(json.dumps({name: part for name, part in known.items() if part is not ...}))
    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors[0].startswith(f"error: {flow}")
    assert said in ran.errors[0]


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(
    run: Run, flow: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    ran = run("evaluate", flow, *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert f"needs {package}, which is not installed" in ran.errors[0]
    assert "pip install 'ndflow[evaluate]'" in ran.errors[0]
    assert not (flow / "evaluation").exists()


def test_help_tells_what_there_is(run: Run) -> None:
    ran = run("evaluate", "--help")
    assert (ran.code, ran.err) == (0, "")
    words = "RUN --output --covariate --permutations --trees --seed --force --jobs --max-bytes"
    assert [word for word in words.split() if word not in ran.out] == []


def test_a_scan_that_is_no_longer_what_a_run_has_seen_is_left_out(
    run: Run, studies: Studies, tmp_path: Path, unseen: None
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
    assert f"{after}: it, or its mask, is not what" in ran.errors[0]
    assert "s0" not in record(tmp_path / "out")["scans"]


def test_runs_that_disagree_about_sites_are_refused(
    run: Run, studies: Studies, tmp_path: Path
) -> None:
    other = [{**row, "site": f"not {row['site']}"} for row in studies.rows]
    named = studies.run("renamed", table=studies.table("renamed", rows=other))
    ran = run("evaluate", studies.folder / "flow", named, "-o", tmp_path / "out", *QUICK)
    assert ran.code == 2
    assert "the site of s0 is " in ran.errors[0]


def test_a_map_of_a_tissue_that_lies_elsewhere_is_refused(
    run: Run, studies: Studies, tmp_path: Path, unseen: None
) -> None:
    share = nibabel.load(studies.folder / "gm.nii.gz").get_fdata(dtype=np.float32)
    mirrored = AFFINE @ np.diag([-1, 1, 1, 1])
    save(studies.folder / "flipped.nii.gz", share[::-1], mirrored)
    chosen = [*studies.rows[:5], {**studies.rows[5], "gm": "flipped.nii.gz"}]
    out = studies.run("flipped", table=studies.table("flipped", rows=chosen))
    ran = run("evaluate", out, *QUICK)
    assert (ran.code, len(ran.errors)) == (1, 1)
    assert "flipped.nii.gz: lies " in ran.errors[0]
    listed = rows(out / "evaluation" / "failures.tsv")
    assert [row["scan"] for row in listed] == ["s5"]
    assert "s5: " in (out / "evaluation" / "summary.txt").read_text()

"""Brain masks that a study finds, with a stand-in for the network."""

import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import execute, typed
from deepbet_stand_in import VERSION, StandIn
from phantoms import AFFINE, head, save
from studies import read_json, read_tsv, write_tsv

import ndflow
from ndflow.errors import InvalidValueError

LARGE = AFFINE @ np.diag([3.0, 3.0, 3.0, 1.0])  # phantoms as large as brains
NAMES = ("a_T1w", "b_T1w")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two scans without masks."""
    for seed, name in enumerate(NAMES):
        save(tmp_path / f"{name}.nii.gz", head(seed), LARGE)
    write_tsv(tmp_path / "t.tsv", [{"image": f"{name}.nii.gz"} for name in NAMES])
    return tmp_path / "t.tsv"


def cohort(table: Path, *more: object, code: int = 0) -> Path:
    out = table.parent / "out"
    typed("cohort", table, out, "--mask", "brain", "--no-report", "-q", *more, code=code)
    return out


def test_the_masks_are_in_the_folder_and_the_records_say_so(table: Path, deepbet: StandIn) -> None:
    out = cohort(table)
    listed = [row["mask"] for row in read_tsv(out / "scans.tsv")]
    assert listed == [f"masks/{name}.nii.gz" for name in NAMES]
    for seed, (name, mask) in enumerate(zip(NAMES, listed, strict=True)):
        found, values = nibabel.load(out / mask), head(seed)
        assert found.get_data_dtype() == np.uint8
        assert np.array_equal(found.affine, LARGE)
        assert np.array_equal(np.asarray(found.dataobj) > 0, values > values.max() / 2)
        for file in (out / "models" / f"{name}.json", out / "maps" / f"{name}.json"):
            settings = read_json(file)["settings"]
            assert (settings["mask"], settings["deepbet"]) == ("brain", VERSION)
    assert read_json(out / "provenance.json")["versions"]["deepbet"] == VERSION


def test_the_network_runs_once_for_each_scan_and_again_where_something_changed(
    table: Path, deepbet: StandIn
) -> None:
    out = cohort(table)
    assert deepbet.calls == 2
    cohort(table)
    other = ("--set", "effective-count=500")
    cohort(table, *other, "--force")
    assert deepbet.calls == 2
    (out / "masks" / "a_T1w.nii.gz").unlink()
    cohort(table, *other)
    assert deepbet.calls == 3
    mask = out / "masks" / "b_T1w.nii.gz"
    before = mask.read_bytes()
    (values := head(1))[:12] = 0
    save(mask, (values > 0).astype(np.uint8), LARGE)
    edited = mask.read_bytes()
    cohort(table, *other, code=1)
    assert (deepbet.calls, mask.read_bytes()) == (3, edited)
    cohort(table, *other, "--force")
    assert (deepbet.calls, mask.read_bytes()) == (4, before)
    save(table.parent / "a_T1w.nii.gz", head(7), LARGE)
    cohort(table, *other)
    assert deepbet.calls == 5


def test_another_version_of_deepbet_finds_masks_anew(table: Path, deepbet: StandIn) -> None:
    cohort(table)
    about = deepbet.folder / f"deepbet-{VERSION}.dist-info" / "METADATA"
    about.write_text(about.read_text().replace(VERSION, "1.0.3"))
    out = cohort(table)
    assert deepbet.calls == 4
    assert read_json(out / "maps" / "a_T1w.json")["settings"]["deepbet"] == "1.0.3"


def test_workers_find_the_same_masks(table: Path, deepbet: StandIn) -> None:
    masks = []
    for jobs in (1, 2):
        out = table.parent / f"out{jobs}"
        words = ("--mask", "brain", "--no-report", "-q", "--jobs", jobs)
        typed("cohort", table, out, *words)
        masks.append([(out / "masks" / f"{name}.nii.gz").read_bytes() for name in NAMES])
    assert masks[0] == masks[1]
    assert deepbet.calls == 4


def test_finished_studies_need_no_network(
    table: Path, deepbet: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = cohort(table)
    other = table.parent / "other"
    typed("cohort", table, other, "--mask", "brain", "--method", "affine", "--no-report", "-q")
    monkeypatch.setitem(sys.modules, "deepbet", None)
    typed("verify", out, "-q")
    typed("evaluate", out, other, "-o", table.parent / "evaluation", "-q")
    assert "Fisch et al. 2024" in ndflow.report(out, sample=0, viewer=0).read_text("utf-8")
    save(out / "masks" / "a_T1w.nii.gz", np.ones(head().shape, np.uint8), LARGE)
    typed("verify", out, "-q", code=1)


def test_masks_that_are_no_longer_to_be_found_are_removed(table: Path, deepbet: StandIn) -> None:
    out = cohort(table)
    typed("cohort", table, out, "--mask", "nonzero", "--no-report", "-q", code=2)
    typed("cohort", table, out, "--mask", "nonzero", "--no-report", "-q", "--force")
    assert read_json(out / "maps" / "a_T1w.json")["settings"]["mask"] == "nonzero"
    assert not list((out / "masks").iterdir())
    typed("verify", out, "-q")


def test_a_file_of_somebody_else_is_neither_replaced_nor_removed(
    table: Path, deepbet: StandIn
) -> None:
    mine = table.parent / "out" / "masks" / "a_T1w.nii.gz"
    mine.parent.mkdir(parents=True)
    save(mine, head(5), LARGE)
    before = mine.read_bytes()
    cohort(table, "--force", code=2)
    typed("cohort", table, mine.parents[1], "--force", "--no-report", "-q")
    assert mine.read_bytes() == before
    assert deepbet.calls == 0


def test_a_scan_that_fails_leaves_no_mask_behind(table: Path, deepbet: StandIn) -> None:
    out = cohort(table)
    save(table.parent / "a_T1w.nii.gz", np.zeros(head().shape, np.int16), LARGE)
    cohort(table, code=1)
    assert [path.name for path in (out / "masks").iterdir()] == ["b_T1w.nii.gz"]
    (row,) = read_tsv(out / "failures.tsv")
    assert "deepbet finds no brain in it" in "\t".join(row.values())


def test_a_rehearsal_says_what_would_be_found(
    table: Path, deepbet: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    out = cohort(table)
    capsys.readouterr()
    words = ("cohort", table, out, "--mask", "brain", "--dry-run")
    typed(*words)
    assert capsys.readouterr().out.count("up to date") == 2
    (out / "masks" / "a_T1w.nii.gz").unlink()
    typed(*words)
    assert "missing: a_T1w.nii.gz" in capsys.readouterr().out
    assert deepbet.calls == 2


COMMANDS = {
    "normalise": ("normalise", "a_T1w.nii.gz", "--to", "b_T1w.nii.gz", "-o", "new"),
    "fit": ("fit", "a_T1w.nii.gz", "b_T1w.nii.gz", "-o", "new"),
    "reference": ("reference", "a_T1w.nii.gz", "b_T1w.nii.gz", "-o", "new.json"),
    "cohort": ("cohort", "t.tsv", "new"),
    "cohort, only shown": ("cohort", "t.tsv", "new", "--dry-run"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_without_deepbet_nothing_is_begun(
    what: str, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "deepbet", None)
    monkeypatch.chdir(table.parent)
    before = sorted(table.parent.iterdir())
    assert execute(*COMMANDS[what], "--mask", "brain", "-q") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'ndflow[prepare]'" in line
    assert sorted(table.parent.iterdir()) == before


def test_images_that_are_not_t1w_are_refused_before_any_work(
    table: Path, deepbet: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    save(table.parent / "c_FLAIR.nii.gz", head(3), LARGE)
    with table.open("a") as file:
        file.write("c_FLAIR.nii.gz\n")
    out = cohort(table, code=2)
    assert "c_FLAIR.nii.gz: not a T1w image by its name" in capsys.readouterr().err
    cohort(table, "--channels", "T2w", code=2)
    assert "finds brains in T1w images, but these are T2w" in capsys.readouterr().err
    assert not out.exists()
    assert deepbet.calls == 0


def test_in_python_it_is_the_same_word(table: Path, deepbet: StandIn) -> None:
    image, other = (table.parent / f"{name}.nii.gz" for name in NAMES)
    result = ndflow.normalise(image, other, mask="brain", to_mask="brain")
    assert (result.record.setting("mask"), result.record.setting("deepbet")) == ("brain", VERSION)
    assert deepbet.calls == 2
    assert ndflow.cohort(table, table.parent / "out", mask="brain", report=False).done == 2
    with pytest.raises(InvalidValueError, match="one of brain, auto, nonzero"):
        ndflow.cohort(table, table.parent / "new", mask="head", report=False)  # type: ignore[arg-type]


def test_a_bids_derivative_keeps_them_out_of_sight(tmp_path: Path, deepbet: StandIn) -> None:
    for seed, name in enumerate(("01", "02")):
        folder = tmp_path / "in" / f"sub-{name}" / "anat"
        folder.mkdir(parents=True)
        save(folder / f"sub-{name}_T1w.nii.gz", head(seed), LARGE)
    about = '{"Name": "two heads", "BIDSVersion": "1.10.0"}'
    (tmp_path / "in" / "dataset_description.json").write_text(about)
    words = ("--mask", "brain", "-q")
    typed("bids", tmp_path / "in", tmp_path / "out", "participant", *words)
    typed("bids", tmp_path / "in", tmp_path / "out", "group", "--no-report", *words)
    assert deepbet.calls == 2
    assert (tmp_path / "out" / "masks" / "sub-01_T1w.nii.gz").exists()
    assert "/masks" in (tmp_path / "out" / ".bidsignore").read_text().splitlines()
    typed("verify", tmp_path / "out", "-q")

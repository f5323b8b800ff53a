"""Brain masks that a study finds, with a stand-in for the network."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from commands import typed
from deepbet_stand_in import VERSION, StandIn
from phantoms import AFFINE, head, save
from studies import content, read_json, read_tsv, write_tsv

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
        settings = read_json(out / "maps" / f"{name}.json")["settings"]
        assert (settings["mask"], settings["deepbet"]) == ("brain", VERSION)


def test_the_network_runs_once_for_each_scan_and_again_where_something_changed(
    table: Path, deepbet: StandIn
) -> None:
    out = cohort(table)
    assert deepbet.calls == 2
    cohort(table)
    other = ("--set", "effective-count=500")
    cohort(table, *other, "--force")
    assert deepbet.calls == 4
    (out / "masks" / "a_T1w.nii.gz").unlink()
    cohort(table, *other)
    assert deepbet.calls == 5
    mask = out / "masks" / "b_T1w.nii.gz"
    before = content(mask)
    (values := head(1))[:12] = 0
    save(mask, (values > 0).astype(np.uint8), LARGE)
    edited = mask.read_bytes()
    cohort(table, *other, code=1)
    assert (deepbet.calls, mask.read_bytes()) == (5, edited)
    cohort(table, *other, "--force")
    assert (deepbet.calls, content(mask)) == (6, before)
    save(table.parent / "a_T1w.nii.gz", head(7), LARGE)
    cohort(table, *other)
    assert deepbet.calls == 7


def test_masks_of_scans_that_fail_or_need_none_are_removed(table: Path, deepbet: StandIn) -> None:
    out = cohort(table)
    save(table.parent / "a_T1w.nii.gz", np.zeros(head().shape, np.int16), LARGE)
    cohort(table, code=1)
    assert [path.name for path in (out / "masks").iterdir()] == ["b_T1w.nii.gz"]
    (row,) = read_tsv(out / "failures.tsv")
    assert "deepbet finds no brain in it" in "\t".join(row.values())
    save(table.parent / "a_T1w.nii.gz", head(), LARGE)
    typed("cohort", table, out, "--mask", "nonzero", "--no-report", "-q", "--force")
    assert read_json(out / "maps" / "a_T1w.json")["settings"]["mask"] == "nonzero"
    assert not list((out / "masks").iterdir())

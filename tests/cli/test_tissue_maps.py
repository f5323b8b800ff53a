"""``--tissue-maps``: the tissue probability maps of a scan."""

from pathlib import Path

import numpy as np
import pytest
from commands import Run, typed
from phantoms import head, radii, save
from studies import read_json

SCAN, LABELS = head(1), head(1, tissues=((1, 0), (2, 0), (3, 0)))
TISSUES = ("csf", "gm", "wm")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with two scans, tissue maps of the first, and a reference without tissues."""
    save(tmp_path / "scan.nii.gz", SCAN)
    save(tmp_path / "other.nii.gz", head(2))
    for label, tissue in enumerate(TISSUES, 1):
        save(tmp_path / f"{tissue}.nii.gz", (label == LABELS).astype(np.float32))
    typed("reference", tmp_path / "scan.nii.gz", "-o", tmp_path / "reference.json")
    return tmp_path


def maps(folder: Path, order: tuple[str, ...] = TISSUES) -> list[object]:
    """Return the option that names the maps, which may be given in the wrong order."""
    given = zip(TISSUES, order, strict=True)
    return ["--tissue-maps", *(f"{tissue}={folder / name}.nii.gz" for tissue, name in given)]


def test_weights_of_a_reference_apply_to_its_tissues(run: Run, files: Path) -> None:
    save(files / "small.nii.gz", SCAN * (radii() < 0.9))
    for model, scan in (("a", "scan"), ("b", "small")):
        words = ("fit", files / f"{scan}.nii.gz", *maps(files), "-o", files / f"{model}.json")
        assert run(*words).code == 0
    words = ("reference", files / "a.json", files / "b.json", "-o")
    assert run(*words, files / "even.json").code == 0
    assert run(*words, files / "odd.json", "--weights", 9, 1).code == 0
    made = (read_json(files / f"{name}.json")["reference"] for name in ("even", "odd"))
    even, odd = (reference["tissues"]["mean"] for reference in made)
    assert even != odd


def test_a_dry_run_of_a_study_looks_for_its_tissue_maps(run: Run, files: Path) -> None:
    table = files / "t.tsv"
    table.write_text("image\tcsf\tgm\twm\nscan.nii.gz\tgone.nii.gz\tgm.nii.gz\twm.nii.gz\n")
    assert run("cohort", table, files / "out", "--proportions", "tissue", "--dry-run").code != 0


def test_an_image_swallowed_by_the_option_before_it_is_explained(run: Run, files: Path) -> None:
    to = ("--to", files / "reference.json", "-o", files / "out.nii.gz", "--proportions", "tissue")
    ran = run("normalise", *to, *maps(files), files / "scan.nii.gz")
    assert ran.code == 2
    assert "it goes before" in ran.err


@pytest.mark.parametrize("order", [("wm", "gm", "csf"), ("csf", "wm", "gm")])
def test_tissue_maps_that_were_swapped_are_refused(
    run: Run, files: Path, order: tuple[str, ...]
) -> None:
    scan, known, out = files / "scan.nii.gz", files / "known.json", files / "out.nii.gz"
    typed("fit", scan, *maps(files), "-o", files / "model.json")
    typed("reference", files / "model.json", "-o", known)
    to = ("--to", known, "--proportions", "tissue")
    ran = run("normalise", scan, *to, *maps(files, order), "-o", out)
    assert ran.code == 2
    assert f"{scan}: according to its tissue maps " in ran.err
    assert "in the reference it is the other way round; check which map is which" in ran.err
    assert not out.exists()

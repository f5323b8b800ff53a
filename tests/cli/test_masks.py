"""Doubts about masks, through the commands, as the records that they write have them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import typed
from mask_doubt_kinds import kinds
from numpy.typing import NDArray
from phantoms import save
from studies import read_json, record_of, write_tsv

AFFINE = np.diag([4.0, 4.0, 4.0, 1.0])  # mm: a coarse image of human size
SHAPE = (48, 56, 48)
BRAIN, SCALP = (66.0, 82.0, 62.0), 20.0  # mm: its semi-axes, and how far the head goes beyond it
BONE = 8.0


def depth() -> NDArray[np.float64]:
    """Return roughly how many mm each voxel lies below the surface of the brain."""
    axes = [4.0 * (np.arange(length) - (length - 1) / 2) for length in SHAPE]
    grid = np.meshgrid(*axes, indexing="ij")
    return (1 - np.sqrt(sum((g / r) ** 2 for g, r in zip(grid, BRAIN, strict=True)))) * min(BRAIN)


DEPTH = depth()


def head(seed: int = 0) -> NDArray[np.int16]:
    """Return a whole head: WM, cortex with CSF in its sulci, bone, scalp, and noise in the air."""
    generator = np.random.default_rng(seed)
    sulci = generator.random(SHAPE) < np.where(DEPTH < 4, 0.4, 0.05)
    parts = [DEPTH < -SCALP, DEPTH < -BONE, DEPTH < 0, sulci, DEPTH < 8]
    means = np.select(parts, [8.0, 900.0, 40.0, 300.0, 700.0], 1000.0)
    values = np.abs(means + generator.normal(0, 30, SHAPE) * (means > 10))
    return np.rint(values + generator.random(SHAPE) * 6).astype(np.int16) + np.int16(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with heads, the same heads without skull, masks, and a reference."""
    made = tmp_path_factory.mktemp("masks")
    brain = DEPTH > 0
    pieces = brain.copy()
    pieces[20:24] = False  # an eighth of it is cut off
    for name, inside in {
        "brain": brain,
        "wide": DEPTH > -8,
        "huge": DEPTH > -25,
        "narrow": DEPTH > 4,
        "small": DEPTH > 30,
        "pieces": pieces,
    }.items():
        save(made / f"{name}.nii.gz", inside.astype(np.uint8), AFFINE)
    for seed in range(6):
        save(made / f"head{seed}.nii.gz", head(seed), AFFINE)
    stripped = np.where(brain, head(0), 0).astype(np.int16)
    save(made / "stripped.nii.gz", stripped, AFFINE)
    save(made / "cut.nii.gz", head(0)[18:], AFFINE)
    save(made / "cut_mask.nii.gz", brain[18:].astype(np.uint8), AFFINE)
    save(made / "inverted.nii.gz", np.where(brain, 1300 - head(0), 0).astype(np.int16), AFFINE)
    images = [made / f"head{seed}.nii.gz" for seed in range(2)]
    masks = [made / "brain.nii.gz"] * 2
    typed("reference", *images, "--mask", *masks, "-o", made / "reference.json", "-q")
    return made


CASES: dict[str, tuple[str, str | None, list[str]]] = {
    "a brain in a head": ("head0", "brain.nii.gz", []),
    "a brain without skull": ("stripped", None, []),
    "a brain without skull, found": ("stripped", "auto", []),
    "a head": ("head0", None, ["whole head"]),
    "a head, found": ("head0", "auto", ["whole head"]),
    "too wide": ("head0", "wide.nii.gz", ["mask too wide"]),
    "much too wide": ("head0", "huge.nii.gz", ["mask too wide"]),
    "too wide for what is there": (
        "stripped",
        "wide.nii.gz",
        ["mask too wide", "zeros inside the mask"],
    ),
    "too small": ("head0", "small.nii.gz", ["mask too small"]),
    "in pieces": ("head0", "pieces.nii.gz", ["mask in pieces"]),
    "cut off": ("cut", "cut_mask.nii.gz", ["mask touches the border"]),
}


def arguments(folder: Path, case: str) -> list[Any]:
    image, mask, _ = CASES[case]
    given = [] if mask is None else ["--mask", mask if mask == "auto" else folder / mask]
    return [folder / f"{image}.nii.gz", *given]


@pytest.mark.parametrize("case", sorted(CASES))
def test_fit_names_what_is_doubtful(folder: Path, tmp_path: Path, case: str) -> None:
    typed("fit", *arguments(folder, case), "-o", tmp_path / "model.json", "-q")
    record = read_json(tmp_path / "model.json")
    assert kinds(record) == CASES[case][2]
    assert record["mask"]["volume"] > 100
    assert all(doubt["hint"] and doubt["text"].endswith(".") for doubt in record.get("doubts", []))


@pytest.mark.parametrize("case", ["a brain in a head", "too wide"])
def test_normalise_names_the_same(folder: Path, tmp_path: Path, case: str) -> None:
    out = tmp_path / "out.nii.gz"
    typed("normalise", *arguments(folder, case), "--to", folder / "reference.json", "-o", out, "-q")
    found = kinds(record_of(out))
    assert [kind for kind in found if kind != "unlike the reference"] == CASES[case][2]
    assert record_of(out)["mask"]["share"] > 0


def test_normalise_names_a_contrast_that_the_reference_does_not_know(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.nii.gz"
    image, mask = folder / "inverted.nii.gz", folder / "brain.nii.gz"
    typed("normalise", image, "--mask", mask, "--to", folder / "reference.json", "-o", out, "-q")
    assert "unlike the reference" in kinds(record_of(out))


def run_study(
    folder: Path, out: Path, masks: dict[int, str], *words: object
) -> dict[str, list[str]]:
    """Run a study of six heads, some with other masks, and return the doubts about its scans."""
    rows = [
        {
            "image": folder / f"head{seed}.nii.gz",
            "mask": folder / masks.get(seed, "brain.nii.gz"),
            "site": "Aachen",
        }
        for seed in range(6)
    ]
    out.parent.mkdir(exist_ok=True)
    typed("cohort", write_tsv(out.with_suffix(".tsv"), rows), out, "-q", "--no-report", *words)
    models = {path.stem: kinds(read_json(path)) for path in (out / "models").iterdir()}
    maps = {path.stem: kinds(read_json(path)) for path in (out / "maps").iterdir()}
    for name, own in models.items():
        assert maps[name][: len(own)] == own  # a map has the doubts of its model, and more
    return maps


def test_a_study_compares_its_scans(folder: Path, tmp_path: Path) -> None:
    assert not any(run_study(folder, tmp_path / "right", {}).values())
    odd = run_study(folder, tmp_path / "odd", {2: "wide.nii.gz", 4: "narrow.nii.gz"})
    assert {name: own[0] for name, own in odd.items() if own} == {
        "head2": "mask too wide",
        "head4": "mask too small",
    }


def test_doubts_that_come_from_the_other_scans_are_brought_up_to_date(
    folder: Path, tmp_path: Path
) -> None:
    given = ("--reference", folder / "reference.json")  # so that nothing else changes
    first = run_study(folder, tmp_path / "study", {4: "narrow.nii.gz"}, *given)
    assert [name for name, own in first.items() if "mask too small" in own] == ["head4"]
    others = dict.fromkeys(range(1, 6), "narrow.nii.gz")
    again = run_study(folder, tmp_path / "study", others, *given)
    assert "mask too small" not in again["head4"]
    assert again["head0"][:1] == ["mask too wide"]

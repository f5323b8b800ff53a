"""What the README shows does what it says."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
from mixtures import random_mixture
from phantoms import head, save

import ndflow
from ndflow.cli import main
from ndflow.demo.run import options_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

Typed = Callable[[str], None]


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return found


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Return a function that does what a line of the README does."""

    def line(text: str) -> None:
        monkeypatch.setattr("sys.argv", shlex.split(text))
        assert main() == 0, text

    return line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scans that the README speaks of, in the folder that we are in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NDFLOW_NO_REPORT", raising=False)
    for seed, (image, mask) in enumerate((("scan", "brain"), ("other", "other_brain"))):
        voxels = head(seed, gain=1 + seed)
        save(tmp_path / f"{image}.nii.gz", voxels)
        save(tmp_path / f"{mask}.nii.gz", (voxels > 0).astype(np.uint8))
        anat = tmp_path / "BIDS_DIR" / f"sub-{seed}" / "anat"
        anat.mkdir(parents=True)
        save(anat / f"sub-{seed}_T1w.nii.gz", voxels)
    save(tmp_path / "t1.nii.gz", head(2))
    save(tmp_path / "flair.nii.gz", head(3, tissues=[(200, 30), (700, 40), (600, 40)]))
    (tmp_path / "study.tsv").write_text(
        "image\tmask\tsite\nscan.nii.gz\tbrain.nii.gz\tA\nother.nii.gz\tother_brain.nii.gz\tB\n"
    )
    (tmp_path / "BIDS_DIR" / "dataset_description.json").write_text(
        '{"Name": "two heads", "BIDSVersion": "1.9.0"}'
    )
    (tmp_path / "BIDS_DIR" / "participants.tsv").write_text(
        "participant_id\tsite\nsub-0\tA\nsub-1\tB\n"
    )
    scans, masks = ["scan.nii.gz", "other.nii.gz"], ["brain.nii.gz", "other_brain.nii.gz"]
    ndflow.save("reference.json", ndflow.reference(scans, mask=masks, channel="T1w"))
    return tmp_path


@pytest.fixture
def after_the_commands(folder: Path, typed: Typed) -> Path:
    for block in blocks("sh"):
        for line in block.strip().splitlines():
            typed(line)
    return folder


def test_the_commands_do_what_is_said_of_them(after_the_commands: Path) -> None:
    def voxels(name: str) -> np.ndarray:
        image = nibabel.load(name).get_fdata()
        return image[image != 0]

    assert {file.name for file in after_the_commands.iterdir()} >= {"out.json", "mixtures"}
    assert np.median(voxels("out.nii.gz")) == pytest.approx(
        np.median(voxels("other.nii.gz")), rel=0.02
    )
    np.testing.assert_allclose(voxels("back.nii.gz"), voxels("scan.nii.gz"), atol=0.1)
    bids = "BIDS_OUT/sub-{}/anat/sub-{}_desc-ndflow_T1w.nii.gz"
    for name in (
        "normalised.nii.gz",
        *(f"normalised/{scan}.nii.gz" for scan in ("scan", "other")),
        *(f"OUT/images/{scan}.nii.gz" for scan in ("scan", "other")),
        *(f"channels/{scan}.nii.gz" for scan in ("t1", "flair")),
        *(bids.format(label, label) for label in (0, 1)),
    ):
        result = voxels(name)
        # A phantom has other proportions of tissue than the adults of the builtin reference.
        off = 20 if name == "normalised.nii.gz" else 3
        assert result.mean() == pytest.approx(500, abs=off), name
        assert result.std() == pytest.approx(125, abs=off), name
        assert result.min() > 0, name
    for study in ("OUT", "BIDS_OUT"):
        assert (after_the_commands / study / "report.html").exists()
    assert json.loads(Path("ours.json").read_text())["reference"]["channel_names"] == ["T1w"]


def test_the_table_of_the_demo_names_the_options_of_its_studies() -> None:
    shown = re.findall(r"^\| .* \| \.\d{3} \| (?:`(.*)`)? ?\|$", README, re.MULTILINE)
    names = ("affine", "nyul", "paper", "site", "auto-without-maps", "auto")
    assert shown == [options_of(name) for name in names]


def test_the_python_runs_and_gives_back_what_went_in(folder: Path) -> None:
    generator = np.random.default_rng(0)
    voxels, target_voxels = (
        np.rint(1000 + 100 * random_mixture(generator, 3).sample(5000, generator)).astype(np.int16)
        for _ in range(2)
    )
    x = voxels[:100].astype(np.float64)
    names = {"voxels": voxels, "target_voxels": target_voxels, "x": x}
    exec("\n".join(blocks("python")), names)
    np.testing.assert_allclose(names["x"], x, rtol=1e-9)
    np.testing.assert_allclose(names["y"], names["imap"](x), rtol=1e-5)  # from the table
    assert names["imap"](voxels).mean() == pytest.approx(target_voxels.mean(), rel=0.01)
    assert isinstance(names["result"], ndflow.Result)
    assert ndflow.load("average.json") == names["reference"]
    assert repr(names["reference"]).startswith("Reference(T1w, 2 scans, ")  # as is said there
    for file in ("report.html", "evaluation/sites.tsv", "images/scan.nii.gz"):
        assert (folder / "STUDY" / file).exists()

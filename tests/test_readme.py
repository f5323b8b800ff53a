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

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")

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
    for seed, (image, mask) in enumerate((("scan", "brain"), ("other", "other_brain"))):
        voxels = head(seed, gain=1 + seed)
        save(tmp_path / f"{image}.nii.gz", voxels)
        save(tmp_path / f"{mask}.nii.gz", (voxels > 0).astype(np.uint8))
    (tmp_path / "study.tsv").write_text(
        "image\tmask\tsite\nscan.nii.gz\tbrain.nii.gz\tA\nother.nii.gz\tother_brain.nii.gz\tB\n"
    )
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

    assert {file.name for file in after_the_commands.iterdir()} >= {
        "out.nii.gz",
        "out.json",
        "back.nii.gz",
        "reference.json",
    }
    assert np.median(voxels("out.nii.gz")) == pytest.approx(
        np.median(voxels("other.nii.gz")), rel=0.02
    )
    np.testing.assert_allclose(voxels("back.nii.gz"), voxels("scan.nii.gz"), atol=0.1)
    for name in ("scan", "other"):
        result = voxels(f"normalised/{name}.nii.gz")
        assert result.mean() == pytest.approx(0, abs=0.02)
        assert result.std() == pytest.approx(1, abs=0.02)
    assert json.loads(Path("reference.json").read_text())["reference"]["channel_names"] == ["T1w"]


def test_the_python_runs_and_gives_back_what_went_in(after_the_commands: Path) -> None:
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
        assert (after_the_commands / "OUT" / file).exists()

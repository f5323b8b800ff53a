"""``--set freeze``: components of a scan stay where the alignment puts them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, typed
from phantoms import head, radii, save
from studies import positive, record_of

import ndflow

TISSUES = ((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0))
BRIGHT = 1350.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight healthy scans, and one with a bright lesion."""
    place = tmp_path_factory.mktemp("frozen")
    for number in range(8):
        save(place / f"h{number}.nii.gz", scan(number))
    ill = scan(9)
    generator = np.random.default_rng(0)
    where = lesion()
    ill[where] = np.rint(generator.normal(BRIGHT, 30, np.count_nonzero(where)))
    save(place / "ill.nii.gz", ill)
    return place


def scan(number: int) -> Any:
    tissues = tuple((mean * (1 + 0.01 * (number % 3)), sd) for mean, sd in TISSUES)
    return head(number, tissues=tissues)


def lesion() -> Any:
    return (radii() < 0.45) & (np.arange(radii().shape[0])[:, None, None] < 12)


@pytest.fixture(scope="module")
def healthy(folder: Path) -> Path:
    reference = folder / "healthy.json"
    scans = (folder / f"h{number}.nii.gz" for number in range(8))
    typed("reference", *scans, "-o", reference)
    return reference


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "freeze=99", "--to", "healthy.json"), "a component that does not exist"),
        (("--set", "freeze=bright", "--to", "healthy.json"), "write an index (3)"),
        (("--set", "freeze=9:1", "--to", "healthy.json"), "the lower end first"),
    ],
)
def test_rules_that_make_no_sense_are_refused(
    run: Run, folder: Path, healthy: Path, monkeypatch: pytest.MonkeyPatch, words: Any, said: str
) -> None:
    monkeypatch.chdir(folder)
    ran = run("normalise", "ill.nii.gz", "-o", "no.nii.gz", *words)
    assert ran.code == 2
    assert said in ran.err
    assert not Path("no.nii.gz").exists()


def test_frozen_components_stay_where_the_alignment_takes_them(
    run: Run, folder: Path, healthy: Path
) -> None:
    output = folder / "frozen.nii.gz"
    words = ("normalise", folder / "ill.nii.gz", "--to", healthy, "-o", output)
    assert run(*words, "--set", "freeze=1250:,weight<0.01").well
    made = record_of(output)
    assert made["settings"]["freeze"] == ["1250:", "weight<0.01"]
    mixture = ndflow.GaussianMixture.from_dict(made["mixture"])
    chosen = (mixture.means[:, 0] >= 1250) | (mixture.weights < 0.01)
    assert made["match"]["frozen"] == np.flatnonzero(chosen).tolist() != []
    imap = ndflow.load(output.with_name("frozen.json"))
    target = ndflow.load(healthy)
    aligned = positive(ndflow.transport.align(mixture, target.mixture)(np.array([BRIGHT])))
    np.testing.assert_allclose(imap(np.array([BRIGHT])), aligned, atol=2.5)
    x = np.linspace(100, 1500, 2000)
    assert (np.diff(imap(x)) > 0).all()
    np.testing.assert_allclose(imap.inverse()(imap(x)), x, atol=1e-6)


def test_a_freeze_rule_that_matches_no_component_is_a_warning(
    run: Run, folder: Path, healthy: Path, tmp_path: Path
) -> None:
    words = ("normalise", folder / "h1.nii.gz", "--to", healthy, "-o")
    assert run(*words, tmp_path / "plain.nii.gz").well
    ran = run(*words, tmp_path / "same.nii.gz", "--set", "freeze=5000:9000")
    assert ran.code == 0
    assert ran.err.startswith(
        f"warning: {folder / 'h1.nii.gz'}: --set freeze chooses none of its components"
    )
    assert record_of(tmp_path / "same.nii.gz")["match"]["frozen"] == []
    assert "frozen" not in record_of(tmp_path / "plain.nii.gz")["match"]

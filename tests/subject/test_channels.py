"""Several channels in Python: arrays, nibabel images, dictionaries of targets, and files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from channel_phantoms import NAMES, channels, save_channels
from phantoms import AFFINE

import ndflow
from ndflow.methods import ndflow as method
from ndflow.transport.joint import JointMap, joint_map

ONE, TWO = channels(0), channels(1, gains=(1.3, 0.7), correlation=0.6)


@pytest.fixture(scope="module")
def goal() -> ndflow.Reference:
    """A joint reference."""
    return ndflow.reference([ndflow.fit(TWO, joint=True)], channel=NAMES)


@pytest.fixture(scope="module")
def results(goal: ndflow.Reference) -> dict[str, ndflow.Result]:
    return ndflow.normalise(ONE, to=goal, joint=True)


def test_there_is_a_result_for_each_channel_which_can_be_undone(
    results: dict[str, ndflow.Result],
) -> None:
    assert tuple(results) == NAMES
    inside = ONE["T1w"] != 0
    points = np.stack([ONE[name][inside] for name in NAMES], axis=1)
    for place, (name, result) in enumerate(results.items()):
        assert (result.imap.channels, result.record.channel) == (2, name)
        expected = result.imap(points)[:, place]
        assert np.abs(result.image[inside] - expected).max() < 0.02
        assert (result.image[~inside] == 0).all()
    images = {name: result.image for name, result in results.items()}
    back = ndflow.apply(images, results["T1w"].imap, inverse=True)
    for name in NAMES:
        assert np.abs(back[name].image - ONE[name]).max() < 5e-3 * ONE[name].std()
    drawn = {(axis.get_xlabel(), axis.get_ylabel()) for axis in results["T1w"].plot().axes}
    assert (f"{NAMES[0]} (sd)", f"{NAMES[1]} (sd)") in drawn


def test_nibabel_images_give_nibabel_images_and_files_give_files(tmp_path: Path) -> None:
    turn = ndflow.Affine([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0])  # exchanges the channels
    images = {name: nibabel.Nifti1Image(image, AFFINE) for name, image in ONE.items()}
    in_memory = ndflow.apply(images, turn)
    ndflow.apply(save_channels(tmp_path), turn, output=tmp_path / "out")
    for name, other in zip(NAMES, reversed(NAMES), strict=True):
        assert isinstance(in_memory[name].image, nibabel.Nifti1Image)
        written = nibabel.load(tmp_path / "out" / f"0_{name}.nii.gz")
        assert np.array_equal(written.dataobj, ONE[other])
        assert np.array_equal(in_memory[name].image.dataobj, ONE[other])


def test_a_joint_flow_that_is_left_out_is_said(
    goal: ndflow.Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_kept(*given: Any, **options: Any) -> JointMap:
        found = joint_map(*given, **options)
        return replace(found, figures=replace(found.figures, kept=False))

    monkeypatch.setattr(method, "joint_map", not_kept)
    for result in ndflow.normalise(ONE, to=goal, joint=True).values():
        assert result.record.joint.kept is False
        assert [line for line in result.warnings if "a joint flow would not bring" in line]
        assert result.record.match.message == "maps of each channel by itself"


def test_densities_of_channels_are_saved_and_loaded(tmp_path: Path) -> None:
    fits = ndflow.fit(TWO)
    references = {name: ndflow.reference([one], channel=name) for name, one in fits.items()}
    mixtures = {name: one.mixture for name, one in fits.items()}
    path = tmp_path / "models.json"
    for given, expected in ((fits, mixtures), (mixtures, mixtures), (references, references)):
        ndflow.save(path, given, force=True)
        loaded = ndflow.load(path)
        assert tuple(loaded) == NAMES
        assert loaded == expected
    with pytest.raises(ndflow.InvalidValueError, match="all mixtures or all references"):
        ndflow.save(path, {"T1w": fits["T1w"], "FLAIR": references["FLAIR"]}, force=True)


WRONG = {
    "there is one image only": lambda goal: ndflow.normalise(ONE["T1w"], goal, joint=True),
    "a channel must have a name of letters": lambda goal: ndflow.fit({"a b": 1, "c": 2}),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_makes_no_sense_is_refused(goal: ndflow.Reference, message: str) -> None:
    with pytest.raises(ndflow.NdflowError, match=message):
        WRONG[message](goal)

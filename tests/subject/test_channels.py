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


def test_there_is_a_result_for_each_channel(results: dict[str, ndflow.Result]) -> None:
    assert tuple(results) == NAMES
    inside = ONE["T1w"] != 0
    points = np.stack([ONE[name][inside] for name in NAMES], axis=1)
    for place, (name, result) in enumerate(results.items()):
        assert isinstance(result.image, np.ndarray)
        assert result.imap.channels == 2
        assert result.record.channel == name
        assert result.output is None
        expected = result.imap(points)[:, place]
        assert np.abs(result.image[inside] - expected).max() < 0.02
        assert (result.image[~inside] == 0).all()


def test_a_joint_map_is_undone(results: dict[str, ndflow.Result]) -> None:
    images = {name: result.image for name, result in results.items()}
    back = ndflow.apply(images, results["T1w"].imap, inverse=True)
    for name in NAMES:
        off = np.abs(back[name].image - ONE[name]).max()
        assert off < 5e-3 * ONE[name].std()


def test_the_joint_densities_of_a_result_are_drawn(results: dict[str, ndflow.Result]) -> None:
    figure = results["T1w"].plot()
    labels = {(axis.get_xlabel(), axis.get_ylabel()) for axis in figure.axes}
    assert (f"{NAMES[0]} (sd)", f"{NAMES[1]} (sd)") in labels
    assert "<svg" in results["T1w"]._repr_html_()
    assert repr(results["T1w"]).startswith("<ndflow Result in memory, ")


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


def test_without_joint_each_channel_is_by_itself() -> None:
    fits = ndflow.fit(TWO)
    assert tuple(fits) == NAMES
    results = ndflow.normalise(ONE, to=fits)
    for name in NAMES:
        assert fits[name].mixture == ndflow.fit(TWO[name]).mixture
        alone = ndflow.normalise(ONE[name], to=fits[name])
        assert np.array_equal(results[name].image, alone.image)


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
    with pytest.raises(ndflow.InvalidValueError, match="mixtures or references by channel"):
        ndflow.save(path, {"T1w": fits["T1w"], "FLAIR": references["FLAIR"]}, force=True)


def test_channels_that_are_functions_of_each_other_are_refused() -> None:
    with pytest.raises(ndflow.NdflowError, match="linear function"):
        ndflow.fit({"T1w": ONE["T1w"], "twice": 2 * ONE["T1w"]}, joint=True)


WRONG = {
    "there is one image only": lambda goal: ndflow.normalise(ONE["T1w"], goal, joint=True),
    "joint is for several channels": lambda goal: ndflow.fit(ONE["T1w"], joint=True),
    "2 channels, but an image has one; .*NAME=FILE NAME=FILE": (
        lambda goal: ndflow.normalise(ONE["T1w"], goal.mixture)
    ),
    "joint, of 2 channels": lambda goal: ndflow.normalise(ONE, goal),
    "a target for each channel by itself": (
        lambda goal: ndflow.normalise(ONE, {"T1w": goal, "FLAIR": goal}, joint=True)
    ),
    "of intensity, each channel by itself; run ndflow fit T1w=FILE FLAIR=FILE --joint": (
        lambda goal: ndflow.normalise(ONE, ndflow.fit(ONE["T1w"]), joint=True)
    ),
    "give T1w=FILE FLAIR=FILE, in this order": (
        lambda goal: ndflow.normalise(dict(reversed(ONE.items())), goal, joint=True)
    ),
    "a channel must have a name of letters": lambda goal: ndflow.fit({"a b": 1, "c": 2}),
    "the target of T1w is an image": lambda goal: ndflow.normalise(ONE, TWO),
    "targets of several channels, but there is one image": (
        lambda goal: ndflow.normalise(ONE["T1w"], {"T1w": goal})
    ),
    "is not an image": lambda goal: ndflow.normalise(ONE, goal, to_mask="auto", joint=True),
    "one subject at a time": lambda goal: ndflow.normalise([ONE, TWO], goal, joint=True),
    "the image FLAIR: 2 × 2 × 2 voxels, but the image T1w has 24 × 28 × 20": (
        lambda goal: ndflow.fit({**ONE, "FLAIR": np.ones((2, 2, 2))})
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_makes_no_sense_is_refused(goal: ndflow.Reference, message: str) -> None:
    with pytest.raises(ndflow.NdflowError, match=message):
        WRONG[message](goal)


def test_a_study_of_channels_together_is_run_from_python(tmp_path: Path) -> None:
    scans = [save_channels(tmp_path, seed, correlation=0.1 * seed) for seed in range(3)]
    rows = [NAMES, *([str(scan[name]) for name in NAMES] for scan in scans)]
    table, out = tmp_path / "t.tsv", tmp_path / "out"
    table.write_text("".join("\t".join(row) + "\n" for row in rows))
    how: Any = {"channels": NAMES, "joint": True, "report": False}
    assert ndflow.cohort(table, out, **how)[:3] == (3, 0, [])
    assert ndflow.cohort(table, out, **how)[:3] == (3, 3, [])
    assert ndflow.verify(out).findings == ()
    reference = ndflow.load(out / "reference.json")
    assert reference.channel_names == NAMES
    assert len([*(out / "images").iterdir()]) == 6
    with pytest.raises(ndflow.FileError, match=r"effective_count .*--force"):
        ndflow.cohort(table, out, effective_count=500, **how)
    for wrong in ({"channels": NAMES}, {"channels": "T1w", "joint": True}):
        with pytest.raises(ndflow.InvalidValueError, match="joint"):
            ndflow.cohort(table, tmp_path / "new", **wrong)

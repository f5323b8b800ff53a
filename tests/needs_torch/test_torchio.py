"""TorchIO: normalisation in real pipelines, repeated, undone and shared."""

import doctest
import importlib
import json
from typing import Any

import numpy as np
import pytest
import torch
import torchio
from needs_torch.conftest import SHAPE, SOFT, UNLIKE, voxels
from phantoms import radii

import ndflow
from ndflow.errors import FileError
from ndflow.integrations.torchio import MapIntensities, NDFlow

BRAIN = radii(SHAPE) < 0.95
REFERENCE = "builtin:T1w"
pytestmark = UNLIKE


def subject(seed: int = 0, **more: Any) -> torchio.Subject:
    return torchio.Subject(
        t1=torchio.ScalarImage(tensor=torch.from_numpy(voxels(seed))[None]),
        brain=torchio.LabelMap(tensor=torch.from_numpy(BRAIN.astype(np.uint8))[None]),
        soft=torchio.LabelMap(tensor=torch.from_numpy(SOFT)[None]),
        **more,
    )


def above_mean(x: torch.Tensor) -> torch.Tensor:
    return x > x.mean()


def t1(one: Any) -> np.ndarray[Any, Any]:
    return one.t1.numpy()[0]


# ── normalisation ────────────────────────────────────────────────────────────────────────────────

MASKS: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "label": ("brain", BRAIN),
    "soft label": ("soft", SOFT),
    "soft function": (lambda x: torch.from_numpy(SOFT)[None], SOFT),
    "function": (above_mean, voxels() > voxels().mean()),
}


@pytest.mark.parametrize("kind", MASKS)
def test_the_result_is_that_of_normalise(kind: str) -> None:
    method, mask = MASKS[kind]
    one = subject()
    result = NDFlow(REFERENCE, mask=method)(one)
    assert np.array_equal(t1(one), voxels())  # not changed
    expected = ndflow.normalise(voxels(), to=REFERENCE, mask=mask).image
    assert np.array_equal(t1(result), expected)
    assert result.t1.data.dtype == torch.float32
    assert np.array_equal(result.brain.numpy()[0], BRAIN)


@pytest.mark.usefixtures("silent_before")
def test_images_are_judged_with_their_name_and_size() -> None:
    whole = torch.from_numpy(voxels())[None]
    one = torchio.Subject(t1=torchio.ScalarImage(tensor=whole, affine=np.diag([9, 9, 9, 1])))
    with pytest.warns(UserWarning, match="^t1: whole head: the voxels used are 2,610 ml"):
        NDFlow(REFERENCE)(one)


def test_every_channel_of_an_image_has_its_own_map() -> None:
    both = np.stack([voxels(0), 3 * voxels(1) + 7])
    one = subject(two=torchio.ScalarImage(tensor=torch.from_numpy(both)))
    result = NDFlow(REFERENCE, mask="brain")(one)
    for found, scan in zip(result.two.numpy(), both, strict=True):
        assert np.array_equal(found, ndflow.normalise(scan, to=REFERENCE, mask=BRAIN).image)
    assert np.abs(result.apply_inverse_transform().two.numpy() - both).max() < 0.05


# ── history ──────────────────────────────────────────────────────────────────────────────────────

FLIP = torchio.RandomFlip(axes=(0,), flip_probability=1.0)
PIPELINE = torchio.Compose([NDFlow(REFERENCE, mask="brain"), FLIP])


def test_a_history_repeats_and_undoes_everything_without_reference_or_mask() -> None:
    result = PIPELINE(subject())
    kinds = [type(one) for one in result.history]
    assert kinds == [MapIntensities, torchio.Flip]
    again = result.get_composed_history()(subject())
    assert torch.equal(again.t1.data, result.t1.data)
    done = result.history[0]
    twice = done.inverse().inverse()(subject())
    assert torch.equal(twice.t1.data, done(subject()).t1.data)
    _, arguments = result.applied_transforms[0]
    assert json.loads(json.dumps(arguments["maps"])) == arguments["maps"]  # plain numbers
    undone = result.apply_inverse_transform()
    assert np.abs(t1(undone) - voxels()).max() < 1e-4 * voxels().max()
    assert np.array_equal(undone.brain.numpy()[0], BRAIN)
    assert not undone.history


# ── data loaders ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader_normalise_as_this_process_does(start: str) -> None:
    pipeline = torchio.Compose([NDFlow(REFERENCE, mask="brain")])
    subjects = [subject(seed) for seed in range(4)]
    dataset = torchio.SubjectsDataset(subjects, transform=pipeline)
    loader = torchio.SubjectsLoader(
        dataset, batch_size=1, num_workers=2, multiprocessing_context=start
    )
    for seed, batch in enumerate(loader):
        expected = ndflow.normalise(voxels(seed), to=REFERENCE, mask=BRAIN).image
        assert np.array_equal(batch["t1"][torchio.DATA][0, 0], expected)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(FileError, match="the mask: an empty mask"):
        NDFlow(REFERENCE, mask=lambda x: x < -1)(subject())
    with pytest.raises(ValueError, match="Masking method must be one of"):
        NDFlow(REFERENCE, mask="liver")(subject())


def test_examples_give_what_they_say() -> None:
    module = importlib.import_module("ndflow.integrations.torchio")
    assert doctest.testmod(module).failed == 0

"""TorchIO: normalisation in real pipelines, repeated, undone and shared."""

import doctest
import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchio
from phantoms import head, radii

import ndflow
from ndflow.errors import FileError
from ndflow.integrations.torchio import MapIntensities, NDFlow

SHAPE = (36, 34, 32)
BRAIN = radii(SHAPE) < 0.95
REFERENCE = "builtin:T1w"


def voxels(seed: int = 0) -> np.ndarray[Any, Any]:
    """Return a head of 32-bit floats, with a few zeros inside its brain mask."""
    generator = np.random.default_rng(seed)
    scan = head(seed, shape=SHAPE) + generator.random(SHAPE)
    return np.where(radii(SHAPE) < 1, scan * (generator.random(SHAPE) > 0.001), 0).astype("f4")


def subject(seed: int = 0, **more: Any) -> torchio.Subject:
    return torchio.Subject(
        t1=torchio.ScalarImage(tensor=torch.from_numpy(voxels(seed))[None]),
        brain=torchio.LabelMap(tensor=torch.from_numpy(BRAIN.astype(np.uint8))[None]),
        **more,
    )


def above_mean(x: torch.Tensor) -> torch.Tensor:
    return x > x.mean()


def t1(one: Any) -> np.ndarray[Any, Any]:
    return one.t1.numpy()[0]


# ── normalisation ────────────────────────────────────────────────────────────────────────────────

LEFT = np.zeros(SHAPE, bool)
LEFT[: SHAPE[0] // 2] = True
MASKS: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "label": ("brain", BRAIN),
    "function": (above_mean, voxels() > voxels().mean()),
}


@pytest.mark.parametrize("kind", MASKS)
def test_the_result_is_that_of_normalise(kind: str) -> None:
    method, mask = MASKS[kind]
    result = NDFlow(REFERENCE, mask=method)(subject())
    expected = ndflow.normalise(voxels(), to=REFERENCE, mask=mask).image
    assert np.array_equal(t1(result), expected)
    assert result.t1.data.dtype == torch.float32
    assert np.array_equal(result.brain.numpy()[0], BRAIN)


def test_masks_may_be_anatomical_labels_or_bounds() -> None:
    generator = np.random.default_rng(0)  # tissues everywhere: no background
    kinds = generator.choice(3, SHAPE, p=[0.2, 0.5, 0.3])
    scan = np.choose(kinds, [300, 700, 1000]) + 50 * generator.standard_normal(SHAPE)
    scan = scan.astype(np.float32)
    one = torchio.Subject(t1=torchio.ScalarImage(tensor=torch.from_numpy(scan)[None]))
    bounds = np.zeros(SHAPE, bool)
    bounds[4:-4, 5:-5, 6:-6] = True
    for method, mask in (("Left", LEFT), ((4, 4, 5, 5, 6, 6), bounds)):
        result = NDFlow(REFERENCE, mask=method)(one)
        assert np.array_equal(t1(result), ndflow.normalise(scan, to=REFERENCE, mask=mask).image)


def test_every_channel_of_an_image_has_its_own_map() -> None:
    both = np.stack([voxels(0), 3 * voxels(1) + 7])
    one = subject(two=torchio.ScalarImage(tensor=torch.from_numpy(both)))
    result = NDFlow(REFERENCE, mask="brain")(one)
    for found, scan in zip(result.two.numpy(), both, strict=True):
        assert np.array_equal(found, ndflow.normalise(scan, to=REFERENCE, mask=BRAIN).image)
    assert np.abs(result.apply_inverse_transform().two.numpy() - both).max() < 0.05


def test_units_and_images_are_chosen_as_usual() -> None:
    one = subject(other=torchio.ScalarImage(tensor=torch.from_numpy(voxels(1))[None]))
    result = NDFlow(REFERENCE, scale="standard", include=["other"])(one)
    assert np.array_equal(t1(result), voxels())
    expected = ndflow.normalise(voxels(1), to=REFERENCE, scale="standard").image
    assert np.array_equal(result.other.numpy()[0], expected)


def test_tensors_and_arrays_are_accepted_like_subjects() -> None:
    tensor = torch.from_numpy(voxels())[None]
    transform = NDFlow(REFERENCE)
    expected = t1(transform(subject()))
    assert np.array_equal(transform(tensor)[0].numpy(), expected)
    assert np.array_equal(transform(tensor.numpy())[0], expected)
    assert np.array_equal(transform(torchio.ScalarImage(tensor=tensor)).numpy()[0], expected)


def test_what_goes_in_is_not_changed() -> None:
    one = subject()
    NDFlow(REFERENCE)(one)
    assert np.array_equal(t1(one), voxels())


# ── history ──────────────────────────────────────────────────────────────────────────────────────

PIPELINE = torchio.Compose(
    [
        NDFlow(REFERENCE, mask="brain"),
        torchio.RandomFlip(axes=(0,), flip_probability=1.0),
    ]
)


def test_a_history_repeats_everything_without_reference_or_mask() -> None:
    result = PIPELINE(subject())
    kinds = [type(one) for one in result.history]
    assert kinds == [MapIntensities, torchio.Flip]
    again = result.get_composed_history()(subject())
    assert torch.equal(again.t1.data, result.t1.data)
    assert "t1" in repr(result.history[0])
    assert len(repr(result.history[0])) < 100


def test_a_history_is_plain_numbers() -> None:
    import json

    result = PIPELINE(subject())
    name, arguments = result.applied_transforms[0]
    assert name == "MapIntensities"
    again = MapIntensities(**json.loads(json.dumps(arguments)))
    assert again.maps == arguments["maps"]


def test_everything_can_be_undone() -> None:
    result = PIPELINE(subject())
    undone = result.apply_inverse_transform()
    assert np.abs(t1(undone) - voxels()).max() < 1e-4 * voxels().max()
    assert np.array_equal(undone.brain.numpy()[0], BRAIN)
    assert not undone.history


def test_an_inverse_can_be_inverted() -> None:
    result = NDFlow(REFERENCE)(subject())
    (done,) = result.history
    assert torch.equal(done.inverse().inverse()(subject()).t1.data, result.t1.data)
    assert "invert=True" in repr(done.inverse())


def test_other_images_of_a_subject_are_left_alone_when_it_is_undone() -> None:
    result = NDFlow(REFERENCE)(subject())
    result.add_image(torchio.ScalarImage(tensor=torch.ones(1, *SHAPE)), "prediction")
    assert (result.apply_inverse_transform().prediction.data == 1).all()


# ── data loaders ─────────────────────────────────────────────────────────────────────────────────


def loaded(transform: torchio.Transform, start: str) -> torch.Tensor:
    """Return what two workers make of four subjects."""
    subjects = [subject(seed) for seed in range(4)]
    dataset = torchio.SubjectsDataset(subjects, transform=transform)
    loader = torchio.SubjectsLoader(
        dataset, batch_size=1, num_workers=2, multiprocessing_context=start
    )
    return torch.cat([batch["t1"][torchio.DATA] for batch in loader])[:, 0]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader_normalise_as_this_process_does(
    start: str, tmp_path: Path
) -> None:
    pipeline = torchio.Compose([NDFlow(REFERENCE, mask="brain", folder=tmp_path / "maps")])
    for seed, found in enumerate(loaded(pipeline, start)):
        expected = ndflow.normalise(voxels(seed), to=REFERENCE, mask=BRAIN).image
        assert np.array_equal(found, expected)
    assert len(list((tmp_path / "maps").iterdir())) == 4


def test_threads_may_share_a_pipeline() -> None:
    transform = NDFlow(REFERENCE, mask="brain", remember=1)
    seeds = [0, 1, 0, 1, 2, 0]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: transform(subject(seed)), seeds))
    for seed, result in zip(seeds, found, strict=True):
        assert torch.equal(result.t1.data, NDFlow(REFERENCE, "brain")(subject(seed)).t1.data)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(FileError, match=r"nowhere\.json"):
        NDFlow("nowhere.json")
    with pytest.raises(FileError, match="the mask: an empty mask"):
        NDFlow(REFERENCE, mask=lambda x: x < -1)(subject())
    with pytest.raises(ValueError, match="Masking method must be one of"):
        NDFlow(REFERENCE, mask="liver")(subject())
    with pytest.raises(FileError, match="background"):
        NDFlow(REFERENCE, mask="Left")(subject())


def test_importing_ndflow_imports_no_torch() -> None:
    program = "import sys, ndflow; ndflow.normalise; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_examples_give_what_they_say() -> None:
    module = importlib.import_module("ndflow.integrations.torchio")
    assert doctest.testmod(module).failed == 0

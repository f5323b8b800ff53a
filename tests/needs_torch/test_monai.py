"""MONAI: normalisation in real pipelines, repeated, undone and shared."""

import doctest
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from monai.data import (
    DataLoader,
    Dataset,
    MetaTensor,
    ThreadDataLoader,
    decollate_batch,
    set_track_meta,
)
from monai.transforms import Compose, EnsureTyped, Flip, Flipd, Invertd, Rotate90d
from needs_torch.conftest import SHAPE, SOFT, UNLIKE, voxels
from phantoms import AFFINE, radii

import ndflow
from ndflow.errors import InvalidValueError
from ndflow.integrations.monai import NDFlow, NDFlowd

BRAIN = radii(SHAPE) < 0.9
REFERENCE = "builtin:T1w"
pytestmark = UNLIKE
OTHER = ndflow.GaussianMixture([0.5, 0.5], [100.0, 300.0], [1 / 900, 1 / 900])


def image(seed: int = 0) -> MetaTensor:
    return MetaTensor(torch.from_numpy(voxels(seed))[None], affine=AFFINE, meta={"subject": seed})


def expected(seed: int = 0, mask: Any = None, to: Any = REFERENCE) -> np.ndarray[Any, Any]:
    return np.asarray(ndflow.normalise(voxels(seed), to=to, mask=mask).image)


def above_mean(img: torch.Tensor) -> torch.Tensor:
    return img > img.mean()


# ── normalisation ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, lambda one: one])
def test_the_result_is_that_of_normalise(kind: Any) -> None:
    given = kind(image())
    result = NDFlow(REFERENCE)(given)
    assert isinstance(result, MetaTensor)
    assert result.dtype == torch.float32
    assert np.array_equal(result[0].numpy(), expected())
    assert np.array_equal(np.asarray(given), voxels()[None])  # not changed
    assert [one["class"] for one in result.applied_operations] == ["NDFlow"]


def test_a_mask_as_key_as_function_and_as_it_is() -> None:
    mask = torch.from_numpy(BRAIN)
    by_key = NDFlowd("image", REFERENCE, mask="brain")({"image": image(), "brain": mask[None]})
    by_hand = NDFlow(REFERENCE)(image(), mask)
    assert np.array_equal(by_key["image"][0].numpy(), expected(mask=BRAIN))
    assert np.array_equal(by_hand, by_key["image"])
    assert by_key["brain"].equal(mask[None])
    found = NDFlow(REFERENCE, mask=above_mean)(image())
    mean = voxels() > voxels().mean()
    assert np.array_equal(found[0].numpy(), expected(mask=mean))
    in_dict = NDFlowd("image", REFERENCE, mask=above_mean)({"image": image()})
    assert in_dict["image"].equal(found)


def test_soft_masks_are_read_as_everywhere() -> None:
    mask = torch.from_numpy(SOFT)[None]
    by_key = NDFlowd("image", REFERENCE, mask="brain")({"image": image(), "brain": mask})
    assert np.array_equal(by_key["image"][0].numpy(), expected(mask=SOFT))


@pytest.mark.usefixtures("silent_before")
def test_images_are_judged_with_their_name_and_size() -> None:
    meta = {"filename_or_obj": "sub-01_T1w.nii.gz"}
    whole = MetaTensor(torch.from_numpy(voxels())[None], affine=np.diag([9, 9, 9, 1]), meta=meta)
    with pytest.warns(
        UserWarning, match="^sub-01_T1w.nii.gz: whole head: the voxels used are 2,610 ml"
    ):
        NDFlow(REFERENCE)(whole)


def test_each_channel_goes_to_its_own_reference() -> None:
    both = torch.cat([image(0), image(1)])
    transform = NDFlow([REFERENCE, OTHER])
    result = transform(both)
    assert np.array_equal(result[0].numpy(), expected(0))
    assert np.array_equal(result[1].numpy(), expected(1, to=OTHER))
    masks = torch.from_numpy(np.stack([BRAIN, radii(SHAPE) < 0.8]))
    masked = transform(both, masks)
    assert np.array_equal(masked[1].numpy(), expected(1, mask=radii(SHAPE) < 0.8, to=OTHER))
    assert (transform.inverse(masked) - both).abs().max() < 0.01


# ── the way back ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def pipeline() -> Compose:
    return Compose(
        [
            EnsureTyped(["image", "brain"]),
            Flipd(["image", "brain"], spatial_axis=0),
            NDFlowd("image", REFERENCE, mask="brain"),
            Rotate90d(["image", "brain"]),
        ]
    )


def sample(seed: int) -> dict[str, Any]:
    return {"image": image(seed), "brain": torch.from_numpy(BRAIN)[None]}


@pytest.mark.parametrize("kind", ["fork", "threads"])
def test_batches_of_loaders_are_undone(pipeline: Compose, kind: str) -> None:
    data = Dataset([sample(seed) for seed in range(4)], pipeline)
    if kind == "threads":
        loader = ThreadDataLoader(data, batch_size=2, num_workers=2, use_thread_workers=True)
    else:
        loader = DataLoader(data, batch_size=2, num_workers=2)
    images = [one for batch in loader for one in decollate_batch(batch)]
    assert len(images) == 4
    for seed, one in enumerate(images):
        assert one["image"].meta["subject"] == seed
        back = pipeline.inverse(one)["image"]
        assert (back - image(seed)).abs().max() < 0.05
        assert np.allclose(back.affine, AFFINE)
        assert not back.applied_operations


def test_spawned_workers_do_the_same() -> None:
    # Rotations and flips of MONAI itself cannot be undone after a worker was spawned.
    data = Dataset([sample(0)], Compose([NDFlowd("image", REFERENCE, mask="brain")]))
    (batch,) = DataLoader(data, num_workers=1, multiprocessing_context="spawn")
    (spawned,) = (one["image"] for one in decollate_batch(batch))
    assert np.array_equal(spawned[0].numpy(), expected(mask=BRAIN))
    back = NDFlowd("image", OTHER).inverse({"image": spawned})["image"]  # any instance
    assert (back - image()).abs().max() < 0.05


def test_without_a_trace_nothing_can_be_undone() -> None:
    transform = NDFlow(REFERENCE)
    with pytest.raises(ValueError, match="MetaTensor"):
        transform.inverse(torch.zeros(1, *SHAPE))
    with pytest.raises(RuntimeError, match="NDFlow getting the most recently"):
        transform.inverse(Flip(0)(image()))
    set_track_meta(False)
    try:
        result = transform(voxels()[None])
    finally:
        set_track_meta(True)
    assert type(result) is torch.Tensor
    assert np.array_equal(result[0].numpy(), expected())


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def test_channels_must_fit_the_references_and_the_mask() -> None:
    both = torch.cat([image(0), image(1)])
    with pytest.raises(InvalidValueError, match="2 channels, but reference is for 1"):
        NDFlow(REFERENCE)(both)
    with pytest.raises(InvalidValueError, match="EnsureChannelFirst adds it"):
        NDFlow(REFERENCE)(voxels()[0])
    with pytest.raises(InvalidValueError, match=r"the mask has the shape \(1, 3, 4, 5\)"):
        NDFlow(REFERENCE)(image(), np.ones((1, 3, 4, 5)))


def test_keys_may_have_their_own_references_and_be_missing() -> None:
    each = NDFlowd(("t1", "flair"), {"t1": REFERENCE, "flair": OTHER})
    both = each({"t1": image(0), "flair": image(1), "age": 40})
    assert np.array_equal(both["flair"][0].numpy(), expected(1, to=OTHER))
    assert both["age"] == 40
    transform = NDFlowd(("image", "other"), REFERENCE, mask="brain")
    with pytest.raises(KeyError, match="other"):
        transform(sample(0))
    lenient = NDFlowd(("image", "other"), REFERENCE, mask="brain", allow_missing_keys=True)
    result = lenient(sample(0))
    assert set(result) == {"image", "brain"}
    assert set(lenient.inverse(result)) == {"image", "brain"}
    for more in ({}, {"brain": None}):
        with pytest.raises(KeyError, match="no mask with the key 'brain'"):
            lenient({"image": image(), **more})


# ── as people use it ─────────────────────────────────────────────────────────────────────────────


def test_examples_give_what_they_say() -> None:
    assert doctest.testmod(import_module("ndflow.integrations.monai")).failed == 0


def test_predicted_labels_go_the_way_back_but_keep_their_values() -> None:
    transforms = Compose([Flipd("image", 0), NDFlowd("image", REFERENCE)])
    done = transforms({"image": image()})
    labels = torch.from_numpy(BRAIN & (np.indices(SHAPE)[0] < 9)).float()
    both = torch.stack([labels, 1 - labels])  # of as many channels as there are classes
    for predicted in (labels[None], both):
        data = done | {"pred": MetaTensor(predicted)}
        undone = Invertd("pred", transforms, orig_keys="image")(data)
        assert torch.equal(undone["pred"].as_tensor(), predicted.flip(1))
    undone = Invertd("pred", transforms, orig_keys="image", nearest_interp=False)(
        done | {"pred": done["image"]}
    )
    assert np.allclose(undone["pred"], image(), atol=0.1)

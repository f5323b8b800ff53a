"""Images of MONAI as volumes: one for each channel, with its mask and what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from monai.utils import convert_to_dst_type, convert_to_numpy
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.integrations.recorded_maps import RecordedMap, apply_recorded
from ndflow.values import plural, short

__all__ = ["by_key", "channels_of", "listed", "mapped_image", "masks_of"]

Made = TypeVar("Made")


def listed(given: Any, name: str) -> list[Any]:
    """Return what belongs to each channel, given as one thing or as a sequence."""
    things = list(given) if isinstance(given, list | tuple) else [given]
    if not things:
        raise InvalidValueError(f"{name} must not be empty; give one for each channel")
    return things


def by_key(
    keys: Sequence[Hashable], given: Any, name: str, make: Callable[[Any], Made]
) -> dict[Hashable, Made]:
    """Return what is made of the things of each key; one made of a single thing serves all keys.

    Parameters
    ----------
    keys : of images.
    given : one thing for all keys, or a dictionary with one for each.
    name : what messages call it.
    make : makes something of it.
    """
    if not isinstance(given, Mapping):
        return dict.fromkeys(keys, make(given))
    if {*given} != {*keys}:
        raise InvalidValueError(
            f"{name} must have the same keys as the images, {short(sorted(map(str, keys)))}, not "
            f"{short(sorted(map(str, given)))}"
        )
    return {key: make(given[key]) for key in keys}


def channels_of(image: torch.Tensor, things: Sequence[Any], name: str) -> NDArray[Any]:
    """Return the voxels of an image as an array, with as many channels as there are things.

    Parameters
    ----------
    image : (C, H, W[, D]).
    things : what belongs to each channel.
    name : what messages call them.
    """
    if image.ndim not in (3, 4):
        raise InvalidValueError(
            f"an image must have the shape (C, H, W) or (C, H, W, D), not {tuple(image.shape)}; "
            f"monai.transforms.EnsureChannelFirst adds the channel"
        )
    if len(image) != len(things):
        raise InvalidValueError(
            f"the image has {plural(len(image), 'channel')}, but {name} is for {len(things)}; "
            f"channels of different contrast need one each: {name}=[first, second, ...]"
        )
    voxels: NDArray[Any] = convert_to_numpy(image.detach())
    return voxels


def masks_of(mask: Any, channels: NDArray[Any]) -> Sequence[NDArray[np.bool_] | None]:
    """Return the mask of each channel; None where there is none.

    Parameters
    ----------
    mask : (H, W[, D]), or the same with one channel or as many as the image; not zero inside.
    channels : of the image.
    """
    if mask is None:
        return [None] * len(channels)
    given = np.asarray(convert_to_numpy(mask))
    given = given if given.dtype == np.bool_ else given != 0
    if given.shape == channels.shape[1:]:
        given = given[np.newaxis]
    if given.shape[1:] != channels.shape[1:] or len(given) not in (1, len(channels)):
        raise InvalidValueError(
            f"the mask has the shape {given.shape}, but the image {channels.shape}; it must have "
            f"the same, or one channel"
        )
    return list(np.broadcast_to(given, channels.shape))


def mapped_image(
    image: torch.Tensor, records: Sequence[RecordedMap], *, inverse: bool
) -> torch.Tensor:
    """Return an image with its channels mapped, and its metadata.

    Parameters
    ----------
    image : (C, H, W[, D]).
    records : how each channel is mapped, see `ndflow.integrations.recorded_maps`.
    inverse : whether to undo that.
    """
    channels = channels_of(image, records, "the map")
    parts = [
        apply_recorded(record, voxels, inverse=inverse)
        for record, voxels in zip(records, channels, strict=True)
    ]
    voxels = parts[0][np.newaxis] if len(parts) == 1 else np.stack(parts)
    mapped: torch.Tensor = convert_to_dst_type(voxels, image, dtype=torch.float32)[0]
    return mapped

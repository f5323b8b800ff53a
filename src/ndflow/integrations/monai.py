"""Normalisation as transforms of MONAI.

`NDFlow` brings an image to a reference, `NDFlowd` the images of a dictionary. As usual in MONAI,
the first axis of an image is the channel, and arrays and tensors come back as `MetaTensor` with
their metadata.

What was done is left in ``applied_operations``: the intensity maps themselves, as one line of JSON
for each image, so that they are undone without the reference or the mask. Unlike most transforms of
MONAI, another instance can undo them as well, for example that of the main process after a worker
was spawned.

Channels of an image show different contrasts, such as T1w and FLAIR, and what brings one of them to
its reference would spoil the other. Therefore an image of several channels needs one reference per
channel, and a single one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow._version import installing
from ndflow.errors import InvalidValueError
from ndflow.integrations.normaliser import RecordedMap, VolumeNormaliser, apply_recorded
from ndflow.options import Scale
from ndflow.subject.target import AnyTarget
from ndflow.values import plural

try:
    import torch
    from monai import utils
    from monai.data.meta_obj import get_track_meta
    from monai.data.meta_tensor import MetaTensor
    from monai.transforms.inverse import InvertibleTransform
    from monai.transforms.transform import MapTransform
except ImportError as error:
    raise ImportError(
        f"ndflow.integrations.monai needs MONAI, which cannot be imported ({error}); "
        f"try {installing('monai')}"
    ) from error

_MAPS = "ndflow_maps"  # in the record of an applied operation
# Nothing is interpolated here, but `Invertd` sets the mode of interpolation to "nearest" if it
# takes a prediction of labels back the way of its image: labels have no intensities to undo.
_MODE, _IMAGE, _LABELS = "mode", "bilinear", "nearest"

Masking = Callable[[Any], Any] | None


class NDFlow(InvertibleTransform):  # type: ignore[misc]
    """Bring an image to a reference.

    The result is what `ndflow.normalise` returns for the same voxels, as float32. The map of an
    image is found once, and recognised by the content of the image when it comes again, in the next
    epoch for example; each worker of a data loader remembers its own.

    Parameters
    ----------
    reference : a reference, the path of one, ``"builtin:T1w"``, or anything else that
        `ndflow.normalise` brings images to; for images of several channels, a sequence of these,
        one for each channel.
    mask : a function that finds the mask in an image, (C, H, W[, D]), and returns it with one
        channel or as many; the map is found from the voxels inside. Values above ½ are inside where
        all are about 0 to 1, otherwise all but 0. It must be possible to pickle it for workers that
        are spawned. Default: all voxels but 0. All voxels are mapped, but zeros outside the mask
        stay 0.
    scale, range : the units of the result, as for `ndflow.normalise`.
    remember : how many maps are kept in memory, for each channel.

    Examples
    --------
    >>> import numpy as np
    >>> from ndflow.integrations.monai import NDFlow
    >>> scan = np.random.default_rng(0).normal(300, 40, size=(1, 20, 20, 20))
    >>> normalise = NDFlow("builtin:T1w")
    >>> result = normalise(scan)
    >>> float(result.mean().round(decimals=-2))
    500.0
    >>> np.allclose(normalise.inverse(result), scan)
    True
    """

    backend = [utils.TransformBackends.NUMPY]  # noqa: RUF012 -- as every transform of MONAI says it

    def __init__(
        self,
        reference: AnyTarget | Sequence[AnyTarget],
        *,
        mask: Masking = None,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        remember: int = 1024,
    ) -> None:
        self.mask = mask
        references: Any = reference if isinstance(reference, list | tuple) else [reference]
        self.normalisers = tuple(
            VolumeNormaliser(one, scale=scale, range=range, remember=remember) for one in references
        )

    def __call__(
        self, img: NDArray[Any] | torch.Tensor, mask: NDArray[Any] | torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalise an image.

        Parameters
        ----------
        img : (C, H, W[, D]), an array or a tensor.
        mask : (1, H, W[, D]) or (C, H, W[, D]), instead of the one that the function `mask` would
            find.

        Returns
        -------
        A MetaTensor with the metadata of the image; a tensor if these are not tracked.
        """
        given = utils.convert_to_tensor(img, track_meta=get_track_meta())
        channels = utils.convert_to_numpy(given.detach())
        if len(channels) != len(self.normalisers):
            raise InvalidValueError(
                f"the image has {plural(len(channels), 'channel')}, but reference is for "
                f"{len(self.normalisers)}; channels of different contrast need one each: "
                f"reference=[first, second, ...]. If the first axis is not the channel, "
                f"monai.transforms.EnsureChannelFirst adds it"
            )
        if mask is None and self.mask is not None:
            mask = self.mask(given)
        masks, records = _masks_of(mask, channels), []
        meta, affine = getattr(given, "meta", {}), getattr(given, "affine", None)
        for place, (normaliser, voxels) in enumerate(zip(self.normalisers, channels, strict=True)):
            name = str(meta.get("filename_or_obj", "the image"))
            if len(channels) > 1:
                name = f"channel {place + 1}"
            own = None if masks is None else masks[place]
            placed = None if affine is None else utils.convert_to_numpy(affine)
            records.append(normaliser.record_of(voxels, own, affine=placed, name=name))
        mapped = _mapped(given, records, inverse=False)
        if isinstance(mapped, MetaTensor):
            noted = {_MAPS: json.dumps(records), _MODE: _IMAGE}
            self.push_transform(mapped, extra_info=noted)
        return mapped

    def inverse(self, data: torch.Tensor) -> torch.Tensor:
        """Undo the last of these transforms that the image went through.

        Parameters
        ----------
        data : what the transform returned, with its ``applied_operations``.
        """
        noted = self.pop_transform(data)[utils.TraceKeys.EXTRA_INFO]
        if noted[_MODE] == _LABELS:
            return data
        return _mapped(data, json.loads(noted[_MAPS]), inverse=True)

    def check_transforms_match(self, transform: Mapping[Hashable, Any]) -> None:
        """Accept what any transform of this class did: the maps are all that it takes to undo."""
        if transform.get(utils.TraceKeys.CLASS_NAME) != type(self).__name__:
            super().check_transforms_match(transform)


class NDFlowd(MapTransform, InvertibleTransform):  # type: ignore[misc]
    """Bring the images of a dictionary to a reference: `NDFlow` for each key.

    Parameters
    ----------
    keys : of the images.
    reference : as for `NDFlow`, for the images of all keys; or a dictionary with a reference for
        each key.
    mask : the key of the mask, or a function as for `NDFlow`. Default: all voxels but 0.
    scale, range, remember : as for `NDFlow`.
    allow_missing_keys : skip images that are not there; a mask must be.

    Examples
    --------
    >>> import numpy as np
    >>> from ndflow.integrations.monai import NDFlowd
    >>> scan = np.random.default_rng(0).normal(300, 40, size=(1, 20, 20, 20))
    >>> normalise = NDFlowd("image", "builtin:T1w", mask="brain")
    >>> result = normalise({"image": scan, "brain": scan > 200})
    >>> sorted(result)
    ['brain', 'image']
    >>> float(result["image"].mean().round(decimals=-2))
    500.0
    """

    def __init__(
        self,
        keys: Any,
        reference: AnyTarget | Sequence[AnyTarget] | Mapping[Hashable, Any],
        *,
        mask: Masking | Hashable = None,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        remember: int = 1024,
        allow_missing_keys: bool = False,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.mask_key = None if callable(mask) else mask
        shared: dict[str, Any] = {"mask": mask if callable(mask) else None, "scale": scale}
        shared |= {"range": range, "remember": remember}
        self.transforms: dict[Hashable, NDFlow]
        if isinstance(reference, Mapping):
            self.transforms = {key: NDFlow(reference[key], **shared) for key in self.keys}
        else:
            self.transforms = dict.fromkeys(self.keys, NDFlow(reference, **shared))

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Normalise the images of a dictionary, and return a new one."""
        result = dict(data)
        for key in self.key_iterator(result):
            mask = None if self.mask_key is None else data.get(self.mask_key)
            if self.mask_key is not None and mask is None:
                raise KeyError(f"there is no mask with the key {self.mask_key!r} in the data")
            result[key] = self.transforms[key](result[key], mask)
        return result

    def inverse(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Undo the last of these transforms that the images went through.

        Parameters
        ----------
        data : the dictionary, with images that know their ``applied_operations``.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            result[key] = self.transforms[key].inverse(result[key])
        return result


def _masks_of(mask: Any, channels: NDArray[Any]) -> NDArray[Any] | None:
    """Return the mask of each channel; None where there is none.

    Parameters
    ----------
    mask : (H, W[, D]), or the same with one channel or as many as the image.
    channels : of the image.
    """
    if mask is None:
        return None
    given = np.asarray(utils.convert_to_numpy(mask))
    if given.shape == channels.shape[1:]:
        given = given[np.newaxis]
    if given.shape[1:] != channels.shape[1:] or len(given) not in (1, len(channels)):
        raise InvalidValueError(
            f"the mask has the shape {given.shape}, but the image {channels.shape}; it must have "
            f"the same, or one channel"
        )
    return np.broadcast_to(given, channels.shape)


def _mapped(image: torch.Tensor, records: Sequence[RecordedMap], *, inverse: bool) -> torch.Tensor:
    """Return an image with its channels mapped, or that undone, and its metadata.

    Parameters
    ----------
    image : (C, H, W[, D]).
    records : how each channel is mapped, see `record_map`.
    inverse : whether to undo that.
    """
    channels = utils.convert_to_numpy(image.detach())
    parts = [
        apply_recorded(record, voxels, inverse=inverse)
        for record, voxels in zip(records, channels, strict=True)
    ]
    voxels = parts[0][np.newaxis] if len(parts) == 1 else np.stack(parts)
    mapped: torch.Tensor = utils.convert_to_dst_type(voxels, image, dtype=torch.float32)[0]
    return mapped

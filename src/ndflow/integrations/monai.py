"""Transforms of MONAI: normalisation, and random scanners for training.

`NDFlow` and `NDFlowd` bring images to a reference, `RandScanner` and `RandScannerd` show them as
another scanner might. As usual in MONAI, the first axis of an image is the channel, arrays and
tensors come back as `MetaTensor` with their metadata, and the dictionary transforms end in *d*.

What was done is left in ``applied_operations``: the very maps that were used, as one line of JSON
for each image, so that they are undone without the reference, the mask or the study. Unlike most
transforms of MONAI, another instance can undo them as well, for example that of the main process
after a worker was spawned.

Channels of an image show different contrasts, such as T1w and FLAIR, and what brings one of them to
its reference would spoil the other. Therefore an image of several channels needs one reference per
channel, and a single one is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ndflow.files.atomic import AnyPath
from ndflow.methods.matching import Scale
from ndflow.population import ScannerMaps
from ndflow.scan.target import AnyTarget

try:
    from monai.transforms.inverse import InvertibleTransform
    from monai.transforms.transform import MapTransform, RandomizableTransform

    from ndflow.integrations.channel_images import by_key
    from ndflow.integrations.monai_arrays import Masking, NDFlow, RandScanner
except ImportError as error:
    raise ImportError(
        f"ndflow.integrations.monai needs MONAI, which cannot be imported ({error}); "
        "try pip install 'ndflow[monai]'"
    ) from error

__all__ = ["NDFlow", "NDFlowd", "RandScanner", "RandScannerd"]


class _DictMapping(MapTransform, InvertibleTransform):  # type: ignore[misc]
    """A dictionary transform that leaves each image to an array transform."""

    @abstractmethod
    def _of(self, key: Hashable) -> Any:
        """The array transform of the images with this key."""

    def inverse(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Undo the last of these transforms that the images went through.

        Parameters
        ----------
        data : the dictionary, with images that know their ``applied_operations``.
        """
        result = dict(data)
        for key in self.key_iterator(result):
            result[key] = self._of(key).inverse(result[key])
        return result


class NDFlowd(_DictMapping):
    """Bring the images of a dictionary to a reference: `NDFlow` for each key.

    Parameters
    ----------
    keys : of the images.
    reference : as for `NDFlow`, for the images of all keys; or a dictionary with a reference for
        each key.
    mask : the key of the mask, or a function as for `NDFlow`. Default: all voxels but 0.
    scale, range, remember, folder : as for `NDFlow`.
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
    >>> float(result["image"].mean().round(decimals=-1))
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
        remember: int = 64,
        folder: AnyPath | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        self.mask_key = None if callable(mask) else mask
        self.transforms = by_key(
            self.keys,
            reference,
            "reference",
            lambda one: NDFlow(
                one,
                mask=mask if callable(mask) else None,
                scale=scale,
                range=range,
                remember=remember,
                folder=folder,
            ),
        )

    def _of(self, key: Hashable) -> NDFlow:
        found: NDFlow = self.transforms[key]
        return found

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Normalise the images of a dictionary, and return a new one."""
        result = dict(data)
        for key in self.key_iterator(result):
            if self.mask_key is not None and data.get(self.mask_key) is None:
                raise KeyError(f"there is no mask with the key {self.mask_key!r} in the data")
            mask = None if self.mask_key is None else data[self.mask_key]
            result[key] = self._of(key)(result[key], mask)
        return result


class RandScannerd(RandomizableTransform, _DictMapping):  # type: ignore[misc]
    """Show the images of a dictionary as a random scanner might: `RandScanner` for each key.

    Parameters
    ----------
    keys : of the images.
    scanners : as for `RandScanner`, and then the images of all keys are shown as the same scanner
        would; or a dictionary with scanners for each key, which are drawn independently.
    prob : the probability that the images are changed at all: all of them, or none.
    between, within, scale, range : as for `RandScanner`.
    allow_missing_keys : skip images that are not there.

    Examples
    --------
    See ``docs/guides/monai.md``.
    """

    def __init__(
        self,
        keys: Any,
        scanners: ScannerMaps | AnyPath | Sequence[Any] | Mapping[Hashable, Any],
        prob: float = 0.1,
        *,
        between: float = 1.0,
        within: float = 1.0,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        allow_missing_keys: bool = False,
    ) -> None:
        MapTransform.__init__(self, keys, allow_missing_keys)
        RandomizableTransform.__init__(self, prob)
        self.transforms = by_key(
            self.keys,
            scanners,
            "scanners",
            lambda one: RandScanner(
                one, prob, between=between, within=within, scale=scale, range=range
            ),
        )

    def _of(self, key: Hashable) -> RandScanner:
        found: RandScanner = self.transforms[key]
        return found

    def randomize(self, data: Any = None) -> None:
        """Decide whether to change the next images, and draw their scanners."""
        super().randomize(None)
        for one in {id(one): one for one in self.transforms.values()}.values():
            one.R, one._do_transform = self.R, self._do_transform
            if self._do_transform:
                one.draw()

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Show the images of a dictionary as a scanner that is drawn, and return a new one."""
        result = dict(data)
        self.randomize()
        for key in self.key_iterator(result):
            result[key] = self._of(key)(result[key], randomize=False)
        return result

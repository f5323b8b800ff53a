"""The array transforms of MONAI, which `ndflow.integrations.monai` offers and explains."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from monai.data.meta_obj import get_track_meta
from monai.data.meta_tensor import MetaTensor
from monai.transforms.inverse import InvertibleTransform
from monai.transforms.transform import RandomizableTransform
from monai.utils import TraceKeys, TransformBackends, convert_to_tensor
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.integrations.channel_images import channels_of, listed, mapped_image, masks_of
from ndflow.integrations.recorded_maps import RecordedMap, record_map
from ndflow.integrations.study_scanners import drawn_map, read_scanners, scanner_units
from ndflow.integrations.volume_normaliser import VolumeNormaliser
from ndflow.methods.matching import Scale
from ndflow.population import ScannerMaps
from ndflow.scan.target import AnyTarget
from ndflow.values import positive, short

__all__ = ["Masking", "NDFlow", "RandScanner"]

_MAPS = "ndflow_maps"  # in the record of an applied operation
# Nothing is interpolated here, but `Invertd` sets the mode of interpolation to "nearest" if it
# takes a prediction of labels back the way of its image: labels have no intensities to undo.
_MODE, _IMAGE, _LABELS = "mode", "bilinear", "nearest"
_SEEDS = 1 << 31

Masking = Callable[[Any], Any] | None


class _Mapping(InvertibleTransform):  # type: ignore[misc]
    """A transform that maps each channel, and can undo it."""

    backend = [TransformBackends.NUMPY]  # noqa: RUF012 -- as every transform of MONAI says it

    def _mapped(self, img: torch.Tensor, records: Sequence[RecordedMap]) -> torch.Tensor:
        """Map the channels of an image, and note how; with no records, note that only."""
        if records:
            img = mapped_image(img, records, inverse=False)
        if isinstance(img, MetaTensor):
            noted = {_MAPS: json.dumps(list(records)), _MODE: _IMAGE}
            self.push_transform(img, extra_info=noted)
        return img

    def inverse(self, data: torch.Tensor) -> torch.Tensor:
        """Undo the last of these transforms that the image went through.

        Parameters
        ----------
        data : what the transform returned, with its ``applied_operations``.
        """
        if not isinstance(data, MetaTensor):
            raise InvalidValueError(
                f"{type(self).__name__} can undo what it did to a MetaTensor only, which knows "
                f"what that was, not {type(data).__name__}; see monai.data.set_track_meta"
            )
        noted = self.pop_transform(data)[TraceKeys.EXTRA_INFO]
        records = json.loads(noted[_MAPS])
        if not records or noted[_MODE] == _LABELS:
            return data
        return mapped_image(data, records, inverse=True)

    def check_transforms_match(self, transform: Mapping[Hashable, Any]) -> None:
        """Accept what any transform of this class did: the maps are all that it takes to undo."""
        if not self._transforms_match(transform):
            super().check_transforms_match(transform)

    def _transforms_match(self, transform: Mapping[Hashable, Any]) -> bool:
        return bool(transform.get(TraceKeys.CLASS_NAME) == type(self).__name__)


class NDFlow(_Mapping):
    """Bring an image to a reference.

    The result is what `ndflow.normalise` returns for the same voxels, as float32. The map of an
    image is found once, and recognised by the content of the image when it comes again, in the next
    epoch for example; each worker of a data loader remembers its own, unless they share a `folder`.

    Parameters
    ----------
    reference : a reference, the path of one, ``"builtin:T1w"``, or anything else that
        `ndflow.normalise` brings images to; for images of several channels, a sequence of these,
        one for each channel.
    mask : a function that finds the mask in an image, (C, H, W[, D]), and returns it with one
        channel or as many; the map is found from the voxels inside. It must be possible to pickle
        it for workers that are spawned. Default: all voxels but 0. All voxels are mapped, but zeros
        outside the mask stay 0.
    scale, range : the units of the result, as for `ndflow.normalise`.
    remember : how many maps are kept in memory, for each channel.
    folder : where maps are kept between runs, and shared by workers.

    Examples
    --------
    >>> import numpy as np
    >>> from ndflow.integrations.monai import NDFlow
    >>> scan = np.random.default_rng(0).normal(300, 40, size=(1, 20, 20, 20))
    >>> normalise = NDFlow("builtin:T1w")
    >>> result = normalise(scan)
    >>> float(result.mean().round(decimals=-1))
    500.0
    >>> np.allclose(normalise.inverse(result), scan)
    True
    """

    def __init__(
        self,
        reference: AnyTarget | Sequence[AnyTarget],
        *,
        mask: Masking = None,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        remember: int = 64,
        folder: AnyPath | None = None,
    ) -> None:
        if mask is not None and not callable(mask):
            raise InvalidValueError(
                f"mask must be a function that finds the mask in an image, not {short(mask)}; give "
                f"a mask itself with the image, or its key to NDFlowd"
            )
        self.mask = mask
        self.normalisers = tuple(
            VolumeNormaliser(one, scale=scale, range=range, remember=remember, folder=folder)
            for one in listed(reference, "reference")
        )

    def __call__(
        self, img: NDArray[Any] | torch.Tensor, mask: NDArray[Any] | torch.Tensor | None = None
    ) -> torch.Tensor:
        """Normalise an image.

        Parameters
        ----------
        img : (C, H, W[, D]), an array or a tensor.
        mask : (1, H, W[, D]) or (C, H, W[, D]), not zero inside; instead of the one that the
            function `mask` would find.

        Returns
        -------
        A MetaTensor with the metadata of the image; a tensor if these are not tracked.
        """
        given = convert_to_tensor(img, track_meta=get_track_meta())
        channels = channels_of(given, self.normalisers, "reference")
        if mask is None and self.mask is not None:
            mask = self.mask(given)
        masks = masks_of(mask, channels)
        records = [
            record_map(normaliser.map_of(voxels, inside), voxels, inside)
            for normaliser, voxels, inside in zip(self.normalisers, channels, masks, strict=True)
        ]
        return self._mapped(given, records)


class RandScanner(RandomizableTransform, _Mapping):  # type: ignore[misc]
    """Show an image as a random, plausible scanner might.

    A map is drawn from the differences between the scanners of a study, and between scans of one
    scanner (`ndflow.ScannerMaps`). The image must have been brought to the reference of that study
    first, for example with `NDFlow`. Its mean and standard deviation stay about the same: gain and
    offset of a scanner mean nothing. Zeros stay 0.

    Parameters
    ----------
    scanners : what `ndflow.scanners` returned for the study, or the file in which it was saved; for
        images of several channels, a sequence of these, one for each channel.
    prob : the probability that an image is changed at all.
    between, within : how much scanners differ, and scans of one scanner, as multiples of what the
        study has found.
    scale, range : the units of the image, as they were given to `NDFlow`.

    Examples
    --------
    See ``docs/guides/monai.md``.
    """

    def __init__(
        self,
        scanners: ScannerMaps | AnyPath | Sequence[ScannerMaps | AnyPath],
        prob: float = 0.1,
        *,
        between: float = 1.0,
        within: float = 1.0,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
    ) -> None:
        RandomizableTransform.__init__(self, prob)
        self.scanners = tuple(read_scanners(one) for one in listed(scanners, "scanners"))
        self.between = positive(between, "between", zero=True)
        self.within = positive(within, "within", zero=True)
        self._units = [scanner_units(one, scale=scale, range=range) for one in self.scanners]
        self._seeds = [0] * len(self.scanners)

    def randomize(self, data: Any = None) -> None:
        """Decide whether to change the next image, and draw a scanner for each of its channels."""
        super().randomize(None)
        if self._do_transform:
            self.draw()

    def draw(self) -> None:
        """Draw a scanner for each channel."""
        self._seeds = [int(self.R.randint(_SEEDS)) for _ in self.scanners]

    def __call__(self, img: NDArray[Any] | torch.Tensor, randomize: bool = True) -> torch.Tensor:
        """Show an image as the scanner that is drawn.

        Parameters
        ----------
        img : (C, H, W[, D]), an array or a tensor.
        randomize : whether to draw another scanner first.

        Returns
        -------
        A MetaTensor with the metadata of the image; a tensor if these are not tracked.
        """
        given = convert_to_tensor(img, track_meta=get_track_meta())
        channels = channels_of(given, self.scanners, "scanners")
        if randomize:
            self.randomize()
        records = []
        if self._do_transform:
            drawn = zip(self.scanners, self._seeds, self._units, channels, strict=True)
            records = [
                record_map(
                    drawn_map(
                        one, seed, voxels, between=self.between, within=self.within, units=units
                    ),
                    voxels,
                )
                for one, seed, units, voxels in drawn
            ]
        return self._mapped(given, records)

"""Transforms of TorchIO: normalisation, and random scanners for training.

`NDFlow` brings images to a reference, `RandomScanner` shows them as another scanner might. Both
leave in the history of a subject the very maps that were used, as plain numbers, so that they are
repeated to the last bit, and undone, without the reference, the mask or the study. They change
intensity images only, never label maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow.errors import InvalidValueError
from ndflow.files.atomic import AnyPath
from ndflow.integrations.recorded_maps import RecordedMap, apply_recorded, record_map
from ndflow.integrations.study_scanners import drawn_map, read_scanners, scanner_units
from ndflow.integrations.volume_normaliser import VolumeNormaliser
from ndflow.methods.matching import Scale
from ndflow.population import ScannerMaps
from ndflow.scan.target import AnyTarget
from ndflow.values import positive

try:
    import torch
    from torchio import IntensityTransform, ScalarImage, Subject
    from torchio.transforms.augmentation import RandomTransform
    from torchio.transforms.preprocessing.intensity.normalization_transform import (
        NormalizationTransform,
    )
except ImportError as error:
    raise ImportError(
        f"ndflow.integrations.torchio needs TorchIO, which cannot be imported ({error}); "
        "try pip install 'ndflow[torchio]'"
    ) from error

__all__ = ["MapIntensities", "NDFlow", "RandomScanner", "Scanner"]

Masking = str | Callable[[torch.Tensor], torch.Tensor] | int | Sequence[int] | None


class MapIntensities(IntensityTransform):  # type: ignore[misc]
    """Map intensities as others were mapped before: what `NDFlow` leaves in a history.

    Parameters
    ----------
    maps : for each image, by name, one record per channel, see
        `ndflow.integrations.recorded_maps`.
    **kwargs : as for every transform of TorchIO.
    """

    def __init__(self, maps: Mapping[str, Sequence[RecordedMap]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.maps = maps
        self.args_names = ["maps"]
        self.invert_transform = False

    def __repr__(self) -> str:
        """Return the names of the images; the maps would fill pages."""
        inverse = ", invert=True" if self.invert_transform else ""
        return f"{self.name}({', '.join(self.maps)}{inverse})"

    def apply_transform(self, subject: Subject) -> Subject:
        """Map the images that there are maps for."""
        for name, image in self.get_images_dict(subject).items():
            if name not in self.maps:
                continue
            channels = image.numpy()
            if len(channels) != len(self.maps[name]):
                raise InvalidValueError(
                    f"{name} has {len(channels)} channels, but there are maps of "
                    f"{len(self.maps[name])}"
                )
            with _usual_errors():
                mapped = [
                    apply_recorded(record, voxels, inverse=self.invert_transform)
                    for record, voxels in zip(self.maps[name], channels, strict=True)
                ]
            image.set_data(torch.from_numpy(np.stack(mapped)))
        return subject


class Scanner(MapIntensities):
    """Show images as a certain scanner does: what `RandomScanner` leaves in a history."""


class NDFlow(NormalizationTransform):  # type: ignore[misc]
    """Bring intensity images to a reference.

    The result is what `ndflow.normalise` returns for the same voxels. The map of an image is found
    once, and recognised by the content of the image when it comes again, in the next epoch for
    example; each worker of a data loader remembers its own, unless they share a `folder`.

    The history of a subject holds the maps that were used, as `MapIntensities`, which can be
    repeated and undone: ``subject.apply_inverse_transform()``.

    Parameters
    ----------
    reference : a reference, the path of one, ``"builtin:T1w"``, or anything else that
        `ndflow.normalise` brings images to. Give images of one contrast, with `include` if a
        subject has several.
    masking_method : which voxels the map is found from: as for `torchio.ZNormalization`, the name
        of a label map, a function, an anatomical label, or bounds. Default: all voxels but 0. All
        voxels are mapped, but zeros outside the mask stay 0.
    scale, range : the units of the result, as for `ndflow.normalise`.
    remember : how many maps are kept in memory.
    folder : where maps are kept between runs, and shared by workers.
    **kwargs : as for every transform of TorchIO.

    Examples
    --------
    >>> import torch, torchio
    >>> from ndflow.integrations.torchio import NDFlow
    >>> scan = torch.linspace(200, 400, 8000).reshape(1, 20, 20, 20)
    >>> subject = torchio.Subject(t1=torchio.ScalarImage(tensor=scan))
    >>> normalised = NDFlow("builtin:T1w")(subject)
    >>> bool(490 < normalised.t1.data.mean() < 510)
    True
    >>> normalised.history
    [MapIntensities(t1)]
    """

    def __init__(
        self,
        reference: AnyTarget,
        masking_method: Masking = None,
        *,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        remember: int = 64,
        folder: AnyPath | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(reference, list | tuple | dict):
            raise InvalidValueError(
                "reference must be one reference; for images of several contrasts, use one NDFlow "
                "for each, with include=[...]"
            )
        super().__init__(masking_method=masking_method, **kwargs)
        self.reference = reference
        self._normaliser = VolumeNormaliser(
            reference, scale=scale, range=range, remember=remember, folder=folder
        )

    def __repr__(self) -> str:
        """Return the reference and the masking method."""
        return f"{self.name}({self.reference!r}, masking_method={self.masking_method!r})"

    def apply_transform(self, subject: Subject) -> Subject:
        """Find the maps of all intensity images, and map them."""
        return _mapped(self, MapIntensities, subject, lambda image: self._maps_of(image, subject))

    def _maps_of(self, image: ScalarImage, subject: Subject) -> list[RecordedMap]:
        channels: NDArray[Any] = image.numpy()
        masks: list[Any] = [None] * len(channels)
        if self.masking_method is not None:
            mask = self.get_mask_from_masking_method(self.masking_method, subject, image.data)
            masks = list(mask.bool().expand(image.data.shape).numpy())
        with _usual_errors():
            return [
                record_map(self._normaliser.map_of(voxels, mask), voxels, mask)
                for voxels, mask in zip(channels, masks, strict=True)
            ]

    def _add_transform_to_subject_history(self, subject: Subject) -> None:
        """Do nothing: what was done is in the history already, with the maps."""


class RandomScanner(RandomTransform, IntensityTransform):  # type: ignore[misc]
    """Show intensity images as a random, plausible scanner might.

    A map is drawn from the differences between the scanners of a study, and between scans of one
    scanner (`ndflow.ScannerMaps`). The images must have been brought to the reference of that study
    first, for example with `NDFlow`. Their mean and standard deviation stay about the same: gain
    and offset of a scanner mean nothing. Zeros stay 0.

    Draws depend on the seed of torch alone. The history of a subject holds the maps that were
    drawn, as `Scanner`, which can be repeated and undone.

    Parameters
    ----------
    scanners : what `ndflow.scanners` returned for the study, or the file in which it was saved.
    between, within : how much scanners differ, and scans of one scanner, as multiples of what the
        study has found.
    scale, range : the units of the images, as they were given to `NDFlow`.
    **kwargs : as for every transform of TorchIO, such as the probability ``p``. Give images of
        the contrast of the study only, with `include` if a subject has others.

    Examples
    --------
    See ``docs/guides/training.md``.
    """

    def __init__(
        self,
        scanners: ScannerMaps | AnyPath,
        *,
        between: float = 1.0,
        within: float = 1.0,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.scanners = read_scanners(scanners)
        self.between = positive(between, "between", zero=True)
        self.within = positive(within, "within", zero=True)
        self._units = scanner_units(self.scanners, scale=scale, range=range)

    def __repr__(self) -> str:
        """Return what scanners are drawn from, and how much they differ."""
        return f"{self.name}({self.scanners}, between={self.between}, within={self.within})"

    def apply_transform(self, subject: Subject) -> Subject:
        """Draw one scanner for each channel of each intensity image, and map it."""
        return _mapped(self, Scanner, subject, self._drawn)

    def _drawn(self, image: ScalarImage) -> list[RecordedMap]:
        found = []
        for voxels in image.numpy():
            seed = int(torch.randint(0, 2**31, (1,)).item())
            imap = drawn_map(
                self.scanners,
                seed,
                voxels,
                between=self.between,
                within=self.within,
                units=self._units,
            )
            found.append(record_map(imap, voxels))
        return found


def _mapped(
    transform: IntensityTransform,
    kind: type[MapIntensities],
    subject: Subject,
    maps_of: Callable[[ScalarImage], list[RecordedMap]],
) -> Subject:
    """Map the images of a subject, and note the maps in its history.

    Parameters
    ----------
    transform : what was called; images are chosen as it says.
    kind : of the transform that the history gets.
    subject : a copy, which may be changed.
    maps_of : returns the maps of an image.
    """
    images = transform.get_images_dict(subject)
    if not images:
        return subject
    maps = {name: maps_of(image) for name, image in images.items()}
    done = kind(maps, **transform._get_base_args())
    subject = done.apply_transform(subject)
    subject.add_transform(done, done._get_reproducing_arguments())
    return subject


def _usual_errors() -> np.errstate:
    """Return numpy's own settings; TorchIO turns each warning about a number into an error."""
    return np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")

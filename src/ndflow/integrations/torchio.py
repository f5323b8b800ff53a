"""Normalisation as a transform of TorchIO.

`NDFlow` brings intensity images to a reference, and leaves label maps alone. The history of a
subject holds the intensity maps themselves, as plain numbers, so that they can be repeated to the
last bit, and undone, without the reference or the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndflow._version import installing
from ndflow.integrations.normaliser import RecordedMap, VolumeNormaliser, apply_recorded
from ndflow.options import Scale
from ndflow.subject.target import AnyTarget

try:
    import torch
    from torchio import IntensityTransform, LabelMap, ScalarImage, Subject
    from torchio.transforms.preprocessing.intensity.normalization_transform import (
        NormalizationTransform,
    )
except ImportError as error:
    raise ImportError(
        f"ndflow.integrations.torchio needs TorchIO, which cannot be imported ({error}); "
        f"try {installing('torchio')}"
    ) from error

Masking = str | Callable[[torch.Tensor], torch.Tensor] | int | Sequence[int] | None


class MapIntensities(IntensityTransform):  # type: ignore[misc]
    """Map intensities as others were mapped before: what `NDFlow` leaves in a history.

    Parameters
    ----------
    maps : for each image, by name, one record per channel, see `record_map` of
        `ndflow.integrations.normaliser`.
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
            with _usual_errors():
                mapped = [
                    apply_recorded(record, voxels, inverse=self.invert_transform)
                    for record, voxels in zip(self.maps[name], image.numpy(), strict=True)
                ]
            image.set_data(torch.from_numpy(np.stack(mapped)))
        return subject


class NDFlow(NormalizationTransform):  # type: ignore[misc]
    """Bring intensity images to a reference.

    The result is what `ndflow.normalise` returns for the same voxels. The map of an image is found
    once, and recognised by the content of the image when it comes again, in the next epoch for
    example; each worker of a data loader remembers its own.

    The history of a subject holds the maps that were used, as `MapIntensities`, which can be
    repeated and undone: ``subject.apply_inverse_transform()``.

    Parameters
    ----------
    reference : a reference, the path of one, ``"builtin:T1w"``, or anything else that
        `ndflow.normalise` brings images to. Give images of one contrast, with `include` if a
        subject has several.
    mask : which voxels the map is found from: the name of a label map, a function, an anatomical
        label, or bounds, like the `masking_method` of `torchio.ZNormalization`. Values above ½ are
        inside where all are about 0 to 1, otherwise all but 0. Default: all voxels but 0. All
        voxels are mapped, but zeros outside the mask stay 0.
    scale, range : the units of the result, as for `ndflow.normalise`.
    remember : how many maps are kept in memory.
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
        mask: Masking = None,
        *,
        scale: Scale | None = None,
        range: tuple[float, float] | None = None,
        remember: int = 1024,
        **kwargs: Any,
    ) -> None:
        super().__init__(masking_method=mask, **kwargs)
        self.reference = reference
        self._normaliser = VolumeNormaliser(reference, scale=scale, range=range, remember=remember)

    def __repr__(self) -> str:
        """Return the reference and the mask."""
        return f"{self.name}({self.reference!r}, mask={self.masking_method!r})"

    def apply_transform(self, subject: Subject) -> Subject:
        """Find the maps of all intensity images, map them, and note the maps in the history."""
        images = self.get_images_dict(subject)
        if not images:
            return subject
        maps = {name: self._maps_of(name, image, subject) for name, image in images.items()}
        done = MapIntensities(maps, **self._get_base_args())
        subject = done.apply_transform(subject)
        subject.add_transform(done, done._get_reproducing_arguments())
        return subject

    def _maps_of(self, name: str, image: ScalarImage, subject: Subject) -> list[RecordedMap]:
        channels: NDArray[Any] = image.numpy()
        masks: Sequence[Any] = [None] * len(channels)
        names = [str(image.path or name)]
        if len(channels) > 1:
            names = [f"{name}, channel {number + 1}" for number in range(len(channels))]
        if self.masking_method is not None:
            masks = self._mask_of(image, subject).expand(image.data.shape).numpy()
        with _usual_errors():
            return [
                self._normaliser.record_of(voxels, mask, affine=image.affine, name=called)
                for voxels, mask, called in zip(channels, masks, names, strict=True)
            ]

    def _mask_of(self, image: ScalarImage, subject: Subject) -> torch.Tensor:
        """Return the mask of an image, with the values that a label map has, not all of them 1."""
        method = self.masking_method
        named = subject.get(method) if isinstance(method, str) else None
        if isinstance(named, LabelMap):
            return named.data
        mask: torch.Tensor = self.get_mask_from_masking_method(method, subject, image.data)
        return mask

    def _add_transform_to_subject_history(self, subject: Subject) -> None:
        """Do nothing: what was done is in the history already, with the maps."""


def _usual_errors() -> np.errstate:
    """Return numpy's own settings; TorchIO turns each warning about a number into an error."""
    return np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")

"""The masks of brains in a BIDS dataset or its derivatives: ``…_desc-brain_mask.nii.gz``.

A mask fits an image if its name says nothing that the name of the image does not say too, and lies
in the same space.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ndflow.bids.names import IMAGES, Entities, entities_of, is_labelled, without_desc
from ndflow.errors import FileError

__all__ = ["Masks", "fitting_mask"]

_ENDINGS = tuple(f"_desc-brain_mask{kind}" for kind in IMAGES)
_GRID = ("space", "cohort", "res")  # a mask that leaves these out lies in another space


class Masks:
    """The masks in a folder of derivatives."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            what = "not a folder" if os.path.lexists(root) else "no such folder"
            raise FileError(root, what, "give a folder of derivatives with masks")
        if not any(is_labelled(name, "sub-") for name in _names(root)):
            hint = "give that of one pipeline, for example derivatives/fmriprep"
            raise FileError(root, "holds no folders sub-…, so no masks", hint)
        self._root = root

    def of(self, folder: str, entities: Entities) -> str | None:
        """Return the mask of an image, or else one for all sessions of its subject.

        Parameters
        ----------
        folder : where the image lies in its own dataset.
        entities : what its name says.
        """
        subject, *_, datatype = folder.split("/")
        for place in dict.fromkeys((self._root / folder, self._root / subject / datatype)):
            if mask := fitting_mask(place, _names(place), entities):
                return mask
        return None


def fitting_mask(
    folder: Path, names: Iterable[str], entities: Entities, *, exactly: bool = False
) -> str | None:
    """Return the mask of an image: of those that fit, the one whose name says most.

    Parameters
    ----------
    folder : where the masks lie.
    names : the files there.
    entities : what the name of the image says.
    exactly : whether the name of the mask must say all of it.
    """
    image = without_desc(entities)
    fitting: dict[str, int] = {}
    for name in names:
        said = without_desc(entities_of(name) or {}) if name.endswith(_ENDINGS) else {}
        same_grid = all(said.get(key) == image.get(key) for key in _GRID)
        if said and same_grid and (said == image if exactly else said.items() <= image.items()):
            fitting[name] = len(said)
    best = sorted(name for name, length in fitting.items() if length == max(fitting.values()))
    if len(best) > 1:
        hint = "remove one of the masks"
        raise FileError(folder / best[0], f"fits the same scan as {best[1]}", hint)
    return str(folder / best[0]) if best else None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  (names are all we need)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cause = f"cannot be looked into ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None

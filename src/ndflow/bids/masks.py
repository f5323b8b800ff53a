"""Brain masks in a BIDS dataset or its derivatives: ``…_desc-brain_mask.nii.gz``.

A mask fits an image if all its entities except ``desc`` are entities of the image too, and it lies
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
_GRID = ("space", "cohort", "res")  # these must be the same, or both absent


class Masks:
    """The masks in a derivatives folder.

    Parameters
    ----------
    root : the folder of one pipeline.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            what = "not a folder" if os.path.lexists(root) else "no such folder"
            raise FileError(root, what, "give a derivatives folder with masks")
        if not any(is_labelled(name, "sub-") for name in _names(root)):
            hint = "give the folder of one pipeline, for example derivatives/fmriprep"
            raise FileError(root, "holds no folders sub-…, and so no masks", hint)
        self._root = root

    def of(self, folder: str, entities: Entities) -> str | None:
        """Return the mask of an image, or of all sessions of its subject; None if there is neither.

        Parameters
        ----------
        folder : the folder of the image, relative to its own dataset.
        entities : the entities of the image.
        """
        subject, *_, datatype = folder.split("/")
        for place in dict.fromkeys((self._root / folder, self._root / subject / datatype)):
            if mask := fitting_mask(place, _names(place), entities):
                return mask
        return None


def fitting_mask(
    folder: Path, names: Iterable[str], entities: Entities, *, exactly: bool = False
) -> str | None:
    """Return the mask of an image: of those that fit, the one with the most entities.

    Parameters
    ----------
    folder : the folder of the masks.
    names : the files in it.
    entities : the entities of the image.
    exactly : whether the mask must have all of them.

    Returns
    -------
    mask : its path; None if no mask fits.

    Raises
    ------
    FileError : if several masks fit equally well.
    """
    image = without_desc(entities)
    fitting: dict[str, int] = {}
    for name in names:
        mask = without_desc(entities_of(name) or {}) if name.endswith(_ENDINGS) else {}
        same_grid = all(mask.get(key) == image.get(key) for key in _GRID)
        if mask and same_grid and (mask == image if exactly else mask.items() <= image.items()):
            fitting[name] = len(mask)
    best = sorted(name for name, length in fitting.items() if length == max(fitting.values()))
    if len(best) > 1:
        hint = "remove one of the masks"
        raise FileError(folder / best[0], f"fits the same scan as {best[1]}", hint)
    return str(folder / best[0]) if best else None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  (only names are needed)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cause = f"cannot be listed ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None

"""Brain masks, lesion masks and tissue probability maps in a BIDS dataset or its derivatives.

They are called ``…_desc-brain_mask.nii.gz`` and ``…_label-GM_probseg.nii.gz`` (CSF, GM and WM); the
many names of lesion masks are below. A file fits an image if all its other
entities are entities of the image too, and it lies in the same space.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from ndflow.errors import FileError, InvalidValueError
from ndflow.study.bids_names import IMAGES, Entities, entities_of, is_labelled, pairs_of

# ── lesion masks ──────────────────────────────────────────────────────────────────────────────────
# Lesion masks in a BIDS dataset or its derivatives.
#
# BIDS has changed what they are called, and people call them what their tools want, so all of these
# are lesion masks of ``sub-01_T1w``:
#
#     sub-01_label-lesion_mask   sub-01_desc-lesion_mask   sub-01_desc-T1lesion_mask
#     sub-01_label-lesion_roi    sub-01_lesion_roi         sub-01_roi
#     sub-01_T1w_label-lesion_roi                          sub-01_T1w_lesion_mask
#
# A region of interest with another label (``label-hippocampus_roi``) is not, nor are those of what
# is around a lesion (``desc-perilesion_mask``), or of another image
# (``sub-01_FLAIR_label-lesion_roi``, ``sub-01_desc-FLAIRlesion_mask``). The other entities decide
# which scan it is of, as those of brain masks do.

_LESION = "lesion"
_KINDS = ("mask", "roi")


def lesion_entities(name: str, suffix: str) -> Entities | None:
    """Return the entities of a lesion mask; None for other files, and masks of other images.

    Parameters
    ----------
    name : of the file.
    suffix : the kind of images that it should be of, such as ``T1w``.

    Examples
    --------
    >>> lesion_entities("sub-01_run-1_T1w_label-lesion_roi.nii.gz", "T1w")
    {'sub': '01', 'run': '1', 'label': 'lesion'}
    >>> lesion_entities("sub-01_desc-brain_mask.nii.gz", "T1w") is None
    True
    """
    if not name.endswith(IMAGES):
        return None
    *parts, kind = name.partition(".")[0].split("_")
    entities, words = pairs_of(parts)
    if kind not in _KINDS or "sub" not in entities or not {*words} <= {suffix, _LESION}:
        return None
    if entities.pop("mod", suffix) != suffix:
        return None
    label, desc = (entities.get(key, "").lower() for key in ("label", "desc"))
    described = {f"{word}{_LESION}" for word in ("", suffix.lower(), suffix.lower().rstrip("w"))}
    says = _LESION in words or label == _LESION or desc in described
    silent = kind == "roi" and not label and not desc
    return entities if says or silent else None


# ── masks and tissue maps ─────────────────────────────────────────────────────────────────────────

RAW = "raw"  # the name of the source dataset in our BIDS URIs

_MASKS = tuple(f"_desc-brain_mask{kind}" for kind in IMAGES)
_TISSUES = {
    tissue: tuple(f"_label-{tissue.upper()}_probseg{kind}" for kind in IMAGES)
    for tissue in ("csf", "gm", "wm")
}
_NAME = re.compile(r"[0-9A-Za-z_.+-]+")
_GRID = ("space", "cohort", "res")  # these must be the same, or both absent


class Derivative:
    """A derivatives folder with masks, lesion masks or tissue probability maps.

    Parameters
    ----------
    root : the folder of one pipeline.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            what = "not a folder" if os.path.lexists(root) else "no such folder"
            raise FileError(root, what, "give a derivatives folder, with --derivatives")
        if not any(is_labelled(name, "sub-") for name in _names(root)):
            hint = "give the folder of one pipeline, for example derivatives/fmriprep"
            raise FileError(root, "holds no folders sub-…, and so no masks", hint)
        self._root = root

    def mask(self, folder: str, entities: Entities) -> str | None:
        """Return the mask of an image, or of all sessions of its subject; None if there is neither.

        Parameters
        ----------
        folder : the folder of the image, relative to its own dataset.
        entities : the entities of the image.
        """
        found = (fitting_mask(place, _names(place), entities) for place in self._places(folder))
        return next(filter(None, found), None)

    def lesion(self, folder: str, entities: Entities, suffix: str) -> str | None:
        """Return the lesion mask of an image, looked up as its brain mask is.

        Parameters
        ----------
        folder, entities : as for `mask`.
        suffix : the kind of image.
        """
        found = (
            fitting_lesion(place, _names(place), entities, suffix) for place in self._places(folder)
        )
        return next(filter(None, found), None)

    def lesions_at(self, folder: str, suffix: str) -> list[str]:
        """Return all lesion masks where `lesion` looks, of whatever scan."""
        return [
            str(place / name)
            for place in self._places(folder)
            for name in sorted(_names(place))
            if lesion_entities(name, suffix)
        ]

    def tissues(self, folder: str, entities: Entities) -> dict[str, str]:
        """Return the tissue probability maps of an image by tissue, looked up as its mask is."""
        for place in self._places(folder):
            names = _names(place)
            found = {
                tissue: path
                for tissue, endings in _TISSUES.items()
                if (path := _fitting(place, names, entities, _ending(endings)))
            }
            if found:
                return found
        return {}

    def _places(self, folder: str) -> Iterable[Path]:
        subject, *_, datatype = folder.split("/")
        return dict.fromkeys((self._root / folder, self._root / subject / datatype))


def named_derivatives(given: Iterable[str]) -> dict[str, Path]:
    """Return derivatives folders by their names.

    Parameters
    ----------
    given : each ``NAME=PATH``, or a path, whose last part then is the name.

    Raises
    ------
    InvalidValueError : if a name is taken, or a path is empty.

    Examples
    --------
    >>> list(named_derivatives(["prep=/data/fmriprep-24", "synthstrip"]))
    ['prep', 'synthstrip']
    """
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (equals and _NAME.fullmatch(name)) or Path(text).is_dir():
            path = text
            name = re.sub(rf"[^{_NAME.pattern[1:-2]}]", "-", Path(text).absolute().name)
        if not path:
            raise InvalidValueError(f"--derivatives {text!r} names no folder; give NAME=PATH")
        if name in folders or name == RAW:
            cause = "names the dataset itself" if name == RAW else "is given twice"
            raise InvalidValueError(
                f"--derivatives: {name!r} {cause}; choose another name, as in NAME=PATH"
            )
        folders[name] = Path(path)
    return folders


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
    return _fitting(folder, names, entities, _ending(_MASKS), exactly=exactly)


def fitting_lesion(
    folder: Path, names: Iterable[str], entities: Entities, suffix: str, *, exactly: bool = False
) -> str | None:
    """Return the lesion mask of an image, chosen as its brain mask is; see `fitting_mask`.

    Parameters
    ----------
    folder, names, entities, exactly : as for `fitting_mask`.
    suffix : the kind of image, such as ``T1w``.
    """
    return _fitting(
        folder, names, entities, lambda name: lesion_entities(name, suffix), exactly=exactly
    )


def _ending(endings: tuple[str, ...]) -> Callable[[str], Entities | None]:
    """Return what finds the entities of the files whose names end in one of these ways."""
    return lambda name: entities_of(name) if name.endswith(endings) else None


def _fitting(
    folder: Path,
    names: Iterable[str],
    entities: Entities,
    entities_in: Callable[[str], Entities | None],
    *,
    exactly: bool = False,
) -> str | None:
    image = _acquired(entities)
    fitting: dict[str, int] = {}
    for name in names:
        own = _acquired(entities_in(name) or {})
        same_grid = all(own.get(key) == image.get(key) for key in _GRID)
        if own and same_grid and (own == image if exactly else own.items() <= image.items()):
            fitting[name] = len(own)
    best = sorted(name for name, length in fitting.items() if length == max(fitting.values()))
    if len(best) > 1:
        hint = "remove one of the two"
        raise FileError(folder / best[0], f"fits the same scan as {best[1]}", hint)
    return str(folder / best[0]) if best else None


def _acquired(entities: Entities) -> Entities:
    """Return entities without those that say how an image was processed, or what it shows."""
    return {key: label for key, label in entities.items() if key not in ("desc", "label")}


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  (only names are needed)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        cause = f"cannot be listed ({error.strerror})"
        raise FileError(folder, cause, "check its permissions") from None

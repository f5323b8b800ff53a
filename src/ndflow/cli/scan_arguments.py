"""Scans from command-line arguments: images, and their masks and tissue maps in the same order."""

from __future__ import annotations

from collections.abc import Sequence

from ndflow.errors import InvalidValueError
from ndflow.image.mask import to_be_found
from ndflow.image.subject import Scan, TissueMaps
from ndflow.scan.reading import check_found_mask
from ndflow.values import plural

__all__ = ["typed_scans"]

_NONZERO = "nonzero"  # of --mask
_NONE = "none"  # of --exclude


def typed_scans(
    images: Sequence[str],
    *,
    mask: Sequence[str] = (),
    exclude: Sequence[str] = (),
    csf: Sequence[str] = (),
    gm: Sequence[str] = (),
    wm: Sequence[str] = (),
) -> list[Scan]:
    """Return the scans on a command line.

    Parameters
    ----------
    images : the images.
    mask, exclude : their masks and lesion masks, in the same order; or nothing.
    csf, gm, wm : their tissue probability maps, in the same order; or nothing.
    """
    masks = _one_each(mask, images, "--mask")
    excluded = _one_each(exclude, images, "--exclude")
    tissues = _tissue_maps(images, csf, gm, wm)
    scans = [Scan(*files) for files in zip(images, masks, excluded, tissues, strict=True)]
    for scan in scans:
        check_found_mask(scan)
    return scans


def _tissue_maps(
    images: Sequence[str], csf: Sequence[str], gm: Sequence[str], wm: Sequence[str]
) -> list[TissueMaps]:
    """Return the tissue probability maps of each image."""
    given = {"--csf": csf, "--gm": gm, "--wm": wm}
    if not any(given.values()):
        return [TissueMaps()] * len(images)
    if missing := [option for option, files in given.items() if not files]:
        raise InvalidValueError(
            f"tissue probability maps of all three tissues are needed; give {missing[0]} too"
        )
    for option, files in given.items():
        _check_count(option, files, images)
    return [TissueMaps(*files) for files in zip(csf, gm, wm, strict=True)]


def _one_each(given: Sequence[str], images: Sequence[str], option: str) -> list[str | None]:
    """Return one file per image, from an option that is given for all images or not at all.

    A mask may be ``auto``, ``brain`` or ``nonzero``, for one image or for all; instead of a lesion
    mask, ``none`` stands for no file.

    Parameters
    ----------
    given : the values of the option, in the order of the images.
    images : the images.
    option : the name of the option, for messages.
    """
    if not given:
        return [None] * len(images)
    if not images:
        raise InvalidValueError(f"{option}: there is no image to use it for; leave it out")
    words = [name for name in given if to_be_found(name) or name == _NONZERO]
    if words and option != "--mask":
        raise InvalidValueError(f"{option}: {words[0]} is for --mask only; give a file, or none")
    files = [*given] * len(images) if words and len(given) == 1 else given
    _check_count(option, files, images)
    absent = _NONZERO if option == "--mask" else _NONE
    return [None if name == absent else name for name in files]


def _check_count(option: str, given: Sequence[str], images: Sequence[str]) -> None:
    if len(given) != len(images):
        scans = plural(len(images), "image")
        raise InvalidValueError(
            f"{option}: {len(given)} given for {scans}; give one for each, in the same order"
        )

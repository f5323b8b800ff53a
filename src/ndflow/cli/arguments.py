"""The scans that were typed: images, their masks, and channels as ``NAME=IMAGE``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from ndflow.errors import InvalidValueError
from ndflow.files.model_files import is_model
from ndflow.files.outputs import refuse_given_twice
from ndflow.image.mask import to_be_found
from ndflow.image.subject import CHANNEL, Subject, TissueMaps
from ndflow.subject.voxels import check_found_mask
from ndflow.values import plural

_NONZERO = "nonzero"  # of --mask
_NONE = "none"  # of --exclude


def typed_subjects(
    words: Sequence[str],
    *,
    mask: Sequence[str] = (),
    exclude: Sequence[str] = (),
    tissue_maps: Sequence[str] = (),
    joint: bool = False,
) -> list[Subject]:
    """Return the subjects on a command line: one per image, or one with several channels.

    Parameters
    ----------
    words : images, or ``NAME=IMAGE`` for each channel of one subject.
    mask, exclude, tissue_maps : of each subject, in order; ``auto`` or ``brain`` alone is for all.
    joint : whether channels are treated together.
    """
    named = are_channels(words, joint=joint)
    images: list[Any] = [_channels(words)] if named else [*words]
    masks = _one_each(mask, images, "--mask")
    excluded = _one_each(exclude, images, "--exclude")
    tissues = _tissue_maps(images, tissue_maps)
    subjects = [Subject(*files) for files in zip(images, masks, excluded, tissues, strict=True)]
    for subject in subjects:
        check_found_mask(subject)
    return subjects


def _channels(words: Sequence[str]) -> dict[str, str]:
    """Return the image of each channel."""
    images: dict[str, str] = {}
    for word in words:
        name, file = channel_file(word) or ("", word)
        if name in images:
            raise InvalidValueError(
                f"{name}: two images of one channel, {images[name]} and {file}; one subject at a "
                f"time, with one image per channel"
            )
        if is_model(file):
            raise InvalidValueError(f"{file}: a model, where an image is expected; give an image")
        images[name] = file
    refuse_given_twice([*images.values()])
    return images


def _tissue_maps(images: Sequence[Any], words: Sequence[str]) -> list[TissueMaps]:
    """Return the tissue probability maps of each image."""
    if not words:
        return [TissueMaps()] * len(images)
    found: dict[str, list[str]] = {name: [] for name in TissueMaps._fields}
    for word in words:
        name, equals, file = word.partition("=")
        if name not in found or not equals:
            raise InvalidValueError(f"--tissue-maps {word}: write csf=FILE gm=FILE wm=FILE")
        found[name].append(file)
    for name, files in found.items():
        if len(files) != len(images):
            raise InvalidValueError(
                f"--tissue-maps: {len(files)} of {name} for {plural(len(images), 'scan')}; give "
                f"csf, gm and wm of each, in order"
            )
    return [TissueMaps(*files) for files in zip(*found.values(), strict=True)]


def _one_each(given: Sequence[str], images: Sequence[Any], option: str) -> list[str | None]:
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


def _check_count(option: str, given: Sequence[str], images: Sequence[Any]) -> None:
    if len(given) != len(images):
        scans, hint = plural(len(images), "image"), "give one for each, in the same order"
        if isinstance(images[0], dict):
            scans, hint = "one subject", "its channels share one"
        raise InvalidValueError(f"{option}: {len(given)} given for {scans}; {hint}")


# ── channels ──────────────────────────────────────────────────────────────────────────────────────
# ``T1w=a.nii.gz FLAIR=b.nii.gz``: the channels of one subject as command-line arguments.
#
# A word that is the name of an existing file is that file, whatever it looks like.

_WORD = re.compile(rf"({CHANNEL})=(.+)", re.DOTALL)


def channel_file(word: str) -> tuple[str, str] | None:
    """Return the channel and the file that a word names; None for a plain path.

    >>> channel_file("T1w=scans/a.nii.gz")
    ('T1w', 'scans/a.nii.gz')
    >>> channel_file("scans/desc=x.nii.gz") is None
    True
    """
    found = _WORD.fullmatch(word)
    return None if found is None or os.path.lexists(word) else (found[1], found[2])


def are_channels(words: Sequence[str], *, joint: bool = False) -> bool:
    """Tell whether images are the channels of one subject.

    Parameters
    ----------
    words : as they were typed.
    joint : whether ``--joint`` was given, which needs channels.

    Raises
    ------
    InvalidValueError : if some words name a channel and others do not, or none of them does and
        ``--joint`` was given.
    """
    plain = [word for word in words if channel_file(word) is None]
    if plain and len(plain) < len(words):
        raise InvalidValueError(
            f"{plain[0]}: without the name of a channel, among others with one; give all images "
            f"of the subject as NAME=FILE, for example T1w={plain[0]}, or all without"
        )
    if plain and joint:
        example = f"T1w={plain[0]} FLAIR={plain[1] if len(plain) > 1 else 'FILE'}"
        raise InvalidValueError(
            f"--joint: needs the channels of one subject by their names, for example {example}"
        )
    return bool(words) and not plain

"""``T1w=a.nii.gz FLAIR=b.nii.gz``: the channels of one subject as command-line arguments.

A word that is the name of an existing file is that file, whatever it looks like.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ndflow.errors import InvalidValueError
from ndflow.files.model_files import is_model
from ndflow.image.subject import TissueMaps
from ndflow.scan.channels.channel_subject import NAME, Subject
from ndflow.scan.outputs import refuse_given_twice

__all__ = ["are_channels", "channel_file", "typed_subject"]

_WORD = re.compile(rf"({NAME})=(.+)", re.DOTALL)


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


def typed_subject(
    words: Sequence[str],
    *,
    mask: Sequence[str] = (),
    exclude: Sequence[str] = (),
    csf: Sequence[str] = (),
    gm: Sequence[str] = (),
    wm: Sequence[str] = (),
) -> Subject:
    """Return the channels on a command line.

    Parameters
    ----------
    words : the channels, each as ``NAME=FILE``.
    mask, exclude, csf, gm, wm : one file for all of them; or nothing.
    """
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
    given = {"--mask": mask, "--exclude": exclude, "--csf": csf, "--gm": gm, "--wm": wm}
    shared = [_one(option, files) for option, files in given.items()]
    return Subject(images, shared[0], shared[1], TissueMaps(*shared[2:]).check_complete())


def _one(option: str, files: Sequence[str]) -> str | None:
    """Return the one file that an option gives for all channels."""
    if len(files) > 1:
        raise InvalidValueError(
            f"{option}: {len(files)} given, but channels of one subject share one; give it once"
        )
    absent = "nonzero" if option == "--mask" else "none"
    return None if not files or files[0] == absent else files[0]

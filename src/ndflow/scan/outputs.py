"""Where results go: one file, or a folder with a file for each of several scans."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.files.stream import open_file
from ndflow.image.read import files_of
from ndflow.scan.model_files import is_model
from ndflow.scan.reading import AUTO
from ndflow.scan.results import stem

__all__ = ["Outputs", "check_folder", "make_folder", "one_each", "outputs_for", "preview"]


_NONE = "none"


class Outputs(NamedTuple):
    """Where results go.

    Attributes
    ----------
    folder : what holds them, where the user named a folder.
    files : one for each scan, in order.
    """

    folder: Path | None
    files: list[Path]


def outputs_for(
    images: Sequence[str], output: str | os.PathLike[str], name_of: Callable[[str], str]
) -> Outputs:
    """Return where the results of some images go.

    Parameters
    ----------
    images : the files.
    output : the file for one image; or a folder, which need not exist yet for several.
    name_of : from an image to the name of its result in a folder.
    """
    for image in filter(is_model, images):
        raise FileError(image, "a model, where an image is expected", "give .nii.gz, for example")
    place = Path(output)
    as_folder = _is_folder(place) or os.fspath(output).endswith(("/", os.sep))
    if len(images) == 1 and not as_folder:
        return Outputs(None, [place])
    if not as_folder and (os.path.lexists(place) or stem(place) != place.name):
        raise FileError(output, f"one file for {len(images)} images", "name a folder as the output")
    names = [name_of(image) for image in images]
    seen: dict[str, str] = {}
    for image, name in zip(images, names, strict=True):
        other = seen.setdefault(stem(name), image)  # a.nii and a.nii.gz would share a record
        if images.count(image) > 1:
            raise FileError(image, "given twice", "give each image once")
        if other != image:
            cause = f"its result would be called {name}, like that of {other}"
            raise FileError(image, cause, "run them one by one, with an output name for each")
    return Outputs(place, [place / name for name in names])


def _is_folder(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a name that no file can have, which is said when it is written
        return False


def make_folder(folder: Path | None) -> None:
    """Make the folder for the results, but not the one that it lies in."""
    if folder is None or _is_folder(folder):
        return
    check_folder(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        cause = f"the folder cannot be created ({error.strerror})"
        raise FileError(folder, cause, "choose another folder") from None


def check_folder(folder: Path) -> None:
    """Refuse a new folder whose parent does not exist."""
    if not folder.absolute().parent.is_dir():
        hint = f'create it: mkdir -p "{folder.parent}"'
        raise FileError(folder, f"there is no folder {folder.parent}", hint)


def preview(
    inputs: Sequence[str | None],
    output: Path,
    *,
    check: Callable[[Path, Sequence[str]], None],
    new_folder: bool,
) -> None:
    """Say what can be said without reading a scan: files that are missing, or in the way.

    Parameters
    ----------
    inputs : the files that would be read.
    output : the file that would be written.
    check : says why it may not be written, given the files that must not be replaced.
    new_folder : whether the folder of the output would be made.
    """
    given = [name for source in inputs if source and source != AUTO for name in files_of(source)]
    for name in given:
        with open_file(name):
            pass
    if new_folder and not output.parent.exists():
        return check_folder(output.parent)
    return check(output, given)


def one_each(given: Sequence[str], images: Sequence[str], option: str) -> list[str | None]:
    """Return what belongs to each image, of something given for none or for each.

    A mask may be ``auto``, for one image or for all; ``none`` stands for nothing.

    Parameters
    ----------
    given : what the user gave, in the order of the images.
    images : the images.
    option : how the user gave it, for messages.
    """
    if not given:
        return [None] * len(images)
    if not images:
        raise InvalidValueError(f"{option}: there is no image that it could belong to")
    if AUTO in given and option != "--mask":
        raise InvalidValueError(f"{option}: {AUTO} is for --mask only; give a file, or none")
    if list(given) == [AUTO]:
        return [AUTO] * len(images)
    if len(given) != len(images):
        raise InvalidValueError(
            f"{option}: one is needed for each of {len(images)} images, in their order, but "
            f"{len(given)} were given"
        )
    return [None if name == _NONE else name for name in given]

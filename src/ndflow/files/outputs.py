"""Where results go: names of files, and a folder with one file per scan."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from urllib.parse import quote

from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import identity_of

_UNSAFE = '%/\\:*?"<>|'
_EXTENSIONS = (".gz", ".nii", ".hdr", ".img", ".mgh", ".mgz", ".json")


def stem(path: AnyPath) -> str:
    """Return the name of a file without folder and extension."""
    name = Path(path).name
    for end in _EXTENSIONS:
        if name.lower().endswith(end) and len(name) > len(end):
            name = name[: -len(end)]
    return name


def safe_name(text: str) -> str:
    """Return a text that can be part of a file name, different for different texts."""
    unsafe = (not c.isprintable() or c in _UNSAFE for c in text)
    return "".join(
        quote(os.fsencode(c), safe="") if odd else c for c, odd in zip(text, unsafe, strict=True)
    )


def sidecar_of(output: AnyPath) -> Path:
    """Return where the sidecar of an image goes, the JSON that describes it."""
    return Path(output).with_name(f"{stem(output)}.json")


def outputs_for(
    images: Sequence[str], output: str | os.PathLike[str], name_of: Callable[[str], str]
) -> tuple[Path | None, list[Path]]:
    """Return the folder for the results of some images, if the user named one, and their files.

    Parameters
    ----------
    images : the files.
    output : the file for one image; or a folder, which need not exist yet for several.
    name_of : gives the name of the result of an image in a folder.
    """
    place = Path(output)
    as_folder = os.path.isdir(place) or os.fspath(output).endswith(("/", os.sep))  # noqa: PTH112
    if len(images) == 1 and not as_folder:
        return None, [place]
    if not as_folder and (os.path.lexists(place) or stem(place) != place.name):
        raise FileError(output, f"one file for {len(images)} images", "name a folder as the output")
    refuse_given_twice(images)
    names = [name_of(image) for image in images]
    seen: dict[str, str] = {}
    for image, name in zip(images, names, strict=True):
        other = seen.setdefault(stem(name), image)  # a.nii and a.nii.gz would share a sidecar
        if other != image:
            cause = f"its result would be called {name}, like that of {other}"
            raise FileError(image, cause, "run them one by one, with an output name for each")
    return place, [place / name for name in names]


def refuse_given_twice(files: Sequence[str]) -> None:
    """Refuse a file that is given twice, be it by another path or a link."""
    seen: dict[Hashable, int] = {}
    for place, file in enumerate(files):
        first = seen.setdefault(identity_of(file), place)
        if first != place:
            also = "" if files[first] == file else f", also as {files[first]}"
            cause = f"given twice{also} (arguments {first + 1} and {place + 1})"
            raise FileError(file, cause, "give each file once")


def make_folder(folder: Path | None) -> None:
    """Make the folder for the results, but not its parents."""
    if folder is None or os.path.isdir(folder):  # noqa: PTH112
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

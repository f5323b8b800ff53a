"""The scans of a table or a folder, as the arguments of a command name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Scan
from ndflow.scan.outputs import refuse_given_twice
from ndflow.study.listing.columns import is_image
from ndflow.study.listing.image_folder import scans_in_folder
from ndflow.study.listing.scan_table import ScanTable, read_table

__all__ = ["ListedScans", "listed_images", "listed_scans"]


class ListedScans(NamedTuple):
    """Scans, and where they were listed.

    Attributes
    ----------
    out : the folder for the results.
    source : what messages call the list.
    root : the folder that the scans come from.
    table : the table, if it is one.
    scans : and what was not understood.
    skipped : how many images of a folder were left out, by reason.
    """

    out: Path
    source: str
    root: Path
    table: str | None
    scans: ScanTable
    skipped: Mapping[str, int] = {}


def listed_scans(
    arguments: Sequence[str], *, from_folder: str | None, pattern: str | None
) -> ListedScans:
    """Return the scans of a table, or of a folder.

    Parameters
    ----------
    arguments : TABLE and OUT; or OUT alone, with a folder.
    from_folder, pattern : see `scans_in_folder`.
    """
    if from_folder is not None and len(arguments) == 1:
        out = Path(arguments[0]).absolute()
        found, skipped = scans_in_folder(Path(from_folder), out, pattern)
        root = Path(from_folder).absolute()
        return ListedScans(out, from_folder, root, None, ScanTable(found), skipped)
    if from_folder is None and len(arguments) == 2 and pattern is None:
        table, folder = arguments
        root = Path(table).absolute().parent
        return ListedScans(Path(folder).absolute(), table, root, table, read_table(table))
    raise InvalidValueError(
        "give either TABLE OUT, or --from-folder DIR OUT, optionally with --pattern"
    )


def listed_images(images: Sequence[str], out: str) -> ListedScans:
    """Return scans that are named one by one."""
    for image in images:
        if not is_image(image):
            cause = "not the name of an image, but -o is for images"
            raise FileError(image, cause, "for a table, leave out -o: TABLE OUT")
    refuse_given_twice(images)
    scans = [
        Scan(str(Path(image).absolute()), origin=f"argument {number}")
        for number, image in enumerate(images, 1)
    ]
    source = images[0] if len(images) == 1 else f"{len(images)} images"
    return ListedScans(Path(out).absolute(), source, Path.cwd(), None, ScanTable(scans))

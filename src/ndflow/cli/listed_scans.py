"""The scans that a table or a folder lists, and what was understood of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from ndflow.cli.console import print_line, print_warning
from ndflow.cli.options import Verbosity
from ndflow.errors import FileError
from ndflow.image.subject import Subject
from ndflow.study.image_folder import scans_in_folder
from ndflow.study.overview import overview
from ndflow.study.plan import Preparation, Study
from ndflow.study.table import ScanTable, is_image, read_table
from ndflow.subject.outputs import refuse_given_twice
from ndflow.values import plural


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


def listed_scans(source: str, out: Path, pattern: str | None) -> ListedScans:
    """Return the scans of a table, or of a folder.

    Parameters
    ----------
    source : a table, or a folder.
    out : the folder for the results.
    pattern : of the names of images in a folder, see `scans_in_folder`.
    """
    path = Path(source).absolute()
    if path.is_dir():
        found, skipped = scans_in_folder(Path(source), out, pattern)
        return ListedScans(out, source, path, None, ScanTable(found), skipped)
    if pattern is not None:
        raise FileError(source, "not a folder, but --pattern is for folders", "leave it out")
    return ListedScans(out, source, path.parent, source, read_table(source))


def listed_images(images: Sequence[str], out: str) -> ListedScans:
    """Return scans that are named one by one."""
    for image in images:
        if not is_image(image):
            cause = "not the name of an image, but -o is for images"
            raise FileError(image, cause, "for a table, leave out -o: TABLE OUT")
    refuse_given_twice(images)
    scans = [
        Subject(str(Path(image).absolute()), origin=f"argument {number}")
        for number, image in enumerate(images, 1)
    ]
    source = images[0] if len(images) == 1 else f"{len(images)} images"
    return ListedScans(Path(out).absolute(), source, Path.cwd(), None, ScanTable(scans))


# ── understood ────────────────────────────────────────────────────────────────────────────────────

_COLUMN, _WIDTH = 14, 100


def print_understood(
    study: Study | Preparation,
    source: str,
    *,
    verbosity: Verbosity,
    unused: Mapping[str, str] | None = None,
    skipped: Mapping[str, int] | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Print what is known about the scans of a plan, unless the user wants no words.

    Parameters
    ----------
    study : what is to be done.
    source : the table, folder or dataset.
    verbosity : how much to print.
    unused : columns of a table that are not used, and why.
    skipped : how many images of a folder were left out, by reason.
    warnings : about what may have been misunderstood.
    """
    if verbosity.quiet:
        return
    print_line(f"{source}: {plural(len(study.scans), 'scan')}")
    for name, text in overview(study, unused or {}, skipped or {}).items():
        margin = f"  {name:<{_COLUMN}}"
        for line in wrap(text, _WIDTH - len(margin), break_on_hyphens=False) or [""]:
            print_line(margin + line)
            margin = " " * len(margin)
    for warning in warnings:
        print_warning(warning)

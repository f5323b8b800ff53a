"""Whether the page of a study shows what the study holds now.

The head of a page names a hash of everything that the page depends on: the record of the run,
which holds the hashes of all results; the list of failures; the evaluation; the record of the
preparation in the same folder; the version of ndflow; and the options of the page. It is found
without the packages that draw a page, so that a run with nothing to do ends at once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ndflow._version import __version__
from ndflow.errors import FileError
from ndflow.files.model_files import read_model
from ndflow.files.stream import sha256_of
from ndflow.record import JSON
from ndflow.study.folder import (
    EVALUATION,
    EVALUATION_RECORD,
    PROVENANCE,
    REPORT,
    head_of_page,
    our_subject_pages,
)
from ndflow.study.parallel.tasks import FAILURES
from ndflow.study.preparing.preparation_plan import PREPARED

__all__ = [
    "SAMPLE",
    "VIEWER",
    "PageOptions",
    "page_fingerprint",
    "page_is_current",
    "page_options",
]

SAMPLE, VIEWER = 20, 9  # how many scans a page shows with figures, and in its viewer
FINGERPRINT, OPTIONS = "ndflow-content", "ndflow-options"  # the names of <meta> elements
_OPTIONS = re.compile(rb'<meta name="%b" content="([A-Za-z0-9+/=]+)">' % OPTIONS.encode())


def page_fingerprint(
    folder: Path, *, title: str | None = None, sample: int = SAMPLE, viewer: int = VIEWER
) -> str:
    """Return a hash of everything that the page of a study depends on.

    Parameters
    ----------
    folder : of the study.
    title, sample, viewer : of the page, see `ndflow.reporting.build.report`.
    """
    shown: dict[str, JSON] = {
        "ndflow": __version__,
        "folder": Path(os.path.realpath(folder)).name,
        "options": {"title": title, "sample": sample, "viewer": viewer},
    }
    with suppress(FileError):  # there need be none, nor any of what follows
        shown[FAILURES] = sha256_of(folder / FAILURES)
    for name in (PROVENANCE, f"{EVALUATION}/{EVALUATION_RECORD}", f"{PREPARED}/{PROVENANCE}"):
        with suppress(FileError):
            # The checksum of a record does not depend on how a result was asked for (-j, -q).
            shown[name] = read_model(folder / name).payload.get("checksum")
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


class PageOptions(NamedTuple):
    """What the user chose for a page, see `ndflow.reporting.build.report`."""

    title: str | None = None
    sample: int = SAMPLE
    viewer: int = VIEWER

    def encoded(self) -> str:
        """Return them in letters that any page can hold."""
        return base64.b64encode(json.dumps(self._asdict()).encode()).decode("ascii")


def page_options(folder: Path) -> PageOptions:
    """Return the options of the page that a study has, so that it can be made again with them."""
    found = _OPTIONS.search(head_of_page(folder / REPORT))
    if found is None:
        return PageOptions()
    try:
        title, sample, viewer = json.loads(base64.b64decode(found[1])).values()
    except (ValueError, AttributeError):
        return PageOptions()
    known = (title is None or isinstance(title, str)) and {type(sample), type(viewer)} == {int}
    return PageOptions(title, sample, viewer) if known else PageOptions()


def page_is_current(folder: Path, *, subject_pages: bool = False) -> bool:
    """Return whether the page of a study would be the same if it were made again.

    Parameters
    ----------
    folder : of the study.
    subject_pages : whether there should be pages of single subjects too.
    """
    now = page_fingerprint(folder, **page_options(folder)._asdict())
    expected = f'<meta name="{FINGERPRINT}" content="{now}">'.encode()
    of_subjects = our_subject_pages(folder) if subject_pages else []
    if subject_pages and not of_subjects:
        return False
    return all(expected in head_of_page(path) for path in (folder / REPORT, *of_subjects))

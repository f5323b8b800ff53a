"""Whether the report of a study shows what the study holds now.

The head of a report names a hash of everything that it depends on: the record of the run, which
holds the hashes of all results; the list of failures; the evaluation; the record of the preparation
in the same folder; and the version of ndflow. It is found without the packages that draw a report,
so that a run with nothing to do ends at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from ndflow._version import __version__
from ndflow.errors import FileError
from ndflow.files.model_files import read_model
from ndflow.files.stream import sha256_of
from ndflow.study.folder import EVALUATION, EVALUATION_RECORD, PROVENANCE, REPORT, head_of_page
from ndflow.study.plan import PREPARED
from ndflow.study.tasks import FAILURES
from ndflow.values import JSON


def page_fingerprint(folder: Path) -> str:
    """Return a hash of everything that the report of a study depends on."""
    shown: dict[str, JSON] = {
        "ndflow": __version__,
        "folder": Path(os.path.realpath(folder)).name,
    }
    with suppress(FileError):  # there need be none, nor any of what follows
        shown[FAILURES] = sha256_of(folder / FAILURES)
    for name in (PROVENANCE, f"{EVALUATION}/{EVALUATION_RECORD}", f"{PREPARED}/{PROVENANCE}"):
        with suppress(FileError):
            # The checksum of a record does not depend on how a result was asked for (-j, -q).
            shown[name] = read_model(folder / name).payload.get("checksum")
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def page_is_current(folder: Path) -> bool:
    """Return whether the report of a study shows what the study holds now."""
    expected = f'<meta name="ndflow-content" content="{page_fingerprint(folder)}">'
    return expected.encode() in head_of_page(folder / REPORT)

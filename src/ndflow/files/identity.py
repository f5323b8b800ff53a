"""Whether two names are those of the same file."""

from __future__ import annotations

import os
from collections.abc import Hashable

from ndflow.files.atomic import AnyPath

__all__ = ["identity_of"]


def identity_of(path: AnyPath) -> Hashable:
    """Return what all names of a file have in common: other paths to it, and links of any kind.

    It reads nothing. Of a file that does not exist, or was not fetched, only the path is known.
    """
    try:
        found = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return os.path.abspath(path)  # noqa: PTH100
    return (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)

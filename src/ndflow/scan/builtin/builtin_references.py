"""References that come with the package: ``builtin:T1w``.

Each is a file of its own beside this module, with a *card* that says whose scans it was made from
and what it is not for (docs/reference/builtin.md). ``builtin:T1w`` is the newest version;
``builtin:T1w@1`` stays what it is, and results record that name.
`experiments/build_builtin.py` makes the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from ndflow.errors import InvalidValueError
from ndflow.files.fingerprints import FileHash
from ndflow.files.model_files import ModelFile, read_model
from ndflow.population import Reference, TissueModel
from ndflow.record import JSON
from ndflow.scan.records import ReferenceModel

__all__ = [
    "PREFIX",
    "builtin_card",
    "builtin_file",
    "builtin_reference",
    "builtin_tissues",
    "full_name",
    "is_builtin",
    "read_builtin",
]

PREFIX = "builtin:"

_VERSIONS = {"T1w": (1,)}  # of each reference, the newest last


def is_builtin(source: object) -> TypeGuard[str]:
    """Tell whether something is the name of a reference in the package, right or wrong."""
    return isinstance(source, str) and source.startswith(PREFIX)


def full_name(name: str) -> str:
    """Return the name of a reference with its version.

    Parameters
    ----------
    name : with or without ``builtin:``, and with or without its version.

    Raises
    ------
    InvalidValueError : if there is no such reference.

    Examples
    --------
    >>> full_name("builtin:T1w")
    'builtin:T1w@1'
    """
    contrast, at, version = name.removeprefix(PREFIX).partition("@")
    known = [f"{PREFIX}{one}@{number}" for one, many in _VERSIONS.items() for number in many]
    newest = _VERSIONS.get(contrast, (0,))[-1]
    full = f"{PREFIX}{contrast}@{version if at else newest}"
    if full not in known:
        raise InvalidValueError(
            f"there is no reference {name!r} in the package; there is {', '.join(known)}, and "
            f"'ndflow reference' makes one of your own scans"
        )
    return full


def builtin_file(name: str) -> Path:
    """Return the file of a reference; parameters and errors as for `full_name`."""
    contrast, _, version = full_name(name).removeprefix(PREFIX).partition("@")
    return Path(__file__).with_name(f"{contrast}_{version}.json")


def read_builtin(name: str) -> ModelFile:
    """Read the file of a reference, which is then called by its full name; see `full_name`."""
    read = read_model(builtin_file(name), ReferenceModel.kind)
    return read._replace(file=FileHash(full_name(name), read.file.sha256))


def builtin_reference(name: str = "T1w") -> Reference:
    """Return a reference that comes with the package, as ``--to builtin:T1w`` uses it.

    Parameters
    ----------
    name : ``"T1w"``, or a certain version of it, ``"T1w@1"``.

    Returns
    -------
    Reference
        With tissues from tissue probability maps, and landmarks for Nyúl's method.

    Raises
    ------
    InvalidValueError
        Where there is no such reference; the message lists those that there are.

    Examples
    --------
    >>> import ndflow
    >>> ndflow.builtin_reference("T1w").channel_names
    ('T1w',)
    """
    return ReferenceModel.of_payload(full_name(name), read_builtin(name).payload).reference


def builtin_card(name: str = "T1w") -> dict[str, JSON]:
    """Return whose scans a reference was made from, and what it is for; see `full_name`."""
    card: dict[str, JSON] = read_builtin(name).payload["card"]
    return card


def builtin_tissues(name: str = "T1w") -> TissueModel:
    """Return the densities of CSF, GM and WM in a reference, and the prior of their proportions.

    For adaptive targets of studies without tissue maps. Parameters as for `full_name`.
    """
    found = builtin_reference(name).tissues
    if found is None:
        raise InvalidValueError(f"{full_name(name)} has no tissues")
    return found

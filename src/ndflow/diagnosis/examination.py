"""Everything that ``ndflow doctor`` looks at, and what is wrong with it."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ndflow.bibliography import ISSUES
from ndflow.diagnosis.installation import Installation, installation
from ndflow.diagnosis.machine import Machine, machine
from ndflow.diagnosis.self_test import SelfTest, self_test

if TYPE_CHECKING:
    from ndflow.diagnosis.cluster import Cluster

__all__ = ["Examination", "examine", "without_folders"]

_PACKAGE = Path(__file__).parents[1]

# A path to a package: one in double quotes, as in tracebacks, may have spaces.
_START = r"(?:~|TMPDIR|PYTHON|[A-Za-z]:)?[\\/]"
_END = r"[\\/](?=(?:site-packages|dist-packages|ndflow)[\\/])"
_QUOTED = re.compile(rf'(?<="){_START}[^"\n]*{_END}')
_PLAIN = re.compile(rf"(?<![\w/\\:.]){_START}[^\s'\"]*{_END}")


@dataclass(frozen=True)
class Examination:
    """What was found.

    Attributes
    ----------
    installation : what is installed.
    machine : what the machine offers.
    cluster : the Dask cluster; None if there was none to look for.
    self_test : whether ndflow works.
    """

    installation: Installation
    machine: Machine
    cluster: Cluster | None
    self_test: SelfTest

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, and what to try; empty if all is well."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        if broken := self.installation.broken:
            yield f"ndflow needs {', '.join(broken)}; try pip install --upgrade ndflow"
        if self.machine.temporary is None:
            yield "there is no folder for temporary files; set TMPDIR to one that can be written to"
        if self.cluster is not None and self.cluster.problem:
            yield f"Dask: {self.cluster.problem}"
        if failed := [one.name for one in self.self_test.checks if not one.passed]:
            yield (
                f"the self-test failed ({', '.join(failed)}); try pip install --force-reinstall "
                f"ndflow, and if that does not help, report it with this output: {ISSUES}"
            )


def examine(scheduler: str | None = None) -> Examination:
    """Look at the installation and the machine, and run the self-test.

    Parameters
    ----------
    scheduler : the address or the scheduler file of a Dask cluster to look at, too.

    Returns
    -------
    Examination
        What was found.
    """
    found = None
    if scheduler is not None:
        from ndflow.diagnosis.cluster import cluster

        found = cluster(scheduler)
    return Examination(installation(), machine(), found, self_test())


def without_folders(text: str) -> str:
    """Return a text without folders whose names people may not want to publish.

    These are the user's own and those of Python. Paths to packages begin with ``site-packages``,
    and those to ndflow with ``ndflow``.
    """
    hidden = {sys.base_prefix: "PYTHON", sys.prefix: "PYTHON", str(_PACKAGE): _PACKAGE.name}
    with suppress(RuntimeError):
        hidden[str(Path.home())] = "~"
    with suppress(OSError):
        hidden[tempfile.gettempdir()] = "TMPDIR"
    for folder in sorted(hidden, key=len, reverse=True):  # those within others first
        if len(folder) > 1:
            for written in (folder.replace("\\", "\\\\"), folder):  # messages quote backslashes
                text = text.replace(written, hidden[folder])
    return _PLAIN.sub("", _QUOTED.sub("", text))

"""Everything that ``ndflow doctor`` looks at, and what is wrong with it."""

from __future__ import annotations

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
    """Return a text without the user's folders, whose names people may not want to publish."""
    hidden = {"TMPDIR": "", "~": ""}
    with suppress(OSError):
        hidden["TMPDIR"] = tempfile.gettempdir()
    with suppress(RuntimeError):
        hidden["~"] = str(Path.home())
    for name, folder in hidden.items():
        text = text.replace(folder, name) if len(folder) > 1 else text
    return text

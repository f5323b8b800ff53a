"""Whether a Dask cluster answers, and whether its workers have the same ndflow."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass

from ndflow._version import __version__, versions
from ndflow.errors import NdflowError

__all__ = ["Cluster", "cluster"]

_SECONDS = 10.0  # to wait for a scheduler


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster.

    Attributes
    ----------
    workers : how many it has now.
    cores : of all workers.
    problem : what is wrong; empty if it can be used.
    """

    workers: int = 0
    cores: int = 0
    problem: str = ""


def cluster(scheduler: str) -> Cluster:
    """Return what is found at the address of a scheduler, or in a scheduler file.

    The address itself is nowhere in the result, which people publish.
    """
    try:
        from ndflow.study.parallel.workers import connect
    except ImportError as error:  # of joblib
        return Cluster(problem=f"it cannot be asked ({error}); try pip install --upgrade ndflow")
    try:
        client = connect(scheduler, timeout=_SECONDS)
    except NdflowError as error:
        problem = str(error).removeprefix(f"{scheduler}: ")
        return Cluster(problem=_without_address(problem, scheduler))
    with closing(client):
        cores = client.ncores()
        try:
            found = client.run(versions)
        except Exception as error:  # whatever the workers raise, usually ModuleNotFoundError
            cause = _without_address(f"{type(error).__name__}: {error}", scheduler)
            problem = f"its workers cannot run ndflow ({cause}); install it there too"
            return Cluster(len(cores), sum(cores.values()), problem)
    others = sorted({one["ndflow"] for one in found.values()} - {__version__})
    problem = f"its workers have ndflow {', '.join(others)}, not {__version__}" if others else ""
    problem += "; install the same version there" if others else ""
    return Cluster(len(cores), sum(cores.values()), problem)


def _without_address(message: str, scheduler: str) -> str:
    """Return a message without addresses, and without what was given in place of one."""
    message = re.sub(r"\w+://[^\s'\"]+", "its address", message)
    given = re.escape(scheduler.rpartition("://")[2])
    return re.sub(rf"(?<!\w){given}(?!\w)", "its address", message) if given else message

"""What the machine offers to this process: cores, memory, and room for temporary files.

A container or the queue of a cluster often allows less than the machine has; what counts is what
may be used.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "machine"]

_GROUPS, _LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True)
class Machine:
    """What may be used; sizes are in bytes, and None where they are not known.

    Attributes
    ----------
    cores : those that ``--jobs -1`` uses.
    cores_in_all : those that the machine has.
    memory : that the machine has.
    memory_limit : the most that this process may use, if that is less.
    memory_free : that no other process uses.
    temporary : free in the folder for temporary files; None if there is no such folder.
    """

    cores: int
    cores_in_all: int
    memory: int | None
    memory_limit: int | None
    memory_free: int | None
    temporary: int | None


def machine() -> Machine:
    """Return what the machine offers."""
    memory = _memory()
    limits = [limit for limit in _memory_limits() if memory is None or limit < memory]
    return Machine(
        cores=_cores(),
        cores_in_all=os.cpu_count() or 1,
        memory=memory,
        memory_limit=min(limits, default=None),
        memory_free=_memory_free(),
        temporary=_temporary(),
    )


def _cores() -> int:
    try:
        from joblib import cpu_count
    except ImportError:  # joblib is missing, which is for others to say
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    cores: int = cpu_count()
    return cores


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows, or a system that does not say
        return None


def _memory_free() -> int | None:
    with suppress(OSError, ValueError):
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def _memory_limits() -> Iterator[int]:
    """Yield the limits that containers, queues (cgroups) and shells (ulimit -v) have set."""
    with suppress(OSError):
        for line in _GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":  # version 2 of cgroups
                yield from _limits_along(_LIMITS, path, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _limits_along(_LIMITS / "memory", path, "memory.limit_in_bytes")
    if sys.platform != "win32":
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            yield soft


def _limits_along(root: Path, path: str, name: str) -> Iterator[int]:
    """Yield the limits of a group and of all groups that it belongs to."""
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):  # "max": no limit
            yield int((folder / name).read_text())
        if folder == root:
            return


def _temporary() -> int | None:
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return None

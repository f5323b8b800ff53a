"""How much memory a piece of work took: the largest resident set of its process meanwhile."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["forget_peak", "peak_bytes"]

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)


def forget_peak() -> None:
    """Begin to measure anew; where that is not possible, since the start of the process."""
    with suppress(OSError):  # only Linux can
        _FORGET.write_text("5")


def peak_bytes() -> int | None:
    """Return the largest resident set of this process, in bytes; None if it is not known."""
    with suppress(OSError):
        if found := _PEAK.search(_STATUS.read_text()):
            return 1024 * int(found[1])
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak

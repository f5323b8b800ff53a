"""Processes that end when the one that started them does, however that ends.

A process that is killed (SIGKILL, or for want of memory) cannot stop those that it has started. So
each of them looks after its parent: a child whose parent has ended is given another one, at once.
On Windows it is not, so there workers end by themselves once they have been idle for five minutes.

(Linux could send a signal instead, but when the *thread* that started a process ends.)
"""

from __future__ import annotations

import os
import threading
import time

_INTERVAL = 0.2  # seconds between two looks


def end_with_parent(parent: int) -> None:
    """End this process, in the middle of whatever it does, as soon as its parent has ended.

    Parameters
    ----------
    parent : the process id of the parent, which may have ended already.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)

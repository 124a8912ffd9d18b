"""Locks on open files, where the system has them."""

import contextlib
from typing import IO

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # on Windows, where files that are open cannot be removed


def lock(file: IO, *, shared: bool = False) -> None:
    """Locks an open file. Raises BlockingIOError if it is locked, OSError if it cannot be."""
    if fcntl is not None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def unlock(file: IO) -> None:
    """Unlocks an open file, which a forked process may have open still."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_UN)

"""Locks on the folders and files that a process writes, by filelock."""

import contextlib
import os
from collections.abc import Iterator

from filelock import FileLock, Timeout


@contextlib.contextmanager
def locked(path: str | os.PathLike, message: str) -> Iterator[None]:
    """Keeps other processes out of the block, by a lock file that is removed at the end.

    Args:
        path: The lock file, in an existing folder.
        message: What another process is doing, for the error message.

    Raises:
        BlockingIOError: if another process, or another thread, is in the block.
    """
    lock = FileLock(path, timeout=0, thread_local=False)  # released by any thread
    try:
        lock.acquire()
    except Timeout:
        advice = "wait for its end, or choose a different output."
        raise BlockingIOError(f"{message}: {advice}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows cannot remove an open file
            os.unlink(path)
        lock.release()

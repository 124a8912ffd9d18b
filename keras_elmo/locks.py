"""Locks on the folders and files that a process writes, by filelock."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from keras_elmo.files import errors_naming


@contextlib.contextmanager
def locked_folder(folder: str | os.PathLike, other: str) -> Iterator[None]:
    """Keeps others that use this out of a folder.

    Args:
        folder: An existing folder; an empty file `.lock` appears in it, and is removed at the end
            if the folder holds nothing else.
        other: The name of others in the error message, such as "Another training".

    Raises:
        BlockingIOError: if one of them is in the folder.
    """
    path = Path(folder) / ".lock"
    with _locked(path, folder, f"{other} is running in {folder}"):
        try:
            yield
        finally:
            if os.listdir(folder) == [path.name]:
                _unlink(path)


@contextlib.contextmanager
def locked_output(folder: str | os.PathLike, output: str) -> Iterator[None]:
    """Keeps others out of a folder by a file next to it, which is removed at the end.

    Raises BlockingIOError, which names the `output` that is made there, if one of them is in it.
    """
    path = Path(f"{os.fspath(folder)}.lock")
    with _locked(path, output, f"Another process is writing {output}"):
        try:
            yield
        finally:
            _unlink(path)


@contextlib.contextmanager
def _locked(path, named, busy):
    lock = FileLock(path, timeout=0, thread_local=False)  # released by any thread
    try:
        with errors_naming(named, str(path)):
            lock.acquire()
    except Timeout:
        message = f"{busy}: wait for its end, or choose a different output."
        raise BlockingIOError(message) from None
    try:
        yield
    finally:
        lock.release()


def _unlink(path):
    with contextlib.suppress(OSError):  # Windows cannot remove an open file
        path.unlink()

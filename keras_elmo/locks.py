"""Locks on open files and on folders, where the system has them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from keras_elmo.files import errors_naming

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]  # on Windows, where files that are open cannot be removed


def lock(file: IO | int, *, shared: bool = False) -> None:
    """Locks an open file. Raises BlockingIOError if it is locked, OSError if it cannot be."""
    if fcntl is not None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def unlock(file: IO | int) -> None:
    """Unlocks an open file, which a forked process may have open still."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked_folder(folder: str | os.PathLike, other: str) -> Iterator[None]:
    """Keeps others that use this out of a folder.

    Args:
        folder: An existing folder; an empty file `.lock` appears in it, and is removed at the end
            if the folder holds nothing else.
        other: What others are called, such as "Another training".

    Raises:
        BlockingIOError: if another one is in the folder.
    """
    path = Path(folder) / ".lock"  # a file: across machines a folder has no locks
    with contextlib.ExitStack() as stack:
        with errors_naming(folder, str(path)):
            file = stack.enter_context(open(path, "a+"))
        stack.enter_context(_locked(file, f"{other} is running in {folder}"))
        if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise BlockingIOError(f"{other} has just ended in {folder}: start again.")
        try:
            yield
        finally:
            if os.listdir(folder) == [path.name]:
                with contextlib.suppress(OSError):  # Windows cannot remove an open file
                    path.unlink()


@contextlib.contextmanager
def locked_output(folder: str | os.PathLike, output: str) -> Iterator[None]:
    """Keeps others on this machine out of an existing folder, in which no file appears.

    Raises BlockingIOError, which names the `output` that is made there, if another one is in it.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with _locked(descriptor, f"Another process is writing {output}"):
            yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(file, otherwise):
    try:
        lock(file)
    except BlockingIOError:
        raise BlockingIOError(f"{otherwise}: wait for its end, or choose another output.") from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        unlock(file)

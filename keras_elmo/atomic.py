"""Atomic writes: files and folders appear complete, or not at all."""

import contextlib
import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

PARTIAL = ".partial-"  # how the names of incomplete files and folders begin


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[str]:
    """Yields the name of a new file that replaces `path` once the block has succeeded.

    It has the same folder and suffix, and is removed after an error. Content and name are synced to
    disk, so that a power failure leaves the old file or the new one. A link keeps pointing to the
    file, and what is no file, such as /dev/null, is refused with FileExistsError.

    >>> with atomic_write("options.json") as partial, open(partial, "w") as file:
    ...     file.write("{}")
    """
    user_path, path = path, os.path.realpath(path)
    check_is_file(path)
    check_folder(path)
    folder, name = os.path.split(path)
    suffix = os.path.splitext(name)[1]
    partial = os.path.join(folder, f"{PARTIAL}{uuid.uuid4().hex}{suffix}")
    try:
        with errors_naming(user_path, partial):
            yield partial
            sync_to_disk(partial)
            os.replace(partial, path)
            sync_to_disk(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


@contextlib.contextmanager
def errors_naming(path: str | os.PathLike, hidden: str) -> Iterator[None]:
    """Lets each OSError about a hidden file or folder name `path`, which the user knows."""
    try:
        yield
    except OSError as error:
        if not str(error.filename).startswith(hidden):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def check_folder(path: str | os.PathLike) -> None:
    """Raises OSError if the folder of a file to write is missing or cannot be written to."""
    folder, name = os.path.split(os.path.realpath(path))
    if not os.path.lexists(folder):
        raise FileNotFoundError(f"{folder} does not exist: create it before writing {name}.")
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder} is not a folder: choose a different one for {name}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(
            f"The folder {folder} cannot be written to: choose a different one for {name}."
        )


def check_is_no_input(path: str | os.PathLike, inputs: Iterable[Any]) -> None:
    """Raises ValueError if the output `path` is one of the inputs, of which only paths count."""
    for source in inputs:
        is_file = isinstance(source, (str, os.PathLike)) and os.path.exists(source)
        if is_file and os.path.exists(path) and os.path.samefile(path, source):
            raise ValueError(
                f"{os.fspath(path)} is read, and would be overwritten: choose another output."
            )


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike, overwrite: bool = False) -> Iterator[str]:
    """Yields the name of a new folder that becomes `path` once the block has succeeded.

    It is synced to disk, and removed after an error. Missing parent folders are made. With
    `overwrite` it replaces an existing folder, provided that it has every file and folder of that
    one. On Linux this is atomic. Elsewhere, and on file systems that cannot swap names, there is no
    folder of that name for a moment, and a kill then leaves the old one as `.<its name>.replaced`.
    """
    path = os.path.abspath(path)
    check_free(path, overwrite)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise FileExistsError(f"{path} is not a folder that can be replaced: choose another name.")
    first = path  # of the folders to make
    while not os.path.lexists(os.path.dirname(first)):
        first = os.path.dirname(first)
    check_folder(first)
    partial = os.path.join(os.path.dirname(first), f"{PARTIAL}{uuid.uuid4().hex}")
    with errors_naming(path, partial):
        os.mkdir(partial)
        try:
            yield partial
            _put_into_place(partial, path, overwrite)
        finally:
            with contextlib.suppress(OSError):
                _delete(partial)


def _put_into_place(new, path, overwrite):
    """Gives a complete folder its name."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for folder, _, names in os.walk(new):
        for name in (*names, "."):
            sync_to_disk(os.path.join(folder, name))
    if not overwrite:
        _rename_to_free(new, path)
    else:
        if foreign := sorted(_names_below(path) - _names_below(new)):
            raise FileExistsError(
                f"{path} is not overwritten, since it holds more than an export: "
                f"{', '.join(foreign)}."
            )
        if not _swap(new, path):
            replace(new, path)
    sync_to_disk(os.path.dirname(path))


def _rename_to_free(new, path):
    """Renames a folder, unless the name has come into use."""
    try:
        os.rename(new, path)  # fails if there is a file, or a folder that is not empty
    except OSError:
        check_free(path, overwrite=False)
        raise


def _names_below(folder):
    """The relative paths of all that is in a folder."""
    return {
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, folders, files in os.walk(folder)
        for name in (*folders, *files)
    }


def _swap(new, old):
    """Swaps two names atomically, where the system can; returns whether it did."""
    if sys.platform != "linux":
        return False
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return bool(renameat2) and not renameat2(
        here, os.fsencode(new), here, os.fsencode(old), exchange
    )


def replace(new: str, old: str) -> None:
    """Renames a file or folder, replacing what has that name: atomically, if both are files.

    A folder is first renamed to `.<its name>.replaced`, which is removed at the end.
    """
    if os.path.isdir(old) or (os.path.isdir(new) and os.path.lexists(old)):
        remove_replaced(old)
        os.rename(old, _aside(old))
    os.replace(new, old)
    remove_replaced(old)


def remove_replaced(path: str) -> None:
    """Removes the folder that a kill during `replace` may have left."""
    _delete(_aside(path))


def _aside(path):
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.replaced")


def remove(path: str) -> None:
    """Removes a file or a folder atomically, if there is one.

    The rest of a folder whose removal was killed has another name, and is removed the next time.
    """
    remove_replaced(path)
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, _aside(path))
        remove_replaced(path)
    else:
        _delete(path)


def _delete(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def sync_to_disk(path: str) -> None:
    """Syncs a file's content, or the names in a folder, to disk."""
    is_folder = os.path.isdir(path)
    # Windows syncs only what is open for writing, and cannot open folders.
    with contextlib.suppress(OSError) if is_folder else contextlib.nullcontext():
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_is_file(path: str | os.PathLike) -> None:
    """Raises FileExistsError if `path` exists and is no file: a folder, a device, a broken link."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise FileExistsError(f"{path} is not a file that can be replaced: choose another name.")


def check_free(path: str | os.PathLike, overwrite: bool) -> None:
    """Raises FileExistsError if `path` exists and may not be overwritten."""
    if os.path.lexists(path) and not overwrite:
        raise FileExistsError(
            f"{os.fspath(path)} is there already: choose another name, or replace it with "
            "overwrite=True or --overwrite."
        )

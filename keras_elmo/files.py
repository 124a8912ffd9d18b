"""Files and folders that appear complete, or not at all."""

import contextlib
import errno
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_NO_NAME = re.compile("(?!)")
PARTIAL = ".partial-"  # how the names of incomplete files and folders begin
_MAX_JSON_BYTES = 1 << 20  # real ones have a few hundred bytes


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file. Raises ValueError if it is something else, or over 1 MiB."""
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or device may never end
        raise ValueError(f"{path} is not a regular file: expected a JSON file.")
    with open(path, "rb") as file:
        content = file.read(_MAX_JSON_BYTES + 1)
    if len(content) > _MAX_JSON_BYTES:
        raise ValueError(f"{path} is too large: expected a JSON object of at most 1 MiB.")
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a JSON object, found {type(found).__name__}.")
    return found


@contextlib.contextmanager
def names_file(path: str | os.PathLike) -> Iterator[None]:
    """Adds the name of a file to the ValueErrors of the block, which are about its content."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


@contextlib.contextmanager
def atomic_write(
    path: str | os.PathLike, overwrite: bool = True, inputs: Iterable[Any] = ()
) -> Iterator[str]:
    """Yields the name of a new file that replaces `path` once the block has succeeded.

    Without `overwrite` a file that exists, also at the end, raises FileExistsError. One of `inputs`
    (see `check_not_an_input`) is never replaced. The new file has the same folder and suffix, and
    is removed after an error. Content and name are synced to disk, so that a power failure leaves
    the old file or the new one. A link keeps pointing to the file. Anything that is not a file,
    such as /dev/null, is refused with FileExistsError.

    >>> with atomic_write("options.json") as partial, open(partial, "w") as file:
    ...     file.write("{}")
    """
    path = os.path.realpath(path)
    check_output(path, inputs, overwrite)
    partial = _partial_name(path) + os.path.splitext(path)[1]
    try:
        with names_output(path, partial):
            yield partial
            sync_to_disk(partial)
            check_replaceable(path, overwrite)  # something may have appeared
            os.replace(partial, path)
            sync_to_disk(os.path.dirname(path))
    finally:
        remove(partial)


@contextlib.contextmanager
def atomic_folder(
    path: str | os.PathLike,
    overwrite: bool = False,
    inputs: Iterable[Any] = (),
    own_names: re.Pattern[str] = _NO_NAME,
) -> Iterator[str]:
    """Yields the name of a new folder that becomes `path` once the block has succeeded.

    It is synced to disk, and removed after an error. Missing parent folders are made. With
    `overwrite` it replaces an existing folder (see `replace`), unless that holds one of `inputs`
    (see `check_not_an_input`), or other files than `own_names` matches.
    """
    check_not_an_input(path, inputs)
    path = os.path.abspath(path)
    check_replaceable(path, overwrite, own_names)
    check_new_folder(os.path.dirname(path))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = _partial_name(path)
    try:
        with names_output(path, partial):
            os.mkdir(partial)
            yield partial
            sync_tree(partial)
            check_replaceable(path, overwrite, own_names)  # something may have appeared
            replace(partial, path)
            sync_to_disk(os.path.dirname(path))
    finally:
        remove(partial)


@contextlib.contextmanager
def names_output(path: str | os.PathLike, partial: str | os.PathLike = PARTIAL) -> Iterator[None]:
    """Names an output in the OSErrors of the block that name nothing or its partial file.

    The system's error on a full disk has no name, and a user does not know those of partial files.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and os.fspath(partial) in str(error.filename or partial):
            error.filename = os.fspath(path)
            del error.filename2
        raise


def replace(new: str, old: str) -> None:
    """Renames a file or folder to a name that may be in use.

    A file is replaced atomically. A folder is first renamed to `.<its name>.replaced`, and then
    removed. If a kill leaves that folder, the next call for this name removes it.
    """
    backup = backup_name(old)
    if os.path.isdir(new) and os.path.lexists(old):
        remove(backup)
        os.rename(old, backup)
    os.replace(new, old)
    remove(backup)


def backup_name(path: str) -> str:
    """What `replace` calls a folder until the new one has its name."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.replaced")


def is_damage(error: Exception) -> bool:
    """Whether an error in reading a file is due to its content.

    Not to the system: a full disk, too little memory, a missing permission. EINVAL comes from a
    place outside the file that its content names.
    """
    number = getattr(error, "errno", None)
    return not isinstance(error, MemoryError) and number in (None, errno.EINVAL)


def remove(path: str) -> None:
    """Removes a file, a link, or a folder with all that is in it, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def remove_partials(folder: str | os.PathLike) -> None:
    """Removes incomplete files and folders, which killed processes have left in a folder."""
    for partial in Path(folder).glob(f"{PARTIAL}*"):
        remove(os.fspath(partial))


def sync_to_disk(path: str) -> None:
    """Syncs a file's content, or the names in a folder, to disk."""
    is_folder = os.path.isdir(path)
    # Windows syncs only files that are open for writing, and cannot open folders.
    with contextlib.suppress(OSError) if is_folder else contextlib.nullcontext():
        descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_tree(path: str) -> None:
    """Syncs a folder and everything in it to disk."""
    for folder, _, names in os.walk(path):
        for name in (*names, "."):
            sync_to_disk(os.path.join(folder, name))


def check_folder(path: str | os.PathLike) -> None:
    """Raises OSError if the folder of a file to write is missing or cannot be written to."""
    folder, name = os.path.split(os.path.realpath(path))
    if not os.path.isdir(folder):
        message = f"The folder {folder} does not exist: create it before writing {name}."
        raise FileNotFoundError(message)
    check_new_folder(folder)


def check_new_folder(path: str | os.PathLike) -> None:
    """Raises OSError if a folder cannot be written to, or does not exist and cannot be created."""
    path = Path(path).absolute()
    folder = next((folder for folder in (path, *path.parents) if folder.exists()), None)
    if folder is None:
        raise FileNotFoundError(f"{path.anchor} does not exist: choose a different output.")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder: choose a different output.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder {folder} cannot be written to: choose a different one.")


def check_not_exists(path: str | os.PathLike, overwrite: bool) -> None:
    """Raises FileExistsError if `path` exists and may not be overwritten. An empty folder may."""
    is_empty_folder = os.path.isdir(path) and not os.listdir(path)
    if os.path.exists(path) and not overwrite and not is_empty_folder:
        raise FileExistsError(
            f"{os.fspath(path)} exists already: choose a different name, or pass overwrite=True."
        )


def check_output(
    path: str | os.PathLike,
    inputs: Iterable[Any] = (),
    overwrite: bool = False,
    own_names: re.Pattern[str] | None = None,
) -> None:
    """Raises an error unless an output may be written. Nothing is changed.

    Called before anything is read or removed. A link stands for the file that it names, and is
    never a folder to replace.

    Args:
        path: The file to write; or a folder, if `own_names` are given.
        inputs: The inputs that it is computed from; only paths are checked.
        overwrite: Whether an existing file or folder may be replaced.
        own_names: Matches the names of files in such a folder. With others it is somebody's.

    Raises:
        FileExistsError: as for `check_replaceable`.
        FileNotFoundError: if the folder that it is in does not exist.
        PermissionError: if that cannot be written to.
        ValueError: if it is one of the inputs.
    """
    check_folder(path)
    check_replaceable(path, True, own_names)
    check_not_an_input(path, inputs)
    check_not_exists(path, overwrite)


def check_replaceable(
    path: str | os.PathLike, overwrite: bool, own_names: re.Pattern[str] | None = None
) -> None:
    """Raises FileExistsError unless an output may replace the existing file or folder.

    That is refused without `overwrite`, and always for a folder or a device in the place of a file;
    and for a file, a link, or a folder with other files in the place of a folder.
    """
    exists, kind = os.path.exists(path), "file"
    is_kind = os.path.isfile(path)
    if own_names is not None:
        exists, kind = os.path.lexists(path), "folder"
        is_kind = os.path.isdir(path) and not os.path.islink(path)
    if exists and not is_kind:
        raise FileExistsError(
            f"{path} is not a {kind} that can be replaced: choose a different name."
        )
    if exists and own_names and not all(map(own_names.fullmatch, os.listdir(path))):
        raise FileExistsError(
            f"{path} holds files that keras_elmo did not write, which would be overwritten: move "
            "it elsewhere, or choose a different name."
        )
    check_not_exists(path, overwrite)


def check_not_an_input(path: str | os.PathLike, inputs: Iterable[Any]) -> None:
    """Raises ValueError if the output `path` is one of the inputs, or a folder that holds one.

    Of the inputs only paths count.
    """
    output = Path(path).resolve()
    for source in inputs:
        if isinstance(source, (str, os.PathLike)) and os.path.exists(source):
            found = Path(source).resolve()
            if output.exists() and found.samefile(output):  # also by a hard link
                is_what = "is an input and"
            elif output in found.parents:
                is_what = f"holds an input, {os.fspath(source)}, which"
            else:
                continue
            raise ValueError(
                f"{os.fspath(path)} {is_what} would be overwritten: choose another output."
            )


def _partial_name(path):
    return os.path.join(os.path.dirname(path), f"{PARTIAL}{uuid.uuid4().hex}")

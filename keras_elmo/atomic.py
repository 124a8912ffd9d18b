"""Files and folders that are written whole or not at all."""

import contextlib
import os
import shutil
import uuid


@contextlib.contextmanager
def atomic_write(path):
    """Gives the name of a new file that takes the place of `path` when all went well.

    Args:
        path: The file to write; an existing one stays as it is until then.

    Yields:
        A path beside it, with the same ending, for the caller to write to. It is removed after an
        error.

    Raises:
        FileNotFoundError: if the folder does not exist.

    Example:

    >>> with atomic_write("options.json") as partial, open(partial, "w") as file:
    ...     file.write("{}")
    """
    path = os.path.abspath(os.fspath(path))
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"There is no folder {folder} to write {name} into. Make it first.")
    ending = os.path.splitext(name)[1]
    partial = os.path.join(folder, f".partial-{uuid.uuid4().hex}{ending}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


@contextlib.contextmanager
def atomic_folder(path, overwrite=False):
    """Gives the name of a new folder that becomes `path` when all went well.

    Args:
        path: The folder to write; those around it are made too.
        overwrite: Whether it may take the place of an existing folder, which may hold nothing but
            what the new one holds as well.

    Yields:
        An empty folder on the same disk, for the caller to fill. It is removed after an error.

    Raises:
        FileExistsError: if there is one already and may not be replaced.

    Example:

    >>> with atomic_folder("my_elmo") as partial:
    ...     ElmoLayer().export_hdf5(partial)
    """
    path = os.path.abspath(os.fspath(path))
    check_free(path, overwrite)
    around = os.path.dirname(path)
    while not os.path.isdir(around):
        around = os.path.dirname(around)
    partial = os.path.join(around, f".partial-{uuid.uuid4().hex}")
    os.mkdir(partial)
    try:
        yield partial
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if overwrite and os.path.lexists(path):
            _swap(partial, path)
        else:
            os.rename(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_free(path, overwrite):
    """Raises FileExistsError if there is something at `path` that is to stay."""
    if os.path.lexists(path) and not overwrite:
        raise FileExistsError(
            f"{os.fspath(path)} is there already: choose another name, or let it be overwritten "
            "with overwrite=True or --overwrite."
        )


def _swap(new, old):
    """Puts the folder `new` in the place of `old`, unless that holds what the new one does not."""
    foreign = sorted(set(os.listdir(old)) - set(os.listdir(new)))
    if foreign:
        raise FileExistsError(
            f"{old} is not overwritten, for it holds more than an export: {', '.join(foreign)}."
        )
    aside = f"{new}-older"
    os.rename(old, aside)
    os.rename(new, old)
    shutil.rmtree(aside)

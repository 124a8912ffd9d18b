"""Writing files whole or not at all."""

import contextlib
import os
import uuid


@contextlib.contextmanager
def replacing(path):
    """Gives the name of a new file that takes the place of `path` when all went well.

    Args:
        path: The file to write; an existing one stays as it is until then.

    Yields:
        A path beside it, with the same ending, for the caller to write to. It is removed after an
        error.

    Raises:
        FileNotFoundError: if the folder does not exist.

    Example:

    >>> with replacing("options.json") as partial, open(partial, "w") as file:
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

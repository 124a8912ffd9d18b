"""Writing hdf5 files so that a full disk raises OSError."""

import functools
import io
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from keras_elmo.text.tokens import in_blocks

if TYPE_CHECKING:
    import h5py
    import numpy as np

_BLOCK_BYTES = 16 * 2**20


def write_hdf5(
    path: str | os.PathLike, write: "Callable[[h5py.File], None]", *, append: bool = False
) -> None:
    """Calls `write` with a new hdf5 file, or with an existing one.

    Its arrays are listed in the order in which they are written.

    HDF5 cannot close a file that it cannot write: it prints thousands of messages and may crash
    Python, also at exit. So HDF5 writes through Python, and never sees an error.

    Args:
        path: The file. An error leaves it incomplete; use `atomic_write`.
        write: Writes to the open file, and does nothing else. It is called in another thread and
            waited for, since an exception of a signal handler, such as Ctrl-C, would be an error
            for HDF5 as well.
        append: Whether the file exists.

    Raises:
        OSError: if the file cannot be written, for example because the disk is full.

    Example:

    >>> write_hdf5("vectors.h5", lambda file: file.create_dataset("0", data=[1.0, 2.0]))
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(_write, path, write, append).result()


def write_arrays(path: str | os.PathLike, arrays: "Iterable[tuple[str, np.ndarray]]") -> None:
    """Writes arrays, which may be computed one after the other, to an hdf5 file by their names.

    They are written in blocks and computed in the thread of the caller.
    """
    write_hdf5(path, lambda file: None)
    for block in in_blocks(arrays, lambda item: item[1].nbytes, _BLOCK_BYTES):
        write_hdf5(path, functools.partial(_add, dict(block)), append=True)


def _add(arrays, file):
    file.update(arrays)


def _write(path, write, append):
    import h5py

    with _File(path, "rb+" if append else "wb+") as raw:
        try:
            with h5py.File(raw, "r+") if append else _create(raw) as file:
                write(file)
        finally:  # HDF5's own error may be that it cannot read unwritten data
            if raw.error is not None:
                raise OSError(raw.error.errno, raw.error.strerror, os.fspath(path)) from raw.error


def _create(raw):
    """A new hdf5 file that keeps the order of its arrays, but no times: same content, same bytes.

    `h5py.File(track_order=True)` would store the time.
    """
    import h5py
    from h5py import h5f, h5fd, h5p

    creation, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    creation.set_link_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    creation.set_obj_track_times(False)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5fd.fileobj_driver, raw)
    return h5py.File(h5f.create(b"output", h5f.ACC_TRUNC, fcpl=creation, fapl=access))


class _File(io.FileIO):
    """A file that keeps the first error of writing, and then writes no more."""

    error: OSError | None = None

    def write(self, data):
        self._attempt(self._write_all, data)
        return len(data)

    def truncate(self, size=None):
        self._attempt(super().truncate, size)
        return size

    def _attempt(self, function, argument):
        if self.error is None:
            try:
                function(argument)
            except OSError as error:
                self.error = error

    def _write_all(self, data):
        rest = memoryview(data)
        while rest:  # the system writes at most 2 GB at once
            rest = rest[super().write(rest) :]

"""Files of word vectors, one row for each line of a text, written in parts that survive a kill."""

import abc
import contextlib
import functools
import importlib.util
import json
import logging
import os
import re
from collections.abc import Sequence

import numpy as np

from keras_elmo.files import (
    PARTIAL,
    atomic_write,
    check_folder,
    check_is_file,
    replace,
    sync_to_disk,
)
from keras_elmo.hdf5_write import write_hdf5
from keras_elmo.locks import locked
from keras_elmo.text.reader import Record, pluralize
from keras_elmo.text.tokens import token_bytes

_PART_BYTES = 64 * 2**20
_LINE_BYTES = 1024  # what a line takes besides its numbers, here and in HDF5
_STATE = "keras_elmo"  # the attribute for the state of the output after a part

_LOG = logging.getLogger("keras_elmo")


def open_writer(
    path: str | os.PathLike,
    settings: dict,
    *,
    compression: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> "VectorWriter":
    """Opens a file of vectors, which appears, or is replaced, when it is complete.

    Until then its parts are in a folder next to it (`.vectors.h5.parts` for `vectors.h5`).

    Args:
        path: Its suffix selects the format. `.h5` and `.hdf5` have bilm-tf's layout: a dataset for
            each line, named "0", "1", ..., or after the record if it has a name; `.parquet` is a
            folder of files with the columns `line`, `tokens`, `vectors`, `error` and, if records
            have names, `id`.
        settings: JSON values that the vectors depend on, `dtype` among them, stored in the file.
        compression, resume, overwrite: As for `Embedder.embed_file`, as are the errors.
    """
    path = os.path.abspath(path)
    if compression not in (None, "gzip"):
        raise ValueError(f"compression must be None or 'gzip', got {compression!r}.")
    if _suffix(path) not in _WRITERS:
        raise ValueError(f"The name must end in .h5, .hdf5 or .parquet; got {path!r}.")
    if _suffix(path) == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow")
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other: choose one.")
    check_folder(path)
    _check_is_replaceable(path)
    if not (resume or overwrite) and (os.path.exists(path) or any(_stored_files(path))):
        raise FileExistsError(
            f"{path} exists or was started. Continue it with resume=True, replace it with "
            "overwrite=True, or choose another name."
        )
    settings = {**settings, "compression": compression}
    return _WRITERS[_suffix(path)](path, settings, resume)


def _check_is_replaceable(path):
    """Raises FileExistsError if the output would take the place of a user's folder or files."""
    folders = [_parts_folder(path)]
    if _suffix(path) == ".parquet" and os.path.isdir(path):
        folders.append(path)
    else:
        check_is_file(path)
    ours = re.compile(rf"(part-\d{{5,}}|joined|{re.escape(PARTIAL)}\w+){re.escape(_suffix(path))}")
    for folder in filter(os.path.lexists, folders):
        is_folder = os.path.isdir(folder) and not os.path.islink(folder)
        if not is_folder or not all(map(ours.fullmatch, os.listdir(folder))):
            raise FileExistsError(
                f"{path} cannot be written: {folder}, which is replaced or removed at the end, is "
                "a link, a file, or holds files that keras_elmo did not write. Move it elsewhere, "
                "or choose another output."
            )


def stored_lines(path: str | os.PathLike) -> int:
    """The number of lines of an output, complete or not, that `resume` would not embed again."""
    path = os.path.abspath(path)
    files, _ = _stored_files(path)
    return _WRITERS[_suffix(path)].read_state(files[-1])[0] if files else 0


class VectorWriter(abc.ABC):
    """Writes blocks of vectors to parts, and makes one output of them in the end.

    A part holds some 64 MB of vectors and gets its name when it is complete. An error in the `with`
    statement keeps the blocks before it for a run that resumes; a kill keeps the complete parts.

    Attributes:
        num_lines: Lines written, including earlier runs.
        digest: SHA-256 of the text of those lines; `None` if there are none.
        is_finished: Whether an earlier run has completed the output, which is then left unchanged.
    """

    def __init__(self, path: str, settings: dict, resume: bool):
        self.path = path
        self.num_lines, self.is_finished = 0, False
        self.digest: str | None = None
        self._num_kept = 0  # lines in the parts
        self._settings = settings
        self._folder = _parts_folder(path)
        self._parts: list[str] = []
        self._rows: list[tuple[int, Record, np.ndarray]] = []  # of the next part
        self._num_bytes = 0
        os.makedirs(self._folder, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.callback(self._remove_empty_folder)
            busy = f"Another process is writing {path}"
            stack.enter_context(locked(f"{self._folder}.lock", busy))
            if resume:
                self._resume()
            self._remove_all_but([] if self.is_finished else self._parts)
            self._at_end = stack.pop_all()

    def _resume(self):
        self._parts, self.is_finished = _stored_files(self.path)
        if self._parts:
            self._num_kept, self.digest, stored = self.read_state(self._parts[-1])
            self.num_lines = self._num_kept
            names = sorted({*stored, *self._settings})
            changed = [name for name in names if stored.get(name) != self._settings.get(name)]
            if changed:
                raise ValueError(
                    f"{self.path} was made with a different {' and a different '.join(changed)}: "
                    "resume with the same, replace it with overwrite=True, or choose another name."
                )

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        with self._at_end:
            if error is not None and not self.is_finished:
                with contextlib.suppress(Exception):  # what went wrong first is raised
                    self._end_part()
                if self._parts:
                    message = "The vectors of the first %s are kept: resuming continues after them."
                    _LOG.warning(message, pluralize(self._num_kept, "line"))

    def _remove_empty_folder(self):
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def _remove_all_but(self, parts):
        """Removes the first part first: after a kill the others count for nothing."""
        for name in sorted(os.listdir(self._folder)):
            if (path := os.path.join(self._folder, name)) not in parts:
                os.unlink(path)

    def write(self, records: Sequence[Record], vectors: Sequence[np.ndarray]) -> None:
        """Adds a block of lines with an array each, float32 `(D,)`, `(T, D)` or `(L, T, D)`."""
        for record, array in zip(records, vectors):
            array = self._stored(array)
            self._rows.append((self.num_lines, record, array))
            self._num_bytes += array.nbytes + _LINE_BYTES
            self.num_lines += 1
        if self._num_bytes >= _PART_BYTES:
            self._end_part()

    def _stored(self, array):
        """The array of the next line in the dtype of the file."""
        dtype = self._settings["dtype"]
        if dtype == "float16" and np.abs(array).max(initial=0) > np.finfo(dtype).max:
            raise ValueError(
                f"The vectors of line {self.num_lines + 1:,} have a number beyond the range of "
                "float16, 65,504. Write the file again with dtype='float32'."
            )
        return array.astype(dtype, copy=False)

    def finish(self) -> None:
        """Makes the output from the parts, unless an earlier run did, and removes them."""
        if not self.is_finished:
            self._end_part()
            _check_is_replaceable(self.path)  # also if something has appeared since
            replace(self._join(), self.path)
        if os.path.isdir(self._folder):
            self._remove_all_but([])

    @classmethod
    def read_state(cls, path: str) -> tuple[int, str | None, dict]:
        """What the last file of an output says: number of lines, digest, settings."""
        try:
            state = json.loads(cls._read_state(path))
            return state["lines"], state["digest"], state["settings"]
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged, or was not written by this version of keras_elmo: it cannot "
                f"be resumed ({error}). Replace it with overwrite=True, or choose another name."
            ) from error

    def _end_part(self):
        """Writes the rows that are in memory to a part."""
        rows, self._rows, self._num_bytes = self._rows, [], 0
        if not rows:
            return
        number, record, _ = rows[-1]  # which an interrupted `write` may not have counted
        self.digest = record.digest
        path = _part_path(self._folder, len(self._parts), self.path)
        with atomic_write(path) as partial:
            self._write_part(partial, rows, self._state(number + 1))
        self._parts.append(path)
        self._num_kept = number + 1

    def _state(self, num_lines):
        state = {"lines": num_lines, "digest": self.digest, "settings": self._settings}
        return json.dumps(state)

    @staticmethod
    @abc.abstractmethod
    def _read_state(path):
        """Reads the state that was written with a file."""

    @abc.abstractmethod
    def _write_part(self, path, rows, state):
        """Writes rows `(number, record, vectors)`, and the state after them, to a file."""

    @abc.abstractmethod
    def _join(self):
        """Joins the parts to the output, and returns its path inside their folder."""


class Hdf5Writer(VectorWriter):
    """Writes an hdf5 file with a dataset for each line, as bilm-tf does."""

    @staticmethod
    def _read_state(path):
        import h5py

        with h5py.File(path, "r") as file:
            return file.attrs[_STATE]

    def _write_part(self, path, rows, state):
        def write(file):
            file.attrs[_STATE] = state
            for number, record, vectors in rows:
                # HDF5 cannot compress an array without elements.
                compression = self._settings["compression"] if vectors.size else None
                name = str(number) if record.name is None else record.name
                dataset = file.create_dataset(name, data=vectors, compression=compression)
                if record.error is not None:
                    dataset.attrs["error"] = record.error

        write_hdf5(path, write)

    def _join(self):
        path = os.path.join(self._folder, f"joined{_suffix(self.path)}")
        state = self._state(self.num_lines)
        write_hdf5(path, lambda file: file.attrs.update({_STATE: state}))
        for part in self._parts:
            # Opened for each part: HDF5's memory for an open file grows with the datasets in it.
            write_hdf5(path, functools.partial(_copy_part, part), append=True)
        sync_to_disk(path)
        return path


def _copy_part(path, target):
    """Copies the datasets of a part to an open hdf5 file."""
    import h5py

    with h5py.File(path, "r") as source:
        for name in map(str.encode, source):
            # Three times as fast as `source.copy`; compressed data are copied unchanged.
            h5py.h5o.copy(source.id, name, target.id, name)


class ParquetWriter(VectorWriter):
    """Writes a folder of Parquet files, which are the parts; without any for a text of no lines."""

    @staticmethod
    def _read_state(path):
        import pyarrow.parquet as parquet

        return (parquet.read_metadata(path).metadata or {})[_STATE.encode()]

    def _write_part(self, path, rows, state):
        import pyarrow.parquet as parquet

        table = _table(rows).replace_schema_metadata({_STATE: state})
        parquet.write_table(table, path, compression=self._settings["compression"] or "none")

    def _join(self):
        return self._folder


def _table(rows):
    """Rows of a part as a table of pyarrow."""
    import pyarrow as pa

    numbers, records, vectors = zip(*rows)
    tokens = [[token_bytes(token).decode() for token in record.tokens] for record in records]
    columns = {
        "line": pa.array(numbers, pa.int64()),
        "tokens": pa.array(tokens, pa.list_(pa.string())),
        "vectors": _nested(vectors),
        "error": pa.array([record.error for record in records], pa.string()),
    }
    if records[0].name is not None:
        columns["id"] = pa.array([record.name for record in records], pa.string())
    return pa.table(columns)


def _nested(arrays):
    """Arrays `(D,)`, `(T, D)` or `(L, T, D)` as a column of lists, nested alike."""
    import pyarrow as pa

    *outer, width = arrays[0].shape
    numbers = np.concatenate([array.reshape(-1) for array in arrays])
    column = pa.FixedSizeListArray.from_arrays(pa.array(numbers), width)
    if not outer:
        return column
    num_layers = outer[0] if len(outer) == 2 else 1
    counts = np.repeat([array.shape[-2] for array in arrays], num_layers)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype("int32")
    column = pa.ListArray.from_arrays(pa.array(offsets), column)
    return pa.FixedSizeListArray.from_arrays(column, num_layers) if len(outer) == 2 else column


_WRITERS = {".h5": Hdf5Writer, ".hdf5": Hdf5Writer, ".parquet": ParquetWriter}


def _suffix(path):
    return os.path.splitext(path)[1]


def _parts_folder(path):
    """The folder beside a file for its parts."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.parts")


def _part_path(folder, number, output):
    return os.path.join(folder, f"part-{number:05}{_suffix(output)}")


def _part_paths(folder, output):
    """The parts in a folder, in order; none without the first, which is removed first."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    num_parts = sum(name.startswith("part-") for name in names)
    paths = [_part_path(folder, number, output) for number in range(num_parts)]
    missing = [path for path in paths if not os.path.lexists(path)]
    if missing and missing[0] != paths[0]:
        raise ValueError(
            f"{missing[0]} is missing. Restore it, or start again with overwrite=True."
        )
    return [] if missing else paths


def _stored_files(path):
    """The files of an output, and whether it is complete."""
    if parts := _part_paths(_parts_folder(path), path):
        return parts, False
    files = [path] if os.path.isfile(path) else _part_paths(path, path)
    return files, bool(files)

"""Files of word vectors, one row for each line of a text, that a kill cannot damage."""

import contextlib
import json
import os
import shutil

import numpy as np

from keras_elmo.atomic import atomic_write
from keras_elmo.embedding.journaled_file import JournaledFile, journal_of, recover
from keras_elmo.text.characters import token_bytes

SUFFIXES = (".h5", ".hdf5", ".parquet", ".npz")
"""Endings of the names that `open_store` can write."""
_PART_BYTES = 128 * 2**20
_ROW_GROUP_BYTES = 16 * 2**20


def open_store(path, settings, *, dtype="float32", compression=None, resume=False, overwrite=False):
    """Opens a file of vectors for writing, a new one or one to go on with.

    Args:
        path: The name; its ending says which kind. An .h5 or .hdf5 file has bilm-tf's layout, a
            dataset for each line, named by its number from "0" on. A name in .parquet becomes a
            folder of files with the columns `line`, `tokens`, `vectors` and `error` (needs
            pyarrow). An .npz file has the arrays of an hdf5 file and is written when closed, from
            memory.
        settings: Dict of JSON values: what the vectors depend on. It is kept in the file.
        dtype: `"float32"` or `"float16"`, of the stored vectors.
        compression: `None` or `"gzip"`.
        resume: Whether to go on after the last line of an existing file; a new one is begun where
            there is none.
        overwrite: Whether to replace an existing file.

    Returns:
        A store: `num_lines` and `digest` tell where it stands; `write(tokens, vectors, error=None)`
        adds a line; `commit(digest)` makes what was written permanent; `finish(digest)` does so for
        the last time, after `write_no_lines(vectors)` where there are none; `abort()` goes back to
        the last commit.

    Raises:
        FileExistsError: if the file exists and neither `resume` nor `overwrite` says what to do.
        FileNotFoundError: if there is no such folder.
        ValueError: if an argument is bad, or the file was made with other settings.

    Reference: BILM_TF.md, "Files".
    """
    path = os.path.abspath(os.fspath(path))
    check_suffix(path)
    _check_options(dtype, compression, resume, overwrite)
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(
            f"There is no folder {os.path.dirname(path)} to write {os.path.basename(path)} into. "
            "Make it first."
        )
    if os.path.exists(path) and not resume and not overwrite:
        raise FileExistsError(
            f"{path} exists. Go on with it by resume (--resume), replace it by overwrite "
            "(--overwrite), or give another name."
        )
    kinds = {".npz": _NpzStore, ".parquet": _ParquetStore}
    kind = kinds.get(os.path.splitext(path)[1], _Hdf5Store)
    settings = {**settings, "dtype": dtype, "compression": compression}
    return kind(path, settings, resume and os.path.exists(path))


def stored_state(path):
    """How far a file of `open_store` is: a dict with `num_lines` and `complete`.

    Where there is none, or an .npz file, there are no lines.
    """
    path = os.path.abspath(os.fspath(path))
    if not os.path.exists(path) or path.endswith(".npz"):
        return {"num_lines": 0, "complete": False}
    return (_ParquetStore if path.endswith(".parquet") else _Hdf5Store).state_of(path)


def check_suffix(path):
    """Raises ValueError unless the ending of `path` is one that `open_store` can write."""
    if not os.fspath(path).endswith(SUFFIXES):
        raise ValueError(
            f"Cannot write vectors to {os.fspath(path)!r}: the name must end in "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )


class _Store:
    """What the kinds of stores have in common: where they stand, and their checks."""

    def __init__(self, path, settings, resume):
        self.path = path
        self.settings = settings
        self.num_lines, self.digest = 0, None
        self._dtype = settings["dtype"]
        if resume:
            state = self.state_of(path)
            self._check_settings(state["settings"])
            self.num_lines, self.digest = state["num_lines"], state["digest"]

    def _check_settings(self, found):
        if found != self.settings:
            names = sorted(
                name
                for name in {*found, *self.settings}
                if found.get(name) != self.settings.get(name)
            )
            raise ValueError(
                f"{self.path} was made with another {' and another '.join(names)}: resume with the "
                "settings of its beginning, or choose another name."
            )

    def write_no_lines(self, vectors):
        """Makes a file without lines, whose columns are as for a line with such vectors."""

    def _state(self, digest, complete=False):
        return {
            "settings": self.settings,
            "num_lines": self.num_lines,
            "digest": digest,
            "complete": complete,
        }


class _Hdf5Store(_Store):
    def __init__(self, path, settings, resume):
        import h5py

        if not resume:
            _remove(journal_of(path))
            _remove(path)
            with atomic_write(path) as partial, h5py.File(partial, "w") as file:
                state = {"settings": settings, "num_lines": 0, "digest": None, "complete": False}
                _write_state(file, state)
        super().__init__(path, settings, resume)
        self._journal = JournaledFile(path, _hdf5_size(path))
        self._file = h5py.File(self._journal, "r+")
        self._compression = settings["compression"]

    @staticmethod
    def state_of(path):
        import h5py

        recover(path)
        try:
            with h5py.File(path, "r") as file:
                return json.loads(file.attrs["keras_elmo"])
        except (OSError, KeyError):
            raise ValueError(
                f"{path} is not a file that keras_elmo began: it cannot be gone on with."
            ) from None

    def write(self, tokens, vectors, error=None):
        del tokens  # bilm-tf's layout has none
        # HDF5 cannot compress an array without elements.
        compression = self._compression if vectors.size else None
        dataset = self._file.create_dataset(
            str(self.num_lines), data=vectors.astype(self._dtype), compression=compression
        )
        if error is not None:
            dataset.attrs["error"] = error
        self.num_lines += 1

    def commit(self, digest):
        import h5py

        # Closed and not flushed: HDF5's memory for an open file grows with the datasets in it.
        self._commit_and_close_file(digest)
        self._file = h5py.File(self._journal, "r+")

    def finish(self, digest):
        self._commit_and_close_file(digest, complete=True)
        self._journal.close()

    def _commit_and_close_file(self, digest, complete=False):
        _write_state(self._file, self._state(digest, complete))
        self._file.close()
        self._journal.commit()

    def abort(self):
        self._journal.discard()
        self._file.close()
        self._journal.close()


def _write_state(file, state):
    # Of one size, or it would leave a hole in the file at each commit.
    file.attrs["keras_elmo"] = np.bytes_(json.dumps(state).ljust(1024))


def _hdf5_size(path):
    """The bytes of an hdf5 file at its last commit, by its superblock of version 0."""
    with open(path, "rb") as file:
        block = file.read(48)
    if block[:9] != b"\x89HDF\r\n\x1a\n\0":
        raise ValueError(f"{path} is not a file that keras_elmo began: it cannot be gone on with.")
    return int.from_bytes(block[40:48], "little")


class _ParquetStore(_Store):
    def __init__(self, path, settings, resume):
        self._pyarrow = _pyarrow()
        if not resume:
            _remove(path)
            os.mkdir(path)
        super().__init__(path, settings, resume)
        self._partial = os.path.join(path, ".partial.parquet")
        _remove(self._partial)  # what a killed process had begun
        self._num_parts = len(_part_names(path))
        self._begin_part()

    @staticmethod
    def state_of(path):
        names = _part_names(path)
        if not names:
            return {"settings": None, "num_lines": 0, "digest": None, "complete": False}
        parquet = _pyarrow().parquet
        metadata = parquet.read_metadata(os.path.join(path, names[-1])).metadata or {}
        if b"keras_elmo" not in metadata:
            raise ValueError(f"{path} was not written by keras_elmo: it cannot be gone on with.")
        return json.loads(metadata[b"keras_elmo"])

    def _check_settings(self, found):
        if found is not None:
            super()._check_settings(found)

    def write(self, tokens, vectors, error=None):
        if self._is_full:
            self._end_part(self.digest)
        words = [token_bytes(token).decode() for token in tokens]
        self._rows.append((self.num_lines, words, vectors.astype(self._dtype), error))
        self._num_bytes += vectors.nbytes
        self.num_lines += 1
        if self._num_bytes >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def write_no_lines(self, vectors):
        row = (0, [], vectors.astype(self._dtype), None)
        self._write_table(_table(self._pyarrow, [row]).slice(0, 0))

    def commit(self, digest):
        self.digest = digest
        # A part at every commit would be many small files.
        self._is_full = self._num_part_bytes + self._num_bytes >= _PART_BYTES

    def finish(self, digest):
        self._end_part(digest, complete=True)

    def abort(self):
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close()
        with contextlib.suppress(OSError):
            os.unlink(self._partial)

    def _begin_part(self):
        self._rows, self._num_bytes, self._num_part_bytes = [], 0, 0
        self._writer, self._is_full = None, False

    def _write_row_group(self):
        self._write_table(_table(self._pyarrow, self._rows))
        self._num_part_bytes += self._num_bytes
        self._rows, self._num_bytes = [], 0

    def _write_table(self, table):
        if self._writer is None:
            compression = self.settings["compression"] or "none"
            self._writer = self._pyarrow.parquet.ParquetWriter(
                self._partial, table.schema, compression=compression
            )
        self._writer.write_table(table)

    def _end_part(self, digest, complete=False):
        if self._rows:
            self._write_row_group()
        if self._writer is None:
            return  # nothing new
        state = json.dumps(self._state(digest, complete))
        self._writer.add_key_value_metadata({"keras_elmo": state})
        self._writer.close()
        _sync(self._partial)
        os.replace(self._partial, os.path.join(self.path, f"part-{self._num_parts:05}.parquet"))
        self._num_parts += 1
        self._begin_part()


def _table(pyarrow, rows):
    """An Arrow table of rows (line, tokens, vectors, error); the vectors as nested lists."""
    lines, tokens, vectors, errors = zip(*rows)
    columns = {
        "line": pyarrow.array(lines, pyarrow.int64()),
        "tokens": pyarrow.array(tokens, pyarrow.list_(pyarrow.string())),
        "vectors": _nested(pyarrow, vectors),
        "error": pyarrow.array(errors, pyarrow.string()),
    }
    return pyarrow.table(columns)


def _nested(pyarrow, arrays):
    """Arrays `(D,)`, `(T, D)` or `(L, T, D)` as lists of D numbers, of T of them, of L of those."""
    ndim, width = arrays[0].ndim, arrays[0].shape[-1]
    values = pyarrow.array(np.concatenate([array.reshape(-1) for array in arrays]))
    column = pyarrow.FixedSizeListArray.from_arrays(values, width)
    if ndim == 1:
        return column
    num_layers = arrays[0].shape[0] if ndim == 3 else 1
    counts = np.repeat([array.shape[-2] for array in arrays], num_layers)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype("int32")
    column = pyarrow.ListArray.from_arrays(pyarrow.array(offsets), column)
    if ndim == 2:
        return column
    return pyarrow.FixedSizeListArray.from_arrays(column, num_layers)


class _NpzStore(_Store):
    def __init__(self, path, settings, resume):
        if resume:
            raise ValueError(
                f"{path} cannot be gone on with: an .npz file is written whole, at the end. Use "
                ".h5 or .parquet for long work."
            )
        super().__init__(path, settings, resume)
        self._arrays = {}

    def write(self, tokens, vectors, error=None):
        del tokens, error  # an .npz file has no place for them
        self._arrays[str(self.num_lines)] = vectors.astype(self._dtype)
        self.num_lines += 1

    def commit(self, digest):
        pass

    def finish(self, digest):
        save = np.savez if self.settings["compression"] is None else np.savez_compressed
        with atomic_write(self.path) as partial:
            save(partial, **self._arrays)

    def abort(self):
        self._arrays = {}


def _check_options(dtype, compression, resume, overwrite):
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")
    if compression not in (None, "gzip"):
        raise ValueError(f"compression must be None or 'gzip', got {compression!r}.")
    if resume and overwrite:
        raise ValueError("Choose one of resume and overwrite.")


def _part_names(path):
    return sorted(name for name in os.listdir(path) if name.startswith("part-"))


def _pyarrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from None
    return pyarrow


def _remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def _sync(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())

"""Files of word vectors, one row for each line of a text, written in parts that survive a kill."""

import abc
import contextlib
import dataclasses
import functools
import importlib.util
import json
import logging
import os
import re
from collections.abc import Sequence

import numpy as np

from keras_elmo.embedding.blocks import in_blocks
from keras_elmo.files import (
    PARTIAL,
    atomic_write,
    check_folder,
    check_is_file,
    discard,
    errors_naming,
    remove_replaced,
    replace,
    sync_to_disk,
)
from keras_elmo.hdf5_write import write_hdf5
from keras_elmo.locks import locked_output
from keras_elmo.text.reader import Record, counted
from keras_elmo.text.tokens import token_bytes

_PART_BYTES = 64 * 2**20
_LINE_BYTES = 1024  # what a line takes besides its numbers, here and in HDF5
_ROW_GROUP_BYTES = 16 * 2**20
_STATE = "keras_elmo"  # the attribute for the metadata of a part

_LOG = logging.getLogger("keras_elmo")


def open_writer(
    path: str | os.PathLike,
    settings: dict,
    *,
    dtype: str = "float32",
    compression: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> "VectorWriter":
    """Opens a file of vectors, which appears, or is replaced, when it is complete.

    Until then its parts are in a folder next to it (`.vectors.h5.parts` for `vectors.h5`).

    Args:
        path: Its suffix selects the format. `.h5` and `.hdf5` have bilm-tf's layout: a dataset for
            each line, named "0", "1", ...; `.parquet` is a folder of files with the columns
            `line`, `tokens`, `vectors` and `error`.
        settings: JSON values that the vectors depend on, stored in the file.
        dtype, compression, resume, overwrite: As for `Embedder.embed_file`, as are the errors.
    """
    if dtype not in ("float32", "float16"):
        raise ValueError(f"dtype must be 'float32' or 'float16', got {dtype!r}.")
    if compression not in (None, "gzip"):
        raise ValueError(f"compression must be None or 'gzip', got {compression!r}.")
    if _suffix(path) not in _WRITERS:
        raise ValueError(
            f"Cannot write vectors to {os.fspath(path)!r}: the name must end in .h5, .hdf5 "
            "or .parquet."
        )
    if _suffix(path) == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow")
    if resume and overwrite:
        raise ValueError("resume and overwrite exclude each other: choose one.")
    check_folder(path)
    path = os.path.abspath(path)
    _check_is_replaceable(path)
    is_started = os.path.exists(path) or _part_paths(_parts_folder(path))
    if is_started and not (resume or overwrite):
        raise FileExistsError(
            f"{path} exists or was started. Continue it with resume=True, replace it with "
            "overwrite=True, or choose another name."
        )
    settings = {**settings, "dtype": dtype, "compression": compression}
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
        if os.path.islink(folder) or not os.path.isdir(folder):
            what = "is a link or a file"
        elif foreign := [name for name in os.listdir(folder) if not ours.fullmatch(name)]:
            what = f"holds {foreign[0]}, which keras_elmo did not write"
        else:
            continue
        raise FileExistsError(
            f"{path} cannot be written: {folder}, a folder that is replaced or removed at the end, "
            f"{what}. Move it elsewhere, or choose another output."
        )


@dataclasses.dataclass
class Part:
    """A complete file of consecutive lines of a text, with its metadata."""

    path: str
    start: int  # its first line, from 0
    stop: int  # the line after its last
    digest: str | None  # SHA-256 of the text up to there, `None` for an empty text
    settings: dict  # on which the vectors depend

    @property
    def state(self) -> str:
        """All but the path, as JSON."""
        fields = dataclasses.asdict(self)
        del fields["path"]
        return json.dumps(fields)


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
        self._settings = settings
        self._folder = _parts_folder(path)
        self._parts: list[Part] = []
        self._rows: list[tuple[int, Record, np.ndarray]] = []  # of the next part
        self._num_bytes = 0
        with contextlib.ExitStack() as stack:
            stack.enter_context(errors_naming(path, self._folder))
            os.makedirs(self._folder, exist_ok=True)
            stack.callback(self._remove_empty_folder)
            stack.enter_context(locked_output(self._folder, path))
            if resume:
                self._resume()
            kept = [] if self.is_finished else [part.path for part in self._parts]
            for name in os.listdir(self._folder):
                if (part := os.path.join(self._folder, name)) not in kept:
                    os.unlink(part)
            self._at_end = stack.pop_all()

    def _resume(self):
        self._parts, self.is_finished = self.stored_parts(self.path)
        if self._parts:
            last = self._parts[-1]
            self.num_lines, self.digest = last.stop, last.digest
            self._check_settings(last.settings)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        with self._at_end:
            if error is not None:
                with contextlib.suppress(Exception):  # what went wrong first is raised
                    self._end_part()
                if self._parts and not self.is_finished:
                    kept = counted(self._parts[-1].stop, "line")
                    message = "The vectors of the first %s are kept: resuming continues after them."
                    _LOG.warning(message, kept)
                raise error

    def _remove_empty_folder(self):
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def write(self, records: Sequence[Record], vectors: Sequence[np.ndarray]) -> None:
        """Adds a block of lines with an array each, float32 `(D,)`, `(T, D)` or `(L, T, D)`."""
        for record, array in zip(records, vectors):
            self._check_range(array)
            array = array.astype(self._settings["dtype"], copy=False)
            self._rows.append((self.num_lines, record, array))
            self._num_bytes += array.nbytes + _LINE_BYTES
            self.num_lines += 1
            self.digest = record.digest
        if self._num_bytes >= _PART_BYTES:
            self._end_part()

    def _check_range(self, array):
        """Raises ValueError if the next line has a number that the stored dtype cannot hold."""
        dtype = self._settings["dtype"]
        if dtype == "float32":  # the dtype of the vectors
            return
        largest, most = np.abs(array).max(initial=0), np.finfo(dtype).max
        if largest > most:
            raise ValueError(
                f"The vectors of line {self.num_lines + 1:,} have a number of {largest:.4g}, "
                f"beyond the range of {dtype}, {most:,.0f}. Write the file again with "
                "dtype='float32'."
            )

    def write_no_lines(self, vectors: np.ndarray) -> None:
        """Writes a part without rows; `vectors`, as a row would have them, determine its schema."""
        if not self._parts:
            vectors = vectors.astype(self._settings["dtype"])
            self._add_part([(0, Record([], None, "", 0), vectors)], stop=0, digest=None)

    def finish(self) -> None:
        """Makes the output from the parts, unless an earlier run did, and removes them."""
        if not self.is_finished:
            self._end_part()
            _check_is_replaceable(self.path)  # also if something has appeared since
            replace(self._join(), self.path)
        discard(self._folder)
        remove_replaced(self.path)

    @classmethod
    def stored_parts(cls, path: str) -> tuple[list[Part], bool]:
        """The parts of an output that was started, or the complete output; and whether it is."""
        if started := _part_paths(_parts_folder(path)):
            return cls._read_chain(started), False
        finished = cls._read_chain(_part_paths(path) or ([path] if os.path.exists(path) else []))
        return finished, bool(finished)

    @classmethod
    def _read_chain(cls, paths):
        """The parts in some files, checked to follow one another."""
        parts, stop = [], 0
        for path in paths:
            try:
                parts.append(Part(path, **json.loads(cls._read_state(path))))
            except PermissionError:
                raise
            except (OSError, KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path} is damaged, or was not written by this version of keras_elmo: it "
                    "cannot be resumed. Replace it with overwrite=True, or choose another name."
                ) from error
            if parts[-1].start != stop:
                raise ValueError(
                    f"The parts of the vectors do not follow one another: {path} begins with line "
                    f"{parts[-1].start:,} and the part before it ends before line {stop:,}. "
                    "Restore the missing part, or start again with overwrite=True."
                )
            stop = parts[-1].stop
        return parts

    def _check_settings(self, stored):
        if stored != self._settings:
            names = {*stored, *self._settings}
            names = [name for name in names if stored.get(name) != self._settings.get(name)]
            raise ValueError(
                f"{self.path} was made with a different {' and a different '.join(sorted(names))}: "
                "resume with the same, replace it with overwrite=True, or choose another name."
            )

    def _end_part(self):
        """Writes the rows that are in memory to a part."""
        rows, self._rows, self._num_bytes = self._rows, [], 0
        if rows:  # an interrupted `write` may not have counted the last one
            number, record, _ = rows[-1]
            self._add_part(rows, number + 1, record.digest)

    def _add_part(self, rows, stop, digest):
        path, start = self._part_path(len(self._parts)), self._parts[-1].stop if self._parts else 0
        part = Part(path, start, stop, digest, self._settings)
        with atomic_write(path) as partial:
            self._write_part(partial, rows, part)
        self._parts.append(part)

    def _part_path(self, number):
        return os.path.join(self._folder, f"part-{number:05}{_suffix(self.path)}")

    @staticmethod
    @abc.abstractmethod
    def _read_state(path):
        """Reads the metadata of the part in a file."""

    @abc.abstractmethod
    def _write_part(self, path, rows, part):
        """Writes the rows `(number, record, vectors)` of a part, as many as it has, to a file."""

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

    def _write_part(self, path, rows, part):
        def write(file):
            file.attrs[_STATE] = part.state
            for number, record, vectors in rows[: part.stop - part.start]:
                # HDF5 cannot compress an array without elements.
                compression = self._settings["compression"] if vectors.size else None
                dataset = file.create_dataset(str(number), data=vectors, compression=compression)
                if record.error is not None:
                    dataset.attrs["error"] = record.error

        write_hdf5(path, write)

    def _join(self):
        path = os.path.join(self._folder, f"joined{_suffix(self.path)}")
        state = Part(path, 0, self.num_lines, self.digest, self._settings).state
        write_hdf5(path, lambda file: file.attrs.update({_STATE: state}))
        for part in self._parts:
            # Opened for each part: HDF5's memory for an open file grows with the datasets in it.
            write_hdf5(path, functools.partial(_copy_part, part), append=True)
        sync_to_disk(path)
        return path


def _copy_part(part, target):
    """Copies the datasets of a part to an open hdf5 file."""
    import h5py

    with h5py.File(part.path, "r") as source:
        for number in range(part.start, part.stop):
            name = str(number).encode()
            # Three times as fast as `source.copy`; compressed data are copied unchanged.
            h5py.h5o.copy(source.id, name, target.id, name)


class ParquetWriter(VectorWriter):
    """Writes a folder of Parquet files, which are the parts."""

    @staticmethod
    def _read_state(path):
        import pyarrow.parquet as parquet

        return (parquet.read_metadata(path).metadata or {})[_STATE.encode()]

    def _write_part(self, path, rows, part):
        import pyarrow.parquet as parquet

        schema = _table(rows[:1]).schema
        compression = self._settings["compression"] or "none"
        with parquet.ParquetWriter(path, schema, compression=compression) as file:
            for group in in_blocks(rows, lambda row: row[-1].nbytes, _ROW_GROUP_BYTES):
                file.write_table(_table(group).slice(0, part.stop - part.start))
            file.add_key_value_metadata({_STATE: part.state})

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


def _part_paths(folder):
    """The parts in a folder, in order; none if it does not exist."""
    if not os.path.isdir(folder):
        return []
    names = (name for name in os.listdir(folder) if name.startswith("part-"))
    # By length first: the hundred thousandth has a digit more.
    return [os.path.join(folder, name) for _, name in sorted((len(name), name) for name in names)]

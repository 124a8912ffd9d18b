"""The file formats of word vectors: a new one is a class here and its entry in `FORMATS`."""

import functools
import importlib.util
import json
import os
import zipfile
import zlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from keras_elmo.files import atomic_write
from keras_elmo.hdf5_write import write_hdf5
from keras_elmo.text.reader import Record
from keras_elmo.text.tokens import token_bytes

_STATE = "keras_elmo"  # the attribute for the state of the output after a part


class Row(NamedTuple):
    """A line of the text and its vectors."""

    number: int  # of the line, from 0
    record: Record  # with a token for each vector, unless pooled
    vectors: np.ndarray  # `(D,)`, `(T, D)` or `(L, T, D)`

    @property
    def name(self) -> str:
        """The name of its array."""
        return str(self.number) if self.record.name is None else self.record.name

    @property
    def tokens(self) -> list[str]:
        """Its tokens in valid UTF-8."""
        return [token_bytes(token).decode() for token in self.record.tokens]

    @property
    def sentence_lengths(self) -> list[int]:
        """How many of the tokens each sentence has."""
        return list(map(len, self.record.sentences))

    def notes(self) -> dict[str, str]:
        """What belongs to its array, where a format has no columns, by name."""
        notes = {name: text for name, text in self.record.fields.items() if text is not None}
        if self.record.is_raw:  # otherwise its tokens are in the text
            notes["tokens"] = json.dumps(self.tokens, ensure_ascii=False)
            notes["sentence_lengths"] = json.dumps(self.sentence_lengths)
        if self.record.error is not None:
            notes["error"] = self.record.error
        return notes


class OutputFormat(Protocol):
    """How the parts of an output are written, read and joined.

    Attributes:
        is_folder: Whether the output is the folder of its parts, otherwise a file.
    """

    is_folder: bool

    def check_installed(self) -> None:
        """Raises ImportError if a package is missing."""

    def write_part(
        self, path: str, rows: Sequence[Row], state: str, compression: str | None
    ) -> None:
        """Writes rows, and the state of the output after them, to a new file."""

    def read_state(self, path: str) -> tuple[str, int]:
        """Reads the state that was written to a file, and the number of its rows.

        Raises an OSError without `errno`, a ValueError or a KeyError if the file is damaged.
        """
        ...

    def join(self, parts: Sequence[str], path: str, state: str) -> str:
        """Joins the parts to a file `path` in their folder. Returns it, or the folder."""
        ...


class Hdf5Format:
    """A dataset for each line, as bilm-tf writes it, listed in the order of the lines.

    Notes are attributes of the datasets.
    """

    is_folder = False

    def check_installed(self) -> None:
        """Does nothing: h5py is always installed."""

    def write_part(
        self, path: str, rows: Sequence[Row], state: str, compression: str | None
    ) -> None:
        """Writes a dataset for each row; the state is an attribute of the file."""

        def write(file):
            file.attrs[_STATE] = state
            for row in rows:
                dataset = file.create_dataset(
                    row.name,
                    data=row.vectors,
                    # HDF5 cannot compress an array without elements.
                    compression=compression if row.vectors.size else None,
                )
                for name, text in row.notes().items():
                    dataset.attrs[name] = text

        write_hdf5(path, write)

    def read_state(self, path: str) -> tuple[str, int]:
        """Reads the attribute, and the number of datasets."""
        import h5py

        with h5py.File(path, "r") as file:
            return file.attrs[_STATE], len(file)

    def join(self, parts: Sequence[str], path: str, state: str) -> str:
        """Copies the datasets of all parts to the file."""
        with atomic_write(path) as partial:
            write_hdf5(partial, lambda file: file.attrs.update({_STATE: state}))
            for part in parts:
                # Opened for each part: HDF5's memory for an open file grows with its datasets.
                write_hdf5(partial, functools.partial(_copy_datasets, part), append=True)
        return path


def _copy_datasets(path, target):
    """Copies the datasets of a file to an open one."""
    import h5py

    with h5py.File(path, "r") as source:
        for name in map(str.encode, source):
            try:
                # Three times as fast as `source.copy`; compressed data are copied unchanged.
                h5py.h5o.copy(source.id, name, target.id, name)
            except RuntimeError as error:  # a full disk is an OSError, see `write_hdf5`
                raise ValueError(
                    f"{path} is damaged ({error}). Remove it and resume: what it holds, and "
                    "what follows, is then embedded again."
                ) from error


class NpzFormat:
    """The arrays of `np.load`: one for each line, then the notes, such as "tokens/0".

    The state is the comment of the zip file, which `np.load` does not show.
    """

    is_folder = False

    def check_installed(self) -> None:
        """Does nothing: NumPy is always installed."""

    def write_part(
        self, path: str, rows: Sequence[Row], state: str, compression: str | None
    ) -> None:
        """Writes an array for each row."""
        with _new_zip(path, state) as file:
            for row in rows:
                _write_array(file, row.name, row.vectors, compression)
            for row in rows:
                for name, text in row.notes().items():
                    _write_array(file, f"{name}/{row.name}", np.array(text), compression)

    def read_state(self, path: str) -> tuple[str, int]:
        """Reads the comment and the checksums, and the number of arrays."""
        try:
            with zipfile.ZipFile(path) as file:
                if (damaged := file.testzip()) is not None:
                    raise ValueError(f"the array {damaged} is damaged")
                return file.comment.decode(), len(_vectors_in(file))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise ValueError(str(error)) from error

    def join(self, parts: Sequence[str], path: str, state: str) -> str:
        """Copies the arrays of all parts to the file, the notes last."""
        with atomic_write(path) as partial, _new_zip(partial, state) as target:
            for is_vectors in (True, False):
                for part in parts:
                    with zipfile.ZipFile(part) as source:
                        vectors = set(_vectors_in(source))
                        for member in source.infolist():
                            if (member.filename in vectors) == is_vectors:
                                target.writestr(member, source.read(member))
        return path


def _new_zip(path, state):
    file = zipfile.ZipFile(path, "w")
    file.comment = state.encode()
    return file


def _write_array(file, name, array, compression):
    member = zipfile.ZipInfo(f"{name}.npy")  # without the time: same content, same bytes
    member.compress_type = zipfile.ZIP_DEFLATED if compression else zipfile.ZIP_STORED
    with file.open(member, "w", force_zip64=True) as opened:
        np.lib.format.write_array(opened, np.asanyarray(array), allow_pickle=False)


def _vectors_in(file):
    """The names of the members that hold vectors, not notes."""
    return [name for name in file.namelist() if "/" not in name]


class ParquetFormat:
    """A folder of Parquet files, which are the parts; empty for a text without lines."""

    is_folder = True

    def check_installed(self) -> None:
        """Raises ImportError if pyarrow is missing."""
        if importlib.util.find_spec("pyarrow") is None:
            raise ImportError("Parquet files need pyarrow: pip install 'keras-elmo[parquet]'")

    def write_part(
        self, path: str, rows: Sequence[Row], state: str, compression: str | None
    ) -> None:
        """Writes a table with a row for each line; the state is in its metadata."""
        import pyarrow.parquet as parquet

        table = _table(rows).replace_schema_metadata({_STATE: state})
        parquet.write_table(table, path, compression=compression or "none")

    def read_state(self, path: str) -> tuple[str, int]:
        """Reads the metadata at the end of the file."""
        import pyarrow.parquet as parquet

        metadata = parquet.read_metadata(path)
        return (metadata.metadata or {})[_STATE.encode()], metadata.num_rows

    def join(self, parts: Sequence[str], path: str, state: str) -> str:
        """Returns the folder."""
        return os.path.dirname(path)


def _table(rows):
    """Rows of a part as a table of pyarrow."""
    import pyarrow as pa

    numbers, records, vectors = zip(*rows)
    columns = {
        "line": pa.array(numbers, pa.int64()),
        "tokens": pa.array([row.tokens for row in rows], pa.list_(pa.string())),
        "sentence_lengths": pa.array([row.sentence_lengths for row in rows], pa.list_(pa.int32())),
        "vectors": _nested(vectors),
        "error": pa.array([record.error for record in records], pa.string()),
    }
    if records[0].name is not None:
        columns["id"] = pa.array([record.name for record in records], pa.string())
    for name in records[0].fields:
        columns[name] = pa.array([record.fields[name] for record in records], pa.string())
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


FORMATS: dict[str, OutputFormat] = {
    ".h5": Hdf5Format(),
    ".hdf5": Hdf5Format(),
    ".npz": NpzFormat(),
    ".parquet": ParquetFormat(),
}
"""The formats by the suffix of the output."""

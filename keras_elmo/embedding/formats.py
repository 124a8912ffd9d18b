"""The file formats of word vectors: a new one is a class here and its entry in `FORMATS`."""

import functools
import importlib.util
import os
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
    record: Record
    vectors: np.ndarray  # `(D,)`, `(T, D)` or `(L, T, D)`


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
    """A dataset for each line, as bilm-tf writes it, listed in the order of the lines."""

    is_folder = False

    def check_installed(self) -> None:
        """Does nothing: h5py is always installed."""

    def write_part(
        self, path: str, rows: Sequence[Row], state: str, compression: str | None
    ) -> None:
        """Writes a dataset for each row; the state is an attribute of the file."""

        def write(file):
            file.attrs[_STATE] = state
            for number, record, vectors in rows:
                dataset = file.create_dataset(
                    str(number) if record.name is None else record.name,
                    data=vectors,
                    # HDF5 cannot compress an array without elements.
                    compression=compression if vectors.size else None,
                )
                if record.error is not None:
                    dataset.attrs["error"] = record.error

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
            # Three times as fast as `source.copy`; compressed data are copied unchanged.
            h5py.h5o.copy(source.id, name, target.id, name)


class ParquetFormat:
    """A folder of Parquet files, which are the parts; empty for a text without lines."""

    is_folder = True

    def check_installed(self) -> None:
        """Raises ImportError if pyarrow is missing."""
        if importlib.util.find_spec("pyarrow") is None:
            raise ImportError("Parquet files need pyarrow: pip install pyarrow")

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


FORMATS: dict[str, OutputFormat] = {
    ".h5": Hdf5Format(),
    ".hdf5": Hdf5Format(),
    ".parquet": ParquetFormat(),
}
"""The formats by the suffix of the output."""

"""The files of `torch.save`, read without PyTorch; no Python object that they name is imported."""

import collections
import os
import pickle
import struct
import zipfile
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from keras_elmo.files import is_damage

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2"}


def read_state_dict(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The tensors of a saved state dict by name, as read-only views of the file's numbers.

    Reads both formats of `torch.save`: a zip file, and pickles followed by raw numbers, the only
    one before PyTorch 1.6, which is mapped into memory.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if it is truncated, damaged, of a different kind, or holds anything but tensors
            of floats.
    """
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{path} is not a regular file: expected a file written by torch.save.")
    with open(path, "rb") as file:
        try:
            is_zip = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            state, numbers = (_read_zip if is_zip else _read_legacy)(file)
            if not all(type(x) is str and type(y) is _View for x, y in state.items()):
                raise ValueError("it is not a dict of tensors by name")
            return {name: view.of(numbers) for name, view in state.items()}
        except Exception as error:
            if not is_damage(error):
                raise
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete torch.save file of "
                f"float tensors: {str(error)[:300]}. Nothing in it was run. Download it again from "
                "a source that you trust."
            ) from None


class _Storage(NamedTuple):
    """Numbers that tensors share."""

    key: str
    dtype: str


class _View(NamedTuple):
    """A tensor, as a view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, numbers):
        array = numbers[self.storage.key]
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides))
        if min(self.offset, *self.shape, *self.strides, 0) < 0:
            raise ValueError("a tensor has a negative size")
        if 0 not in self.shape and last >= len(array):
            raise ValueError(f"a tensor of shape {self.shape} is larger than its storage")
        steps = [step * array.itemsize for step in self.strides]
        return np.lib.stride_tricks.as_strided(
            array[self.offset :], self.shape, steps, writeable=False
        )


class _Unpickler(pickle.Unpickler):
    """Builds numbers, strings, lists, dicts and views of storages; other objects are refused."""

    def __init__(self, file: BinaryIO, storages: dict[str, _Storage]) -> None:
        super().__init__(file, encoding="latin1")  # strings of Python 2
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return self._make_view  # a pickle can change classes and functions, but no methods
        raise pickle.UnpicklingError(f"it names the Python object {module[:50]}.{name[:50]}")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, _, *view = pid
        if kind != "storage" or dtype not in _DTYPES.values() or any(view):
            raise pickle.UnpicklingError("it has a storage in an unknown format")
        return self.storages.setdefault(key, _Storage(key, dtype))

    def _make_view(self, storage, offset, shape, strides, *_):
        if type(storage) is not _Storage:
            raise pickle.UnpicklingError("it has a tensor in an unknown format")
        return _View(storage, offset, shape, strides)


def _read_legacy(file):
    """Reads five pickles; after them come the element count and the elements of each storage."""
    storages, numbers = {}, {}
    magic, _, system, state, keys = (_Unpickler(file, storages).load() for _ in range(5))
    if magic != _MAGIC_NUMBER or system["little_endian"] is not True:
        raise ValueError("it does not have the header of such a file, with little-endian numbers")
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        dtype, start = storages[key].dtype, file.tell()
        if not 0 <= count <= os.fstat(file.fileno()).st_size:
            raise ValueError("it ends too early")
        empty = np.empty(0, dtype)
        numbers[key] = np.memmap(file, dtype, "r", start, (count,)) if count else empty
        file.seek(start + numbers[key].nbytes)
    return state, numbers


def _read_zip(file):
    storages = {}
    with zipfile.ZipFile(file) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        prefix = pickled.removesuffix("data.pkl")
        state = _Unpickler(archive.open(pickled), storages).load()
        return state, {
            key: np.frombuffer(archive.read(f"{prefix}data/{key}"), storage.dtype)
            for key, storage in storages.items()
        }

"""The files of `torch.save`, read without PyTorch; no Python object that they name is imported."""

import collections
import contextlib
import dataclasses
import functools
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from keras_elmo.pretrained.hdf5 import check_finite

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2"}


@dataclasses.dataclass(frozen=True)
class TorchTensor:
    """A tensor of an open file, whose values are read on demand.

    Args:
        name: Its name in the state dict and the path of the file, for error messages.
        shape, dtype: Shape and dtype of the tensor in the file.
        load: Returns a view of its values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    load: Callable[[], np.ndarray]

    def read(self) -> np.ndarray:
        """The values, a new contiguous array. Raises ValueError if damaged or beyond float32."""
        try:
            with np.errstate(over="ignore"):
                array = np.array(self.load(), "float32", order="C")
        except Exception as error:  # damage shows as errors of many types
            raise ValueError(
                f"The array {self.name} cannot be read: the file is damaged. Download or copy it "
                f"again. ({error})"
            ) from None
        check_finite(array, f"The array {self.name}")
        return array


@contextlib.contextmanager
def open_state_dict(path: str | os.PathLike) -> Iterator[dict[str, TorchTensor]]:
    """Yields every tensor of a saved state dict by its name; no values are read yet.

    Reads both formats of `torch.save`: a zip file, and pickles followed by raw numbers, the only
    one before PyTorch 1.6.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if it is truncated, damaged, of a different kind, or holds anything but tensors
            of floats.
    """
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{path} is not a regular file: expected a file written by torch.save.")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "rb"))
        try:
            if file.read(4) == b"PK\x03\x04":
                archive = stack.enter_context(zipfile.ZipFile(file))
                state, loads = _read_zip(archive)
            else:
                state, loads = _read_legacy(file)
            if not all(type(x) is str and type(y) is _View for x, y in state.items()):
                raise ValueError("it is not a dict of tensors by name")
            tensors = {
                name: TorchTensor(f"{name} in {path}", *view.checked(loads))
                for name, view in state.items()
            }
        except Exception as error:  # damage shows as errors of many types
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete torch.save file of "
                f"float tensors: {str(error)[:300]}. Nothing in it was run. Download it again from "
                "a source that you trust."
            ) from None
        yield tensors


class _Storage(NamedTuple):
    """Numbers that tensors share."""

    key: str
    dtype: np.dtype
    size: int


class _View(NamedTuple):
    """A tensor, as a view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def checked(self, loads):
        """Shape, dtype, and a function that returns the values."""
        storage, offset, shape, strides = self
        dims = len(shape)
        sizes = (offset, *shape, *strides)
        if len(strides) != dims or not all(type(n) is int and 0 <= n < 1 << 48 for n in sizes):
            raise ValueError("a tensor has an invalid shape")
        span = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides))
        is_inside = 0 in shape or offset + span <= storage.size
        if not is_inside or math.prod(shape) > storage.size:
            raise ValueError(f"a tensor of shape {shape} is larger than its storage")
        load, steps = loads[storage.key], [n * storage.dtype.itemsize for n in strides]

        def values():
            array = load()
            return np.lib.stride_tricks.as_strided(array[offset:], shape, steps, writeable=False)

        return shape, storage.dtype, values


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
            return _make_view
        raise pickle.UnpicklingError(f"it names the Python object {module[:50]}.{name[:50]}")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, count, *view = pid
        if kind != "storage" or dtype not in _DTYPES.values() or any(view):
            raise pickle.UnpicklingError("it has a storage in an unknown format")
        storage = _Storage(key, np.dtype(dtype), count)
        if self.storages.setdefault(key, storage) != storage:
            raise pickle.UnpicklingError("it has two storages with the same name")
        return storage


def _make_view(storage, offset, shape, strides, *_):
    if type(storage) is not _Storage:
        raise pickle.UnpicklingError("it has a tensor in an unknown format")
    return _View(storage, offset, shape, strides)


def _read_legacy(file):
    """Reads five pickles; after them come the element count and the elements of each storage."""
    file.seek(0)
    storages, loads, file_size = {}, {}, os.fstat(file.fileno()).st_size
    magic, _, system, state, keys = (_Unpickler(file, storages).load() for _ in range(5))
    if magic != _MAGIC_NUMBER:
        raise ValueError("it does not have the header of such a file")
    if system["little_endian"] is not True:
        raise ValueError("its numbers are big-endian")
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        storage, start = storages[key], file.tell()
        stop = start + count * storage.dtype.itemsize
        if count != storage.size or not start <= stop <= file_size:
            raise ValueError("it ends too early")
        loads[key] = functools.partial(_numbers_at, file, start, storage)
        file.seek(stop)
    return state, loads


def _numbers_at(file, start, storage):
    file.seek(start)
    return np.fromfile(file, storage.dtype, storage.size)


def _read_zip(archive):
    (pickled,) = (info for info in archive.infolist() if info.filename.endswith("/data.pkl"))
    storages, loads = {}, {}
    prefix = pickled.filename.removesuffix("data.pkl")
    if prefix + "byteorder" in archive.namelist() and archive.read(prefix + "byteorder") == b"big":
        raise ValueError("its numbers are big-endian")
    state = _Unpickler(archive.open(_stored(pickled)), storages).load()
    for key, storage in storages.items():
        info = _stored(archive.getinfo(f"{prefix}data/{key}"))
        if info.file_size != storage.size * storage.dtype.itemsize:
            raise ValueError("a storage does not have the size that its tensors need")
        loads[key] = functools.partial(_numbers_in, archive, info, storage)
    return state, loads


def _numbers_in(archive, info, storage):
    return np.frombuffer(archive.read(info), storage.dtype)


def _stored(info):
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("it is compressed, which torch.save never does")
    return info

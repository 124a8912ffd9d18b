"""The files of `torch.save`, read and written without PyTorch.

Their pickles are not run; nothing in them but strings is hashed, compared or printed: see
`plain_pickle`.
"""

import contextlib
import dataclasses
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from keras_elmo.files import atomic_write
from keras_elmo.pretrained.hdf5 import check_finite
from keras_elmo.pretrained.plain_pickle import (
    Built,
    Call,
    External,
    GlobalName,
    UnsafePickleError,
    dump_pickle,
    load_pickle,
)

MAX_PICKLE_BYTES = 1 << 24
_MAX_DIMENSIONS = 8
_MAGIC_NUMBER, _PROTOCOL_VERSION = 0x1950A86A20F9469CFC6C, 1001
_FLOAT_STORAGE = GlobalName("torch FloatStorage")
_DTYPES = {
    _FLOAT_STORAGE: np.dtype("<f4"),
    GlobalName("torch DoubleStorage"): np.dtype("<f8"),
    GlobalName("torch HalfStorage"): np.dtype("<f2"),
}
_ORDERED_DICT = GlobalName("collections OrderedDict")
_REBUILD_TENSOR = GlobalName("torch._utils _rebuild_tensor_v2")


@dataclasses.dataclass(frozen=True)
class TorchTensor:
    """A tensor of an open file: its name in the state dict, and its values, read on demand."""

    name: str
    path: str
    file: BinaryIO
    view: "_View"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def dtype(self) -> np.dtype:
        """float16, float32 or float64."""
        return self.view.storage.dtype

    def read(self) -> np.ndarray:
        """The values, a new contiguous array. Raises ValueError if damaged or beyond float32."""
        storage, offset, shape, strides = self.view
        itemsize, span = self.dtype.itemsize, self.view.span
        self.file.seek(storage.start + offset * itemsize)
        values = np.fromfile(self.file, self.dtype, span)
        # A zip's checksum is that of a whole storage; 0 where torch.save was told to write none.
        damaged = span == storage.size and storage.checksum not in (0, zlib.crc32(values.data))
        named = f"The array {self.name} in {self.path}"
        if values.size != span or damaged:
            raise ValueError(
                f"{named} cannot be read: the file is damaged. Download or copy it again."
            )
        steps = [stride * itemsize for stride in strides]
        array = np.lib.stride_tricks.as_strided(values, shape, steps)
        with np.errstate(over="ignore"):
            array = np.asarray(array, "float32", order="C")
        check_finite(array, named)
        return array


@contextlib.contextmanager
def open_state_dict(path: str | os.PathLike) -> Iterator[dict[str, TorchTensor]]:
    """Yields every tensor of a saved state dict by its name; no values are read yet.

    Reads both formats of `torch.save`: a zip file, and pickles followed by raw numbers, the only
    one before PyTorch 1.6.

    Raises FileNotFoundError if there is no file, and ValueError if it is truncated, damaged or of
    another kind, if its tensors are not of floats, or if unpickling it would run anything else.
    """
    path = os.fspath(path)
    with _open(path, {}) as (views, file):
        if type(views) is not dict or any(type(view) is not _View for view in views.values()):
            raise ValueError(f"{path} holds no state dict: expected names with a tensor for each.")
        yield {name: TorchTensor(name, path, file, view) for name, view in views.items()}


def read_matrix(path: str | os.PathLike) -> np.ndarray:
    """Reads a square matrix, float32 `(D, D)`, that `torch.save` wrote as a tensor or NumPy array.

    Schuster et al. (2019) publish the alignments of their cross-lingual models so. Raises what
    `open_state_dict` does, and ValueError if the matrix is not square or not finite.
    """
    path = os.fspath(path)
    with _open(path, _numpy_calls()) as (array, file):
        if type(array) is _View:
            array = TorchTensor("matrix", path, file, array).read()
        elif type(array) is _SavedArray:
            array = array.read(path)
        shape = array.shape if isinstance(array, np.ndarray) else None
        if shape is None or len(shape) != 2 or shape[0] != shape[1]:
            found = "no array" if shape is None else f"an array of shape {shape}"
            raise ValueError(f"{path} holds {found}: expected one square matrix of floats.")
        with np.errstate(over="ignore"):
            matrix = np.array(array, "float32", order="C")
        check_finite(matrix, f"The array matrix in {path}")
        return matrix


def write_state_dict(
    path: str | os.PathLike,
    tensors: Sequence[tuple[str, tuple[int, ...], Callable[[], Any]]],
) -> None:
    """Writes float32 tensors as a state dict, in the format that every version of PyTorch reads.

    Each tensor is its name, its shape and a function that returns its values when they are written.
    """
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": _PROTOCOL_VERSION, "little_endian": True, "type_sizes": sizes}
    state = {name: _tensor_call(str(key), shape) for key, (name, shape, _) in enumerate(tensors)}
    keys = [str(key) for key in range(len(tensors))]
    pickles = (_MAGIC_NUMBER, _PROTOCOL_VERSION, system, Call(_ORDERED_DICT, (), state), keys)
    with atomic_write(path) as partial, open(partial, "wb") as file:
        file.write(b"".join(map(dump_pickle, pickles)))
        for name, shape, values in tensors:
            array = np.asarray(values(), "<f4", order="C")
            if array.shape != tuple(shape):
                raise ValueError(f"{name} was to be written as {shape}, but it is {array.shape}.")
            file.write(struct.pack("<q", array.size))
            file.write(array.data)


def _tensor_call(key, shape):
    """The call that builds a contiguous tensor with a storage of its own."""
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    storage = External(("storage", _FLOAT_STORAGE, key, "cpu", math.prod(shape), None))
    arguments = (storage, 0, tuple(shape), strides, False, Call(_ORDERED_DICT))
    return Call(_REBUILD_TENSOR, arguments)


@dataclasses.dataclass
class _Storage:
    """Elements that tensors share: where they begin in the file, and their checksum in a zip."""

    key: str
    dtype: np.dtype
    size: int
    start: int = -1
    checksum: int = 0


class _View(NamedTuple):
    """A tensor, as a view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self):
        """Number of elements from the first to the last."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides))


class _UnsupportedError(ValueError):
    """An intact file of a kind that is not read."""


@contextlib.contextmanager
def _open(path, calls):
    """Yields the pickled value in a file, with a `_View` for each tensor, and the open file."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path}.")
    if not os.path.isfile(path):
        raise ValueError(f"{path} is a folder or a device: expected a file of torch.save.")
    with open(path, "rb") as file:
        try:
            read = _read_zip if file.read(4) == b"PK\x03\x04" else _read_legacy
            value = read(file, calls)
        except UnsafePickleError as error:
            raise ValueError(
                f"{path} holds more than tensors of floats: {error}. Nothing of it was run. Do not "
                "trust the file: a file of torch.save can run any program where it is unpickled."
            ) from None
        except _UnsupportedError as error:
            raise ValueError(f"{path} cannot be read: {error}.") from None
        except Exception as error:  # damage shows as errors of many types
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete file of torch.save: "
                f"it is truncated, damaged or of another kind. Download or copy it again. ({error})"
            ) from None
        yield value, file


def _read_legacy(file, calls):
    """Reads five pickles; after them come the element count and the elements of each storage."""
    file.seek(0)
    pickles = io.BytesIO(file.read(MAX_PICKLE_BYTES))
    if load_pickle(pickles, {}) != _MAGIC_NUMBER or load_pickle(pickles, {}) != _PROTOCOL_VERSION:
        raise ValueError("it does not begin as such a file does")
    _check_byte_order(load_pickle(pickles, {})["little_endian"])
    value, storages = _load_value(pickles, calls)
    keys = load_pickle(pickles, {})
    start = pickles.tell()
    for key in keys:
        if type(key) is not str or key not in storages:
            raise ValueError("a storage that no tensor is in")
        file.seek(start)
        (count,) = struct.unpack("<q", file.read(8))
        start = _place(storages[key], start + 8, count, file)
    if any(storage.start < 0 for storage in storages.values()):
        raise ValueError("storages are missing")
    return value


def _read_zip(file, calls):
    with zipfile.ZipFile(file) as members:
        names = members.namelist()
        folders = [name.split("/")[0] for name in names if name.partition("/")[2] == "data.pkl"]
        if len(folders) != 1:
            raise ValueError(f"a zip with {len(folders)} files data.pkl, expected one")
        folder = folders[0]
        if f"{folder}/byteorder" in names:
            _seek(file, members.getinfo(f"{folder}/byteorder"))
            _check_byte_order(file.read(6) == b"little")
        member = members.getinfo(f"{folder}/data.pkl")
        _seek(file, member)
        content = file.read(min(member.file_size, MAX_PICKLE_BYTES))
        if member.CRC not in (0, zlib.crc32(content)):
            raise ValueError("the checksum of data.pkl is wrong")
        value, storages = _load_value(io.BytesIO(content), calls)
        for key, storage in storages.items():
            member = members.getinfo(f"{folder}/data/{key}")
            storage.checksum = member.CRC
            count = member.file_size / storage.dtype.itemsize
            _place(storage, _seek(file, member), count, file)
        return value


def _seek(file, member):
    """Moves to the content of a zip's member; returns where it begins."""
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
        raise _UnsupportedError(
            f"{member.filename} in it is compressed, which torch.save never does"
        )
    file.seek(member.header_offset)
    signature, *_, name, extra = struct.unpack("<4s5H3I2H", file.read(30))
    if signature != b"PK\x03\x04":
        raise ValueError(f"{member.filename} is not where the zip's directory says")
    return file.seek(name + extra, os.SEEK_CUR)


def _check_byte_order(is_little):
    if is_little is not True:
        raise _UnsupportedError("its numbers are of a big-endian machine. Save it on another one")


def _place(storage, start, count, file):
    """Notes where a storage begins, and checks that the file has all of it; returns its end."""
    stop = start + count * storage.dtype.itemsize
    if count != storage.size:
        raise ValueError(f"storage {storage.key[:50]} has {count} elements, not {storage.size}")
    if stop > os.fstat(file.fileno()).st_size:
        raise ValueError(f"it ends within storage {storage.key[:50]}")
    storage.start = start
    return stop


def _load_value(file, calls):
    """The pickled value, and by key the storages that it refers to."""
    storages = {}

    def storage(key):
        kind, dtype, name, _, count, *view = key
        are_known = [*map(type, key)][:3] == [str, GlobalName, str] and view in ([], [None])
        if not are_known or kind != "storage" or not _are_sizes([count]):
            raise ValueError("a storage of an unknown form")
        found = _Storage(name, _DTYPES[dtype], count)
        if storages.setdefault(name, found) != found:
            raise ValueError(f"storage {name[:50]} is of two kinds")
        return storages[name]

    calls = {
        **dict.fromkeys(_DTYPES),
        _ORDERED_DICT: lambda: {},
        GlobalName("torch._utils _rebuild_tensor"): _view,
        _REBUILD_TENSOR: _view,
        **calls,
    }
    return load_pickle(file, calls, storage), storages


def _view(storage, offset, shape, strides, requires_grad=False, hooks=None, metadata=None):
    lengths = (shape, strides)
    if type(storage) is not _Storage or any(type(value) is not tuple for value in lengths):
        raise ValueError("a tensor of an unknown form")
    if len(shape) != len(strides) or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"a tensor of {len(shape)} dimensions and {len(strides)} strides")
    if not _are_sizes([offset, *shape, *strides]):
        raise ValueError("a tensor with sizes that are no numbers, or negative")
    strides = tuple(stride if n > 1 else 0 for n, stride in zip(shape, strides))
    view = _View(storage, offset, shape, strides)
    if offset + view.span > storage.size or math.prod(shape) > storage.size:
        raise ValueError(f"a tensor of shape {shape} is larger than its storage")
    return view


def _are_sizes(values):
    return all(type(value) is int and 0 <= value < 1 << 48 for value in values)


class _SavedDtype(Built):
    def __init__(self, code, *_):
        if type(code) is not str or code not in ("f2", "f4", "f8"):
            raise _UnsupportedError("its array is not of floats")
        self.code = code

    def build(self, state):
        _check_byte_order(state[1] == "<")


class _SavedArray(Built):
    state: Any = None

    def build(self, state):
        self.state = state

    def read(self, path):
        """The values. Made once, of the array that is asked for: a file may share its bytes."""
        try:
            _, shape, dtype, is_fortran, data = self.state
            if type(shape) is not tuple or not _are_sizes(shape) or type(dtype) is not _SavedDtype:
                raise ValueError("an array of an unknown form")
            if type(data) is str:  # Python 2
                data = data.encode("latin1")
            values = np.frombuffer(data, f"<{dtype.code}")
            return values.reshape(shape, order="F" if is_fortran else "C")
        except (TypeError, ValueError) as error:
            raise ValueError(f"The array in {path} cannot be read: {error}.") from None


def _numpy_calls():
    """Stand-ins for the functions that a pickled NumPy array calls."""
    remaining = MAX_PICKLE_BYTES

    def encode(text, encoding):
        nonlocal remaining
        remaining -= len(text)
        # One long text, encoded again and again, would exhaust the memory.
        if type(encoding) is not str or encoding != "latin1" or remaining < 0:
            raise ValueError("an array of an unknown form")
        return text.encode("latin1")

    return {
        "numpy.core.multiarray _reconstruct": lambda *_: _SavedArray(),
        "numpy._core.multiarray _reconstruct": lambda *_: _SavedArray(),
        "numpy ndarray": None,
        "numpy dtype": _SavedDtype,
        "_codecs encode": encode,
    }

"""The hdf5 files of bilm-tf, opened safely; softmax and token vectors."""

import contextlib
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_elmo.files import atomic_write
from keras_elmo.hdf5_write import write_hdf5
from keras_elmo.pretrained.weight_table import check_declared_bytes

TOKEN_EMBEDDINGS_NAME = "embedding"
SOFTMAX_NAMES = ("softmax/W", "softmax/b")
_MOST_OBJECTS = 2_000  # groups and arrays: far more than a model has


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Yields every `h5py.Dataset` of a file by its name; no values are read yet.

    Raises FileNotFoundError if the file does not exist, and ValueError if it is truncated, damaged
    or not hdf5, would make HDF5 open other files, has more objects than any model, or is far too
    small for the arrays that it declares.
    """
    import h5py

    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"The weights file {path} does not exist.")
    with contextlib.ExitStack() as stack:
        try:
            found = _arrays_in(stack.enter_context(h5py.File(path, "r")))
            # HDF5 reads whole chunks, which may be larger than their array.
            declared = sum(
                max(math.prod(item.shape or ()), math.prod(item.chunks or ())) * item.dtype.itemsize
                for item in found.values()
            )
        except Exception as error:  # damage shows as errors of many types
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete hdf5 file of weights: "
                f"{error}. Download or copy it again."
            ) from None
        check_declared_bytes(path, declared)
        yield found


def _arrays_in(file):
    """Every array of a file by its name."""
    import h5py

    objects, arrays = [file], {}
    for item in objects:  # which grows by the content of its groups
        if isinstance(item, h5py.Dataset):
            arrays[item.name.removeprefix("/")] = item
            if item.external or item.is_virtual:
                raise ValueError(f"{item.name} is an array in other files, which are never read")
        elif isinstance(item, h5py.Group):
            for name in item:
                if not isinstance(item.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{name} is a link: it could read any file on this machine")
                objects.append(item[name])
                if len(objects) > _MOST_OBJECTS:
                    raise ValueError(f"it has over {_MOST_OBJECTS:,} groups and arrays")
    return arrays


def read_float32(array: Any, named: str) -> np.ndarray:
    """Reads an h5py.Dataset, or copies a NumPy array. `named` begins error messages.

    Raises ValueError if it is damaged, or holds NaN or numbers beyond float32.
    """
    try:
        is_view = isinstance(array, np.ndarray)
        values = array[...] if is_view or array.chunks is None else _chunked(array)
        with np.errstate(over="ignore"):
            values = values.astype("float32", order="C", copy=is_view)
    except (OSError, RuntimeError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{named} cannot be read: the file is damaged. Download or copy it again. ({error})"
        ) from None
    check_finite(values, named)
    return values


def _chunked(dataset):
    """Reads an array chunk by chunk: HDF5's own filters crash on chunks of a wrong size."""
    filters = dataset.shuffle * ["shuffle"] + (dataset.compression == "gzip") * ["gzip"]
    if len(filters) != dataset.id.get_create_plist().get_nfilters():
        raise ValueError("it uses filters of HDF5 other than gzip and shuffle")
    array, itemsize = np.empty(dataset.shape, dataset.dtype), dataset.dtype.itemsize
    for place in dataset.iter_chunks():
        skipped, content = dataset.id.read_direct_chunk(tuple(part.start for part in place))
        if "gzip" in filters and not skipped >> filters.index("gzip") & 1:
            num_bytes = math.prod(dataset.chunks) * itemsize
            content = zlib.decompressobj().decompress(content, num_bytes + 1)
        if "shuffle" in filters and not skipped & 1:
            content = np.frombuffer(content, "uint8").reshape(itemsize, -1).T.tobytes()
        block = np.frombuffer(content, dataset.dtype).reshape(dataset.chunks)
        # Chunks at the edges are larger than their place.
        array[place] = block[tuple(slice(part.stop - part.start) for part in place)]
    return array


def check_finite(array: np.ndarray, named: str) -> None:
    """Raises ValueError, which begins with `named`, if an array holds NaN or infinity."""
    if not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
        raise ValueError(
            f"{named} holds NaN, infinity or numbers beyond {array.dtype}: weights must be finite."
        )


def read_softmax(path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Reads kernel `(V, P)` and bias `(V,)`, float32, from the softmax.hdf5 of `write_model`."""
    with open_arrays(path) as found:
        kernel, bias = map(found.get, SOFTMAX_NAMES)
        if not kernel or not bias or kernel.ndim != 2 or bias.shape != kernel.shape[:1]:
            raise ValueError(
                f"{path} holds no softmax: expected {SOFTMAX_NAMES[0]} (V, P) and "
                f"{SOFTMAX_NAMES[1]} (V,), found {', '.join(found) or 'no arrays'}."
            )
        named = f"The softmax in {path}"
        return read_float32(kernel, named), read_float32(bias, named)


def read_token_embeddings(path: str | os.PathLike, projection_dim: int | None = None) -> np.ndarray:
    """Reads the token vectors, float32 `(num_words, P)`, of bilm-tf's `dump_token_embeddings`.

    Raises ValueError if P is not `projection_dim`.
    """
    with open_arrays(path) as found:
        dataset: Any = found.get(TOKEN_EMBEDDINGS_NAME)
        shape: tuple[int, ...] = (dataset.shape if dataset else None) or ()
        if len(shape) != 2 or projection_dim not in (None, shape[1]):
            listing = ", ".join(f"{name} {array.shape}" for name, array in found.items())
            raise ValueError(
                f"{path} is not a file of token embeddings for this model: expected one array "
                f"'{TOKEN_EMBEDDINGS_NAME}' of shape (num_words, {projection_dim or 'P'}), "
                f"found {listing or 'no arrays'}."
            )
        return read_float32(dataset, f"The array {TOKEN_EMBEDDINGS_NAME} in {path}")


def write_arrays(path: str | os.PathLike, arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes arrays by their names, atomically."""

    def write(file):
        for name, array in arrays:
            file.create_dataset(name, data=array)

    with atomic_write(path) as partial:
        write_hdf5(partial, write)

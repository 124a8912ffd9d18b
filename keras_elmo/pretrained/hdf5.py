"""The hdf5 files of bilm-tf, opened safely; softmax and token vectors."""

import contextlib
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_elmo.files import is_damage
from keras_elmo.pretrained.weight_table import check_declared_bytes

TOKEN_EMBEDDINGS_NAME = "embedding"
SOFTMAX_NAMES = ("softmax/W", "softmax/b")


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Yields every `h5py.Dataset` of a file by its name; no values are read yet.

    Raises FileNotFoundError if the file does not exist, and ValueError if it is truncated, damaged
    or not hdf5, would make HDF5 open other files, or is far too small for the arrays that it
    declares.
    """
    import h5py

    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"The weights file {path} does not exist.")
    with contextlib.ExitStack() as stack:
        try:
            found = _arrays_in(stack.enter_context(h5py.File(path, "r")))
            declared = sum(
                math.prod(item.shape or ()) * item.dtype.itemsize for item in found.values()
            )
        except Exception as error:
            if not is_damage(error):
                raise
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete hdf5 file of weights: "
                f"{error}. Download or copy it again."
            ) from None
        check_declared_bytes(path, declared)
        yield found


def _arrays_in(file):
    """Every array of a file by its name. Links, which could read any file, are not followed."""
    import h5py

    arrays = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset):
            if item.external or item.is_virtual:
                raise ValueError(f"{name} is an array in other files, which are never read")
            arrays[name] = item

    file.visititems(add)
    return arrays


def read_float32(array: Any, label: str) -> np.ndarray:
    """Reads an h5py.Dataset, or copies a NumPy array. `label` begins error messages.

    Raises ValueError if it is damaged, or holds NaN or numbers beyond float32.
    """
    try:
        with np.errstate(over="ignore"):
            is_view = isinstance(array, np.ndarray)
            values = array[...].astype("float32", order="C", copy=is_view)
    except Exception as error:
        if not is_damage(error):
            raise
        raise ValueError(
            f"{label} cannot be read: the file is damaged. Download or copy it again. ({error})"
        ) from None
    check_finite(values, label)
    return values


def check_finite(array: np.ndarray, label: str) -> None:
    """Raises ValueError, which begins with `label`, if an array holds NaN or infinity."""
    if not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
        raise ValueError(
            f"{label} holds NaN, infinity or numbers beyond {array.dtype}: weights must be finite."
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
        label = f"The softmax in {path}"
        return read_float32(kernel, label), read_float32(bias, label)


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

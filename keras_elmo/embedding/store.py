"""Files of word vectors: one array for each sentence."""

import os

import numpy as np

from keras_elmo.files import replacing

SUFFIXES = (".h5", ".hdf5", ".npz")
"""Endings of the files that `save_vectors` can write."""


def save_vectors(path, vectors):
    """Writes one array for each sentence, whole or not at all.

    The hdf5 layout is that of bilm-tf's `dump_bilm_embeddings`: a dataset for each sentence, named
    by its place from "0" on. An .npz file holds arrays of the same names.

    Args:
        path: The file; its ending, .h5, .hdf5 or .npz, says which kind. An existing one is
            replaced.
        vectors: Iterable of arrays, in the order of the sentences. An hdf5 file takes them one by
            one; an .npz file needs all of them in memory.

    Returns:
        The number of arrays written.

    Raises:
        FileNotFoundError: if the folder does not exist.
        ValueError: if the ending is another one.

    Example:

    >>> save_vectors("vectors.h5", [np.zeros((3, 256), "float32")])
    1

    Reference: BILM_TF.md, "Files".
    """
    check_suffix(path)
    with replacing(path) as partial:
        if os.fspath(path).endswith(".npz"):
            arrays = {str(i): array for i, array in enumerate(vectors)}
            np.savez(partial, **arrays)
            return len(arrays)
        return _write_hdf5(partial, vectors)


def check_suffix(path):
    """Raises ValueError unless the ending of `path` is one that `save_vectors` can write."""
    if not os.fspath(path).endswith(SUFFIXES):
        raise ValueError(
            f"Cannot write vectors to {os.fspath(path)!r}: the name must end in "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )


def _write_hdf5(path, vectors):
    import h5py

    count = 0
    with h5py.File(path, "w") as file:
        for array in vectors:
            file.create_dataset(str(count), data=array)
            count += 1
    return count

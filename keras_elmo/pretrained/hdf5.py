"""The weights files of bilm-tf: reading, checking and writing them."""

import contextlib
import hashlib
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write
from keras_elmo.hdf5_write import write_hdf5
from keras_elmo.pretrained.weight_table import WeightEntry, check_declared_bytes, weight_table
from keras_elmo.text.lexicon import Lexicon
from keras_elmo.text.vocabulary import Vocabulary

TOKEN_EMBEDDINGS_NAME = "embedding"
SOFTMAX_NAMES = ("softmax/W", "softmax/b")
_WORDS_DIGEST = "words"
_LARGE_CHUNK_BYTES = 1 << 16
_CHECKSUM_BYTES = 4


def load_weights(
    owner: Any, config: ElmoConfig, path: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads the weights of a biLM from a bilm-tf hdf5 file of any floating-point type.

    All names and shapes are checked before the first variable changes. Raises what `open_arrays`
    raises, and ValueError if an array is missing, unknown, misshapen, not of floats or not finite.

    Args:
        owner: Object with the built layers `token_encoder` and `bilm`.
        config: The model's `ElmoConfig`.
        path: The weights file; see BILM_TF.md, "Files".
        without_token_encoder: Whether to load only the LSTMs and leave the token encoder as it is.
    """
    with open_arrays(path) as found:
        entries = weight_table(config)
        if without_token_encoder:
            entries = [entry for entry in entries if entry.name.startswith("RNN_")]
            found = {name: array for name, array in found.items() if name.startswith("RNN_")}
        check_arrays(path, entries, found)
        for entry in entries:
            array = _as_float32(found[entry.name])
            for variable, value in variables_and_values(owner, entry, array):
                variable.assign(value)


def write_model(
    folder: str | os.PathLike,
    owner: Any,
    config: ElmoConfig,
    softmax: tuple[Any, Any] | None = None,
    lexicon: Lexicon | None = None,
    vocabulary: Vocabulary | None = None,
    dtype: str = "float32",
) -> None:
    """Writes options.json and weights.hdf5, which bilm-tf and AllenNLP read.

    No file takes its name before all are written. Raises ValueError if a weight is beyond the range
    of `dtype`, and FileExistsError if the folder has the softmax of another model.

    Args:
        folder: Where to; made if there is none. Files of those names are replaced.
        owner: Object with the built layers `token_encoder` and `bilm`.
        config: The model's `ElmoConfig`.
        softmax: Kernel `(V, P)` and bias `(V,)` of a language model, written to softmax.hdf5.
        lexicon: Written too, if given; bilm-tf and AllenNLP cannot read such a model.
        vocabulary: The words of the softmax, written to vocabulary.txt.
        dtype: `"float32"` or `"float16"`, of the stored weights.
    """
    os.makedirs(folder, exist_ok=True)
    if softmax is None and os.path.exists(old := os.path.join(folder, "softmax.hdf5")):
        raise FileExistsError(
            f"{old} belongs to other weights, and these have none: choose another folder."
        )
    with contextlib.ExitStack() as stack:

        def partial(name):
            return stack.enter_context(atomic_write(os.path.join(folder, name)))

        config.to_json(partial("options.json"))
        _write_arrays(partial("weights.hdf5"), _arrays(owner, config, dtype))
        if lexicon is not None:
            for name in lexicon.files:
                lexicon.write(name, partial(name))
        if softmax is not None:
            arrays = dict(zip(SOFTMAX_NAMES, map(_to_float32, softmax)))
            for name, array in arrays.items():
                check_finite(array, f"The array {name} of this model")
            _write_arrays(partial("softmax.hdf5"), arrays.items())
        if vocabulary is not None:
            vocabulary.write(partial("vocabulary.txt"))


def _arrays(owner, config, dtype):
    most = np.finfo(dtype).max
    for entry in weight_table(config):
        array = array_of(owner, entry)
        check_finite(array, f"The array {entry.name} of this model")
        if (largest := np.abs(array).max(initial=0)) > most:
            raise ValueError(
                f"{entry.name} has a weight of {largest:.4g}, beyond the range of {dtype}, "
                f"{most:,.0f}. Nothing was written: write float32 instead."
            )
        yield entry.name, array.astype(dtype)


def read_softmax(path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Reads kernel `(V, P)` and bias `(V,)`, float32, from the softmax.hdf5 of `write_model`."""
    with open_arrays(path) as found:
        kernel, bias = map(found.get, SOFTMAX_NAMES)
        if not kernel or not bias or kernel.ndim != 2 or bias.shape != kernel.shape[:1]:
            raise ValueError(
                f"{path} holds no softmax: expected {SOFTMAX_NAMES[0]} (V, P) and "
                f"{SOFTMAX_NAMES[1]} (V,), found {', '.join(found) or 'no arrays'}."
            )
        return _as_float32(kernel), _as_float32(bias)


def read_token_embeddings(
    path: str | os.PathLike,
    projection_dim: int | None = None,
    words: Sequence[str] | None = None,
) -> np.ndarray:
    """Reads the token vectors, float32 `(num_words, P)`, of bilm-tf's `dump_token_embeddings`.

    Raises ValueError if P is not `projection_dim`, or the vectors are not those of `words`, where
    these are given.
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
        if words is not None:
            digest = dataset.attrs.get(_WORDS_DIGEST)  # bilm-tf keeps none
            if len(words) != shape[0] or digest not in (None, _digest(words)):
                raise ValueError(
                    f"The {shape[0]:,} vectors in {path} are not those of the {len(words):,} words "
                    "given: they do not belong together. Save or dump them again."
                )
        return _as_float32(dataset)


def write_token_embeddings(
    path: str | os.PathLike, vectors: np.ndarray, words: Sequence[str]
) -> None:
    """Writes token vectors `(num_words, P)` as bilm-tf's `dump_token_embeddings` does.

    A digest of the words tells later whether a vocabulary belongs to them.
    """
    _write_arrays(path, [(TOKEN_EMBEDDINGS_NAME, vectors)], {_WORDS_DIGEST: _digest(words)})


def _digest(words):
    content = "\n".join(words).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _write_arrays(path, arrays, attributes=None):
    def write(file):
        for name, array in arrays:
            file.create_dataset(name, data=array).attrs.update(attributes or {})

    with atomic_write(path) as partial:
        write_hdf5(partial, write)


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Yields every `h5py.Dataset` of a file by its name; no values are read yet.

    Raises FileNotFoundError if there is no file, and ValueError if it is truncated, damaged or not
    hdf5, would make HDF5 open other files, or is far too small for the arrays that it declares.
    """
    import h5py

    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no weights file {path}.")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(path, "r"))
            links: dict[str, Any] = {}
            file.visititems_links(links.__setitem__)
            foreign = [name for name in links if not isinstance(links[name], h5py.HardLink)]
            items = {name: file[name] for name in links if name not in foreign}
            found = {name: item for name, item in items.items() if isinstance(item, h5py.Dataset)}
            foreign += [name for name, item in found.items() if item.external or item.is_virtual]
            # HDF5 reads whole chunks, which may be larger than their array.
            declared = sum(
                max(math.prod(item.shape or ()), math.prod(item.chunks or ())) * item.dtype.itemsize
                for item in found.values()
            )
            bombs = [name for name, item in found.items() if item.chunks and _is_bomb(item)]
        except Exception as error:  # damage shows as errors of many types
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete hdf5 file: it is "
                f"truncated, damaged or of another kind. Download or copy it again. ({error})"
            ) from None
        if foreign:
            raise ValueError(
                f"{foreign[0]} in {path} is a link, or an array kept in other files. Only arrays "
                "within the file are loaded: a link could read any file of this machine."
            )
        if bombs:
            raise ValueError(
                f"{bombs[0]} in {path} is compressed in a way that is not supported, or holds more "
                "than it declares. It is damaged, or made to exhaust the memory."
            )
        check_declared_bytes(path, declared)
        yield found


def _is_bomb(dataset):
    """Whether an array has filters other than gzip's, or chunks that inflate beyond their size."""
    from h5py import h5z

    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    allowed = [h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE, h5z.FILTER_FLETCHER32]
    if any(filters.count(one) > (one in allowed) for one in filters):
        return True
    if h5z.FILTER_DEFLATE not in filters:
        return False
    skips_deflate = 1 << filters.index(h5z.FILTER_DEFLATE)
    chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize + _CHECKSUM_BYTES
    large = []

    def collect(chunk):
        # Small ones cannot fill the memory: nothing inflates to more than 1,032 times its size.
        if chunk.size > _LARGE_CHUNK_BYTES and not chunk.filter_mask & skips_deflate:
            large.append(chunk.chunk_offset)

    dataset.id.chunk_iter(collect)
    raw_chunks = (dataset.id.read_direct_chunk(offset)[1] for offset in large)
    inflated = (zlib.decompressobj().decompress(raw, chunk_bytes + 1) for raw in raw_chunks)
    return any(len(content) > chunk_bytes for content in inflated)


def check_arrays(
    path: str | os.PathLike,
    entries: Sequence[Any],
    found: Mapping[str, Any],
    advice: str = "Pass the options.json that belongs to this file.",
) -> None:
    """Raises ValueError, with a list, if arrays are missing, unknown, misshapen or not of floats.

    `entries` have a `name` and a `shape`, the values of `found` a `shape` and a `dtype`.
    """
    problems = []
    for entry in entries:
        array = found.get(entry.name)
        if array is None:
            problems.append(f"missing {entry.name}: expected {entry.shape}")
        elif array.shape != entry.shape:
            problems.append(f"misshapen {entry.name}: expected {entry.shape}, found {array.shape}")
        elif array.dtype.kind != "f":
            problems.append(f"{entry.name}: expected floating-point numbers, found {array.dtype}")
    unknown = found.keys() - {entry.name for entry in entries}
    problems += [f"unknown {name}: found {found[name].shape}" for name in sorted(unknown)]
    if problems:
        more = [f"and {len(problems) - 20} more"] if len(problems) > 20 else []
        shown = "\n  ".join(problems[:20] + more)
        raise ValueError(
            f"The weights in {path} are not those of the architecture in the options:\n  {shown}\n"
            f"{advice}"
        )


def _as_float32(dataset):
    named = f"The array {dataset.name} in {dataset.file.filename}"
    try:
        array = dataset.astype("float32")[...]
    except OSError as error:
        raise ValueError(
            f"{named} cannot be read: the file is damaged. Download or copy it again. ({error})"
        ) from None
    check_finite(array, named)
    return array


def check_finite(array: np.ndarray, named: str) -> None:
    """Raises ValueError, which begins with `named`, if an array holds NaN or infinity."""
    if not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
        raise ValueError(
            f"{named} holds NaN, infinity or numbers beyond {array.dtype}: no working model has "
            "such weights."
        )


def variables_and_values(
    owner: Any, entry: WeightEntry, array: np.ndarray
) -> Iterator[tuple[Any, np.ndarray]]:
    """The variables that hold an array, each with its value."""
    for path, value in zip(entry.variables, entry.split(array)):
        variable = variable_at(owner, path)
        yield variable, value.reshape(variable.shape)


def array_of(owner: Any, entry: WeightEntry) -> np.ndarray:
    """The array that variables hold, float32."""
    variables = [variable_at(owner, path) for path in entry.variables]
    if any("int" in str(variable.dtype) for variable in variables):
        raise ValueError(f"{entry.name} is quantized: write the model before it is.")
    values = map(_to_float32, variables)
    return entry.join(*values).reshape(entry.shape)


def variable_at(owner: Any, path: str) -> Any:
    """A variable by its path in the weight table, such as `"bilm.forward_lstms.0.bias"`."""
    for name in path.split("."):
        owner = owner[int(name)] if name.isdigit() else getattr(owner, name)
    return owner


def _to_float32(variable):
    import keras

    return np.asarray(keras.ops.convert_to_numpy(variable)).astype("float32")

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
_MOST_OBJECTS, _MOST_GROUPS = 10_000, 16  # far more than a model has


def load_weights(
    backbone: Any, path: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads the weights of a biLM from a bilm-tf hdf5 file of any floating-point type.

    All names and shapes are checked before the first variable changes. Raises what `open_arrays`
    raises, and ValueError if an array is missing, unknown, misshapen, not of floats or not finite.

    Args:
        backbone: A built `Backbone`.
        path: The weights file; see BILM_TF.md, "Files".
        without_token_encoder: Whether to load only the LSTMs and leave the token encoder unchanged.
    """
    with open_arrays(path) as found:
        entries = weight_table(backbone.config)
        if without_token_encoder:
            entries = [entry for entry in entries if entry.name.startswith("RNN_")]
            found = {name: array for name, array in found.items() if name.startswith("RNN_")}
        check_arrays(path, entries, found)
        for entry in entries:
            array = _as_float32(found[entry.name])
            for variable, value in variables_and_values(backbone, entry, array):
                variable.assign(value)


def write_model(
    folder: str | os.PathLike,
    backbone: Any,
    softmax: tuple[Any, Any] | None = None,
    lexicon: Lexicon | None = None,
    vocabulary: Vocabulary | None = None,
    dtype: str = "float32",
    config: ElmoConfig | None = None,
) -> None:
    """Writes options.json and weights.hdf5, which bilm-tf and AllenNLP read.

    No file takes its name before all are written. Raises ValueError if a weight is beyond the range
    of `dtype`, and FileExistsError if the folder contains the softmax of a different model.

    Args:
        folder: The output folder, created if it does not exist. Files of those names are replaced.
        backbone: A built `Backbone`.
        softmax: Kernel `(V, P)` and bias `(V,)` of a language model, written to softmax.hdf5.
        lexicon: Written too, if given; bilm-tf and AllenNLP cannot read such a model.
        vocabulary: The words of the softmax, written to vocabulary.txt.
        dtype: `"float32"` or `"float16"`, of the stored weights.
        config: What options.json says in place of the backbone's config.
    """
    os.makedirs(folder, exist_ok=True)
    if softmax is None and os.path.exists(old := os.path.join(folder, "softmax.hdf5")):
        raise FileExistsError(
            f"{old} belongs to a different model, since this one has no softmax: choose "
            "another folder."
        )
    with contextlib.ExitStack() as stack:

        def partial(name):
            return stack.enter_context(atomic_write(os.path.join(folder, name)))

        (config or backbone.config).to_json(partial("options.json"))
        _write_arrays(partial("weights.hdf5"), _arrays(backbone, dtype))
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


def _arrays(backbone, dtype):
    most = np.finfo(dtype).max
    for entry in weight_table(backbone.config):
        array = array_of(backbone, entry)
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

    Raises ValueError if P is not `projection_dim`, or if `words` is given and the vectors belong to
    different words.
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
                    f"The {shape[0]:,} vectors in {path} do not match the {len(words):,} words of "
                    "the vocabulary. Pass the matching vocabulary, or dump the vectors again."
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
            file = stack.enter_context(h5py.File(path, "r"))
            found, foreign = _walk(file)
            # HDF5 reads whole chunks, which may be larger than their array.
            declared = sum(
                max(math.prod(item.shape or ()), math.prod(item.chunks or ())) * item.dtype.itemsize
                for item in found.values()
            )
        except Exception as error:  # damage shows as errors of many types
            raise ValueError(
                f"{path} ({os.path.getsize(path):,} bytes) is not a complete hdf5 file: it is "
                f"truncated, damaged or of a different kind. Download or copy it again. ({error})"
            ) from None
        if foreign:
            raise ValueError(
                f"{foreign} in {path} is a link, or an array stored in other files. Only arrays "
                "within the file are loaded: a link could read any file on this machine."
            )
        check_declared_bytes(path, declared)
        yield found


def _walk(file):
    """Every array of a file by its name; and the name of one that is read from elsewhere."""
    import h5py

    found, groups, num_objects = {}, [((), file)], 0
    while groups:
        path, group = groups.pop()
        num_objects += len(group)
        if num_objects > _MOST_OBJECTS or len(path) > _MOST_GROUPS:
            raise ValueError(
                f"it has over {_MOST_OBJECTS:,} objects, or over {_MOST_GROUPS} nested groups"
            )
        for name in group:
            full_name = "/".join((*path, name))
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                return found, full_name
            item = group[name]
            if isinstance(item, h5py.Group):
                groups.append(((*path, name), item))
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    return found, full_name
                found[full_name] = item
    return found, None


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
            f"The weights in {path} do not match the architecture in the options:\n  {shown}\n"
            f"{advice}"
        )


def _as_float32(dataset):
    named = f"The array {dataset.name} in {dataset.file.filename}"
    try:
        with np.errstate(over="ignore"):
            array = dataset.astype("float32")[...] if dataset.chunks is None else _chunked(dataset)
    except (OSError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{named} cannot be read: the file is damaged. Download or copy it again. ({error})"
        ) from None
    check_finite(array, named)
    return array


def _chunked(dataset):
    """Reads an array chunk by chunk, float32: HDF5's filters crash on chunks of a wrong size."""
    array, chunks = np.full(dataset.shape, dataset.fillvalue, "float32"), []
    dataset.id.chunk_iter(chunks.append)
    for chunk in chunks:
        values = np.frombuffer(_decoded(dataset, chunk.chunk_offset), dataset.dtype)
        block = values.reshape(dataset.chunks)
        place = tuple(slice(i, i + n) for i, n in zip(chunk.chunk_offset, block.shape))
        array[place] = block[tuple(slice(n) for n in array[place].shape)]  # cut off at the edges
    return array


def _decoded(dataset, offset):
    from h5py import h5z

    itemsize, properties = dataset.dtype.itemsize, dataset.id.get_create_plist()
    filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    skipped, content = dataset.id.read_direct_chunk(offset)
    for i, kind in reversed([*enumerate(filters)]):
        if skipped >> i & 1:
            continue
        if kind == h5z.FILTER_DEFLATE:
            most = math.prod(dataset.chunks) * itemsize + 1
            content = zlib.decompressobj().decompress(content, most)
        elif kind == h5z.FILTER_SHUFFLE:
            content = np.frombuffer(content, "uint8").reshape(itemsize, -1).T.tobytes()
        else:
            raise ValueError(f"it uses filter {kind} of HDF5, expected gzip and shuffle only")
    return content


def check_finite(array: np.ndarray, named: str) -> None:
    """Raises ValueError, which begins with `named`, if an array holds NaN or infinity."""
    if not np.isfinite([array.min(initial=0), array.max(initial=0)]).all():
        raise ValueError(
            f"{named} holds NaN, infinity or numbers beyond {array.dtype}: weights must be finite."
        )


def variables_and_values(
    backbone: Any, entry: WeightEntry, array: np.ndarray
) -> Iterator[tuple[Any, np.ndarray]]:
    """The variables that hold an array, each with its value."""
    for path, value in zip(entry.variables, entry.split(array)):
        variable = variable_at(backbone, path)
        yield variable, value.reshape(variable.shape)


def array_of(backbone: Any, entry: WeightEntry) -> np.ndarray:
    """The array that variables hold, float32."""
    variables = [variable_at(backbone, path) for path in entry.variables]
    if any("int" in str(variable.dtype) for variable in variables):
        raise ValueError(f"{entry.name} is quantized: write the model before you quantize it.")
    values = map(_to_float32, variables)
    return entry.join(*values).reshape(entry.shape)


def variable_at(backbone: Any, path: str) -> Any:
    """A variable by its path in the weight table, such as `"bilm.forward_lstms.0.bias"`."""
    found = backbone
    for name in path.split("."):
        found = found[int(name)] if name.isdigit() else getattr(found, name)
    return found


def _to_float32(variable):
    import keras

    return np.asarray(keras.ops.convert_to_numpy(variable)).astype("float32")

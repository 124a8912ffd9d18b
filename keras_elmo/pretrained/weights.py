"""Between the arrays of a model's files and the variables of a `Backbone`."""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.files import PARTIAL, names_output, sync_to_disk, sync_tree
from keras_elmo.hdf5_write import write_arrays
from keras_elmo.pretrained.formats import OPTIONS, SOFTMAX, VOCABULARY, WEIGHTS, format_of
from keras_elmo.pretrained.hdf5 import (
    SOFTMAX_NAMES,
    check_finite,
    read_float32,
)
from keras_elmo.pretrained.model_card import CARD, is_edited, model_card
from keras_elmo.pretrained.weight_table import WeightEntry, weight_table
from keras_elmo.text.lexicon import Lexicon

DTYPES = ("float32", "float16")
"""The dtypes of stored weights."""


def load_weights(
    backbone: Any, weights: str | os.PathLike, without_token_encoder: bool = False
) -> None:
    """Loads the weights of a biLM, from a file of any floating-point type.

    All names and shapes are checked before the first variable changes.

    Args:
        backbone: A built `Backbone`.
        weights: The hdf5 file, see BILM_TF.md, "Files"; or the encoder.pkl of ELMoForManyLangs.
        without_token_encoder: Whether to load only the LSTMs and leave the token encoder unchanged.

    Raises:
        FileNotFoundError: if a file does not exist.
        ValueError: if one is damaged or unsafe, or an array is missing, unknown, misshapen, not of
            floats or not finite.
    """
    weights, config = Path(weights), backbone.config
    format = format_of(weights)
    with contextlib.ExitStack() as stack:
        assignments = []
        for path, entries in format.tables(weights, config).items():
            found = stack.enter_context(format.open(path))
            if without_token_encoder:
                entries = [entry for entry in entries if entry.name.startswith(format.lstms)]
                found = {name: x for name, x in found.items() if name.startswith(format.lstms)}
            _check_arrays(path, entries, found)
            assignments += [(path, entry, found[entry.name]) for entry in entries]
        for path, entry, stored in assignments:
            _assign(backbone, entry, stored, path)


def load_arrays(backbone: Any, arrays: Mapping[str, np.ndarray], path: object) -> None:
    """Loads the weights of a biLM from arrays by name, as `load_weights` does from the file."""
    table = weight_table(backbone.config)
    _check_arrays(path, table, arrays)
    for entry in table:
        _assign(backbone, entry, arrays[entry.name], path)


def copy_arrays(source: Any, target: Any) -> None:
    """Copies the arrays of a `Backbone` to one of the same config; those of LoRA are merged in."""
    import keras

    for entry in weight_table(source.config):
        for path in entry.variables:
            # A copy: JAX deletes the arrays of a model that is run, also where another shares them.
            array = np.array(keras.ops.convert_to_numpy(variable_at(source, path)))
            variable_at(target, path).assign(array)


def _assign(backbone, entry, stored, path):
    """Assigns an array of a file to the variables that hold it."""
    array = read_float32(stored, f"The array {entry.name} in {path}")
    for variable_path, value in zip(entry.variables, entry.split(array)):
        variable = variable_at(backbone, variable_path)
        variable.assign(value.reshape(variable.shape))


def _check_arrays(path, entries, found):
    """Raises ValueError that lists missing, unknown, misshapen and non-float arrays."""
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
            "Pass the options.json that belongs to this file (of ELMoForManyLangs: the "
            "architecture file and the dictionaries)."
        )


@contextlib.contextmanager
def model_folder(folder: str | os.PathLike) -> Iterator[str]:
    """Yields an empty folder, whose files move into `folder` once the block has succeeded.

    They are synced to disk. `folder` is created if it does not exist, and keeps its other files,
    and a README.md that a user wrote or edited. Raises FileExistsError if it has the softmax of a
    different model.
    """
    os.makedirs(folder, exist_ok=True)
    with (
        names_output(folder),
        tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as partial,
    ):
        yield partial
        old = Path(folder, SOFTMAX)
        if old.exists() and not Path(partial, SOFTMAX).exists():
            raise FileExistsError(
                f"{old} belongs to a different model, since this one has no softmax: choose "
                "another folder."
            )
        sync_tree(partial)
        for name in os.listdir(partial):
            if name != CARD or not is_edited(Path(folder, CARD)):
                os.replace(os.path.join(partial, name), os.path.join(folder, name))
    sync_to_disk(os.fspath(folder))


def write_model(
    folder: str | os.PathLike,
    backbone: Any,
    *,
    softmax: tuple[Any, Any] | None = None,
    lexicon: Lexicon | None = None,
    vocabulary: Iterable[str] | None = None,
    dtype: str = "float32",
    config: ElmoConfig | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Writes options.json and weights.hdf5, which bilm-tf and AllenNLP read, and a model card.

    Raises ValueError if a weight is not finite or beyond the range of `dtype`.

    Args:
        folder: The output folder, which exists; see `model_folder`.
        backbone: A built `Backbone`.
        softmax: Kernel `(V, P)` and bias `(V,)` of a language model, written to softmax.hdf5.
        lexicon: Written too, if given; bilm-tf and AllenNLP cannot read such a model.
        vocabulary: The words of the softmax or the word table, written to vocabulary.txt.
        dtype: `"float32"` or `"float16"`, of the stored weights.
        config: What options.json says in place of the backbone's config.
        details: See `model_card`.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}.")
    folder, details = Path(folder), dict(details or {})
    (config or backbone.config).to_json(folder / OPTIONS)
    table = weight_table(backbone.config)
    arrays = ((entry.name, array_of(backbone, entry)) for entry in table)
    write_arrays(folder / WEIGHTS, _stored(arrays, dtype))
    if lexicon is not None:
        for name in lexicon.files:
            lexicon.write(name, folder / name)
    if softmax is not None:
        arrays = zip(SOFTMAX_NAMES, map(_to_float32, softmax))
        write_arrays(folder / SOFTMAX, _stored(arrays, dtype))
        details = {"Softmax": f"{softmax[1].shape[0]:,} words", **details}
    if vocabulary is not None:
        lines = "".join(f"{word}\n" for word in vocabulary)
        (folder / VOCABULARY).write_bytes(lines.encode())
    (folder / CARD).write_text(model_card(backbone.config, details), encoding="utf-8")


def _stored(arrays, dtype):
    """The arrays in the dtype of the file. Raises ValueError if they do not fit."""
    most = np.finfo(dtype).max
    for name, array in arrays:
        check_finite(array, f"The array {name} of this model")
        if (largest := np.abs(array).max(initial=0)) > most:
            raise ValueError(
                f"{name} has a weight of {largest:.4g}, beyond the range of {dtype}, "
                f"{most:,.0f}. Nothing was written: write float32 instead."
            )
        yield name, array.astype(dtype)


def array_of(backbone: Any, entry: WeightEntry) -> np.ndarray:
    """The array that variables hold, float32."""
    variables = [variable_at(backbone, path) for path in entry.variables]
    return entry.join(*map(_to_float32, variables)).reshape(entry.shape)


def variable_at(backbone: Any, path: str) -> Any:
    """A variable by its path in the weight table, such as `"bilm.forward_lstms.0.bias"`."""
    found = backbone
    for name in path.split("."):
        found = found[int(name)] if name.isdigit() else getattr(found, name)
    return found


def _to_float32(variable):
    import keras

    return np.asarray(keras.ops.convert_to_numpy(variable)).astype("float32")

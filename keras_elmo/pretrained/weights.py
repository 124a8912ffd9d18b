"""Between the arrays of a model's files and the variables of a `Backbone`."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write
from keras_elmo.pretrained import many_languages
from keras_elmo.pretrained.folder import PICKLED_EMBEDDER, is_elmo_for_many_langs
from keras_elmo.pretrained.hdf5 import (
    SOFTMAX_NAMES,
    check_finite,
    open_arrays,
    read_float32,
    write_arrays,
)
from keras_elmo.pretrained.model_card import CARD, is_edited, model_card
from keras_elmo.pretrained.torch_files import read_state_dict
from keras_elmo.pretrained.weight_table import WeightEntry, weight_table
from keras_elmo.text.lexicon import Lexicon
from keras_elmo.text.vocabulary import Vocabulary

_LSTMS = ("RNN_", "forward_layer_", "backward_layer_")  # how the names of their arrays begin


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
    is_pickled, tables = is_elmo_for_many_langs(weights), {}
    if is_pickled and not without_token_encoder:
        tables[weights.with_name(PICKLED_EMBEDDER)] = many_languages.embedder_table(config)
    tables[weights] = (many_languages.encoder_table if is_pickled else weight_table)(config)
    with contextlib.ExitStack() as stack:
        assignments = []
        for path, entries in tables.items():
            found: Mapping[str, Any]
            found = read_state_dict(path) if is_pickled else stack.enter_context(open_arrays(path))
            if without_token_encoder:
                entries = [entry for entry in entries if entry.name.startswith(_LSTMS)]
                found = {name: x for name, x in found.items() if name.startswith(_LSTMS)}
            _check_arrays(path, entries, found)
            assignments += [(path, entry, found[entry.name]) for entry in entries]
        for path, entry, stored in assignments:
            array = read_float32(stored, f"The array {entry.name} in {path}")
            for variable, value in variables_and_values(backbone, entry, array):
                variable.assign(value)


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


def write_model(
    folder: str | os.PathLike,
    backbone: Any,
    softmax: tuple[Any, Any] | None = None,
    lexicon: Lexicon | None = None,
    vocabulary: Vocabulary | None = None,
    dtype: str = "float32",
    config: ElmoConfig | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Writes options.json and weights.hdf5, which bilm-tf and AllenNLP read, and a model card.

    No file takes its name before all are written. Raises ValueError if a weight is beyond the range
    of `dtype`, and FileExistsError if the folder contains the softmax of a different model.

    Args:
        folder: The output folder, created if it does not exist. Files of those names are replaced,
            except for a README.md that a user wrote or edited.
        backbone: A built `Backbone`.
        softmax: Kernel `(V, P)` and bias `(V,)` of a language model, written to softmax.hdf5.
        lexicon: Written too, if given; bilm-tf and AllenNLP cannot read such a model.
        vocabulary: The words of the softmax, written to vocabulary.txt.
        dtype: `"float32"` or `"float16"`, of the stored weights.
        config: What options.json says in place of the backbone's config.
        facts: See `model_card`.
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
        write_arrays(partial("weights.hdf5"), _arrays(backbone, dtype))
        if not is_edited(Path(folder, CARD)):
            card = model_card(backbone.config, facts or {})
            Path(partial(CARD)).write_text(card, encoding="utf-8")
        if lexicon is not None:
            for name in lexicon.files:
                lexicon.write(name, partial(name))
        if softmax is not None:
            arrays = dict(zip(SOFTMAX_NAMES, map(_to_float32, softmax)))
            for name, array in arrays.items():
                check_finite(array, f"The array {name} of this model")
            write_arrays(partial("softmax.hdf5"), arrays.items())
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

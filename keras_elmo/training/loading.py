"""Language models from files: to evaluate, to export, to start a training run from."""

import dataclasses
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_folder
from keras_elmo.pretrained.hdf5 import read_softmax
from keras_elmo.pretrained.locate import ModelSource, locate
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.tf1_checkpoint import find_tf1_checkpoint, read_tf1_checkpoint
from keras_elmo.pretrained.weight_table import weight_table
from keras_elmo.pretrained.weights import load_weights, variables_and_values
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.checkpoint import latest_checkpoint, load_checkpoint, read_checkpoint_state
from keras_elmo.training.language_model import (
    NO_LEXICON,
    BidirectionalLanguageModel,
    check_no_lexicon,
)

_log = logging.getLogger(__name__)


def load_language_model(
    model: ModelSource, vocabulary: str | os.PathLike | None = None
) -> tuple[BidirectionalLanguageModel, Vocabulary]:
    """Loads a language model with its softmax and its vocabulary, to evaluate or to export it.

    Args:
        model: The folder of a training run, a checkpoint of one, or a TensorFlow 1 checkpoint of
            bilm-tf, which TensorFlow reads; or what `ElmoLayer` takes, with softmax.hdf5 beside the
            weights, such as a folder of `export_hdf5` or `"default"`, the bundled model. Other
            published models have no softmax.
        vocabulary: The vocabulary file; `None` for the vocabulary.txt in the folder.

    Returns:
        The model and its vocabulary.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, the vocabulary does not have the size of the model's, or
            the model has a lexicon.

    Example:

    >>> model, vocabulary = load_language_model("run")
    >>> perplexity(model, "heldout.txt", vocabulary).perplexity
    118.3
    """
    if (checkpoint := _checkpoint_at(model)) is not None:
        state = read_checkpoint_state(checkpoint)["model"]
        folder = checkpoint.resolve().parent.parent
        words = _vocabulary(vocabulary, folder / "vocabulary.txt", state["vocabulary_size"])
        language_model = BidirectionalLanguageModel.from_config(state)
        load_checkpoint(checkpoint, language_model, optimizer=False)
        return language_model, words
    if (prefix := _tf1_checkpoint_at(model)) is not None:
        folder = Path(prefix).parent
        config = ElmoConfig.from_json(folder / "options.json")
        words = _vocabulary(vocabulary, folder / "vocabulary.txt", config.vocabulary_size)
        language_model = _plain_model(config, len(words))
        load_tf1_checkpoint(language_model, prefix)
        return language_model, words
    _check_published(model, needs_softmax=True)
    with locate(model) as files:
        check_no_lexicon(files.config)
        if files.softmax is None:
            raise FileNotFoundError(
                f"{files.folder} has no softmax.hdf5, which a model needs to predict words. "
                "Use the training run, or export it with `keras-elmo export`."
            )
        words = _vocabulary(vocabulary, files.vocabulary, files.config.vocabulary_size)
        language_model = _plain_model(files.config, len(words))
        kernel, bias = read_softmax(files.softmax)
        if len(bias) != len(words):
            raise ValueError(
                f"{files.softmax} predicts {len(bias):,} words, the vocabulary has {len(words):,}."
            )
        load_weights(language_model.backbone, files.weights)
        language_model.softmax_kernel.assign(kernel)
        language_model.softmax.bias.assign(bias)
    return language_model, words


def export_language_model(
    model: ModelSource,
    folder: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> None:
    """Writes options, weights, softmax and vocabulary of a model for `load_language_model`."""
    with atomic_folder(folder, overwrite) as partial:
        language_model, words = load_language_model(model, vocabulary)
        language_model.export_hdf5(partial, words)


def load_tf1_checkpoint(model: BidirectionalLanguageModel, path: str | os.PathLike) -> int:
    """Loads a training checkpoint of bilm-tf: weights, softmax and, when compiled, Adagrad.

    Args:
        model: A model of the same architecture.
        path: Its prefix such as `"run/model.ckpt-30"`, or its folder.

    Returns:
        The steps it was trained for.

    Raises:
        FileNotFoundError: if the checkpoint does not exist.
        ImportError: if TensorFlow is not installed.
        ValueError: if its architecture or vocabulary size is different.
    """
    values, slots, steps = read_tf1_checkpoint(model.config, path)
    if len(values["softmax/b"]) != model.vocabulary_size:
        raise ValueError(
            f"The checkpoint predicts {len(values['softmax/b']):,} words, this model "
            f"{model.vocabulary_size:,}."
        )
    for variable, value in _by_variable(model, values):
        variable.assign(value)
    optimizer = model.optimizer if model.compiled else None
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales losses
    if slots and isinstance(optimizer, keras.optimizers.Adagrad):
        variables = model.trainable_variables
        optimizer.build(variables)
        # bilm-tf's gradients are larger by the factor unroll_steps: see bilm_tf_optimizer.
        scale = model.unroll_steps**2
        accumulators = dict(zip(map(id, variables), optimizer.variables[-len(variables) :]))
        for variable, value in _by_variable(model, slots):
            accumulators[id(variable)].assign(value / scale)
        optimizer.iterations.assign(steps)
    return steps


def _by_variable(model, arrays):
    """Pairs of a variable and its part of arrays that are named as in `weight_table`."""
    for entry in weight_table(model.config):
        yield from variables_and_values(model.backbone, entry, arrays[entry.name])
    if not model.share_embedding_softmax:
        yield model.softmax.kernel, arrays["softmax/W"]
    yield model.softmax.bias, arrays["softmax/b"]


def config_of(model: ModelSource) -> ElmoConfig:
    """The architecture of a model that `start_from` takes."""
    if (checkpoint := _checkpoint_at(model)) is not None:
        return ElmoConfig.from_dict(read_checkpoint_state(checkpoint)["model"]["config"])
    if (prefix := _tf1_checkpoint_at(model)) is not None:
        return ElmoConfig.from_json(Path(prefix).parent / "options.json")
    _check_published(model)
    with locate(model) as files:
        return files.config


def start_from(
    model: BidirectionalLanguageModel,
    source: ModelSource,
    vocabulary: Vocabulary,
    source_vocabulary: str | os.PathLike | None = None,
) -> None:
    """Copies the weights of a different model, and its softmax if it has one.

    The sources are `start_from` and `start_vocabulary` of `TrainingSettings`.
    """
    if _checkpoint_at(source) is None and _tf1_checkpoint_at(source) is None:
        with locate(source) as files:
            if files.softmax is None:
                load_weights(model.backbone, files.weights)
                _log.info(f"Started from {source}, with a new softmax: it has no softmax.hdf5")
                return
    other, other_vocabulary = load_language_model(source, source_vocabulary)
    shared = take_over(model, other, vocabulary, other_vocabulary)
    _log.info(
        f"Started from {source}: {shared:,} of {len(vocabulary):,} words were in its vocabulary"
    )


def take_over(
    model: BidirectionalLanguageModel,
    other: BidirectionalLanguageModel,
    vocabulary: Vocabulary,
    other_vocabulary: Vocabulary,
) -> int:
    """Copies the weights of a different language model, to fine-tune them.

    Args:
        model, other: Models of the same architecture.
        vocabulary, other_vocabulary: The `Vocabulary` of each. Rows of the softmax (and of an
            embedding of whole words) are taken over for the words in both.

    Returns:
        How many words of the model were in the other's vocabulary.

    Raises:
        ValueError: if the architectures differ, or a vocabulary does not have its model's size.
    """
    own, found = (
        dataclasses.replace(one.config, vocabulary_size=None, training_options={})
        for one in (model, other)
    )
    if own != found:
        raise ValueError(f"The other model has a different architecture: {found}, here {own}.")
    for words, one in ((vocabulary, model), (other_vocabulary, other)):
        one.check_vocabulary(words)
    rows: Sequence[int] = range(len(vocabulary))
    other_rows = rows
    if vocabulary != other_vocabulary:
        places = {word: i for i, word in enumerate(other_vocabulary.words)}
        rows = [i for i, word in enumerate(vocabulary.words) if word in places]
        other_rows = [places[vocabulary.words[i]] for i in rows]
    model.backbone.bilm.set_weights(other.backbone.bilm.get_weights())
    encoder, other_encoder = model.backbone.token_encoder, other.backbone.token_encoder
    tables = [(model.softmax.bias, other.softmax.bias)]
    if model.config.reads_characters:
        encoder.set_weights(other_encoder.get_weights())
    else:
        tables.append((encoder.embedding, other_encoder.embedding))
    if not model.share_embedding_softmax:
        tables.append((model.softmax.kernel, other.softmax_kernel))
    for variable, source in tables:
        values = np.array(ops.convert_to_numpy(variable.value))
        values[rows] = ops.convert_to_numpy(source.value)[other_rows]
        variable.assign(values)
    return len(rows)


def _checkpoint_at(model: Any) -> Path | None:
    """A checkpoint of this package by its path or that of its training run, if there is one."""
    path = _path(model)
    if path is not None and path.is_dir():
        # The folder of a run that has ended holds its model in `model/`.
        return latest_checkpoint(path / "checkpoints")
    return path if path is not None and path.suffix == ".ckpt" and path.is_file() else None


def _tf1_checkpoint_at(model):
    path = _path(model)
    return None if path is None else find_tf1_checkpoint(path)


def _path(model):
    """The path that a model is given by, unless it is the name of a known one."""
    is_path = isinstance(model, (str, os.PathLike)) and model not in list_models()
    return Path(model).expanduser() if is_path else None


def _check_published(model, needs_softmax=False):
    """Raises an error for an unsuitable published model before it is downloaded."""
    if not isinstance(model, (str, os.PathLike)) or model not in list_models():
        return
    known = get_model(os.fspath(model))
    if known.architecture:
        raise ValueError(NO_LEXICON)
    if needs_softmax and known.local_path is None:
        raise FileNotFoundError(
            f"The model {model} does not include a softmax, which predicts words: pass 'default', "
            f"or a training run (if its name is {model}, as ./{model})."
        )


def _vocabulary(given, beside, size):
    path = given or beside
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(
            f"The vocabulary {path or 'vocabulary.txt'} does not exist: pass the model's with "
            "vocabulary=FILE, or start_vocabulary=FILE for a model to start from."
        )
    words = Vocabulary.from_file(path, size)
    if size is not None and len(words) != size:
        raise ValueError(
            f"The vocabulary {path} has {len(words):,} words, the model predicts {size:,}: pass "
            "the one that the model was trained with."
        )
    return words


def _plain_model(config, vocabulary_size):
    """A language model to be loaded, not trained."""
    return BidirectionalLanguageModel(config, vocabulary_size, carry_state=False)

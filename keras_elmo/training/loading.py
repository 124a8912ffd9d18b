"""Language models from files: to evaluate, to export, to start a training run from."""

import csv
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_folder, read_json
from keras_elmo.pretrained.folder import EXPORTED, TRAINING, latest_checkpoint
from keras_elmo.pretrained.hdf5 import read_softmax
from keras_elmo.pretrained.language_models import find_language_model
from keras_elmo.pretrained.locate import ModelFiles, ModelSource
from keras_elmo.pretrained.tf1_checkpoint import read_tf1_checkpoint
from keras_elmo.pretrained.weight_table import weight_table
from keras_elmo.pretrained.weights import load_weights, variables_and_values
from keras_elmo.text.reader import pluralize
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.checkpoint import load_checkpoint, read_checkpoint_state
from keras_elmo.training.language_model import BidirectionalLanguageModel, with_training_options

_log = logging.getLogger(__name__)


def load_language_model(
    model: "ModelSource | SavedModel", vocabulary: str | os.PathLike | None = None
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
    saved = saved_model(model, needs_softmax=True)
    words = _vocabulary(vocabulary, saved.vocabulary, saved.vocabulary_size)
    language_model = saved.load(words)
    language_model.check_vocabulary(words)
    return language_model, words


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A saved language model.

    Args:
        config: Its architecture, with settings of its training as bilm-tf's options.
        vocabulary: Its vocabulary file, which may not exist, or `None`.
        vocabulary_size: The number of words that it predicts, if known.
        load: Loads it; takes its `Vocabulary`.
        facts: Facts for its model card.
        files: Its `ModelFiles`, if it is no checkpoint.
    """

    config: ElmoConfig
    vocabulary: Path | None
    vocabulary_size: int | None
    load: Callable[[Vocabulary], BidirectionalLanguageModel]
    facts: Mapping[str, str | None]
    files: ModelFiles | None = None


def saved_model(model: ModelSource | SavedModel, *, needs_softmax: bool = False) -> SavedModel:
    """Finds a language model, as `find_language_model` does, or takes one that has been found."""
    if isinstance(model, SavedModel):
        return model
    found = find_language_model(model, needs_softmax=needs_softmax)
    if isinstance(found, ModelFiles):
        folder, load = found.weights.parent, functools.partial(_load_files, found)
        facts: Mapping[str, str | None] = {"language": found.language}
        if folder.name == "model" and (folder.parent / EXPORTED).is_file():
            facts = training_summary(folder.parent)
        config = found.config
        return SavedModel(config, found.vocabulary, config.vocabulary_size, load, facts, found)
    if found.is_file():
        state, run = read_checkpoint_state(found), found.resolve().parent.parent
        return SavedModel(
            with_training_options(state["model"]),
            run / "vocabulary.txt",
            state["model"]["vocabulary_size"],
            functools.partial(_load_checkpoint, found, state),
            training_summary(run, state.get("step")),
        )
    config = ElmoConfig.from_json(found.parent / "options.json")
    load = functools.partial(_load_tf1, found, config)
    return SavedModel(config, found.parent / "vocabulary.txt", config.vocabulary_size, load, {})


def _load_checkpoint(path, state, vocabulary):
    corpus = state.get("corpus")
    if corpus and corpus["vocabulary"] != vocabulary.digest:
        raise ValueError(
            f"The vocabulary is not the one of {path}: pass the one that it was trained with."
        )
    language_model = BidirectionalLanguageModel.from_config(state["model"])
    load_checkpoint(path, language_model, optimizer=False)
    return language_model


def _load_tf1(prefix, config, vocabulary):
    language_model = BidirectionalLanguageModel(config, len(vocabulary), carry_state=False)
    load_tf1_checkpoint(language_model, prefix)
    return language_model


def _load_files(files, vocabulary):
    language_model = BidirectionalLanguageModel(files.config, len(vocabulary), carry_state=False)
    kernel, bias = read_softmax(files.softmax)
    if len(bias) != len(vocabulary):
        raise ValueError(
            f"{files.softmax} predicts {len(bias):,} words, the vocabulary has {len(vocabulary):,}."
        )
    load_weights(language_model.backbone, files.weights)
    language_model.softmax_kernel.assign(kernel)
    language_model.softmax.bias.assign(bias)
    return language_model


def export_language_model(
    model: ModelSource,
    folder: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> None:
    """Writes a model for `load_language_model`, with its vocabulary and a model card."""
    with atomic_folder(folder, overwrite) as partial:
        saved = saved_model(model, needs_softmax=True)
        language_model, words = load_language_model(saved, vocabulary)
        language_model.export_hdf5(partial, words, saved.facts)


def training_summary(folder: Path, step: int | None = None) -> dict[str, str]:
    """Facts on the model after a step of a training run, from its training.json and log.csv.

    `None` is its last step.
    """
    path, log = folder / TRAINING, folder / "log.csv"
    if not path.is_file():
        return {}
    settings = {name: x for name, x in read_json(path).items() if x is not None and x is not False}
    del settings["config"]
    if "start_from" in settings:  # not a path: the card is for others
        settings["start_from"] = Path(settings["start_from"]).name
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    rows = {int(row["step"]): row for row in csv.DictReader(lines)}
    if step is None:
        step = max(*rows, latest_checkpoint(folder / "checkpoints")[0], 0)
    row = rows.get(step, {})
    words = f"{settings['batch_size']} x {settings['unroll_steps']} words"
    facts = {"Training": f"{pluralize(step, 'step')} of {words}"}
    if row:
        facts["Training"] += f", {float(row['epoch']):.4g} passes over the text"
    if row.get("val_perplexity"):
        facts["Held-out perplexity"] = f"{float(row['val_perplexity']):.2f}"
    return {**facts, "Settings": ", ".join(f"{name}={x}" for name, x in settings.items())}


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
    return saved_model(model).config


def start_from(
    model: BidirectionalLanguageModel,
    source: ModelSource,
    vocabulary: Vocabulary,
    source_vocabulary: str | os.PathLike | None = None,
) -> None:
    """Copies the weights of a different model, and its softmax if it has one.

    The sources are `start_from` and `start_vocabulary` of `TrainingSettings`.
    """
    saved = saved_model(source)
    if saved.files is not None and saved.files.softmax is None:
        if not saved.config.reads_characters:
            words = _vocabulary(source_vocabulary, saved.vocabulary, saved.vocabulary_size)
            if words != vocabulary:
                raise ValueError(
                    f"{source} reads whole words and has no softmax.hdf5: train with its own "
                    "vocabulary, or export it with its softmax."
                )
        load_weights(model.backbone, saved.files.weights)
        _log.info(f"Started from {source}, with a new softmax: it has no softmax.hdf5")
        return
    words = _vocabulary(source_vocabulary, saved.vocabulary, saved.vocabulary_size)
    shared = copy_weights(model, saved.load(words), vocabulary, words)
    _log.info(
        f"Started from {source}: {shared:,} of {len(vocabulary):,} words were in its vocabulary"
    )


def copy_weights(
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
    own, found = (dataclasses.replace(one.config, vocabulary_size=None) for one in (model, other))
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


def _vocabulary(given, beside, size):
    path = given or beside
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(
            f"The vocabulary {path or 'vocabulary.txt'} does not exist: pass the model's with "
            "vocabulary=FILE, or start_vocabulary=FILE for a model to start from."
        )
    vocabulary = Vocabulary.from_file(path, size)
    if given and beside and beside.is_file() and vocabulary != Vocabulary.from_file(beside, size):
        raise ValueError(
            f"{given} differs from the model's own vocabulary, {beside}: leave it out."
        )
    return vocabulary

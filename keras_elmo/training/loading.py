"""Language models from files: to evaluate, to export, to start a training run from."""

import csv
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.folder import (
    CHECKPOINTS,
    LOG,
    TRAINING,
    last_state,
    latest_checkpoint,
)
from keras_elmo.pretrained.formats import OPTIONS, VOCABULARY
from keras_elmo.pretrained.hdf5 import SOFTMAX_NAMES, read_softmax
from keras_elmo.pretrained.language_models import find_language_model
from keras_elmo.pretrained.locate import ModelFiles, ModelSource
from keras_elmo.pretrained.tf1_checkpoint import read_tf1_checkpoint
from keras_elmo.pretrained.weights import load_arrays, load_weights
from keras_elmo.text.reader import pluralize
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.checkpoint import load_checkpoint, read_checkpoint_state
from keras_elmo.training.language_model import BidirectionalLanguageModel, with_training_options
from keras_elmo.training.settings import read_training

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
    words = read_vocabulary(vocabulary, saved.vocabulary, saved.vocabulary_size)
    if saved.vocabulary_digest not in (None, words.digest):
        raise ValueError(
            f"The vocabulary is not the one of {saved.place}: pass the one that it was trained "
            "with."
        )
    language_model = saved.load()
    language_model.check_vocabulary(words)
    return language_model, words


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A saved language model.

    Args:
        place: What messages call it: its name or path.
        config: Its architecture, with settings of its training as bilm-tf's options.
        vocabulary: Its vocabulary file, which may not exist, or `None`.
        load: Loads it.
        details: Returns details for its model card.
        vocabulary_size: The number of words that it predicts, if known.
        vocabulary_digest: The `digest` of its `Vocabulary`, if known.
        files: Its `ModelFiles`; `None` for a checkpoint.
        record: The training.json of the run that it is a state of, empty for other models.
    """

    place: str | os.PathLike
    config: ElmoConfig
    vocabulary: Path | None
    load: Callable[[], BidirectionalLanguageModel]
    details: Callable[[], Mapping[str, str | None]] = dict
    vocabulary_size: int | None = None
    vocabulary_digest: str | None = None
    files: ModelFiles | None = None
    record: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def saved_model(model: ModelSource | SavedModel, *, needs_softmax: bool = False) -> SavedModel:
    """Finds a language model, as `find_language_model` does, or takes one that has been found."""
    if isinstance(model, SavedModel):
        return model
    found = find_language_model(model, needs_softmax=needs_softmax)
    if isinstance(found, ModelFiles):
        return _of_files(found, model if isinstance(model, (str, os.PathLike)) else found.place)
    if found.is_file():
        return _of_checkpoint(found)
    folder = found.parent
    config = ElmoConfig.from_json(folder / OPTIONS)
    load = functools.partial(_load_tf1, found, config)
    size = config.vocabulary_size
    return SavedModel(found, config, folder / VOCABULARY, load, vocabulary_size=size)


def _of_files(files, place):
    return SavedModel(
        place,
        files.config,
        files.vocabulary,
        functools.partial(_load_files, files),
        functools.partial(model_details, files),
        vocabulary_size=files.config.vocabulary_size,
        files=files,
        record=_record(_run_of(files)),
    )


def _load_files(files):
    kernel, bias = read_softmax(files.softmax)
    language_model = BidirectionalLanguageModel(files.config, len(bias), carry_state=False)
    language_model.language = files.language
    load_weights(language_model.backbone, files.weights)
    _set_softmax(language_model, kernel, bias)
    return language_model


def _of_checkpoint(path):
    state, run = read_checkpoint_state(path), path.resolve().parent
    if "vocabulary_size" not in state["model"]:
        raise ValueError(
            f"{path} is a checkpoint of another Keras model: expected one of a "
            "BidirectionalLanguageModel."
        )
    if run.name == CHECKPOINTS:
        run = run.parent

    def load():
        language_model = BidirectionalLanguageModel.from_config(state["model"])
        load_checkpoint(path, language_model, optimizer=False)
        return language_model

    return SavedModel(
        path,
        with_training_options(state["model"]),
        run / VOCABULARY,
        load,
        functools.partial(training_summary, run, state.get("step")),
        vocabulary_size=state["model"]["vocabulary_size"],
        vocabulary_digest=(state.get("corpus") or {}).get("vocabulary"),
        record=_record(run),
    )


def _load_tf1(prefix, config):
    arrays = read_tf1_checkpoint(prefix)
    kernel, bias = (arrays.pop(name, None) for name in SOFTMAX_NAMES)
    if bias is None:
        raise ValueError(f"{prefix} has no softmax: expected a training checkpoint of bilm-tf.")
    language_model = BidirectionalLanguageModel(
        config, len(bias), share_embedding_softmax=kernel is None, carry_state=False
    )
    load_arrays(language_model.backbone, arrays, prefix)
    _set_softmax(language_model, kernel, bias)
    return language_model


def _set_softmax(language_model, kernel, bias):
    if kernel is not None:  # else it is the embedding of the words
        language_model.softmax_kernel.assign(kernel)
    language_model.softmax.bias.assign(bias)


def model_details(files: ModelFiles) -> Mapping[str, str | None]:
    """Facts for the card of a model: its training run, or its language."""
    if (run := _run_of(files)) is not None:
        return training_summary(run)
    return {"language": files.language}


def _run_of(files):
    """The folder of the training run that has ended with this model, or `None`."""
    folder = files.weights.parent
    return folder.parent if last_state(folder.parent) == folder else None


def _record(run):
    path = None if run is None else run / TRAINING
    return read_training(path) if path is not None and path.is_file() else {}


def training_summary(folder: Path, step: int | None = None) -> dict[str, str]:
    """Facts on the model after a step of a training run, from its training.json and log.csv.

    `None` is its last step.
    """
    if not (record := _record(folder)):
        return {}
    settings = {name: x for name, x in record.items() if x is not None and x is not False}
    log = folder / LOG
    del settings["config"]
    if "start_from" in settings:  # not a path: the card is for others
        settings["start_from"] = Path(settings["start_from"]).name
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    rows = {int(row["step"]): row for row in csv.DictReader(lines)}
    if step is None:
        step = max(*rows, latest_checkpoint(folder / CHECKPOINTS)[0], 0)
    row = rows.get(step, {})
    words = f"{settings['batch_size']} x {settings['unroll_steps']} words"
    details = {"Training": f"{pluralize(step, 'step')} of {words}"}
    if row:
        passes = f"{float(row['epoch']):.4g}"
        unit = "pass" if passes == "1" else "passes"
        details["Training"] += f", {passes} {unit} over the text"
    if row.get("val_perplexity"):
        details["Held-out perplexity"] = f"{float(row['val_perplexity']):.2f}"
    return {**details, "Settings": ", ".join(f"{name}={x}" for name, x in settings.items())}


def start_from(
    model: BidirectionalLanguageModel,
    source: ModelSource | SavedModel,
    vocabulary: Vocabulary,
    source_vocabulary: str | os.PathLike | None = None,
) -> None:
    """Copies the weights of a different model, and its softmax if it has one.

    The sources are `start_from` and `start_vocabulary` of `TrainingSettings`.
    """
    saved = saved_model(source)
    if saved.files is not None and saved.files.softmax is None:
        if not saved.config.reads_characters:
            words = read_vocabulary(source_vocabulary, saved.vocabulary, saved.vocabulary_size)
            if words != vocabulary:
                raise ValueError(
                    f"{saved.place} reads whole words and has no softmax.hdf5: train with its own "
                    "vocabulary, or export it with its softmax."
                )
        load_weights(model.backbone, saved.files.weights)
        _log.info(f"Started from {saved.place}, with a new softmax: it has no softmax.hdf5")
        return
    words = read_vocabulary(source_vocabulary, saved.vocabulary, saved.vocabulary_size)
    shared = copy_weights(model, saved.load(), vocabulary, words)
    _log.info(
        f"Started from {saved.place}: {shared:,} of {len(vocabulary):,} words were in its "
        "vocabulary"
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


def read_vocabulary(
    path: str | os.PathLike | None, default_path: Path | None, size: int | None
) -> Vocabulary:
    """Reads the vocabulary of a language model: the given file, else the one in its folder.

    Raises FileNotFoundError if neither exists, and ValueError if both do and differ.
    """
    found = path or default_path
    if found is None or not Path(found).is_file():
        raise FileNotFoundError(
            f"The vocabulary {found or 'vocabulary.txt'} does not exist: pass the model's with "
            "vocabulary=FILE, or start_vocabulary=FILE for a model to start from."
        )
    vocabulary = Vocabulary.from_file(found, size)
    own = default_path if path and default_path and default_path.is_file() else None
    if own is not None and vocabulary != Vocabulary.from_file(own, size):
        raise ValueError(
            f"{path} differs from the model's own vocabulary, {default_path}: leave it out."
        )
    return vocabulary

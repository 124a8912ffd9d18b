"""Language models from folders and checkpoints: to evaluate, to export, to start a training run."""

import logging
import os
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_folder
from keras_elmo.pretrained.archive import PICKLED_ENCODER
from keras_elmo.pretrained.download import model_files
from keras_elmo.pretrained.registry import get_model, language_model_path, list_models
from keras_elmo.pretrained.tf1_checkpoint import find_tf1_checkpoint
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.checkpoint import latest_checkpoint, load_checkpoint, read_checkpoint_state
from keras_elmo.training.language_model import (
    NO_LEXICON,
    BidirectionalLanguageModel,
    check_no_lexicon,
)

_log = logging.getLogger(__name__)


def load_language_model(
    path: str | os.PathLike, vocabulary: str | os.PathLike | None = None
) -> tuple[BidirectionalLanguageModel, Vocabulary]:
    """Loads a language model with its softmax and its vocabulary, to evaluate or to export it.

    Args:
        path: A folder with options.json, weights.hdf5 and softmax.hdf5, as `export_hdf5` writes
            it; the folder of a training run or a checkpoint, also bilm-tf's own, which TensorFlow
            reads; or `"default"`, the bundled model. The other models that are known by name have
            no softmax.
        vocabulary: The vocabulary file; `None` for the vocabulary.txt in the folder.

    Returns:
        The model and its vocabulary.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, the vocabulary is of another size than the model, or the
            model has a lexicon.

    Example:

    >>> model, vocabulary = load_language_model("run")
    >>> perplexity(model, "heldout.txt", vocabulary).perplexity
    118.3
    """
    if path in list_models() and get_model(os.fspath(path)).architecture:
        raise ValueError(NO_LEXICON)
    path = language_model_path(path)
    if find_tf1_checkpoint(path) is not None:
        config = ElmoConfig.from_json(_options_beside(path))
        vocabulary = _vocabulary(vocabulary, _folder(path), config.vocabulary_size)
        model = _plain_model(config, len(vocabulary))
        model.load_tf1_checkpoint(path)
        return model, vocabulary
    if not _holds_model(path):
        checkpoint = _checkpoint_at(path)
        folder = path if path.is_dir() else path.resolve().parent.parent
        state = read_checkpoint_state(checkpoint)["model"]
        vocabulary = _vocabulary(vocabulary, folder, state["vocabulary_size"])
        model = BidirectionalLanguageModel.from_config(state)
        model.compile("sgd")
        load_checkpoint(checkpoint, model, optimizer=False)
        model.check_vocabulary(vocabulary)
        return model, vocabulary
    check_no_lexicon(config := ElmoConfig.from_json(path / "options.json"))
    vocabulary = _vocabulary(vocabulary, path, config.vocabulary_size)
    model = _plain_model(config, len(vocabulary))
    if not model.load_hdf5(path):
        raise FileNotFoundError(
            f"There is no softmax.hdf5 in {path}: a perplexity needs the softmax. Evaluate the "
            "checkpoint, or export it with `keras-elmo export`."
        )
    return model, vocabulary


def export_language_model(
    checkpoint: str | os.PathLike,
    folder: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> None:
    """Writes options, weights, softmax and vocabulary of what `load_language_model` reads."""
    with atomic_folder(folder, overwrite) as partial:
        model, words = load_language_model(checkpoint, vocabulary)
        model.export_hdf5(partial, words)


def config_of(model: str | os.PathLike) -> ElmoConfig:
    """The architecture of a model that `start_from` takes."""
    if model in list_models():
        if get_model(model).architecture:  # told before a download
            raise ValueError(NO_LEXICON)
        with model_files(model) as (options, _):
            return ElmoConfig.from_json(options)
    options = _options_beside(Path(model))
    if options.exists() and not _is_training(Path(model)):
        return ElmoConfig.from_json(options)
    state = read_checkpoint_state(_checkpoint_at(Path(model)))
    return ElmoConfig.from_dict(state["model"]["config"])


def start_from(
    model: BidirectionalLanguageModel,
    source: str | os.PathLike,
    vocabulary: Vocabulary,
    source_vocabulary: str | os.PathLike | None = None,
) -> None:
    """Takes over the weights of another model, and its softmax where there is one.

    The sources are `start_from` and `start_vocabulary` of `TrainingSettings`.
    """
    is_name = source in list_models()
    path = get_model(os.fspath(source)).local_path if is_name else Path(source)  # None: downloaded
    has_softmax = path is not None and (
        (path / "softmax.hdf5").exists() or find_tf1_checkpoint(path) is not None
    )
    if (is_name or _holds_model(path)) and not has_softmax:
        model.load_hdf5(source)
        _log.info(f"Started from {source}, with a fresh softmax: there is no softmax.hdf5")
        return
    old, old_vocabulary = load_language_model(path or source, source_vocabulary)
    shared = model.start_from(old, vocabulary, old_vocabulary)
    _log.info(
        f"Started from {source}: {shared:,} of {len(vocabulary):,} words were in its vocabulary"
    )


def _vocabulary(given, folder, size):
    path = Path(given or folder / "vocabulary.txt")
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no vocabulary {path}: give the file of the model's vocabulary, on the "
            "command line by --vocab or --start-vocab."
        )
    return Vocabulary.from_file(path, size)


def _options_beside(path):
    """The options.json of a folder, or beside a file."""
    return _folder(path) / "options.json"


def _folder(path):
    return path if path.is_dir() else path.parent


def _holds_model(path):
    """Whether a folder holds a model: options.json and weights."""
    return (path / "options.json").exists() and not _is_training(path)


def _is_training(path):
    """Whether a folder is that of a training run, which may have an options.json as well."""
    has_checkpoint = latest_checkpoint(path / "checkpoints") is not None
    return has_checkpoint and not (path / "weights.hdf5").exists()


def _checkpoint_at(path):
    """A checkpoint by its own path or its training folder."""
    if (path / PICKLED_ENCODER).exists():
        raise ValueError(NO_LEXICON)
    found = path if path.is_file() else latest_checkpoint(path / "checkpoints")
    if found is None:
        raise FileNotFoundError(
            f"{path} is neither a checkpoint, nor a training folder, nor one with options.json."
        )
    return found


def _plain_model(config, vocabulary_size):
    """A language model to be loaded, not trained."""
    return BidirectionalLanguageModel(config, vocabulary_size, carry_state=False)

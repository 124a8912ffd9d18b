"""Where a language model is saved: in a model's files, or in a checkpoint."""

import contextlib
import os
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.folder import last_state
from keras_elmo.pretrained.locate import ModelFiles, ModelSource, find_model_files
from keras_elmo.pretrained.registry import known_model
from keras_elmo.pretrained.tf1_checkpoint import find_tf1_checkpoint

_NO_LEXICON = (
    "A model with a lexicon, such as an ELMoForManyLangs model, cannot be trained or evaluated as "
    "a language model: fine-tune it with ElmoLayer(..., trainable_bilm=True) instead."
)


def check_no_lexicon(config: ElmoConfig) -> None:
    """Raises ValueError if tokens of a model are looked up in a lexicon."""
    if config.has_lexicon:
        raise ValueError(_NO_LEXICON)


def find_checkpoint(model: ModelSource) -> Path | None:
    """The checkpoint that a path names, or which is the last state of the training run there.

    Returns the path of a checkpoint of this package, which is a file, or the prefix of one of
    bilm-tf, which is none; `None` for any other model, such as a training run that has ended.
    """
    if not isinstance(model, (str, os.PathLike)) or known_model(model) is not None:
        return None
    path = Path(model).expanduser()
    if path.suffix == ".ckpt" and path.is_file():
        return path
    if (state := last_state(path)) is not None:
        return state if state.is_file() else None
    prefix = find_tf1_checkpoint(path)
    return None if prefix is None else Path(prefix)


def find_model_or_checkpoint(model: ModelSource) -> ModelFiles | Path:
    """The files of any model, downloaded where needed, or the checkpoint of a language model.

    As for an `ElmoLayer`, files come before a checkpoint of bilm-tf in the same folder.
    """
    checkpoint = find_checkpoint(model)
    if checkpoint is None:
        return find_model_files(model)
    if isinstance(model, (str, os.PathLike)) and Path(model).expanduser().is_dir():
        with contextlib.suppress(FileNotFoundError):
            return find_model_files(model)
    return checkpoint


def find_language_model(model: ModelSource, *, needs_softmax: bool = False) -> ModelFiles | Path:
    """The files of a language model, downloaded where needed, or its checkpoint.

    Args:
        model: See `load_language_model`.
        needs_softmax: Whether it must predict words, which downloaded models cannot.

    Returns:
        Its `ModelFiles`, or the path of its `find_checkpoint`.

    Raises:
        FileNotFoundError: if it does not exist, or has no softmax.
        ValueError: if it has a lexicon, or as for `find_model_files`.
    """
    if (checkpoint := find_checkpoint(model)) is not None:
        return checkpoint
    known = known_model(model)
    if known is not None and known.has_lexicon:
        raise ValueError(_NO_LEXICON)
    if known is not None and needs_softmax and known.local_path is None:
        raise FileNotFoundError(
            f"The model {known.name} does not include a softmax, which predicts words: pass "
            f"'default', or a training run (if its name is {known.name}, as ./{known.name})."
        )
    files = find_model_files(model)
    check_no_lexicon(files.config)
    if needs_softmax and files.softmax is None:
        raise FileNotFoundError(
            f"{files.place} has no softmax.hdf5, which a model needs to predict words. Use the "
            "training run, or export it with `keras-elmo export`."
        )
    return files

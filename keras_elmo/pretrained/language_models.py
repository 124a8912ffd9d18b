"""Where language models are: training runs and checkpoints, by path, and models by name."""

import os
import re
from pathlib import Path
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.pretrained.tf1_checkpoint import find_tf1_checkpoint

EXPORTED = "exported"
"""An empty file in the folder of a run: `model/` is the model with which the run has ended."""

_NAME = re.compile(r"step-(\d+)\.ckpt")
_NO_LEXICON = (
    "A model with a lexicon, such as an ELMoForManyLangs model, cannot be trained or evaluated as "
    "a language model: fine-tune it with ElmoLayer(..., trainable_bilm=True) instead."
)


def check_no_lexicon(config: ElmoConfig) -> None:
    """Raises ValueError if tokens of a model are looked up in a lexicon."""
    if config.has_lexicon:
        raise ValueError(_NO_LEXICON)


def find_language_model(model: Any, *, needs_softmax: bool = False) -> tuple[str, Any]:
    """Tells what a language model is saved as; downloads nothing.

    A name comes before a folder in the working directory, as everywhere.

    Args:
        model: See `load_language_model`.
        needs_softmax: Whether it must predict words, which downloaded models cannot.

    Returns:
        `("checkpoint", path)` for a checkpoint or the run that it is the latest of,
        `("tf1", prefix)` for a checkpoint of bilm-tf, or `("files", model)` for what `locate`
        takes, such as the model of a run that has ended.

    Raises:
        FileNotFoundError: if the path does not exist, or the named model has no softmax.
        ValueError: if the named model has a lexicon.
    """
    if not isinstance(model, (str, os.PathLike)):
        return "files", model
    if model in list_models():
        known = get_model(os.fspath(model))
        if known.architecture:
            raise ValueError(_NO_LEXICON)
        if needs_softmax and known.local_path is None:
            raise FileNotFoundError(
                f"The model {model} does not include a softmax, which predicts words: pass "
                f"'default', or a training run (if its name is {model}, as ./{model})."
            )
        return "files", model
    path = Path(model).expanduser()
    if path.suffix == ".ckpt" and path.is_file():
        return "checkpoint", path
    if (exported := exported_model(path)) is not None:
        return "files", exported
    for folder in (path / "checkpoints", path):
        if (checkpoint := latest_checkpoint(folder)[1]) is not None:
            return "checkpoint", checkpoint
    if (prefix := find_tf1_checkpoint(path)) is not None:
        return "tf1", prefix
    if not path.exists() and not os.fspath(model).startswith("hf://"):
        raise FileNotFoundError(
            f"{path} does not exist: expected a training folder, a checkpoint, or a folder with "
            "options.json, weights.hdf5, softmax.hdf5 and vocabulary.txt."
        )
    return "files", model


def exported_model(run: Path) -> Path | None:
    """The folder of the model of a training run that has ended, else `None`."""
    model = run / "model"
    return model if (run / EXPORTED).is_file() and model.is_dir() else None


def checkpoints(folder: str | os.PathLike) -> list[tuple[int, Path]]:
    """Pairs of the step and the path of each checkpoint in a folder, in order."""
    matches = ((_NAME.fullmatch(path.name), path) for path in Path(folder).glob("step-*.ckpt"))
    return sorted((int(match[1]), path) for match, path in matches if match)


def latest_checkpoint(folder: str | os.PathLike) -> tuple[int, Path | None]:
    """The step and the path of the latest checkpoint in a folder; 0 and `None` if it has none."""
    return max(checkpoints(folder), default=(0, None))

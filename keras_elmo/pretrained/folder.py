"""Which of the files in a folder or archive are a model's, and the state of a training run."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import TypeVar

from keras_elmo.pretrained.formats import EXPECTED, FORMATS, SOFTMAX

EXPORTED = "exported"
"""An empty file in the folder of a run: `model/` is the model with which the run has ended."""

TRAINING, LOG, CHECKPOINTS = "training.json", "log.csv", "checkpoints"
"""The settings, the log and the folder of checkpoints of a training run."""

MAX_FILES = 8
"""The largest number of files of a model."""

AnyPath = TypeVar("AnyPath", bound=PurePath)
_CHECKPOINT = re.compile(r"step-(\d+)\.ckpt")


def find_model(folder: Path) -> list[Path]:
    """The files of the one model in a folder, or in the folders in it: see `choose_files`.

    Of a training run it is the model with which the run has ended.

    Raises FileNotFoundError if a file of the model is missing, or the training run has not ended,
    and ValueError if there are several candidates.
    """
    state = last_state(folder)
    if state is None or state.is_dir():
        top = state or folder
        paths = [path.relative_to(top) for pattern in ("*", "*/*") for path in top.glob(pattern)]
        paths = [path for path in paths if not _is_hidden(path) and (top / path).is_file()]
        try:
            return [top / path for path in choose_files(sorted(paths), top)]
        except FileNotFoundError:
            if not (folder / TRAINING).is_file():
                raise
    raise FileNotFoundError(unfinished_error(folder))


def unfinished_error(folder: Path) -> str:
    """The message for a training run in place of a model."""
    if last_state(folder) is None:
        then = " without a checkpoint: repeat its `keras-elmo train` command to finish it."
    else:
        then = (
            ": finish it, or export its last checkpoint with "
            f"`keras-elmo export {folder} --output FOLDER` and pass that folder."
        )
    return f"{folder} holds an unfinished training run{then}"


def choose_files(paths: Sequence[AnyPath], place: object) -> list[AnyPath]:
    """The files of the one model among others: options, weights, and those next to the weights.

    Options and weights are options.json and weights.hdf5, or names like these; or config.json and
    encoder.pkl of ELMoForManyLangs, unless there are both hdf5 weights and their options. A model
    in a folder counts only where the top folder has none.

    Args:
        paths: Paths relative to the top folder.
        place: What error messages call that.
    """
    for depth in (1, 2):
        candidates = [path for path in paths if len(path.parts) <= depth]
        for format in FORMATS:
            names = format.options, format.weights
            found = [_matching(candidates, patterns) for patterns in names]
            if all(found):
                options, weights = (_single(matching, place) for matching in found)
                return _with_neighbors(options, weights, paths, format)
    if any(path.name == "saved_model.pb" for path in paths):
        raise FileNotFoundError(saved_model_error(place))
    raise FileNotFoundError(
        f"{place} must hold {EXPECTED}. Found {_listing(paths)}. Pass the pair (options, weights) "
        "of their paths instead."
    )


def saved_model_error(place: object) -> str:
    """The message for a SavedModel in place of a model."""
    return (
        f"{place} is a SavedModel of TensorFlow, which cannot be read. In place of TF-Hub's ELMo "
        "pass 'original', the paper's model, trained on the same text; of your own model pass the "
        "folder with options.json and weights.hdf5."
    )


def archived_files(names: Iterable[str], archive: object) -> list[str]:
    """The names of the members of an archive that are the files of its model."""
    paths = {PurePosixPath(name.lstrip("/")): name for name in names}
    paths = {path: name for path, name in paths.items() if not _is_hidden(path)}
    folders = [path.parent.as_posix() for path in paths]
    top = os.path.commonpath(folders) if folders else "."
    members = {path.relative_to(top): name for path, name in paths.items()}
    return [members[path] for path in choose_files(sorted(members), archive)]


def last_state(folder: Path) -> Path | None:
    """The last state of a training run: its model if it has ended, else its latest checkpoint.

    `None` if the folder holds no training run, or one that has no checkpoint yet.
    """
    model = folder / "model"
    if (folder / EXPORTED).is_file() and model.is_dir():
        return model
    return latest_checkpoint(folder / CHECKPOINTS)[1] or latest_checkpoint(folder)[1]


def checkpoints(folder: str | os.PathLike) -> list[tuple[int, Path]]:
    """Pairs of the step and the path of each checkpoint in a folder, in order."""
    paths = Path(folder).glob("step-*.ckpt")
    matches = ((_CHECKPOINT.fullmatch(path.name), path) for path in paths)
    return sorted((int(match[1]), path) for match, path in matches if match)


def latest_checkpoint(folder: str | os.PathLike) -> tuple[int, Path | None]:
    """The step and the path of the latest checkpoint in a folder; 0 and `None` if it has none."""
    return max(checkpoints(folder), default=(0, None))


def _with_neighbors(options, weights, paths, format):
    beside = [x for x in paths if x.parent == weights.parent and x.name in format.files]
    if format.reads_any_json:
        beside += [x for x in paths if x.suffix == ".json" and weights.parent in x.parents]
    return list(dict.fromkeys((options, weights, *beside)))[:MAX_FILES]


def _is_hidden(path):
    """A dot begins the names of partial exports, of macOS' own files in a zip, and of `..`."""
    return any(part.startswith(".") for part in path.parts)


def _matching(paths, patterns):
    """The files whose names match the first pattern that any matches; except for a softmax."""
    paths = [path for path in paths if path.name != SOFTMAX]
    for pattern in patterns:
        if found := [path for path in paths if re.fullmatch(pattern, path.name, re.IGNORECASE)]:
            return found
    return []


def _single(paths, place):
    if len(paths) > 1:
        raise ValueError(
            f"{place} must hold one model; found {_listing(paths)}. Pass the pair (options, "
            "weights) of its paths instead."
        )
    return paths[0]


def _listing(paths):
    return ", ".join(path.as_posix()[:200] for path in paths[:10]) or "nothing"

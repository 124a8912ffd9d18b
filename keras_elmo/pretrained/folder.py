"""The files of a model among others in a folder."""

import os
import re
from pathlib import Path

OPTIONS, WEIGHTS, SOFTMAX, VOCABULARY = (
    "options.json",
    "weights.hdf5",
    "softmax.hdf5",
    "vocabulary.txt",
)
PICKLED_OPTIONS, PICKLED_ENCODER = "config.json", "encoder.pkl"  # of ELMoForManyLangs
PICKLED_EMBEDDER, ARCHITECTURE = "token_embedder.pkl", "architecture.json"
DICTIONARIES = ("word.dic", "char.dic")

HUB_FILES = (
    *(OPTIONS, WEIGHTS, SOFTMAX, VOCABULARY, *DICTIONARIES),
    *(PICKLED_OPTIONS, PICKLED_ENCODER, PICKLED_EMBEDDER, ARCHITECTURE),
)
"""Names of a model's files in a repository of the Hugging Face Hub."""

# From the most to the least certain name: the first that fits a file decides.
_OPTIONS_NAMES = (r"options\.json", r".*options(262)?\.json")
_WEIGHTS_NAMES = (r"weights\.hdf5", r"model\.hdf5", r".*weights\.(hdf5|h5)", r".*\.(hdf5|h5)")


def files_of_model(model: object) -> list[Path]:
    """Where the files of a model may be, so that no output replaces them: what exists counts."""
    places = model if isinstance(model, (tuple, list)) else [model]
    paths = [Path(x).expanduser() for x in places if isinstance(x, (str, os.PathLike))]
    folders = [folder for path in paths for folder in (path, path / "model")]
    return paths + [folder / name for folder in folders for name in HUB_FILES]


def is_of_many_languages(weights: Path) -> bool:
    """Whether the weights that `find_model` returned are of ELMoForManyLangs."""
    return weights.suffix == ".pkl"


def find_model(folder: Path, place: Path | None = None) -> tuple[Path, Path]:
    """The options and the weights of the one model in a folder, or in the folders in it.

    They are options.json and weights.hdf5, or names like these; or config.json and encoder.pkl of
    ELMoForManyLangs, unless there are both hdf5 weights and their options. Of a training run it is
    the finished model.

    Args:
        folder: The folder.
        place: What error messages call it, if it is not the folder.

    Raises:
        FileNotFoundError: if a file of the model is missing, or a training run has not ended.
        ValueError: if there are several candidates.
    """
    if (folder / "training.json").is_file() or (folder / "checkpoints").is_dir():
        folder = _finished_model(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"The folder {folder} does not exist.")
    paths = _files(folder, "*")
    try:
        return _find(paths, folder, place or folder)
    except FileNotFoundError as error:
        try:
            return _find(paths + _files(folder, "*/*"), folder, place or folder)
        except FileNotFoundError:
            raise error from None


def _finished_model(folder):
    """The folder of the model of a training run, which has none before its end."""
    if (folder / "model").is_dir():
        return folder / "model"
    if _fitting(_files(folder, "*"), _WEIGHTS_NAMES):
        return folder  # not a run, only its neighbor
    raise FileNotFoundError(
        f"{folder} holds an unfinished training run: finish it, or export its last checkpoint with "
        f"`keras-elmo export {folder} --output FOLDER` and pass that folder."
    )


def _files(folder, pattern):
    """Files by a pattern. A dot begins the names of partial exports, and of macOS' own in a zip."""
    return [
        path
        for path in sorted(folder.glob(pattern))
        if path.is_file() and not any(x.startswith(".") for x in path.relative_to(folder).parts)
    ]


def _find(paths, folder, place):
    options, weights = (_fitting(paths, names) for names in (_OPTIONS_NAMES, _WEIGHTS_NAMES))
    if not (options and weights) and _is_pickled({path.name for path in paths}):
        return _pickled_model(paths, folder, place)
    return (
        _the_one(options, paths, folder, place, OPTIONS, OPTIONS),
        _the_one(weights, paths, folder, place, WEIGHTS, ".hdf5 or .h5"),
    )


def _is_pickled(names):
    """Whether files of these names are of ELMoForManyLangs."""
    has_dictionary = PICKLED_OPTIONS in names and not names.isdisjoint(DICTIONARIES)
    return has_dictionary or not names.isdisjoint((PICKLED_ENCODER, PICKLED_EMBEDDER))


def _pickled_model(paths, folder, place):
    encoders = [path for path in paths if path.name == PICKLED_ENCODER]
    if len(encoders) > 1:
        raise ValueError(
            f"{place} must hold one model; found {_listing(encoders, folder)}. Pass the folder of "
            "one of them instead."
        )
    parent = encoders[0].parent if encoders else folder
    needed = (PICKLED_OPTIONS, PICKLED_ENCODER, PICKLED_EMBEDDER)
    if missing := [name for name in needed if parent / name not in paths]:
        raise FileNotFoundError(
            f"{place} holds a model of ELMoForManyLangs without {' and '.join(missing)}; found "
            f"{_listing(paths, folder)}. Expected {', '.join(needed)} and the dictionaries in one "
            "folder."
        )
    return parent / PICKLED_OPTIONS, parent / PICKLED_ENCODER


def _fitting(paths, patterns):
    """The files whose names fit the first pattern that any fits; except for a softmax."""
    paths = [path for path in paths if path.name != SOFTMAX]
    for pattern in patterns:
        if found := [path for path in paths if re.fullmatch(pattern, path.name, re.IGNORECASE)]:
            return found
    return []


def _the_one(matches, paths, folder, place, name, endings):
    if len(matches) == 1:
        return matches[0]
    error = ValueError if matches else FileNotFoundError
    raise error(
        f"{place} must hold {name}, or one file whose name ends in {endings}; found "
        f"{_listing(matches or paths, folder)}. Pass the pair (options, weights) of their paths "
        "instead."
    )


def _listing(paths, folder):
    names = [path.relative_to(folder).as_posix() for path in paths[:10]]
    return ", ".join(name[:200] for name in names) or "nothing"

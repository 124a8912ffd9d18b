"""The files of a model among others in a folder."""

import contextlib
import os
import re
from pathlib import Path

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
SOFTMAX, VOCABULARY = "softmax.hdf5", "vocabulary.txt"
PICKLED_OPTIONS, PICKLED_ENCODER = "config.json", "encoder.pkl"  # of ELMoForManyLangs
PICKLED_EMBEDDER, ARCHITECTURE = "token_embedder.pkl", "architecture.json"
DICTIONARIES = ("word.dic", "char.dic")

HUB_FILES = (
    *(OPTIONS, WEIGHTS, SOFTMAX, VOCABULARY, *DICTIONARIES),
    *(PICKLED_OPTIONS, PICKLED_ENCODER, PICKLED_EMBEDDER, ARCHITECTURE),
)
"""Names of a model's files in a repository of the Hugging Face Hub."""

# The names of options and weights in each format. The first that fits a file decides.
_FORMATS = (
    (
        (r"options\.json", r".*options(262)?\.json"),
        (r"weights\.hdf5", r"model\.hdf5", r".*weights\.(hdf5|h5)", r".*\.(hdf5|h5)"),
    ),
    ((re.escape(PICKLED_OPTIONS),), (re.escape(PICKLED_ENCODER),)),
)


def files_of_model(model: object) -> list[Path]:
    """Where the files of a model may be, so that no output replaces them: what exists counts."""
    places = model if isinstance(model, (tuple, list)) else [model]
    paths = [Path(x).expanduser() for x in places if isinstance(x, (str, os.PathLike))]
    for folder in filter(Path.is_dir, paths[:]):
        paths += [place / name for place in (folder, folder / "model") for name in HUB_FILES]
        with contextlib.suppress(FileNotFoundError, ValueError):
            paths += find_model(folder)  # by other names
    return paths


def is_elmo_for_many_langs(weights: Path) -> bool:
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
    for candidates in (paths, paths + _files(folder, "*/*")):
        for names in _FORMATS:
            found = [_fitting(candidates, patterns) for patterns in names]
            if all(found):
                return _the_one(found[0], folder, place), _the_one(found[1], folder, place)
    raise FileNotFoundError(
        f"{place or folder} must hold {OPTIONS} and {WEIGHTS}, or files whose names end in these, "
        f"or .hdf5 or .h5; or {PICKLED_OPTIONS} and {PICKLED_ENCODER} of ELMoForManyLangs. Found "
        f"{_listing(paths, folder)}. Pass the pair (options, weights) of their paths instead."
    )


def _finished_model(folder):
    """The folder of the model of a training run, which has none before its end."""
    if (folder / "model").is_dir():
        return folder / "model"
    if _fitting(_files(folder, "*"), _FORMATS[0][1]):
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


def _fitting(paths, patterns):
    """The files whose names fit the first pattern that any fits; except for a softmax."""
    paths = [path for path in paths if path.name != SOFTMAX]
    for pattern in patterns:
        if found := [path for path in paths if re.fullmatch(pattern, path.name, re.IGNORECASE)]:
            return found
    return []


def _the_one(paths, folder, place):
    if len(paths) > 1:
        raise ValueError(
            f"{place or folder} must hold one model; found {_listing(paths, folder)}. Pass the "
            "pair (options, weights) of its paths instead."
        )
    return paths[0]


def _listing(paths, folder):
    names = [path.relative_to(folder).as_posix() for path in paths[:10]]
    return ", ".join(name[:200] for name in names) or "nothing"

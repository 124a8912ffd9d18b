"""From the name or place of a model to its files: finding, downloading and unpacking them."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.hdf5 import open_hdf5
from keras_elmo.pretrained.registry import PUBLISHED, get_model, list_models

MIRROR_VARIABLE = "KERAS_ELMO_MIRROR"
"""Environment variable: a base address to try first for the published models."""

ModelSource = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]
"""A model's name, its folder or zip file, or the paths of its options and weights."""

_OLD_DOWNLOAD_SECONDS = 24 * 3600


@contextlib.contextmanager
def model_files(model: ModelSource) -> Iterator[tuple[Path, Path]]:
    """Yields the paths of a model's options and weights, downloaded or unpacked where needed.

    Args:
        model: A name of `list_models()`, a folder or zip file with options.json and weights.hdf5,
            or a pair of paths `(options, weights)`.

    Raises:
        FileNotFoundError: if a file or folder does not exist.
        ValueError: if the name is unknown, or a folder does not hold one model.
        ConnectionError: if a download failed.
    """
    if isinstance(model, (tuple, list)):
        yield _checked_pair(model)
    elif not isinstance(model, (str, os.PathLike)):
        raise ValueError(
            "Expected a model name, a folder or zip file, or a pair (options, weights) of paths; "
            f"got {model!r}."
        )
    elif model in list_models() or not _looks_like_path(model):
        yield _fetch(get_model(model))
    elif os.path.isdir(model):
        yield _files_in(Path(model), model)
    elif zipfile.is_zipfile(model):
        with tempfile.TemporaryDirectory() as folder:
            yield _unpack(model, Path(folder))
    elif os.path.isfile(model):
        raise FileNotFoundError(
            f"{model} is a file, but no zip file. Pass the folder that holds options.json and "
            "weights.hdf5, or the pair (options, weights) of their paths."
        )
    else:
        known = ", ".join(list_models())
        raise FileNotFoundError(f"There is no folder or zip file {model}. Known models: {known}.")


def _looks_like_path(model):
    if isinstance(model, os.PathLike) or os.path.exists(model):
        return True
    return os.sep in model or model.startswith((".", "~")) or model.endswith((".zip", ".hdf5"))


def _checked_pair(pair):
    if len(pair) != 2:
        raise ValueError(f"Expected a pair of paths (options, weights), got {len(pair)} items.")
    for path, kind in zip(pair, ("options", "weights")):
        if not os.path.isfile(path):
            raise FileNotFoundError(f"There is no {kind} file {os.fspath(path)}.")
    return tuple(map(Path, pair))


def _files_in(folder, named):
    """The one options file and the one weights file in a folder."""
    if (folder / "training.json").is_file():
        folder = _model_of_training(folder)
    # What a killed export has left begins with a dot.
    files = [path for path in sorted(folder.glob("[!.]*")) if path.is_file()]
    wanted = (("options.json", "options.json"), ("weights.hdf5", ".hdf5"))
    return tuple(_the_file(files, name, ending, named) for name, ending in wanted)


def _model_of_training(folder):
    """The folder inside that of a training which has its model, once it has ended."""
    if not (folder / "model").is_dir():
        raise FileNotFoundError(
            f"{folder} is of a training that has not ended: end it, or export its last checkpoint "
            f"by `keras-elmo export {folder} --output FOLDER` and give that folder."
        )
    return folder / "model"


def _the_file(files, name, ending, named):
    matches = [path for path in files if path.name == name]
    matches = matches or [path for path in files if path.name.endswith(ending)]
    if len(matches) == 1:
        return matches[0]
    listing = ", ".join(path.name for path in matches or files) or "nothing"
    error = FileNotFoundError if not matches else ValueError
    raise error(
        f"{named} must hold {name}, or one file whose name ends in {ending}; found {listing}. "
        "Pass the pair (options, weights) of their paths instead."
    )


def _unpack(archive, folder):
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            name = Path(info.filename).name
            if info.is_dir() or not name.endswith((".json", ".hdf5")):
                continue
            with packed.open(info) as source, open(folder / name, "wb") as target:
                shutil.copyfileobj(source, target)
    return _files_in(folder, archive)


def _fetch(model):
    folder = model.local_folder
    if folder is None:
        home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
        folder = Path(home).expanduser() / "keras_elmo" / model.name
        if not (folder / model.options_file).is_file():
            _download(model, model.options_file, folder)
        weights = folder / model.weights_file
        # Files take their name only after they were checked, so the size is enough here.
        if not weights.is_file() or model.weights_bytes not in (None, weights.stat().st_size):
            _download(model, model.weights_file, folder)
    pair = folder / model.options_file, folder / model.weights_file
    for path in pair:
        if not path.is_file():
            raise FileNotFoundError(f"The file {path} of the model {model.name!r} is missing.")
    return pair


def _download(model, name, folder):
    """Downloads one file into `folder`: it appears there complete and checked, or not at all."""
    import keras

    folder.mkdir(parents=True, exist_ok=True)
    _remove_old_downloads(folder)
    addresses = [f"{location}/{name}" for location in _locations(model)]
    problems = ""
    for address in addresses:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as partial:
            try:
                path = Path(keras.utils.get_file(name, origin=address, cache_subdir=partial))
                _check_download(path, model)
                os.replace(path, folder / name)
                return
            # Keras turns every failure of the network into a plain Exception.
            except Exception as error:
                problems += f"  {address}: {error}\n"
    raise ConnectionError(
        f"Could not download {name} of the model {model.name!r}:\n{problems}Without a network, "
        f"fetch {addresses[0]} elsewhere and put it into {folder}, or set {MIRROR_VARIABLE} to the "
        "address of a mirror."
    )


def _locations(model):
    mirror = os.environ.get(MIRROR_VARIABLE, "").rstrip("/")
    first = model.locations[0]
    if not mirror or not first.startswith(PUBLISHED[0]):
        return model.locations
    return (mirror + first.removeprefix(PUBLISHED[0]), *model.locations)


def _check_download(path, model):
    if path.name != model.weights_file:
        ElmoConfig.from_json(path)
        return
    size = path.stat().st_size
    if model.weights_bytes not in (None, size):
        raise ValueError(f"expected {model.weights_bytes:,} bytes, got {size:,}")
    if model.weights_sha256 is not None:
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != model.weights_sha256.lower():
            raise ValueError(f"expected sha256 {model.weights_sha256}, got {digest.hexdigest()}")
    with open_hdf5(path):
        """An address may answer with a page of text."""


def _remove_old_downloads(folder):
    """Removes what downloads that were killed have left."""
    for partial in folder.glob(".download-*"):
        if time.time() - partial.stat().st_mtime > _OLD_DOWNLOAD_SECONDS:
            shutil.rmtree(partial, ignore_errors=True)

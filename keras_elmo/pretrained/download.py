"""From the name or place of a model to its files: finding, downloading and unpacking them."""

import contextlib
import hashlib
import http.client
import logging
import os
import shutil
import tempfile
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from keras_elmo.atomic import atomic_write
from keras_elmo.config import MAX_OPTIONS_BYTES, ElmoConfig
from keras_elmo.pretrained.registry import PUBLISHED, get_model, list_models
from keras_elmo.pretrained.weight_table import check_declared_bytes, count_parameters, weight_table
from keras_elmo.progress import progress_bar

try:
    import fcntl
except ImportError:
    fcntl = None  # on Windows, where files that are open cannot be removed

MIRROR_VARIABLE = "KERAS_ELMO_MIRROR"
"""Environment variable: a base address to try first for the published models."""

ModelSource = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]
"""A model's name, its folder or zip file, or the paths of its options and weights."""

TIMEOUT_SECONDS = 30
"""How long a server may send nothing."""

_WEIGHTS_ENDINGS = (".hdf5", ".h5")
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def model_files(model: ModelSource) -> Iterator[tuple[Path, Path]]:
    """Yields the paths of a model's options and weights, downloaded or unpacked where needed.

    Args:
        model: A name of `list_models()`, a folder or zip file with options.json and weights.hdf5,
            or a pair of paths `(options, weights)`.

    Raises:
        FileNotFoundError: if a file or folder does not exist.
        ValueError: if the name is unknown, or a folder or zip file does not hold one model.
        ConnectionError: if a download failed.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(model, (tuple, list)):
            pair = _checked_pair(model)
        elif not isinstance(model, (str, os.PathLike)):
            raise ValueError(
                "Expected a model name, a folder or zip file, or a pair (options, weights) of "
                f"paths; got {model!r}."
            )
        elif _is_name(model):
            pair = _fetch(get_model(model))
        else:
            path = Path(model).expanduser()
            if path.is_dir():
                pair = _files_in(path)
            elif path.is_file() and zipfile.is_zipfile(path):
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                pair = _unpack(path, Path(folder))
            else:
                raise FileNotFoundError(_no_model(model, path))
        _check_sizes(*pair)
        yield pair


def vocabulary_beside(model: object) -> Path | None:
    """The vocabulary.txt in a model's folder, or beside its weights, if there is one."""
    if isinstance(model, (tuple, list)):
        folder = Path(model[1]).parent
    elif isinstance(model, str) and _is_name(model):
        folder = _folder_of(get_model(model))
    elif isinstance(model, (str, os.PathLike)):
        folder = Path(model)
    else:
        return None
    path = folder.expanduser() / "vocabulary.txt"
    return path if path.is_file() else None


def _is_name(model):
    if not isinstance(model, str):
        return False
    is_path = os.sep in model or model.startswith((".", "~")) or os.path.exists(model)
    return model in list_models() or not (is_path or model.endswith((".zip", *_WEIGHTS_ENDINGS)))


def _no_model(model, path):
    if "://" in str(model):
        return (
            f"{model} is an address: give it a name with register_model(name, address), which "
            "takes http:// and https://, or download the model and pass its folder."
        )
    if path.exists():
        return (
            f"{path} is neither a folder nor a whole zip file. Pass the folder that holds "
            "options.json and weights.hdf5, or the pair (options, weights) of their paths."
        )
    return f"There is no folder or zip file {path}. Known models: {', '.join(list_models())}."


def _checked_pair(pair):
    if len(pair) != 2:
        raise ValueError(f"Expected a pair of paths (options, weights), got {len(pair)} items.")
    paths = [Path(path).expanduser() for path in pair]
    for path, kind in zip(paths, ("options", "weights")):
        if not path.is_file():
            raise FileNotFoundError(f"There is no {kind} file {path}.")
    return tuple(paths)


def _files_in(folder):
    """The one options file and the one weights file in a folder."""
    if (folder / "training.json").is_file():
        folder = _model_of_training(folder)
    names = [PurePosixPath(path.name) for path in sorted(folder.iterdir()) if path.is_file()]
    options, weights = _chosen(names, folder)
    return folder / options, folder / weights


def _model_of_training(folder):
    """The folder inside that of a training which has its model, once it has ended."""
    if not (folder / "model").is_dir():
        raise FileNotFoundError(
            f"{folder} is of a training that has not ended: end it, or export its last checkpoint "
            f"by `keras-elmo export {folder} --output FOLDER` and give that folder."
        )
    return folder / "model"


def _chosen(paths, place):
    # A dot begins the names of what a killed export has left, and of what macOS adds to a zip file.
    paths = [path for path in paths if not path.name.startswith(".")]
    return (
        _the_one(paths, "options.json", ("options.json",), place),
        _the_one(paths, "weights.hdf5", _WEIGHTS_ENDINGS, place),
    )


def _the_one(paths, name, endings, place):
    matches = [path for path in paths if path.name.lower() == name]
    matches = matches or [path for path in paths if path.name.lower().endswith(endings)]
    if len(matches) == 1:
        return matches[0]
    listing = ", ".join(str(path)[:200] for path in (matches or paths)[:10]) or "nothing"
    error = FileNotFoundError if not matches else ValueError
    raise error(
        f"{place} must hold {name}, or one file whose name ends in {' or '.join(endings)}; found "
        f"{listing}. Pass the pair (options, weights) of their paths instead."
    )


def _check_sizes(options, weights):
    """Refuses an architecture that is too large for its file before layers are built for it."""
    config = ElmoConfig.from_json(options)
    if config.reads_characters or config.vocabulary_size is not None:
        check_declared_bytes(weights, 4 * count_parameters(config))


def _most_bytes(config):
    """Size of a file of weights or softmax: in float64, with room for HDF5's own structure."""
    softmax = (config.vocabulary_size or 0) * (config.projection_dim + 1)
    return 8 * (count_parameters(config) + softmax) + (1 << 22)


def _unpack(archive, folder):
    """Unpacks the files of a model; the options say how large the others may be."""
    try:
        with zipfile.ZipFile(archive) as packed:
            members = {PurePosixPath(info.filename): info for info in packed.infolist()}
            paths = [path for path, info in members.items() if not info.is_dir()]
            options, weights = _chosen(paths, archive)
            pair = folder / "options.json", folder / "weights.hdf5"
            _unpack_one(packed, members[options], pair[0], MAX_OPTIONS_BYTES)
            most_bytes = _most_bytes(ElmoConfig.from_json(pair[0]))
            _unpack_one(packed, members[weights], pair[1], most_bytes)
            if softmax := members.get(weights.with_name("softmax.hdf5")):
                _unpack_one(packed, softmax, folder / "softmax.hdf5", most_bytes)
            return pair
    # What zipfile raises for a password and for damage.
    except (RuntimeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(
            f"{archive} cannot be unpacked: {error}. Expected a zip file without a password; pack "
            "or copy it again, or pass a folder."
        ) from None


def _unpack_one(packed, info, target, most_bytes):
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile unpacks a whole block of others, however large, before it looks at the size.
        raise zipfile.BadZipFile("its compression is neither stored nor deflated")
    if info.file_size > most_bytes:
        raise ValueError(
            f"{info.filename} in {packed.filename} would have {info.file_size:,} bytes unpacked; "
            f"expected at most {most_bytes:,} for this architecture."
        )
    with packed.open(info) as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)


def _fetch(model):
    folder = _folder_of(model)
    if model.local_folder is None:
        _download_missing(model, folder)
    return _checked_pair((folder / model.options_file, folder / model.weights_file))


def _folder_of(model):
    """Where a model is, or will be when it is downloaded."""
    if model.local_folder is not None:
        return model.local_folder
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    name = model.name
    if not _is_published(model):
        # Another process may use the name for another model.
        name += "-" + hashlib.sha256(model.locations[0].encode()).hexdigest()[:8]
    return Path(home).expanduser() / "keras_elmo" / name


def _download_missing(model, folder):
    """Downloads files that are not there, or that were put there and are not the model's."""
    try:
        for name in (model.options_file, model.weights_file):
            try:
                _check(model, folder / name, name)
            except FileNotFoundError:
                _download(model, name, folder)
            except ValueError as error:
                _download(model, name, folder, f"  {folder / name} is there, but: {error}\n")
    finally:
        for empty in (folder, folder.parent):
            with contextlib.suppress(OSError):  # it is not there, or not empty
                empty.rmdir()


def _download(model, name, folder, problems=""):
    """Downloads one file into `folder`: it appears there complete and checked, or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    _remove_killed(folder)
    most_bytes = MAX_OPTIONS_BYTES
    if name == model.weights_file:
        most_bytes = _most_bytes(ElmoConfig.from_json(folder / model.options_file))
    for location in _locations(model):
        address = f"{location}/{name}"
        try:
            # Opened for reading too: NFS wants it for a shared lock.
            with atomic_write(folder / name) as partial, open(partial, "wb+") as file:
                with contextlib.suppress(OSError):  # a file system without locks
                    _lock(file, "LOCK_SH")
                sha256 = _transfer(address, file, most_bytes)
                _check(model, partial, name)
                if name == model.weights_file:
                    _check_content(model, partial, sha256)
            return
        except (OSError, http.client.HTTPException, ValueError) as error:
            problems += f"  {address}: {error or type(error).__name__}\n"
    first = model.locations[0]
    mirror = f", or set {MIRROR_VARIABLE} to a mirror's address" if _is_published(model) else ""
    raise ConnectionError(
        f"Could not download {name} of the model {model.name!r}:\n{problems}Without a network, "
        f"fetch {first}/{model.options_file} and {first}/{model.weights_file} elsewhere and put "
        f"both into {folder}{mirror}."
    )


def _is_published(model):
    return model.locations[0].startswith(PUBLISHED[0])


def _locations(model):
    mirror = os.environ.get(MIRROR_VARIABLE, "").rstrip("/")
    if not mirror or not _is_published(model):
        return model.locations
    return (mirror + model.locations[0].removeprefix(PUBLISHED[0]), *model.locations)


def _transfer(address, file, most_bytes):
    """Writes what an address holds to an open file; returns its sha256."""
    _log.info(f"Downloading {address}")
    digest = hashlib.sha256()
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:
        expected = int(response.headers.get("Content-Length", 0))
        with progress_bar("downloading", expected or None, unit="bytes") as bar:
            while (block := response.read(1 << 18)) and file.tell() <= most_bytes:
                file.write(block)
                digest.update(block)
                bar.advance(len(block))
    file.flush()
    if file.tell() > most_bytes:
        raise ValueError(f"expected at most {most_bytes:,} bytes, got more")
    if expected not in (0, file.tell()):
        raise ValueError(f"expected {expected:,} bytes, got {file.tell():,}")
    return digest.hexdigest()


def _check(model, path, name):
    """Raises ValueError unless a file may be the model's of that name."""
    if name == model.options_file:
        table = weight_table(ElmoConfig.from_json(path))
        if model.config is not None and table != weight_table(model.config):
            raise ValueError(f"its architecture is not that of {model.name!r}")
        return
    size = os.path.getsize(path)
    if model.weights_bytes not in (None, size):
        raise ValueError(f"expected {model.weights_bytes:,} bytes, got {size:,}")


def _check_content(model, path, sha256):
    from keras_elmo.pretrained.hdf5 import open_arrays  # with NumPy, for which `info` is too quick

    expected = model.weights_sha256
    if expected is not None and expected.lower() != sha256:
        raise ValueError(f"expected sha256 {expected}, got {sha256}")
    with open_arrays(path):
        pass  # raises ValueError: an address may answer with a page of text


def _remove_killed(folder):
    """Removes what downloads that were killed have left: a live one holds a lock on its file."""
    for partial in folder.glob(".partial-*"):
        with contextlib.suppress(OSError), open(partial, "rb+") as file:
            # It may just have been made, and not be locked yet.
            if time.time() - partial.stat().st_mtime > 1:
                _lock(file, "LOCK_EX")
                partial.unlink()


def _lock(file, kind):
    """Takes a lock or raises OSError; HDF5 reads under LOCK_SH only."""
    if fcntl is not None:
        fcntl.flock(file, getattr(fcntl, kind) | fcntl.LOCK_NB)

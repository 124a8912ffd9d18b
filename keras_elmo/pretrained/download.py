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
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from keras_elmo.config import MAX_OPTIONS_BYTES, ElmoConfig
from keras_elmo.files import atomic_write, sync_to_disk
from keras_elmo.locks import lock
from keras_elmo.pretrained.archive import (
    find_model,
    is_archive,
    is_of_many_languages,
    most_weights_bytes,
    unpack_model,
)
from keras_elmo.pretrained.registry import (
    CATALOG,
    PUBLISHED,
    PretrainedModel,
    get_model,
    hint_at_models,
    list_models,
    name_at,
)
from keras_elmo.pretrained.weight_table import check_declared_bytes, count_parameters, weight_table
from keras_elmo.progress import progress_bar

ModelSource = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]
"""A model's name, its folder, zip or tar.gz file, or the paths of its options and weights.

The addresses of a known model's options and weights stand for its name.
"""

MIRROR_VARIABLE = "KERAS_ELMO_MIRROR"  # environment variable: an address to try first
TIMEOUT_SECONDS = 30  # how long a server may send nothing
_FILE_ENDINGS = (".zip", ".tar.gz", ".tgz", ".hdf5", ".h5")
_MOST_ARCHIVE_BYTES = 1 << 32  # more than twice the largest known one
_PARTIAL, _LOCKED = ".partial-", "archive"
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def model_files(model: ModelSource) -> Iterator[tuple[Path, Path]]:
    """Yields the paths of a model's options and weights, downloaded or unpacked where needed.

    Of ELMoForManyLangs they are config.json and encoder.pkl, with the other files beside them.

    Raises FileNotFoundError if a file or folder does not exist, ValueError if the name is unknown
    or a folder or archive does not hold one model, and ConnectionError if a download failed.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(model, (tuple, list)):
            model = name_at(model) or model
        if isinstance(model, (tuple, list)):
            pair = _checked_pair(model)
        elif not isinstance(model, (str, os.PathLike)):
            raise ValueError(
                "Expected a model name, a folder, zip or tar.gz file, or a pair (options, weights) "
                f"of paths; got {model!r}."
            )
        elif isinstance(model, str) and _is_name(model):
            known = get_model(model)
            if known.local_path is None:
                _download(known)
            is_local_archive = known.is_archive and known.local_path is not None
            pair = _files_at(known.local_path, stack) if is_local_archive else _files_of(known)
        else:
            pair = _files_at(model, stack)
        _check_sizes(*pair)
        yield pair


def downloaded_files(model: PretrainedModel) -> tuple[Path, Path] | None:
    """The options and weights of a model if they are on this machine already, else `None`."""
    try:
        return _files_of(model)
    except (OSError, ValueError):
        return None


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
    is_path = os.sep in model or model.startswith((".", "~")) or os.path.exists(model)
    return model in list_models() or not (is_path or model.endswith(_FILE_ENDINGS))


def _files_at(place, stack):
    """The pair in a folder, or in an archive, which is unpacked until `stack` is closed."""
    path = Path(place).expanduser()
    if path.is_dir():
        return _files_in(path)
    if path.is_file() and is_archive(path):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        return unpack_model(path, Path(folder))
    _check_is_no_address(place)
    if path.exists():
        raise FileNotFoundError(
            f"{path} is neither a folder nor a whole zip or tar.gz file. Pass the folder that "
            "holds options.json and weights.hdf5 (of ELMoForManyLangs: config.json and "
            "encoder.pkl), or the pair of their paths."
        )
    raise FileNotFoundError(f"There is no folder or archive {path}.{hint_at_models(str(place))}")


def _check_is_no_address(place):
    if "://" in str(place):
        raise FileNotFoundError(
            f"{place} is an address: take a published model by its name, such as 'original'; give "
            "the address of another model's folder a name with register_model(name, address), "
            "which takes http:// and https://; or download the files and pass their paths."
        )


def _files_of(model):
    """The pair of a known model in its folder."""
    folder = _folder_of(model)
    if model.is_archive:
        return _files_in(folder)
    return _checked_pair((folder / model.options_file, folder / model.weights_file))


def _checked_pair(pair):
    if len(pair) != 2:
        raise ValueError(f"Expected a pair of paths (options, weights), got {len(pair)} items.")
    for path in pair:
        _check_is_no_address(path)
    paths = [Path(path).expanduser() for path in pair]
    for path, kind in zip(paths, ("options", "weights")):
        if not path.is_file():
            raise FileNotFoundError(f"There is no {kind} file {path}.")
    return tuple(paths)


def _files_in(folder):
    """The one options file and the one weights file in a folder, or in folders inside it."""
    if (folder / "training.json").is_file():
        if not (folder / "model").is_dir():
            raise FileNotFoundError(
                f"{folder} holds a training run that has not ended: end it, or export its last "
                f"checkpoint by `keras-elmo export {folder} --output FOLDER` and pass that folder."
            )
        folder = folder / "model"
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}.")
    names = _names_in(folder, "*")
    try:
        pair = find_model(names, folder)
    except FileNotFoundError as error:
        try:
            pair = find_model(names + _names_in(folder, "*/*"), folder)
        except FileNotFoundError:
            raise error from None
    return folder / pair[0], folder / pair[1]


def _names_in(folder, pattern):
    return [
        PurePosixPath(path.relative_to(folder).as_posix())
        for path in sorted(folder.glob(pattern))
        if path.is_file() and (path.parent == folder or not path.parent.name.startswith("."))
    ]


def _check_sizes(options, weights):
    """Refuses an architecture too large for its file, before layers are built for it."""
    if is_of_many_languages(weights):
        return
    config = ElmoConfig.from_json(options)
    if config.reads_characters or config.vocabulary_size is not None:
        check_declared_bytes(weights, 4 * count_parameters(config))


def _folder_of(model):
    """Where a model is, or will be once downloaded."""
    if model.local_path is not None:
        return model.local_path
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    name = model.name
    if name not in CATALOG:
        # Another process may use the name for another model.
        name += "-" + hashlib.sha256(model.locations[0].encode()).hexdigest()[:8]
    return Path(home).expanduser() / "keras_elmo" / name


def _download(model):
    """Downloads a model, unless its files are there, and leaves no empty folders."""
    folder = _folder_of(model)
    try:
        if model.is_archive:
            _download_archive(model, folder)
        else:
            for name in (model.options_file, model.weights_file):
                _download_file(model, folder, name)
    finally:
        for empty in (folder, *folder.parents[: model.name.count("/") + 1]):
            with contextlib.suppress(OSError):  # it is not there, or not empty
                empty.rmdir()


def _download_file(model, folder, name):
    """Downloads one of a model's two files: it appears complete and checked, or not at all."""
    options, is_weights = folder / model.options_file, name == model.weights_file
    most_bytes = most_weights_bytes(options) if is_weights else MAX_OPTIONS_BYTES

    def check(path, sha256=None):
        if is_weights:
            _check_size(model, os.path.getsize(path), sha256)
        else:
            _check_architecture(model, path)

    def fetch(address):
        # Opened for reading too: NFS wants it for a shared lock.
        with atomic_write(folder / name) as partial, open(partial, "wb+") as file:
            check(partial, _transfer(address, file, most_bytes))
            if is_weights:
                _check_hdf5(partial)
            # What follows takes a moment then, in which nobody takes the file for a killed one's.
            os.fsync(file.fileno())
            os.utime(partial)

    first = model.locations[0]
    remedy = (
        f"fetch {first}/{model.options_file} and {first}/{model.weights_file} elsewhere and put "
        f"both into {folder}"
    )
    addresses = [f"{location}/{name}" for location in _locations(model)]
    _obtain(model, name, folder / name, lambda: check(folder / name), addresses, fetch, remedy)


def _download_archive(model, folder):
    """Downloads an archive and unpacks its model into `folder`, if there is none."""

    def check():
        _check_architecture(model, *_files_in(folder))

    def fetch(address):
        with (
            tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder) as partial,
            open(os.path.join(partial, _LOCKED), "wb+") as file,
        ):
            sha256 = _transfer(address, file, model.weights_bytes or _MOST_ARCHIVE_BYTES)
            _check_size(model, file.tell(), sha256)
            _unpack_into(folder, model, Path(file.name))

    remedy = (
        f"fetch {model.locations[0]} elsewhere and unpack it into {folder}, or pass its path as "
        "the model"
    )
    _obtain(model, "the archive", folder, check, _locations(model), fetch, remedy)


def _unpack_into(folder, model, archive):
    """Unpacks a model beside its archive, checks it, and only then moves it to `folder`."""
    if not is_archive(archive):
        raise ValueError("it is no whole zip or tar.gz file")
    unpacked = archive.parent / "unpacked"
    unpacked.mkdir()
    options, weights = unpack_model(archive, unpacked)
    _check_architecture(model, options, weights)
    if not is_of_many_languages(weights):
        _check_hdf5(weights)
    # The weights come last: without them the other files are no model.
    for path in sorted(unpacked.iterdir(), key=lambda path: path == weights):
        sync_to_disk(str(path))
        os.replace(path, folder / path.name)
    sync_to_disk(str(folder))


def _obtain(model, name, place, check, addresses, fetch, remedy):
    """Calls `fetch` with one address after another until one succeeds, unless `check` does."""
    problems = ""
    try:
        return check()
    except FileNotFoundError:
        pass
    except ValueError as error:
        problems = f"  {place} is there, but: {error}\n"
    _make_room(_folder_of(model))
    for address in addresses:
        try:
            return fetch(address)
        except (OSError, http.client.HTTPException, ValueError) as error:
            problems += f"  {address}: {error or type(error).__name__}\n"
    mirror = f", or set {MIRROR_VARIABLE} to a mirror's address" if _published_at(model) else ""
    raise ConnectionError(
        f"Could not download {name} of the model {model.name!r}:\n{problems}Without a network, "
        f"{remedy}{mirror}."
    )


def _make_room(folder):
    """Makes the folder, and removes what killed downloads have left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for partial in folder.glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError):
            # A live download holds the lock, unless it has only just begun.
            if time.time() - partial.stat().st_mtime > 1:
                is_folder = partial.is_dir()
                with open(partial / _LOCKED if is_folder else partial, "ab") as file:
                    lock(file)
                    shutil.rmtree(partial) if is_folder else partial.unlink()


def _published_at(model):
    """The base of a published model's address, which a mirror replaces; `None` for others."""
    address = model.locations[0]
    return next((base for base in PUBLISHED if address.startswith(f"{base}/")), None)


def _locations(model):
    mirror, base = os.environ.get(MIRROR_VARIABLE, "").rstrip("/"), _published_at(model)
    if not mirror or base is None:
        return model.locations
    return (mirror + model.locations[0].removeprefix(base), *model.locations)


def _transfer(address, file, most_bytes):
    """Downloads to an open file, which it locks; returns the sha256."""
    with contextlib.suppress(OSError):  # a file system without locks
        lock(file, shared=True)  # HDF5 reads under no other
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


def _check_architecture(model, options, weights=None):
    if weights is None or not is_of_many_languages(weights):
        table = weight_table(ElmoConfig.from_json(options))
        if model.config is not None and table != weight_table(model.config):
            raise ValueError(f"its architecture is not that of {model.name!r}")


def _check_size(model, size, sha256=None):
    """Raises ValueError if the size or, if given, the sha256 of a file is not the model's."""
    if model.weights_bytes not in (None, size):
        raise ValueError(f"expected {model.weights_bytes:,} bytes, got {size:,}")
    expected = model.weights_sha256
    if None not in (expected, sha256) and expected.lower() != sha256:
        raise ValueError(f"expected sha256 {expected}, got {sha256}")


def _check_hdf5(path):
    from keras_elmo.pretrained.hdf5 import open_arrays  # imports NumPy, which `info` does without

    with open_arrays(path):
        pass  # raises ValueError: a server may answer with a page of text

"""The files of a model among others, in a folder or an archive: finding and unpacking them."""

import contextlib
import functools
import gzip
import json
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from keras_elmo.config import MAX_OPTIONS_BYTES, ElmoConfig
from keras_elmo.pretrained.weight_table import count_parameters, most_content_bytes
from keras_elmo.text.lexicon import CHARACTERS_FILE, MAX_LEXICON_BYTES, WORDS_FILE

OPTIONS, WEIGHTS, SOFTMAX = "options.json", "weights.hdf5", "softmax.hdf5"
PICKLED_OPTIONS, PICKLED_ENCODER = "config.json", "encoder.pkl"  # of ELMoForManyLangs
PICKLED_EMBEDDER = "token_embedder.pkl"
DICTIONARIES = (WORDS_FILE, CHARACTERS_FILE)

# From the most to the least certain name: the first that fits a file decides.
_OPTIONS_NAMES = (r"options\.json", r".*options(262)?\.json")
_WEIGHTS_NAMES = (r"weights\.hdf5", r"model\.hdf5", r".*weights\.(hdf5|h5)", r".*\.(hdf5|h5)")

# Five times what the largest published models have.
_MOST_PICKLE_BYTES = 4 * 375_000_000
_MOST_MEMBERS = 10_000
_MOST_HEADER_BYTES = 1 << 14


def find_model(
    paths: Iterable[PurePosixPath], place: str | Path
) -> tuple[PurePosixPath, PurePosixPath]:
    """The options and the weights of the one model among files; `place` is for the error messages.

    They are options.json and weights.hdf5, or names like these; or config.json and encoder.pkl of
    ELMoForManyLangs, unless there are both hdf5 weights and their options.

    Raises FileNotFoundError if a file of the model is missing, and ValueError if there are several
    candidates.
    """
    # A dot begins the names of what a killed export has left, and of what macOS adds to a zip file.
    paths = [path for path in paths if not path.name.startswith(".")]
    options, weights = (_fitting(paths, names) for names in (_OPTIONS_NAMES, _WEIGHTS_NAMES))
    if not (options and weights) and _is_pickled({path.name for path in paths}):
        return _pickled_model(paths, place)
    return (
        _the_one(options, paths, place, "options.json", "options.json"),
        _the_one(weights, paths, place, "weights.hdf5", ".hdf5 or .h5"),
    )


def is_of_many_languages(weights: PurePath) -> bool:
    """Whether the weights that `find_model` returned are of ELMoForManyLangs."""
    return weights.suffix == ".pkl"


def _is_pickled(names):
    """Whether files of these names are of ELMoForManyLangs."""
    has_dictionary = PICKLED_OPTIONS in names and not names.isdisjoint(DICTIONARIES)
    return has_dictionary or not names.isdisjoint((PICKLED_ENCODER, PICKLED_EMBEDDER))


def _pickled_model(paths, place):
    encoders = [path for path in paths if path.name == PICKLED_ENCODER]
    if len(encoders) > 1:
        raise ValueError(
            f"{place} must hold one model; found {_listing(encoders)}. Pass the folder of one of "
            "them instead."
        )
    needed = (PICKLED_OPTIONS, PICKLED_ENCODER, PICKLED_EMBEDDER)
    beside = encoders[0].with_name if encoders else PurePosixPath
    if missing := [name for name in needed if beside(name) not in paths]:
        raise FileNotFoundError(
            f"{place} holds a model of ELMoForManyLangs without {' and '.join(missing)}; found "
            f"{_listing(paths)}. Expected {', '.join(needed)} and the dictionaries in one folder."
        )
    return beside(PICKLED_OPTIONS), beside(PICKLED_ENCODER)


def _fitting(paths, patterns):
    """The files whose names fit the first pattern that any fits."""
    for pattern in patterns:
        if found := [path for path in paths if re.fullmatch(pattern, path.name, re.IGNORECASE)]:
            return found
    return []


def _the_one(matches, paths, place, name, endings):
    if len(matches) == 1:
        return matches[0]
    error = ValueError if matches else FileNotFoundError
    raise error(
        f"{place} must hold {name}, or one file whose name ends in {endings}; found "
        f"{_listing(matches or paths)}. Pass the pair (options, weights) of their paths instead."
    )


def _listing(paths):
    return ", ".join(str(path)[:200] for path in paths[:10]) or "nothing"


def most_weights_bytes(options: Path) -> int:
    """Size of a file of weights or softmax: in float64, with room for HDF5's own structure."""
    config = ElmoConfig.from_json(options)
    softmax = (config.vocabulary_size or 0) * (config.projection_dim + 1)
    return 8 * (count_parameters(config) + softmax) + (1 << 22)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or gzip file, by its content."""
    return _is_gzip(path) or zipfile.is_zipfile(path)


def unpack_model(archive: Path, folder: Path) -> tuple[Path, Path]:
    """Unpacks the files of the one model in a zip or tar.gz file; nothing else, nowhere else.

    In the folder they get their usual names: options.json, weights.hdf5, softmax.hdf5, word.dic and
    char.dic, or the files of ELMoForManyLangs with its architecture beside them. Files that a model
    can do without may be missing.

    Returns the paths of options and weights. Raises what `find_model` raises, and ValueError if the
    archive is damaged, or a file is larger than that of any model, or than the options allow.
    """
    try:
        paths = [path for path, *_ in _members(archive)]
        options, weights = find_model(paths, archive)
        is_pickled = is_of_many_languages(weights)
        names = (PICKLED_OPTIONS, PICKLED_ENCODER) if is_pickled else (OPTIONS, WEIGHTS)
        pair = folder / names[0], folder / names[1]
        _unpack(archive, {options: (pair[0], MAX_OPTIONS_BYTES)})
        most = most_content_bytes(archive)
        most_weights = min(most, _MOST_PICKLE_BYTES if is_pickled else most_weights_bytes(pair[0]))
        sizes = {PICKLED_EMBEDDER if is_pickled else SOFTMAX: most_weights}
        sizes |= dict.fromkeys(DICTIONARIES, min(most, MAX_LEXICON_BYTES))
        targets = {weights.with_name(name): (folder / name, size) for name, size in sizes.items()}
        targets[weights] = pair[1], most_weights
        if is_pickled:
            _add_architecture(targets, pair[0], options.parent, paths)
        _unpack(archive, targets)
        return pair
    except (
        RuntimeError,  # of zipfile, for a password
        zipfile.BadZipFile,
        tarfile.TarError,
        gzip.BadGzipFile,
        zlib.error,
        EOFError,
    ) as error:
        raise ValueError(
            f"{archive} cannot be unpacked: {error}. Expected a tar.gz file, or a zip file without "
            "a password; pack or copy it again, or pass a folder."
        ) from None


def _add_architecture(targets, options, parent, paths):
    """Adds the architecture that the options name, from where ELMoForManyLangs looks for it."""
    try:
        named = PurePosixPath(json.loads(options.read_bytes())["config_path"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return  # their reader refuses bad options
    for place in (parent / named, parent / named.name):
        is_plain = re.fullmatch(r"\w[\w.+-]*", place.name) and place.name != PICKLED_OPTIONS
        if is_plain and place in paths and place not in targets:
            targets[place] = options.with_name(place.name), MAX_OPTIONS_BYTES
            return


def _unpack(archive, targets):
    """Unpacks members to the paths, within the sizes, that `targets` has for them."""
    targets = dict(targets)
    with contextlib.closing(_members(archive)) as members:
        for path, size, open_member in members:
            if path not in targets:
                continue
            target, most_bytes = targets.pop(path)
            if size > most_bytes:
                raise ValueError(
                    f"{path} in {archive} would have {size:,} bytes unpacked; expected at most "
                    f"{most_bytes:,}."
                )
            with open_member() as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)
            if not targets:
                return


def _members(archive):
    """Path, size and opener of every regular file in a zip or tar.gz file: no links, no devices."""
    return _tar_members(archive) if _is_gzip(archive) else _zip_members(archive)


def _is_gzip(path):
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _zip_members(archive):
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            if not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16):
                opener = functools.partial(_open_zipped, packed, info)
                yield PurePosixPath(info.filename), info.file_size, opener


def _open_zipped(packed, info):
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Of other methods zipfile decompresses a whole block, however large, at once.
        raise zipfile.BadZipFile("its compression is neither stored nor deflated")
    return packed.open(info)


def _tar_members(archive):
    with gzip.open(archive) as unzipped:
        stream = _LimitedStream(unzipped, most_content_bytes(archive))
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_SmallHeader) as packed:
            for number, info in enumerate(packed):
                # tarfile keeps every member, each with a copy of the global headers.
                packed.members.clear()
                packed.pax_headers.clear()
                if number == _MOST_MEMBERS:
                    raise tarfile.ReadError(f"it has over {_MOST_MEMBERS:,} members")
                if info.isreg():
                    opener = functools.partial(packed.extractfile, info)
                    yield PurePosixPath(info.name), info.size, opener
        while stream.read(1 << 20):
            pass  # up to the checksum at the end


class _LimitedStream:
    """A stream that may have been made endless, read up to a limit."""

    def __init__(self, stream, most_bytes):
        self._stream, self._most_bytes, self._num_bytes = stream, most_bytes, 0

    def read(self, size):
        block = self._stream.read(size)
        self._num_bytes += len(block)
        if self._num_bytes > self._most_bytes:
            raise tarfile.ReadError(f"it has over {self._most_bytes:,} bytes unpacked")
        return block


class _SmallHeader(tarfile.TarInfo):
    """A member's header; tarfile reads what stands before one into memory, however long it is."""

    def _proc_member(self, packed: Any) -> Any:
        if not self.isreg() and self.size > _MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of it has {self.size:,} bytes")
        return super()._proc_member(packed)  # type: ignore[misc]

    def _refuse_sparse(self, *_: Any) -> Any:
        raise tarfile.ReadError("it has a sparse file")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse

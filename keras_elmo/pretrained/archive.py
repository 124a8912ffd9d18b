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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from keras_elmo.config import MAX_OPTIONS_BYTES, ElmoConfig
from keras_elmo.pretrained.weight_table import count_parameters
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
_HARMLESS_BYTES, _MOST_COMPRESSION, _MOST_MEMBERS = 1 << 26, 100, 10_000
_GZIP = b"\x1f\x8b"

_Member = tuple[PurePosixPath, int, Callable[[], IO[bytes]]]


def find_model(
    paths: Iterable[PurePosixPath], place: str | Path
) -> tuple[PurePosixPath, PurePosixPath]:
    """The options and the weights of the one model among files.

    They are options.json and weights.hdf5, or names like these, or config.json and encoder.pkl of
    ELMoForManyLangs.

    Args:
        paths: The files.
        place: Where they are, for the error messages.

    Raises:
        FileNotFoundError: if a file of the model is missing.
        ValueError: if there are several candidates.
    """
    # A dot begins the names of what a killed export has left, and of what macOS adds to a zip file.
    paths = [path for path in paths if not path.name.startswith(".")]
    if _is_pickled(paths):
        return _pickled_model(paths, place)
    options = _the_one(paths, OPTIONS, _OPTIONS_NAMES, "options.json", place)
    return options, _the_one(paths, WEIGHTS, _WEIGHTS_NAMES, ".hdf5 or .h5", place)


def is_of_many_languages(weights: Path) -> bool:
    """Whether the weights of `model_files` are of ELMoForManyLangs."""
    return weights.suffix == Path(PICKLED_ENCODER).suffix


def _is_pickled(paths):
    """Whether files are of ELMoForManyLangs; hdf5 with its options decides that they are not."""
    if _fitting(paths, _OPTIONS_NAMES) and _fitting(paths, _WEIGHTS_NAMES):
        return False
    names = {path.name for path in paths}
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


def _the_one(paths, name, patterns, endings, place):
    matches = _fitting(paths, patterns)
    if len(matches) == 1:
        return matches[0]
    error = FileNotFoundError if not matches else ValueError
    raise error(
        f"{place} must hold {name}, or one file whose name ends in {endings}; found "
        f"{_listing(matches or paths)}. Pass the pair (options, weights) of their paths instead."
    )


def _fitting(paths, patterns):
    fitting = (
        [path for path in paths if re.fullmatch(pattern, path.name, re.IGNORECASE)]
        for pattern in patterns
    )
    return next(filter(None, fitting), [])


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

    Args:
        archive: The file.
        folder: Where the files get their usual names: options.json, weights.hdf5, softmax.hdf5,
            word.dic and char.dic, or the files of ELMoForManyLangs and its architecture beside
            them. Missing ones that a model can do without are left out.

    Returns:
        The paths of options and weights.

    Raises:
        FileNotFoundError, ValueError: as `find_model`, or if the archive is damaged, or a file is
            larger than that of any model, or than the options allow.
    """
    try:
        paths = [path for path, *_ in _members(archive)]
        options, weights = find_model(paths, archive)
        if weights.name == PICKLED_ENCODER:
            return _unpack_pickled(archive, folder, paths, options)
        pair = folder / OPTIONS, folder / WEIGHTS
        _unpack(archive, {options: (pair[0], MAX_OPTIONS_BYTES)})
        most = most_weights_bytes(pair[0])
        sizes = {SOFTMAX: most, **dict.fromkeys(DICTIONARIES, MAX_LEXICON_BYTES)}
        beside = {weights.with_name(name): (folder / name, sizes[name]) for name in sizes}
        _unpack(archive, {**beside, weights: (pair[1], most)})
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


def _unpack_pickled(archive, folder, paths, options):
    _unpack(archive, {options: (folder / PICKLED_OPTIONS, MAX_OPTIONS_BYTES)})
    sizes = dict.fromkeys((PICKLED_ENCODER, PICKLED_EMBEDDER), _MOST_PICKLE_BYTES)
    sizes |= dict.fromkeys(DICTIONARIES, MAX_LEXICON_BYTES)
    targets = {options.with_name(name): (folder / name, sizes[name]) for name in sizes}
    for place in _architecture_places(folder / PICKLED_OPTIONS, options.parent):
        is_plain = re.fullmatch(r"\w[\w.+-]*", place.name) and place.name != PICKLED_OPTIONS
        if place in paths and place not in targets and is_plain:
            targets[place] = folder / place.name, MAX_OPTIONS_BYTES
            break
    _unpack(archive, targets)
    return folder / PICKLED_OPTIONS, folder / PICKLED_ENCODER


def _architecture_places(options, folder):
    """Where ELMoForManyLangs looks for the architecture; its reader refuses bad options."""
    try:
        named = PurePosixPath(json.loads(options.read_bytes())["config_path"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return ()
    return folder / named, folder / named.name


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


def _members(archive) -> Iterator[_Member]:
    """Path, size and opener of every regular file in a zip or tar.gz file: no links, no devices."""
    return _tar_members(archive) if _is_gzip(archive) else _zip_members(archive)


def _is_gzip(path):
    with open(path, "rb") as file:
        return file.read(len(_GZIP)) == _GZIP


def _zip_members(archive):
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            if not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16):
                opener = functools.partial(_open_zipped, packed, info)
                yield PurePosixPath(info.filename), info.file_size, opener


def _open_zipped(packed, info):
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # zipfile unpacks a whole block of others, however large, before it looks at the size.
        raise zipfile.BadZipFile("its compression is neither stored nor deflated")
    return packed.open(info)


def _tar_members(archive):
    most_bytes = max(_HARMLESS_BYTES, _MOST_COMPRESSION * archive.stat().st_size)
    with gzip.open(archive) as unzipped:
        stream = _LimitedStream(unzipped, most_bytes)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_SmallHeader) as packed:
            for number, info in enumerate(packed):
                if number == _MOST_MEMBERS:
                    raise tarfile.ReadError(f"it has over {_MOST_MEMBERS:,} members")
                if info.isreg() and not info.issparse():
                    opener = functools.partial(packed.extractfile, info)
                    yield PurePosixPath(info.name), info.size, opener
        while stream.read(1 << 20):
            pass  # to the checksum at the end


class _LimitedStream:
    """Reads a stream that may be made to have no end."""

    def __init__(self, stream, most_bytes):
        self._stream, self._most_bytes, self._num_bytes = stream, most_bytes, 0

    def read(self, size):
        block = self._stream.read(size)
        self._num_bytes += len(block)
        if self._num_bytes > self._most_bytes:
            raise tarfile.ReadError(f"it has over {self._most_bytes:,} bytes unpacked")
        return block


class _SmallHeader(tarfile.TarInfo):
    """A member's header; tarfile would read the long name before one into memory, however long."""

    def _proc_member(self, packed: Any) -> Any:
        if not self.isreg() and self.size > MAX_OPTIONS_BYTES:
            raise tarfile.ReadError(f"a header of it has {self.size:,} bytes")
        return super()._proc_member(packed)  # type: ignore[misc]

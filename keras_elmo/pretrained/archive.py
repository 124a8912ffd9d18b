"""Unpacking zip and tar.gz files."""

import contextlib
import functools
import gzip
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from keras_elmo.files import is_damage
from keras_elmo.pretrained.folder import archived_files


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or gzip file, by its content."""
    return _is_gzip(path) or zipfile.is_zipfile(path)


def unpack(archive: Path, folder: Path, place: object = None) -> None:
    """Unpacks the files of the model in a zip or tar.gz file, into one folder.

    Only their contents and the last parts of their names are used, so that nothing is written
    elsewhere.

    Args:
        archive: The file.
        folder: Where to write; it exists.
        place: What error messages call the archive, if not by its path.

    Raises FileNotFoundError or ValueError if the archive is damaged or does not hold one model.
    """
    place = place or archive
    with contextlib.ExitStack() as stack:
        with _named(place):
            members = stack.enter_context(_members(archive))
        names = archived_files(members, place)
        with _named(place):
            for name in names:
                with (
                    members[name]() as source,
                    open(folder / PurePosixPath(name).name, "wb") as target,
                ):
                    shutil.copyfileobj(source, target, 1 << 20)


@contextlib.contextmanager
def _members(archive):
    """Yields functions that open the files in an archive, by their names."""
    if _is_gzip(archive):
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as packed:
            files = {info.name: info for info in packed if info.isreg()}
            while stream.read(1 << 20):
                pass  # up to the checksum at the end
            yield {x: functools.partial(packed.extractfile, info) for x, info in files.items()}
    else:
        with zipfile.ZipFile(archive) as packed:
            files = [info for info in packed.infolist() if not info.is_dir()]
            yield {info.filename: functools.partial(packed.open, info) for info in files}


@contextlib.contextmanager
def _named(place):
    """Turns errors on the content of an archive into one that names it."""
    try:
        yield
    except Exception as error:
        if not is_damage(error):
            raise
        raise ValueError(
            f"{place} cannot be unpacked: {str(error)[:300]}. Expected a tar.gz file, or a zip "
            "file without a password; pack or copy it again, or pass a folder."
        ) from None


def _is_gzip(path):
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"

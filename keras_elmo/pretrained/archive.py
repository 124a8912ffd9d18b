"""Unpacking zip and tar.gz files."""

import gzip
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from keras_elmo.pretrained.weight_table import most_content_bytes

_MOST_MEMBERS = 10_000
_BAD_NAMES = FileExistsError, IsADirectoryError, NotADirectoryError


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or gzip file, by its content."""
    return _is_gzip(path) or zipfile.is_zipfile(path)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a zip or tar.gz file into a folder, and nothing outside of it.

    Raises ValueError if the archive is damaged, holds links that lead outside or devices, or has
    too many or too large files.
    """
    try:
        if _is_gzip(archive):
            _unpack_tar(archive, folder)
        else:
            _unpack_zip(archive, folder)
    except (gzip.BadGzipFile, *_BAD_NAMES) as error:
        raise _unpack_error(archive, error) from None
    except OSError:  # of the disk
        raise
    except Exception as error:  # damage shows as errors of many types
        raise _unpack_error(archive, error) from None


def _unpack_error(archive, error):
    return ValueError(
        f"{archive} cannot be unpacked: {str(error)[:300]}. Expected a tar.gz file, or a zip file "
        "without a password; pack or copy it again, or pass a folder."
    )


def _is_gzip(path):
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _unpack_zip(archive, folder):
    most_bytes = most_content_bytes(archive)
    with zipfile.ZipFile(archive) as packed:
        members = packed.infolist()
        _check_limits(len(members), sum(info.file_size for info in members), most_bytes)
        # Of other methods zipfile decompresses a whole block, however large, at once.
        if {info.compress_type for info in members} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise zipfile.BadZipFile("its compression is neither stored nor deflated")
        packed.extractall(folder, [info for info in members if info.filename])


def _unpack_tar(archive, folder):
    most_bytes = most_content_bytes(archive)
    with gzip.open(archive) as unzipped:
        stream: Any = _LimitedStream(unzipped, most_bytes)
        with tarfile.open(fileobj=stream, mode="r|") as packed:
            for number, info in enumerate(packed):
                _check_limits(number, info.size, most_bytes)
                if not (info.isreg() or info.isdir()):
                    raise ValueError(f"{info.name} is neither a file nor a folder")
                packed.extract(info, folder, filter="data")
        while stream.read(1 << 20):
            pass  # up to the checksum at the end


class _LimitedStream:
    """A stream that may decompress to much more than an archive's files, read up to a limit."""

    def __init__(self, stream, most_bytes):
        self._stream, self._most_bytes, self._num_bytes = stream, most_bytes, 0

    def read(self, size):
        block = self._stream.read(size)
        self._num_bytes += len(block)
        _check_limits(0, self._num_bytes, self._most_bytes)
        return block


def _check_limits(num_members, num_bytes, most_bytes):
    if num_members > _MOST_MEMBERS or num_bytes > most_bytes:
        raise ValueError(
            f"it has over {_MOST_MEMBERS:,} files, or over {most_bytes:,} bytes unpacked"
        )

"""Unpacking zip and tar.gz files."""

import gzip
import tarfile
import zipfile
from pathlib import Path

from keras_elmo.pretrained.weight_table import max_unpacked_bytes

_MOST_MEMBERS = 10_000


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or gzip file, by its content."""
    return _is_gzip(path) or zipfile.is_zipfile(path)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a zip or tar.gz file into a folder, and nothing outside of it.

    Raises ValueError if the archive is damaged, holds links or devices, has too many or too large
    files, or the folder cannot be written.
    """
    try:
        (_unpack_tar if _is_gzip(archive) else _unpack_zip)(archive, folder)
    except Exception as error:  # damage shows as errors of many types
        raise ValueError(
            f"{archive} cannot be unpacked: {str(error)[:300]}. Expected a tar.gz file, or a zip "
            "file without a password; pack or copy it again, or pass a folder."
        ) from None


def _is_gzip(path):
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _unpack_zip(archive, folder):
    most_bytes = max_unpacked_bytes(archive)
    with zipfile.ZipFile(archive) as packed:
        members = packed.infolist()
        _check_limits(len(members), sum(info.file_size for info in members), most_bytes)
        # Of other methods zipfile decompresses a whole block, however large, at once.
        if {info.compress_type for info in members} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise zipfile.BadZipFile("its compression is neither stored nor deflated")
        packed.extractall(folder)


def _unpack_tar(archive, folder):
    most_bytes = max_unpacked_bytes(archive)
    with _LimitedStream(archive) as stream:
        stream.most_bytes = most_bytes
        with tarfile.open(fileobj=stream, mode="r|") as packed:
            for number, info in enumerate(packed):
                _check_limits(number, info.size, most_bytes)
                if not (info.isreg() or info.isdir()):
                    raise ValueError(f"{info.name} is neither a file nor a folder")
                packed.extract(info, folder, filter="data")
        while stream.read(1 << 20):
            pass  # up to the checksum at the end


class _LimitedStream(gzip.GzipFile):
    """A gzip file that is read up to a limit: it may unpack to much more than the tar's files."""

    most_bytes, num_bytes = 0, 0

    def read(self, size=-1):
        block = super().read(size)
        self.num_bytes += len(block)
        _check_limits(0, self.num_bytes, self.most_bytes)
        return block


def _check_limits(num_members, num_bytes, most_bytes):
    if num_members > _MOST_MEMBERS or num_bytes > most_bytes:
        raise ValueError(
            f"it has over {_MOST_MEMBERS:,} files, or over {most_bytes:,} bytes unpacked"
        )

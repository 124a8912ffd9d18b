"""A file that is always as it was at its last commit, however the process ends."""

import contextlib
import hashlib
import io
import os
import struct

from keras_elmo.atomic import atomic_write

_PAGE = 4096
_HEADER = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")
_DIGEST_SIZE = hashlib.sha256().digest_size


class JournaledFile(io.RawIOBase):
    """A binary file for programs that write anywhere in it, such as HDF5.

    What is written behind the end of the last commit goes to the disk at once, where nobody looks
    for it yet. What changes older bytes is kept in memory, in pages, until `commit` writes the
    pages to a journal beside the file, then into the file, and removes the journal. A process
    killed in between, or an error, leaves a journal, by which `recover` finishes the work.

    Args:
        path: The file, which must exist.
        size: Its bytes at the last commit; what lies behind them is cut off.
    """

    def __init__(self, path, size):
        super().__init__()
        self._path = os.fspath(path)
        self._descriptor = os.open(self._path, os.O_RDWR)
        os.ftruncate(self._descriptor, size)
        self._committed = self._size = size
        self._place = 0
        self._pages = {}
        self._is_discarded = False

    def readable(self):
        return True

    def writable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._place

    def seek(self, offset, whence=os.SEEK_SET):
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def truncate(self, size=None):
        self._size = self._place if size is None else size
        return self._size

    def flush(self):
        # Not left to the base class: after an error HDF5 calls this with the error still pending,
        # and then Python may find only what the class itself defines.
        pass

    def readinto(self, buffer):
        target = memoryview(buffer).cast("B")
        count = max(0, min(len(target), self._size - self._place))
        done = 0
        for number, start, stop in _parts(self._place, count):
            target[done : done + stop - start] = self._page(number)[start:stop]
            done += stop - start
        self._place += count
        return count

    def write(self, data):
        data = memoryview(data).cast("B")
        if self._is_discarded:
            return len(data)
        done = 0
        for number, start, stop in _parts(self._place, len(data)):
            part = data[done : done + stop - start]
            if number * _PAGE < self._committed:
                # HDF5 writes large tables anew for one more row: most of their pages are the same.
                page = self._page(number)
                if page[start:stop] != part:
                    self._pages.setdefault(number, bytearray(page))[start:stop] = part
            else:
                _write_all(self._descriptor, part, number * _PAGE + start)
            done += stop - start
        self._place += len(data)
        self._size = max(self._size, self._place)
        return len(data)

    def commit(self):
        """Makes all that was written so far part of the file, even if the machine stops.

        Raises:
            OSError: if the disk is full or fails. The file is then as at the commit before, or will
                be as at this one by `recover`.
        """
        os.fsync(self._descriptor)
        journal = journal_of(self._path)
        with atomic_write(journal) as partial, open(partial, "wb") as file:
            digest = hashlib.sha256()
            for part in self._journal_parts():
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        _apply(self._descriptor, self._size, self._pages)
        # Before the unlink: `close` may come after any line, and without a journal it cuts.
        self._committed, self._pages = self._size, {}
        os.unlink(journal)

    def _journal_parts(self):
        yield _HEADER.pack(self._size, len(self._pages))
        for number, page in self._pages.items():
            yield _NUMBER.pack(number) + page

    def discard(self):
        """Forgets what was written since the last commit, and all that is written from now on."""
        self._is_discarded = True

    def close(self):
        if not self.closed:
            # A commit that was interrupted needs all of the file for `recover` to finish it.
            if not os.path.exists(journal_of(self._path)):
                os.ftruncate(self._descriptor, self._committed)
            os.close(self._descriptor)
        super().close()

    def _page(self, number):
        page = self._pages.get(number)
        if page is None:
            page = os.pread(self._descriptor, _PAGE, number * _PAGE).ljust(_PAGE, b"\0")
        return page


def journal_of(path):
    """The name of the journal of a `JournaledFile`."""
    return os.fspath(path) + ".journal"


def recover(path):
    """Finishes the commit of a `JournaledFile` that was killed in the middle of it.

    Args:
        path: The file. Nothing is done where it has no journal.
    """
    journal = journal_of(path)
    with contextlib.suppress(FileNotFoundError):
        with open(journal, "rb") as file:
            content = file.read()
        content, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
        if hashlib.sha256(content).digest() != digest:
            raise OSError(f"{journal} is damaged: {path} cannot be repaired with it.")
        size, count = _HEADER.unpack_from(content)
        step = _NUMBER.size + _PAGE
        starts = range(_HEADER.size, _HEADER.size + count * step, step)
        pages = {
            _NUMBER.unpack_from(content, start)[0]: content[start + _NUMBER.size : start + step]
            for start in starts
        }
        descriptor = os.open(path, os.O_RDWR)
        try:
            _apply(descriptor, size, pages)
        finally:
            os.close(descriptor)
        os.unlink(journal)


def _apply(descriptor, size, pages):
    for number, page in pages.items():
        _write_all(descriptor, page, number * _PAGE)
    os.ftruncate(descriptor, size)
    os.fsync(descriptor)


def _write_all(descriptor, data, place):
    data = memoryview(data)
    while data:
        count = os.pwrite(descriptor, data, place)
        data, place = data[count:], place + count


def _parts(place, count):
    """The pages of a range of bytes: (number, first byte in it, byte after the last)."""
    stop = place + count
    while place < stop:
        number, start = divmod(place, _PAGE)
        end = min(_PAGE, start + stop - place)
        yield number, start, end
        place += end - start

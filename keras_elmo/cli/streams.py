"""Standard output and error: a command does its work also if nobody can read what it prints."""

import contextlib
import os
import sys
from collections.abc import Iterator


class Stream:
    """A text stream that continues to the null device when it can no longer be written to.

    Attributes:
        error: The OSError that ended it, or `None`: BrokenPipeError if its reader has stopped, as
            with `| head`.
    """

    def __init__(self, stream):
        self._stream = stream
        self.error = None
        if hasattr(stream, "reconfigure"):  # words may have characters that the terminal lacks
            stream.reconfigure(errors="backslashreplace")

    def write(self, text):
        self._try(self._stream.write, text)
        return len(text)

    def flush(self):
        self._try(self._stream.flush)

    def _try(self, action, *arguments):
        try:
            action(*arguments)
        except OSError as error:
            self.error = error
            # Of the file, since the stream keeps what it could not write.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name):
        return getattr(self._stream, name)


@contextlib.contextmanager
def lasting_streams() -> Iterator[Stream]:
    """Makes a `Stream` of standard output and of standard error in the block; yields the first."""
    _replace_closed()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = output, errors = Stream(sys.stdout), Stream(sys.stderr)
    try:
        yield output
    finally:
        output.flush()
        errors.flush()
        sys.stdout, sys.stderr = before


def _replace_closed():
    """Opens the null device in place of closed streams, as by `>&-`.

    Otherwise the next file that is opened would have their number, and what others print.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115

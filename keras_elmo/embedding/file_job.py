"""A text file to a file of vectors: in constant memory, and gone on with after a kill."""

import collections
import contextlib
import ctypes
import dataclasses
import hashlib
import json
import os
import sys
import time

from keras_elmo.embedding.writers import open_store
from keras_elmo.text.characters import split_tokens
from keras_elmo.text.reader import decompressed, readable

MAX_REASONS = 20
"""Most lines that could not be read to tell of."""


@dataclasses.dataclass
class EmbeddedFile:
    """What became of a text file.

    Args:
        lines: Lines in the file of vectors, those of earlier runs too.
        tokens: Tokens embedded by this run.
        seconds: Time this run took, without loading the model.
        failed: Lines of this run that could not be read; they have an array without tokens.
        reasons: Of the first of those, `(line number from 0 on, reason)`.
    """

    lines: int = 0
    tokens: int = 0
    seconds: float = 0.0
    failed: int = 0
    reasons: list = dataclasses.field(default_factory=list)


def embed_file(
    embedder,
    source,
    target,
    *,
    output,
    pooling,
    field,
    max_line_tokens,
    dtype,
    compression,
    resume,
    overwrite,
):
    """Embeds a text file of one tokenized sentence a line: see `Embedder.embed_file`."""
    settings = {
        "model": fingerprint(embedder),
        "output": output,
        "pooling": pooling,
        "max_tokens": embedder.max_tokens,
        "overlap": embedder.overlap,
        "field": field,
        "max_line_tokens": max_line_tokens,
    }
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(Lines(source, field, max_line_tokens))
        blocks = embedder.blocks(lines, output, pooling)
        store = open_store(
            target,
            settings,
            dtype=dtype,
            compression=compression,
            resume=resume,
            overwrite=overwrite,
        )
        try:
            lines.skip(store.num_lines, store.digest, target)
            report = EmbeddedFile()
            start = time.monotonic()
            advance = stack.enter_context(_progress(embedder, lines.num_bytes))
            for arrays in blocks:
                for array in arrays:
                    tokens, error = lines.taken.popleft()
                    if error is not None:
                        _note_failure(report, store.num_lines, error)
                    store.write(tokens, array, error)
                    report.tokens += len(tokens)
                store.commit(lines.digest)
                advance(lines.place, store.num_lines, report.tokens)
                del array, arrays  # or two blocks would be in memory while the next is made
                _give_memory_back()
            if store.digest is None and not store.num_lines:
                store.write_no_lines(next(embedder.blocks([[]], output, pooling))[0])
            store.finish(lines.digest)
        except BaseException:
            store.abort()
            raise
    report.lines = store.num_lines
    report.seconds = time.monotonic() - start
    return report


def fingerprint(embedder):
    """A short hash of all weights of an Embedder's model, and of what it computes in."""
    digest = hashlib.sha256(embedder.dtype.encode())
    for weight in embedder.layer.get_weights():
        digest.update(weight.tobytes())
    return digest.hexdigest()[:32]


class Lines:
    """The lines of a text as lists of tokens; what could not be read has none.

    Args:
        source, field, max_line_tokens: As for `Embedder.embed_file`.
    """

    def __init__(self, source, field, max_line_tokens):
        self._source = source
        self._field = field
        self._max_line_tokens = max_line_tokens
        self._hash = hashlib.sha256()
        self._closing = contextlib.ExitStack()
        self.taken = collections.deque()
        """The tokens and errors of the lines that were handed out."""

    def __enter__(self):
        if hasattr(self._source, "read"):
            self._lines, self._name = self._source, "the text"
            self.num_bytes, self._raw = None, None
            self._is_json = self._field is not None
            return self
        self._name = os.fspath(self._source)
        self._raw = self._closing.enter_context(open(self._source, "rb"))
        self._lines = self._closing.enter_context(decompressed(self._raw, self._name))
        self.num_bytes = os.path.getsize(self._source)
        plain_name = self._name.removesuffix(".gz").removesuffix(".xz")
        self._is_json = self._field is not None or plain_name.endswith(".jsonl")
        return self

    def __exit__(self, *error):
        self._closing.close()

    @property
    def digest(self):
        """Of the lines read so far."""
        return self._hash.hexdigest()

    @property
    def place(self):
        """Bytes of the file read so far, or `None`."""
        return None if self._raw is None else self._raw.tell()

    def skip(self, count, digest, target):
        """Reads lines that were embedded before."""
        with readable(self._name):
            for _ in range(count):
                self._hash.update(next(self._lines, b""))
        if count and self.digest != digest:
            raise ValueError(
                f"{self._name} does not begin with the {count:,} lines that {target} holds: resume "
                "with the same text, or write to another name."
            )

    def __iter__(self):
        with readable(self._name):
            for line in self._lines:
                self._hash.update(line)
                tokens, error = self._read(line)
                self.taken.append((tokens, error))
                yield tokens

    def _read(self, line):
        tokens = line
        if self._is_json:
            tokens, error = _json_field(line, self._field or "text")
            if error is not None:
                return [], error
        if isinstance(tokens, (str, bytes)):
            tokens = split_tokens(tokens)
        if len(tokens) > self._max_line_tokens:
            return [], f"{len(tokens):,} tokens, more than max_line_tokens={self._max_line_tokens}"
        return tokens, None


def _json_field(line, field):
    """A line's text or tokens, and why it has none."""
    try:
        row = json.loads(line.decode("utf-8", "ignore"))
    except (ValueError, RecursionError) as error:
        return None, f"not JSON: {error}"
    if not isinstance(row, dict) or field not in row:
        return None, f"no field {field!r}"
    value = row[field]
    is_tokens = isinstance(value, list) and all(isinstance(token, str) for token in value)
    if not isinstance(value, str) and not is_tokens:
        return None, f"field {field!r} is neither a string nor a list of strings"
    return value, None


def _give_memory_back():
    """Returns freed memory to the system: glibc keeps ever more of it, in pieces between others."""
    # Other C libraries, and Windows, have no such function.
    with contextlib.suppress(AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _note_failure(report, line, reason):
    report.failed += 1
    if report.failed <= MAX_REASONS:
        report.reasons.append((line, reason))


@contextlib.contextmanager
def _progress(embedder, num_bytes):
    """A function of the place in the file, the lines done, and the tokens of this run."""
    shown = sys.stderr.isatty() if embedder.progress is None else embedder.progress
    if not shown:
        yield lambda place, lines, tokens: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.fields[lines]:,} lines, {task.fields[rate]:,.0f} tokens/s")
    columns = (TextColumn("embedding"), BarColumn(), text, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("embedding", total=num_bytes, lines=0, rate=0.0)
        start = time.monotonic()

        def advance(place, lines, tokens):
            rate = tokens / (time.monotonic() - start)
            progress.update(task, completed=place, lines=lines, rate=rate)

        yield advance

"""Reading text files of one tokenized sentence a line, plain, compressed or JSON lines."""

import contextlib
import dataclasses
import glob
import gzip
import hashlib
import json
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, BinaryIO, NamedTuple

from keras_elmo.text.characters import split_tokens

_OPENED_BY = {".gz": gzip.open, ".xz": lzma.open}


@dataclasses.dataclass
class TextReport:
    """Counts of what was read from a corpus, and of what was odd about it.

    Args:
        files: Files read.
        sentences: Lines with at least one token.
        tokens: Their tokens, without boundaries.
        blank_lines: Lines without a token, which are skipped.
        invalid_lines: Lines with bytes that are not UTF-8. Those bytes are dropped.
        empty_files: Names of files without a sentence.
    """

    files: int = 0
    sentences: int = 0
    tokens: int = 0
    blank_lines: int = 0
    invalid_lines: int = 0
    empty_files: list[str] = dataclasses.field(default_factory=list)

    @property
    def predictions(self) -> int:
        """Words that a language model predicts in one direction: all tokens and sentence ends."""
        return self.tokens + self.sentences

    def oddities(self) -> list[str]:
        """Phrases about what a user may not expect in the corpus."""
        found = []
        if self.blank_lines:
            found.append(f"{self.blank_lines:,} blank lines (skipped)")
        if self.invalid_lines:
            found.append(f"{self.invalid_lines:,} lines with invalid UTF-8 (those bytes dropped)")
        if self.empty_files:
            names = ", ".join(self.empty_files[:3]) + ", ..." * (len(self.empty_files) > 3)
            found.append(f"{len(self.empty_files):,} files without a sentence ({names})")
        return found


def read_sentences(
    path: str | os.PathLike[str], report: TextReport | None = None
) -> Iterator[list[bytes]]:
    """Streams the sentences of a file as lists of tokens.

    Tokens are separated by ASCII white space; other white space is part of its token. A line may
    end in LF or CRLF.

    Args:
        path: Text file, plain or with the suffix `.gz` or `.xz`.
        report: A `TextReport` to add to.

    Yields:
        Non-empty lists of tokens, valid UTF-8.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a compressed file is damaged or truncated.

    Example:

    >>> next(read_sentences("heldout.txt"))
    [b'Hello', b',', b'world']
    """
    report = TextReport() if report is None else report
    report.files += 1
    sentences_before = report.sentences
    with _readable(path), open_text(path) as file:
        for line in file:
            tokens = _valid_utf8(line, report).split()
            if not tokens:
                report.blank_lines += 1
                continue
            report.sentences += 1
            report.tokens += len(tokens)
            yield tokens
    if report.sentences == sentences_before:
        report.empty_files.append(os.path.basename(path))


def _valid_utf8(line, report):
    try:
        line.decode()
    except UnicodeDecodeError:
        report.invalid_lines += 1
        return line.decode("utf-8", "ignore").encode()
    return line


class Record(NamedTuple):
    """A line of a text that is to be embedded.

    Args:
        tokens: The tokens; none where the line could not be read.
        error: Why it could not be read, else `None`.
        digest: SHA-256 of the text up to the end of this line, in hexadecimal.
        position: Bytes of the file read so far, compressed ones if it is; 0 where unknown.
    """

    tokens: list[str] | list[bytes]
    error: str | None
    digest: str
    position: int


def read_records(
    source: str | os.PathLike[str] | BinaryIO,
    field: str | None = None,
    max_line_tokens: int | None = None,
) -> Iterator[Record]:
    """Streams every line of a text, also those that are empty or cannot be read.

    Args:
        source: UTF-8 text: a path, whose suffix may be `.gz` or `.xz`, or an open binary file. A
            file with the suffix `.jsonl` (`.jsonl.gz`, ...) is read as JSON lines.
        field: Field of JSON lines with the sentence, a string or a list of tokens; `None` for
            `"text"`. If given, any text is read as JSON lines.
        max_line_tokens: A longer line gets an error instead of its tokens.

    Yields:
        A `Record` for each line.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a compressed file is damaged or truncated.

    Example:

    >>> next(read_records("text.txt.gz")).tokens
    [b'Hello', b',', b'world']
    """
    if not isinstance(source, (str, os.PathLike)):
        yield from _records(source, None, field, max_line_tokens)
        return
    name = os.fspath(source)
    if field is None and name.removesuffix(".gz").removesuffix(".xz").endswith(".jsonl"):
        field = "text"
    with _readable(name), open(name, "rb") as raw, _decompressed(raw, name) as lines:
        yield from _records(lines, raw, field, max_line_tokens)


def _records(lines, raw, field, max_line_tokens):
    """The records of lines of JSON, or of plain text where `field` is `None`."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
        tokens, error = (split_tokens(line), None) if field is None else _json_tokens(line, field)
        if max_line_tokens is not None and len(tokens) > max_line_tokens:
            error = f"{len(tokens):,} tokens, more than max_line_tokens={max_line_tokens}"
            tokens = []
        yield Record(tokens, error, digest.hexdigest(), 0 if raw is None else raw.tell())


def _json_tokens(line, field):
    """The tokens of a JSON line, and why it has none."""
    try:
        row = json.loads(line.decode("utf-8", "ignore"))
    except (ValueError, RecursionError) as error:
        return [], f"not JSON: {error}"
    if not isinstance(row, dict) or field not in row:
        return [], f"no field {field!r}"
    value = row[field]
    if isinstance(value, str):
        return split_tokens(value), None
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return value, None
    return [], f"field {field!r} is neither a string nor a list of strings"


def find_files(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Lists the files of a corpus.

    Args:
        files: A path, a glob pattern such as `"shards/*.gz"`, or a list of either.

    Returns:
        Paths, sorted within each pattern, without duplicates.

    Raises:
        FileNotFoundError: if a path does not exist or a pattern matches no file.

    Example:

    >>> find_files("shards/*")
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    found = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        # A name with brackets may be that of a file.
        matches = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern))
        matches = [path for path in matches if os.path.isfile(path)]
        if not matches:
            raise FileNotFoundError(
                f"No text file matches {pattern!r}. Give a file or a pattern such as 'shards/*.gz'."
            )
        found.update(dict.fromkeys(matches))
    if not found:
        raise FileNotFoundError("The list of text files is empty.")
    return list(found)


def open_text(path: str | os.PathLike[str]) -> IO[bytes]:
    """Opens a text file for reading bytes, decompressed if its suffix is .gz or .xz."""
    return _OPENED_BY.get(os.path.splitext(path)[1], open)(path, "rb")


def _decompressed(file, name):
    """An open binary file, decompressed if the suffix of the name is .gz or .xz."""
    opened_by = _OPENED_BY.get(os.path.splitext(name)[1])
    return file if opened_by is None else opened_by(file, "rb")


@contextlib.contextmanager
def _readable(path):
    """Reports a damaged compressed file as a ValueError."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or truncated: it cannot be decompressed ({error}). Fetch it again."
        ) from None

"""Reading text files of one tokenized sentence per line, JSON lines and FASTA, also compressed."""

import codecs
import contextlib
import dataclasses
import functools
import glob
import gzip
import hashlib
import itertools
import json
import lzma
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from keras_elmo.progress import progress_bar
from keras_elmo.text import fasta
from keras_elmo.text.tokenize import Tokenize, hint_at_raw_text, make_tokenizer
from keras_elmo.text.tokens import token_bytes

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a glob pattern such as `"shards/*.gz"`, or a list of either."""

_OPENED_BY: dict[str, Callable] = {".gz": gzip.open, ".xz": lzma.open}
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"BZh91AY": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"PK\x03\x04": "zip",
    b"\x89HDF": "HDF5",
    b"PAR1": "Parquet",
    b"%PDF": "PDF",
}
_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
_MAX_LINE_BYTES = 2**28
_BLOCK_BYTES = 2**21


def pluralize(number: int, noun: str) -> str:
    """A number of things, such as "1 file" or "2,000 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclasses.dataclass
class TextStats:
    """Counts of the lines and tokens of a corpus, and of its oddities."""

    files: int = 0
    sentences: int = 0  # lines with at least one token
    tokens: int = 0  # without boundaries
    blank_lines: int = 0  # without a token: skipped
    invalid_lines: int = 0  # with bytes that are not UTF-8, which are dropped
    empty_files: list[str] = dataclasses.field(default_factory=list)  # without a sentence

    @property
    def predictions(self) -> int:
        """Words that a language model predicts in one direction: all tokens and sentence ends."""
        return self.tokens + self.sentences

    def lines(self) -> list[str]:
        """A summary of the text and its anomalies, to print."""
        sizes = ((self.files, "file"), (self.sentences, "sentence"), (self.tokens, "token"))
        head = f"Corpus: {', '.join(pluralize(*size) for size in sizes)}"
        return [head, *(f"        {oddity}" for oddity in self.warnings())]

    def warnings(self) -> list[str]:
        """Phrases about what may be unexpected in the corpus."""
        names = ", ".join(self.empty_files[:3]) + ", ..." * (len(self.empty_files) > 3)
        found = (
            (self.blank_lines, "blank line", "(skipped)"),
            (self.invalid_lines, "line", "with invalid UTF-8 (those bytes dropped)"),
            (len(self.empty_files), "file", f"without a sentence ({names})"),
        )
        return [f"{pluralize(number, noun)} {oddity}" for number, noun, oddity in found if number]


def read_blocks(
    files: Sequence[str | os.PathLike[str]],
    report: TextStats,
    *,
    tokenize: Tokenize = None,
    show_progress: bool | None = False,
) -> Iterator[tuple[bytes, list[list[bytes]]]]:
    """Streams files in parts of about two megabytes: the tokenized text, and its sentences.

    A sentence is a non-empty list of tokens in valid UTF-8, separated by ASCII white space, or the
    residues of an entry of a FASTA file. The report counts what is read. Raises ValueError as
    `open_text` does.

    Args:
        files: Paths of plain, .gz or .xz files.
        report: A new `TextStats`.
        tokenize: For raw text, in which a line holds any number of sentences.
        show_progress: Whether to show a progress bar; `None` if standard error is a terminal.
    """
    total, has_begun = sum(map(os.path.getsize, files)), False
    with progress_bar("reading", total=total, unit="bytes", shown=show_progress) as bar:
        for path in files:
            before, position = report.sentences, 0
            report.files += 1
            if _ending(path) in _JSON_ENDINGS:
                raise ValueError(
                    f"{path} is JSON, of which only embedding reads the sentences: write them to a "
                    "text file, one per line."
                )
            with open_text(path) as (raw, lines):
                if _ending(path) in fasta.ENDINGS:
                    lines = _lines_of_residues(lines, path)
                elif tokenize:
                    lines = _tokenized(lines, make_tokenizer(tokenize), report)
                while block := list(_block(lines)):
                    sentences = _sentences(block, report)
                    if not has_begun and not tokenize:
                        hint_at_raw_text(sentences)
                    has_begun = True
                    yield b"".join(block), sentences
                    if raw.seekable():
                        bar.update(raw.tell() - position)
                        position = raw.tell()
            if report.sentences == before:
                report.empty_files.append(os.path.basename(path))


def _lines_of_residues(lines, path):
    for entry in fasta.read_entries(lines, path):
        if entry.error is not None:
            raise ValueError(f"{path}: entry {entry.name!r}: {entry.error}. Correct or remove it.")
        yield " ".join(entry.residues).encode() + b"\n"


def _tokenized(texts, read, report):
    """A line of tokens for each sentence of raw texts."""
    for text in texts:
        valid = valid_utf8(text)
        report.invalid_lines += valid is not text
        for sentence in read(valid):
            yield b" ".join(map(token_bytes, sentence)) + b"\n"


def _block(lines):
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size >= _BLOCK_BYTES:
            return


def _sentences(lines, report):
    try:
        b"".join(lines).decode()
    except UnicodeDecodeError:
        valid = list(map(valid_utf8, lines))
        report.invalid_lines += sum(one is not line for one, line in zip(valid, lines))
        lines = valid
    sentences = [tokens for line in lines if (tokens := line.split())]
    report.blank_lines += len(lines) - len(sentences)
    report.sentences += len(sentences)
    report.tokens += sum(map(len, sentences))
    return sentences


def read_sentences(files: Files) -> Iterator[list[bytes]]:
    """Streams the sentences of text files, see `read_blocks`."""
    for _, sentences in read_blocks(find_files(files), TextStats()):
        yield from sentences


def valid_utf8(line: bytes) -> bytes:
    """The line itself, or a copy without its invalid bytes."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "ignore").encode()
    return line


class Record(NamedTuple):
    """A line of a text to embed, or an entry of a FASTA file."""

    sentences: list[list[str]] | list[list[bytes]]  # tokens; none where it could not be read
    error: str | None  # why it could not be read
    digest: str  # SHA-256 of the text up to the end of this line, in hexadecimal
    position: int  # bytes of the file read so far, compressed ones if it is; 0 where unknown
    is_utf8: bool = True  # whether no byte was dropped
    name: str | None = None  # the identifier of an entry

    @property
    def tokens(self) -> list:
        """The tokens of all sentences."""
        return list(itertools.chain.from_iterable(self.sentences))


def read_records(
    source: str | os.PathLike[str] | BinaryIO,
    field: str | None = None,
    max_line_tokens: int | None = None,
    tokenize: Tokenize = None,
    format: str | None = None,
    num_known: int = 0,
) -> Iterator[Record]:
    """Streams a `Record` for every line of a text, including those that are empty or unreadable.

    Raises ValueError as `open_text` and `fasta.read_entries` do, if two entries have the same
    identifier, or if an argument does not fit the format.

    Args:
        source: A path, whose suffix may be `.gz` or `.xz`, or an open binary file. `.jsonl`,
            `.ndjson` or `.json`, also before `.gz` or `.xz`, is read as JSON lines, of the field
            `"text"`; `.fasta`, `.fa` or `.faa` likewise as FASTA.
        field: The field with the sentence, of a text that is read as JSON lines whatever its name.
        max_line_tokens: A longer line or entry gets an error instead of its tokens.
        tokenize: For raw text; without it, a line is a tokenized sentence.
        format: `"fasta"` for a text that is read as FASTA whatever its name.
        num_known: How many of the first lines need only their digest.
    """
    if format not in (None, "fasta"):
        raise ValueError(f"format must be None or 'fasta', got {format!r}.")
    opened: contextlib.AbstractContextManager
    if isinstance(source, (str, os.PathLike)):
        name, ending, opened = os.fspath(source), _ending(source), open_text(source)
    else:
        name, ending = "The text", ""
        opened = contextlib.nullcontext((None, _lines(source, name)))
    is_fasta = format == "fasta" or (field is None and ending in fasta.ENDINGS)
    if is_fasta and (field is not None or tokenize):
        raise ValueError("The tokens of FASTA are residues: leave out field and tokenize.")
    if field is None and ending in _JSON_ENDINGS:
        field = "text"
    most = math.inf if max_line_tokens is None else max_line_tokens
    read = make_tokenizer(tokenize)
    with opened as (raw, lines):
        # A pipe has no position.
        position = raw.tell if raw is not None and raw.seekable() else int
        if is_fasta:
            yield from _entries(lines, name, position, most)
        else:
            yield from _records(lines, position, field, most, read, num_known)


def _ending(path):
    """The ending of a file's name, in lower case and without that of its compression."""
    stem = os.fsdecode(path).lower().removesuffix(".gz").removesuffix(".xz")
    return os.path.splitext(stem)[1]


def _entries(lines, source, position, most):
    """The records of the entries of a FASTA file."""
    taken = {"", "."}  # which no dataset of an hdf5 file can be named
    for number, entry in enumerate(fasta.read_entries(lines, source, most), start=1):
        if entry.name in taken:
            raise ValueError(
                f"Expected each entry of {source} to have its own identifier, got {entry.name!r} "
                f"for entry {number:,}, which is missing or belongs to an earlier entry. Rename it."
            )
        taken.add(entry.name)
        residues = [list(entry.residues)] if entry.residues else []
        yield Record(residues, entry.error, entry.digest, position(), entry.is_utf8, entry.name)


def _records(lines, position, field, most, read, num_known):
    """The records of lines of JSON, or of plain text where `field` is `None`."""
    digest = hashlib.sha256()
    for number, line in enumerate(lines):
        digest.update(line)
        if number < num_known:
            yield Record([], None, digest.hexdigest(), position())
            continue
        text, count, sentences = valid_utf8(line), 0, []
        value, error = (text, None) if field is None else _json_value(text, field)
        if field is None and len(text) > 2 * most:
            # Counted before its tokens are made, which might not fit into memory.
            count = sum(1 for _ in re.finditer(rb"\S+", text))
        if error is None and count <= most:
            sentences = [value] if isinstance(value, list) else read(value)
            count = sum(map(len, sentences))
        if count > most:
            error, sentences = f"{count:,} tokens, more than max_line_tokens={most}", []
        yield Record(sentences, error, digest.hexdigest(), position(), text is line)


def _json_value(line, field):
    """The string or the tokens of a JSON line, or why it has none."""
    text = line.decode().strip()
    if not text:
        return None, "an empty line"
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        return None, f"not JSON: {error.msg} at character {error.pos + 1:,}"
    except (ValueError, RecursionError) as error:
        return None, f"not JSON: {error}"
    if not isinstance(row, dict) or field not in row:
        return None, f"no field {field!r}"
    value = row[field]
    is_list = isinstance(value, list) and all(isinstance(token, str) for token in value)
    if is_list or isinstance(value, str):
        return value, None
    return None, f"field {field!r} is neither a string nor a list of strings"


def find_files(files: Files) -> list[str]:
    """The files of a path, a glob pattern or a list of these; sorted within each, without repeats.

    In a pattern, `**` stands for any folders.

    Raises FileNotFoundError if a pattern matches none.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else files
    found: dict[str, None] = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        # A file's name may have brackets.
        matches = [pattern]
        if not os.path.isfile(pattern):
            matches = sorted(filter(os.path.isfile, glob.glob(pattern, recursive=True)))
        if not matches:
            raise FileNotFoundError(
                f"No text file matches {pattern!r}. Pass a file or a pattern such as 'shards/*.gz'."
            )
        found.update(dict.fromkeys(matches))
    if not found:
        raise FileNotFoundError("Expected at least one text file, got an empty list.")
    return list(found)


@contextlib.contextmanager
def open_text(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, Iterator[bytes]]]:
    """Yields a plain, .gz or .xz file, open, and its decompressed lines without a UTF-8 BOM.

    Raises ValueError if it is damaged or truncated, compressed without the suffix or otherwise,
    UTF-16, or its lines end in only CR.
    """
    opened_by = _OPENED_BY.get(os.path.splitext(path)[1].lower())
    try:
        with open(path, "rb") as raw, opened_by(raw) if opened_by else raw as file:
            yield raw, _lines(file, path)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or truncated: it cannot be decompressed ({error}). Copy it again."
        ) from None


def _lines(file, name):
    first = file.readline(_MAX_LINE_BYTES) if hasattr(file, "readline") else None
    if not isinstance(first, bytes):
        raise ValueError(
            f"{name} must be a path or a file opened in binary mode, 'rb'; got "
            f"{type(file).__name__}."
        )
    lines = iter(functools.partial(file.readline, _MAX_LINE_BYTES), b"")
    if kind := next((kind for magic, kind in _MAGIC.items() if first.startswith(magic)), None):
        raise ValueError(
            f"{name} is {kind}, not text: decompress it, or, if it is a gzip or xz file, rename it "
            "to end in .gz or .xz."
        )
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in first:
        raise ValueError(f"{name} is UTF-16 or not text: convert it to UTF-8.")
    if b"\r" in first.rstrip() and not first.endswith(b"\n"):
        raise ValueError(f"{name} has lines that end in CR without LF: convert them to end in LF.")
    first = first.removeprefix(codecs.BOM_UTF8)
    for line in itertools.chain([first] if first else [], lines):
        if len(line) >= _MAX_LINE_BYTES:
            raise ValueError(
                f"{name} has a line of more than {_MAX_LINE_BYTES >> 20} MiB: put each sentence "
                "on its own line."
            )
        yield line

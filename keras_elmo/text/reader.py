"""Finding, opening and reading texts, to sentences or to a record for each line."""

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
import operator
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from keras_elmo.progress import progress_bar
from keras_elmo.text.formats import FORMATS, TO_TEXT, format_of
from keras_elmo.text.tokenize import Tokenize, hint_at_raw_text, language_of, make_tokenizer
from keras_elmo.text.tokens import in_blocks, token_bytes, without_padding

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a glob pattern such as `"shards/*.gz"`, or a list of either."""

_OPENED_BY: dict[str, Callable] = {".gz": gzip.open, ".xz": lzma.open}
_UNPACK = "decompress it, or, if it is a gzip or xz file, rename it to end in .gz or .xz"
_MAGIC = {
    b"\x1f\x8b": ("gzip", _UNPACK),
    b"\xfd7zXZ\0": ("xz", _UNPACK),
    b"BZh91AY": ("bzip2", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("Zstandard", _UNPACK),
    b"PK\x03\x04": ("zip", _UNPACK),
    b"\x89HDF": ("HDF5", TO_TEXT),
    b"PAR1": ("Parquet", TO_TEXT),
    b"%PDF": ("PDF", TO_TEXT),
    b"{\\rtf": ("RTF", TO_TEXT),
    b"<?xml": ("XML", TO_TEXT),
    b"<!doctype": ("HTML", TO_TEXT),
    b"<html": ("HTML", TO_TEXT),
}
"""How files of other kinds begin, in lower case where they are text, and what to do with them."""

_MAX_LINE_BYTES = 2**28
_BLOCK_BYTES = 2**21
_HEAD_BYTES = 2**18
_TAKEN = {"line", "tokens", "sentence_lengths", "vectors", "error"}  # columns of files of vectors
_MAX_INVALID = 1 / 1000  # of the bytes: text in other encodings has more letters beyond ASCII


def pluralize(number: int, noun: str) -> str:
    """A number of things, such as "1 file", "2,000 files" or "3 entries"."""
    if number != 1:
        noun = re.sub("(?<=[^aeiou])y$", "ie", noun) + "s"
    return f"{number:,} {noun}"


@dataclasses.dataclass
class TextStats:
    """Counts of the lines and tokens of a corpus, and of what may be unexpected in it."""

    files: int = 0
    sentences: int = 0  # lines with at least one token
    tokens: int = 0  # without boundaries
    blank_lines: int = 0  # without a token: skipped
    invalid_lines: int = 0  # with bytes that are not UTF-8, which are dropped
    empty_files: list[str] = dataclasses.field(default_factory=list)  # without a sentence
    language: str | None = None  # ISO 639 code of the first file's, if it is known

    @property
    def predictions(self) -> int:
        """Words that a language model predicts in one direction: all tokens and sentence ends."""
        return self.tokens + self.sentences

    def lines(self) -> list[str]:
        """A summary of the text and the warnings about it, to print."""
        sizes = ((self.files, "file"), (self.sentences, "sentence"), (self.tokens, "token"))
        head = f"Corpus: {', '.join(pluralize(*size) for size in sizes)}"
        return [head, *(f"        {warning}" for warning in self.warnings())]

    def warnings(self) -> list[str]:
        """Phrases about what may be unexpected in the corpus."""
        names = ", ".join(self.empty_files[:3]) + ", ..." * (len(self.empty_files) > 3)
        found = (
            (self.blank_lines, "blank line", "(skipped)"),
            (self.invalid_lines, "line", "with invalid UTF-8 (those bytes dropped)"),
            (len(self.empty_files), "file", f"without a sentence ({names})"),
        )
        return [f"{pluralize(number, noun)} {detail}" for number, noun, detail in found if number]


def read_blocks(
    files: Sequence[str | os.PathLike[str]],
    stats: TextStats,
    *,
    tokenize: Tokenize = None,
    field: str | None = None,
    show_progress: bool | None = False,
) -> Iterator[list[list[bytes]]]:
    """Streams the sentences of files, in blocks of about two megabytes of text.

    A sentence is a non-empty list of tokens in valid UTF-8. All formats are determined before the
    first file is read.

    Args:
        files: Paths, as for `read_records`.
        stats: A new `TextStats`, which counts what is read.
        tokenize: For raw text, in which a line holds any number of sentences.
        field: As for `read_records`.
        show_progress: Whether to show a progress bar; `None` if standard error is a terminal.

    Raises:
        ValueError: as for `read_records`, or if a record cannot be read.
    """
    texts = [_Text(path, field, tokenize=tokenize) for path in files]
    stats.language = texts[0].language
    total, has_begun = sum(map(os.path.getsize, files)), False
    with progress_bar("reading", total=total, unit="bytes", shown=show_progress) as bar:
        for text in texts:
            before, position, number = stats.sentences, 0, 0
            stats.files += 1
            with text.open() as (raw, records):
                for block in in_blocks(records, len, _BLOCK_BYTES):
                    sentences = text.sentences(block, stats, number)
                    number += len(block)
                    if not has_begun and not tokenize:
                        hint_at_raw_text(sentences)
                    has_begun = True
                    yield sentences
                    if raw.seekable():
                        bar.update(raw.tell() - position)
                        position = raw.tell()
            if stats.sentences == before:
                stats.empty_files.append(os.path.basename(text.source))


def read_sentences(files: Files) -> Iterator[list[bytes]]:
    """Streams the sentences of text files, see `read_blocks`."""
    return itertools.chain.from_iterable(read_blocks(find_files(files), TextStats()))


class Record(NamedTuple):
    """A record of a text: a line, a sentence of CoNLL-U or an entry of a FASTA file."""

    sentences: list[list[str]] | list[list[bytes]]  # tokens; none where it could not be read
    error: str | None  # why it could not be read
    digest: str  # SHA-256 of the records up to this one, in hexadecimal
    position: int  # bytes of the file read so far, compressed ones if it is; 0 where unknown
    is_utf8: bool = True  # whether no byte was dropped
    name: str | None = None  # the identifier of an entry
    is_raw: bool = False  # whether its sentences and tokens were found by `tokenize`
    fields: Mapping[str, str | None] = {}  # of JSON, to keep; `None` where there is none

    @property
    def tokens(self) -> list:
        """The tokens of all sentences."""
        return list(itertools.chain.from_iterable(self.sentences))


READING_OPTIONS = ("field", "format", "max_line_tokens", "tokenize", "keep_fields")
"""The arguments of `read_records` that say how a text is read."""


def read_records(
    source: str | os.PathLike[str] | BinaryIO,
    field: str | None = None,
    max_line_tokens: int | None = None,
    tokenize: Tokenize = None,
    format: str | None = None,
    num_known: int = 0,
    keep_fields: Sequence[str] | None = None,
) -> Iterator[Record]:
    """Streams a `Record` for every record of a text, including those that are empty or unreadable.

    Args:
        source: A path, whose suffix may be `.gz` or `.xz`, or an open binary file. The ending of
            its name, before such a suffix, determines the format, see `keras_elmo.text.formats`;
            an open file is lines of text.
        field: The field with the sentence, of a text that is read as JSON whatever its name;
            without it, JSON has the field `"text"`.
        max_line_tokens: A longer record gets an error instead of its tokens.
        tokenize: For raw text; without it, a line is a tokenized sentence.
        format: A key of `FORMATS`, for a text that has this format whatever its name.
        num_known: How many of the first records need no tokens.
        keep_fields: Fields of JSON to return with each record: strings unchanged, other values as
            their JSON.

    Raises:
        ValueError: as for `open_text`, if the text does not have its format, or if an argument does
            not fit the format.
    """
    text = _Text(source, field, max_line_tokens, tokenize, format, keep_fields)
    digest = hashlib.sha256()
    with text.open() as (raw, records):
        # A pipe has no position.
        position = raw.tell if raw is not None and raw.seekable() else int
        for number, record in enumerate(records):
            digest.update(record)
            sentences, error, name, fields = text.read(record, is_known=number < num_known)
            yield Record(
                sentences,
                error,
                digest.hexdigest(),
                position(),
                is_utf8(record),
                name,
                bool(tokenize),
                fields,
            )


def unit_of(source: str | os.PathLike[str] | BinaryIO, **options: Any) -> str:
    """What messages call a record of `read_records`, such as "line"."""
    return _Text(source, **options).unit


def text_language(source: str | os.PathLike[str] | BinaryIO, **options: Any) -> str | None:
    """The code of the language of a text that `read_records` reads so, `None` if not known."""
    return _Text(source, **options).language


def check_text(path: str | os.PathLike[str], **options: Any) -> None:
    """Raises ValueError as the first record of `read_records` does, before a model is loaded.

    Pipes and other special files are not read.
    """
    text = _Text(path, **options)
    if os.path.isfile(path):
        with text.open() as (_, records):
            next(iter(records), None)


class _Text:
    """A text and how it is read: the one place that says what a record of it holds."""

    def __init__(
        self,
        source,
        field=None,
        max_line_tokens=None,
        tokenize=None,
        format=None,
        keep_fields=None,
    ):
        is_path = isinstance(source, (str, os.PathLike))
        self.source = os.fspath(source) if is_path else "The text"
        self._file = None if is_path else source
        self._format = format_of(self.source, _ending(source) if is_path else "", format, field)
        is_json = self._format is FORMATS["json"]
        if (self._format.is_tokenized and tokenize) or (field is not None and not is_json):
            raise ValueError(
                f"{self.source} is not read as raw text or JSON: leave out field and tokenize."
            )
        if keep_fields and not is_json:
            raise ValueError(
                f"Only JSON has fields to keep, and {self.source} is not read as JSON: leave out "
                "keep_fields, or pass format='json'."
            )
        self.unit = self._format.record
        self._kept = _checked_fields(keep_fields)
        self._field = "text" if field is None else field
        self._max_tokens = math.inf if max_line_tokens is None else max_line_tokens
        self._tokenizer = make_tokenizer(tokenize)
        self.language = self._format.language or language_of(tokenize)
        # Splitting many lines at once gives the same tokens as `read`, faster.
        self._is_split_at_spaces = self._format is FORMATS["text"] and not tokenize

    @contextlib.contextmanager
    def open(self):
        """Yields the open file, or `None`, and its records."""
        if self._file is None:
            with open_text(self.source) as (raw, lines):
                yield raw, self._format.split(lines, self.source)
        else:
            yield None, self._format.split(_lines(self._file, self.source), self.source)

    def read(self, record, is_known=False):
        """The sentences of a record in lists of tokens, why it could not be read, its name, and
        the fields to keep."""
        content = self._format.parse(record, self._field)
        text, error, count, sentences = content.text, content.error, 0, []
        if isinstance(text, bytes) and len(text) > 2 * self._max_tokens:
            # Counted before its tokens are made, which might not fit into memory.
            count = sum(1 for _ in re.finditer(rb"\S+", text))
        if error is None and count <= self._max_tokens and not is_known:
            is_tokenized = self._format.is_tokenized or isinstance(text, list)
            sentences = [list(text)] if is_tokenized else self._tokenizer(text)
            count = sum(map(len, sentences))
        if count > self._max_tokens:
            error, sentences = f"{count:,} tokens, more than max_line_tokens={self._max_tokens}", []
        fields = {name: _field_text(content.fields.get(name)) for name in self._kept}
        return sentences, error, content.name, fields

    def sentences(self, records, stats, num_before):
        """The non-empty sentences of records after so many, in lists of UTF-8 tokens."""
        if self._is_split_at_spaces:
            if not is_utf8(b"".join(records)):
                valid = list(map(token_bytes, records))
                stats.invalid_lines += sum(map(operator.ne, valid, records))
                records = valid
            found = list(map(bytes.split, records))
        else:
            found = []
            for number, record in enumerate(records, start=num_before + 1):
                sentences, error, name, _ = self.read(record)
                if error is not None and record.strip():
                    place = f"{self._format.record} {number if name is None else repr(name)}"
                    remedy = "Correct or remove it"
                    if self._format is FORMATS["json"]:
                        remedy += ", or choose another field with field='NAME'"
                    raise ValueError(f"{self.source}: {place}: {error}. {remedy}.")
                stats.invalid_lines += not is_utf8(record)
                found += [_encoded(without_padding(x)) for x in sentences or [[]]]
        kept = list(filter(None, found))
        stats.blank_lines += len(found) - len(kept)
        stats.sentences += len(kept)
        stats.tokens += sum(map(len, kept))
        return kept


def _checked_fields(names):
    """The names of fields to keep."""
    names = names or ()
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_list or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"keep_fields must be a list of names of fields, got {names!r}.")
    if taken := _TAKEN.intersection(names):
        raise ValueError(
            f"keep_fields cannot have {min(taken)!r}, which files of vectors have already: rename "
            "this field in the text."
        )
    return names


def _field_text(value):
    """The value of a field as text: a string, or its JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return token_bytes(text).decode().replace("\0", "\ufffd")  # HDF5 would end it there


def _encoded(tokens):
    """Tokens in valid UTF-8, which is faster all at once than one by one."""
    try:
        joined = "\n".join(tokens)
    except TypeError:  # bytes
        return list(map(token_bytes, tokens))
    if joined.count("\n") != len(tokens) - 1:
        return list(map(token_bytes, tokens))
    return joined.encode("utf-8", "ignore").split(b"\n")


def _ending(path):
    """The lower-case ending of a file's name, ignoring .gz and .xz."""
    stem = os.fsdecode(path).lower().removesuffix(".gz").removesuffix(".xz")
    return os.path.splitext(stem)[1]


def is_utf8(text: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def find_files(files: Files) -> list[str]:
    """The files of a path, a glob pattern or a list of these; sorted within each, without repeats.

    In a pattern, `**` stands for any folders.

    Raises FileNotFoundError if a pattern matches none, or is a folder.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else files
    found: dict[str, None] = {}
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        # A file's name may have brackets.
        matches = [pattern]
        if os.path.isdir(pattern):
            inside = os.path.join(pattern, "*")
            raise FileNotFoundError(f"{pattern} is a folder: pass its files, {inside!r}.")
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
    UTF-16 or in another encoding, or its lines end in only CR.
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
    start = first.removeprefix(codecs.BOM_UTF8)[:16]
    for magic, (kind, remedy) in _MAGIC.items():
        if start.startswith(magic) or start.lower().startswith(magic):
            raise ValueError(f"{name} is {kind}, not text: {remedy}.")
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or b"\0" in first:
        raise ValueError(f"{name} is UTF-16 or not text: convert it to UTF-8.")
    if b"\r" in first.rstrip() and not first.endswith(b"\n"):
        raise ValueError(f"{name} has lines that end in CR without LF: convert them to end in LF.")
    first = first.removeprefix(codecs.BOM_UTF8)
    lines = itertools.chain([first] if first else [], lines)
    head = next(in_blocks(lines, len, _HEAD_BYTES), [])
    start = b"".join(head)[:_HEAD_BYTES]
    valid = start.decode("utf-8", "ignore")
    invalid = len(start) - len(valid.encode())
    # A stray byte is dropped. In another encoding, most characters beyond ASCII are invalid.
    if invalid > max(len(valid) - len(valid.encode("ascii", "ignore")), _MAX_INVALID * len(start)):
        raise ValueError(
            f"{name} is not UTF-8: {pluralize(invalid, 'invalid byte')} in the first "
            f"{len(start):,}, probably since it has a different encoding, such as Latin-1 or "
            "Windows-1252. Convert it from its own: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
        )
    for line in itertools.chain(head, lines):
        if len(line) >= _MAX_LINE_BYTES:
            raise ValueError(
                f"{name} has a line of more than {_MAX_LINE_BYTES >> 20} MiB: put each sentence "
                "on its own line."
            )
        yield line

"""The formats of text: which files have one, where its records end, and what a record holds.

A new format is a `TextFormat` in `FORMATS`, and its test.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from keras_elmo.text.languages import PROTEINS
from keras_elmo.text.tokens import token_bytes


class Content(NamedTuple):
    """What a record holds."""

    text: (
        bytes | str | Sequence[str]
    )  # a text, or a list of tokens; nothing where there is an error
    error: str | None = None  # why it could not be read
    name: str | None = None  # its identifier
    fields: Mapping[str, Any] = {}  # of an object of JSON


class TextFormat(NamedTuple):
    """A format of text."""

    endings: tuple[str, ...]  # of the names of its files, without .gz or .xz
    record: str  # what messages call a record
    split: Callable[[Iterable[bytes], object], Iterable[bytes]]
    """The records of a text, from its lines and the name of the text for error messages."""
    parse: Callable[[bytes, str], Content]
    """What a record holds, of which JSON is asked for a field."""
    is_tokenized: bool = False  # whether `Content.text` is always a sequence of tokens
    language: str | None = None  # the code of the language that its texts are in


def format_of(
    source: object, ending: str, format: str | None = None, field: str | None = None
) -> TextFormat:
    """The format of a text.

    Args:
        source: The name of the text, for error messages.
        ending: The lower-case ending of its name, ignoring .gz and .xz.
        format: A key of `FORMATS`, whatever the name.
        field: A field of JSON, whatever the name.

    Raises:
        ValueError: if the format is unknown, or files with this ending hold no lines of text.
    """
    if format is not None and format not in FORMATS:
        names = ", ".join(map(repr, FORMATS))
        raise ValueError(f"format must be None or one of {names}; got {format!r}.")
    if format is None and field is not None:
        format = "json"
    if format is not None:
        return FORMATS[format]
    for found in FORMATS.values():
        if ending in found.endings:
            return found
    if ending in _NOT_LINES:
        raise ValueError(
            f"{source} is {_NOT_LINES[ending]}. If its lines are plain sentences, rename it to end "
            "in .txt."
        )
    return FORMATS["text"]


# Lines of text.


def _lines(lines, source):
    return lines


def _parse_line(line, field):
    return Content(line.rstrip(b"\r\n"))


# JSON: an object on each line, or one array of objects.


def _split_json(lines, source):
    lines, start = iter(lines), []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    lines = itertools.chain(start, lines)
    first = start[-1].strip() if start else b""
    if first == b"{":
        raise ValueError(
            f"{source} has an object of JSON in several lines: write each on its own line, as `jq "
            "-c . OLD > NEW` does, or all in one array."
        )
    is_array = first.startswith(b"[")
    return _elements(b"".join(lines), source) if is_array else lines


def _elements(content, source):
    """The elements of an array of JSON."""
    text = content.decode("utf-8", "surrogateescape")
    decode, space = json.JSONDecoder().raw_decode, re.compile(r"\s*")
    position = space.match(text, text.index("[") + 1).end()
    is_open = not text.startswith("]", position)
    try:
        while is_open:
            _, end = decode(text, position)
            yield text[position:end].encode("utf-8", "surrogateescape")
            position = space.match(text, end).end()
            if is_open := text.startswith(",", position):
                position = space.match(text, position + 1).end()
        if not text.startswith("]", position):
            raise json.JSONDecodeError("Expecting ',' or ']'", text, position)
        if text[position + 1 :].strip():
            raise json.JSONDecodeError("Extra data", text, position + 1)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{source} begins with '[' but is not a JSON array: {error}. Correct it, or write its "
            "records as JSON lines."
        ) from None


def _parse_json(line, field):
    """The string or the tokens in the field of a JSON object, or in place of an object."""
    text = line.decode("utf-8", "ignore").strip()
    if not text:
        return Content("", "an empty line")
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        return Content("", f"not JSON: {error.msg} at character {error.pos + 1:,}")
    except (ValueError, RecursionError) as error:
        return Content("", f"not JSON: {error}")
    value, fields, name = row, None, "the record"
    if isinstance(row, dict):
        if field not in row:
            found = ", ".join(map(repr, itertools.islice(row, 5)))
            error = f"no field {field!r}" + (f", only {found}" if found else "")
            return Content("", error, fields=row)
        value, fields, name = row[field], row, f"field {field!r}"
    is_list = isinstance(value, list) and all(isinstance(token, str) for token in value)
    if is_list or isinstance(value, str):
        return Content(value, fields=fields)
    return Content("", f"{name} is neither a string nor a list of strings", fields=fields)


# CoNLL-U: a word on each line, a blank line after each sentence.
# Reference: https://universaldependencies.org/format.html

_WORD_LINE = re.compile(rb"\d+(?P<is_no_word>[-.]\d+)?\t(?P<form>[^\t\r\n]+)")


def _split_conllu(lines, source):
    sentence, has_words, is_first = [], False, True
    for line in lines:
        sentence.append(line)
        if not line.strip():
            if has_words:
                yield b"".join(sentence)
                sentence, has_words = [], False
        elif not line.startswith(b"#"):
            if is_first and not _WORD_LINE.match(line):
                raise ValueError(
                    f"Expected {source} to be CoNLL-U, with a number, a tab and a word on each "
                    f"line; got {line.rstrip()[:40]!r}. Write the words of a different format to a "
                    ".txt file, one sentence per line, separated by spaces."
                )
            has_words, is_first = True, False
    if has_words:
        yield b"".join(sentence)


def _parse_conllu(text, field):
    """The words in the column FORM, without ranges such as 1-2 and empty nodes such as 1.1."""
    words = []
    for line in text.split(b"\n"):
        if not line.strip() or line.startswith(b"#"):
            continue
        found = _WORD_LINE.match(line)
        if not found:
            return Content([], f"not CoNLL-U: {line.rstrip()[:40]!r}")
        if not found["is_no_word"]:
            words.append(found["form"].decode("utf-8", "ignore"))
    return Content(words)


# FASTA: proteins, read as SeqVec's program reads them.
# Reference: https://github.com/mheinzinger/SeqVec


def _split_fasta(lines, source):
    entry, has_header = [], False
    for line in lines:
        if line.startswith(b">"):
            if has_header:
                yield b"".join(entry)
                entry = []
            has_header = True
        elif line.strip() and not has_header:
            raise ValueError(
                f"Expected {source} to be FASTA, with '>' at the beginning, got {line[:20]!r}. "
                f"The names of other texts must not end in {', '.join(FORMATS['fasta'].endings)}."
            )
        entry.append(line)
    if has_header:
        yield b"".join(entry)


def _parse_fasta(entry, field):
    """The residues in upper case (lower case marks masked regions), and the identifier.

    It is the first word after ">", or UniProt's accession number if the word is
    "sp|accession|name" or "tr|accession|name"; "/" and control characters become "_".
    """
    header, _, sequence = entry.lstrip().removeprefix(b">").partition(b"\n")
    words = token_bytes(header).decode().split(maxsplit=1)
    word = words[0] if words else ""
    uniprot = re.match(r"(?:sp|tr)\|([^|]+)\|", word)
    # HDF5 would read "/" as a group, and end a name at a NUL byte.
    name = re.sub(r"[/\x00-\x1f\x7f]", "_", uniprot[1] if uniprot else word)
    residues, error = b"".join(sequence.split()).decode("utf-8", "replace"), None
    if not residues:
        error = "no residues"
    elif odd := re.search("[^A-Za-z]", residues):
        error = f"{odd[0]!r} at position {odd.start() + 1:,} is not the letter of an amino acid"
    return Content("" if error else residues.upper(), error, name)


FORMATS = {
    "text": TextFormat((), "line", _lines, _parse_line),
    "json": TextFormat((".jsonl", ".ndjson", ".json"), "record", _split_json, _parse_json),
    "conllu": TextFormat((".conllu", ".conll"), "sentence", _split_conllu, _parse_conllu, True),
    "fasta": TextFormat(
        (".fasta", ".fa", ".faa"), "entry", _split_fasta, _parse_fasta, True, PROTEINS
    ),
}
"""The formats by name; a file with another ending is lines of text."""

TO_TEXT = "write its sentences to a .txt file, one per line"
"""What messages say to do with a file of another kind."""

_NOT_LINES = {
    **dict.fromkeys((".csv", ".tsv", ".xls", ".xlsx", ".ods"), f"a table, not lines: {TO_TEXT}"),
    **dict.fromkeys(
        (".html", ".htm", ".xhtml", ".xml", ".tei", ".tex", ".srt", ".vtt"),
        f"markup, not text: {TO_TEXT}",
    ),
    **dict.fromkeys(
        (".pdf", ".doc", ".docx", ".odt", ".rtf", ".epub", ".ppt", ".pptx", ".odp", ".ipynb"),
        f"a formatted document, not text: {TO_TEXT}",
    ),
    **dict.fromkeys(
        (".zip", ".tar", ".tgz", ".txz", ".7z", ".rar", ".bz2", ".zst"),
        "an archive or compressed, but neither .gz nor .xz: unpack it and pass its text files",
    ),
    **dict.fromkeys((".fastq", ".fq"), "FASTQ, not FASTA: convert it"),
    **dict.fromkeys(
        (".parquet", ".arrow", ".feather", ".h5", ".hdf5", ".npy", ".npz", ".pkl"),
        f"binary data, not text: {TO_TEXT}",
    ),
}
"""What is wrong with files that are passed by mistake, by the endings of their names."""

"""Reads text files, for the programs to import.

Tokens are separated by ASCII white space only (`split_tokens`), as in the package: unlike
`str.split`, this leaves other white space, such as the no-break space, in the tokens.
"""

import gzip
import lzma
import re
from pathlib import Path

BRACKETS = {"-LRB-": "(", "-RRB-": ")"}  # in treebanks


def split_tokens(text):
    """The tokens of a text."""
    return re.findall(r"\S+", text, re.ASCII)


def open_text(path):
    """Opens a text file, plain, .gz or .xz, in UTF-8 with or without a byte order mark."""
    opened_by = {".gz": gzip.open, ".xz": lzma.open}.get(Path(path).suffix, open)
    return opened_by(path, "rt", encoding="utf-8-sig", newline="\n")


def read_lines(path):
    """Yields the lines of a text file without the characters that end them."""
    with open_text(path) as file:
        for line in file:
            yield line.rstrip("\r\n")


def parse_lines(path, parse, expected):
    """Parses the lines of a file that are not empty; for the arguments see `parse_tables`."""
    lines = ((i, line) for i, line in enumerate(read_lines(path), 1) if split_tokens(line))
    return _parsed(path, lines, parse, expected)


def parse_tables(path, parse, expected, comment="#"):
    """Parses the sentences of a file of columns, which empty lines separate.

    Args:
        path: The file, plain, .gz or .xz.
        parse: Function of a sentence's rows. These are lists of columns, separated by tabs or, in
            lines without tabs, by white space.
        expected: The expected format, for errors.
        comment: The beginning of the lines to ignore, or `None`.

    Returns:
        The parsed sentences, a list.

    Raises:
        ValueError: if a sentence cannot be parsed, or the file has none.
    """
    return _parsed(path, _tables(path, comment), parse, expected)


def _tables(path, comment):
    rows = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if comment and line.startswith(comment):
            continue
        if split_tokens(line):
            columns = [column.strip(" ") for column in line.split("\t")]
            rows.append(columns if "\t" in line else split_tokens(line))
        elif rows:
            yield number - len(rows), rows
            rows = []


def _parsed(path, numbered, parse, expected):
    found = []
    for number, item in numbered:
        try:
            found.append(parse(item))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, line {number}: expected {expected}, got {item!s:.80} ({error})."
            ) from error
    if not found:
        raise ValueError(f"{path}: expected {expected}, got an empty file.")
    return found


def sentences_of(texts):
    """Turns texts into lists of tokens: strings are split at ASCII white space.

    Raises:
        ValueError: if one has no words.
    """
    sentences = [split_tokens(text) if isinstance(text, str) else list(text) for text in texts]
    if not all(sentences):
        raise ValueError(f"Sentence {sentences.index([]) + 1} of {len(sentences)} has no words.")
    return sentences

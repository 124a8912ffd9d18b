"""FASTA files: protein sequences, each under an identifier."""

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keras_elmo.text.tokens import token_bytes

ENDINGS = (".fasta", ".fa", ".faa")


class Entry(NamedTuple):
    """An entry of a FASTA file."""

    name: str  # its identifier; may be empty
    residues: str  # upper-case letters; none where there is an error
    error: str | None  # why it has no residues
    digest: str  # SHA-256 of the text up to its end, in hexadecimal
    is_utf8: bool  # whether no byte of its first line was dropped


def read_entries(
    lines: Iterable[bytes], source: object, max_line_tokens: float = math.inf
) -> Iterator[Entry]:
    """Streams the entries of a FASTA file, as SeqVec's program reads them.

    The lines of a sequence are joined without white space. Lower-case letters, which mark masked
    regions, become upper-case. The identifier is the first word after ">", or UniProt's accession
    number if the word is "sp|accession|name" or "tr|accession|name"; "/" and control characters
    become "_".

    Args:
        lines: The lines of the file.
        source: Its name, for error messages.
        max_line_tokens: An entry of more residues gets an error, as does one without residues or
            with characters that are not letters.

    Raises:
        ValueError: if the first line does not begin with ">".

    Reference: https://github.com/mheinzinger/SeqVec
    """
    digest, header, residues, count = hashlib.sha256(), None, bytearray(), 0
    for line in itertools.chain(lines, [b">"]):  # which ends the last entry
        if line.startswith(b">"):
            if header is not None:
                yield _entry(header, residues, count, max_line_tokens, digest.hexdigest())
            header, residues, count = line[1:], bytearray(), 0
        elif header is not None:
            part = b"".join(line.split())
            count += len(part)
            if count <= max_line_tokens:
                residues += part
        elif line.strip():
            raise ValueError(
                f"Expected {source} to be FASTA, with '>' at the beginning, got {line[:20]!r}. "
                f"The names of other texts must not end in {', '.join(ENDINGS)}."
            )
        digest.update(line)


def _entry(header, residues, count, most, digest):
    name, text, error = token_bytes(header), residues.decode("utf-8", "replace"), None
    if count > most:
        error = f"{count:,} residues, more than max_line_tokens={most}"
    elif not count:
        error = "no residues"
    elif odd := re.search("[^A-Za-z]", text):
        error = f"{odd[0]!r} at position {odd.start() + 1:,} is not the letter of an amino acid"
    residues = text.upper() if error is None else ""
    return Entry(_identifier(name.decode()), residues, error, digest, name == header)


def _identifier(header):
    word = header.split(maxsplit=1)[0] if header.strip() else ""
    uniprot = re.match(r"(?:sp|tr)\|([^|]+)\|", word)
    # HDF5 would read "/" as a group, and end a name at a NUL byte.
    return re.sub(r"[/\x00-\x1f\x7f]", "_", uniprot[1] if uniprot else word)

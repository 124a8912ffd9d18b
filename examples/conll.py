"""Reads column files in the format of CoNLL-2012, for `srl.py` and `coref.py` to import."""

import collections
import itertools
import re

import numpy as np

from features import read_lines
from keras_elmo.text.tokens import split_tokens

AUXILIARIES = ("be.03", "have.01", "do.01")  # predicates in name only: they never have arguments


class Propositions:
    """The predicates of a file, with their arguments.

    Args:
        path: A file of CoNLL-2012, or one with columns of index (from 0), token, predicate (`-` for
            none) and the BIO tags of each predicate; plain, .gz or .xz.

    Attributes:
        sentences: Lists of tokens.
        sentence_of, places: int `(N,)`: for each predicate its sentence, and which word it is.
        tags: For each predicate, the BIO tags of the words of its sentence.

    Raises:
        ValueError: if a line has a different format, or the file has no predicates.
    """

    def __init__(self, path):
        self.sentences, self.tags = [], []
        sentence_of, places = [], []
        for number, _, rows in read_conll(path):
            try:
                words, predicates, columns = read_sentence(rows)
            except (IndexError, ValueError) as error:
                raise ValueError(
                    f"{path}: the sentence that ends before line {number} is not one of "
                    "CoNLL-2012, nor of columns of index (from 0), token, predicate and BIO tags: "
                    f"{error}"
                ) from error
            for place, tags in zip(predicates, columns):
                sentence_of.append(len(self.sentences))
                places.append(place)
                self.tags.append(tags)
            self.sentences.append(words)
        if not places:
            raise ValueError(f"{path} has no predicates.")
        self.sentence_of, self.places = np.array(sentence_of), np.array(places)


def read_sentence(rows):
    """Reads the rows of a sentence: words, the places of the predicates, the tags of each.

    Auxiliaries are left out.
    """
    if rows[0][0] == "0":
        words, senses = [row[1] for row in rows], [row[2] for row in rows]
        columns = [list(column) for column in zip(*(row[3:] for row in rows), strict=True)]
    else:  # CoNLL-2012, whose first column is the document, and the last one for coreference
        words = [row[3] for row in rows]
        senses = [f"{row[6]}.{row[7]}" if row[7] != "-" else "-" for row in rows]
        columns = zip(*(row[11:-1] for row in rows), strict=True)
        columns = [tags_of_brackets(column) for column in columns]
    found = [place for place, sense in enumerate(senses) if sense != "-"]
    if len(found) != len(columns):
        raise ValueError(f"{len(found)} predicates with {len(columns)} columns of tags")
    for tags in columns:
        for before, tag in itertools.pairwise(["O", *tags]):
            if tag != "O" and tag[:2] not in ("B-", "I-"):
                raise ValueError(f"{tag!r} is not a tag")
            if tag[:2] == "I-" and before[2:] != tag[2:]:
                raise ValueError(f"{tag} after {before}")
    kept = [i for i, place in enumerate(found) if senses[place] not in AUXILIARIES]
    return words, [found[i] for i in kept], [columns[i] for i in kept]


class Documents:
    """The documents of a file, with their chains.

    Args:
        path: A file of CoNLL-2012; plain, .gz or .xz.
        max_sentences: Longer documents are cut into pieces of this many sentences; `None` for none.

    Attributes:
        sentences: Lists of tokens, of all documents.
        ranges: int `(N, 2)`: for each document its first sentence and the one after its last.
        chains: For each document a list of its chains, each a set of spans `(first, last)`,
            positions of words in the document.
        singletons: Whether there are chains of a single mention, before documents are cut.

    Raises:
        ValueError: if a line has a different format, or the file has no chains.
    """

    def __init__(self, path, max_sentences=None):
        self.sentences, self.chains = [], []
        starts, current, offset, chains = [], None, 0, {}
        sizes = collections.Counter()
        for number, document, rows in read_conll(path):
            document = document, *rows[0][:2]  # there may be no line that begins it
            in_piece = len(self.sentences) - starts[-1] if starts else 0
            if not starts or document != current or in_piece == max_sentences:
                starts.append(len(self.sentences))
                current, offset, chains = document, 0, {}
                self.chains.append(chains)
            try:
                for chain, first, last in mentions_of_brackets([row[-1] for row in rows]):
                    chains.setdefault(chain, set()).add((offset + first, offset + last))
                    sizes[document, chain] += 1
                self.sentences.append([row[3] for row in rows])
            except (IndexError, ValueError) as error:
                raise ValueError(
                    f"{path}: the sentence that ends before line {number} is not one of "
                    f"CoNLL-2012, with chains such as (12 and 12) in the last column: {error}"
                ) from error
            offset += len(rows)
        if not any(self.chains):
            raise ValueError(f"{path} has no chains.")
        self.chains = [list(chains.values()) for chains in self.chains]
        self.ranges = np.array(list(zip(starts, [*starts[1:], len(self.sentences)])))
        self.singletons = 1 in sizes.values()


def read_conll(path):
    """Reads a file sentence by sentence.

    Args:
        path: A file of columns, separated by spaces or tabs, with an empty line after each sentence
            and lines such as `#begin document (nw/wsj_0001); part 000` between documents; plain,
            .gz or .xz.

    Yields:
        For each sentence the number of the line after it, the last line that began a document
        (or `None`), and its rows, lists of columns.
    """
    number, document, rows = 0, None, []
    for number, line in enumerate(read_lines(path), start=1):
        columns = split_tokens(line)
        if columns and not line.startswith("#"):
            rows.append(columns)
            continue
        if rows:
            yield number, document, rows
            rows = []
        if line.startswith("#begin document"):
            document = " ".join(columns)
    if rows:
        yield number + 1, document, rows


def tags_of_brackets(column):
    """BIO tags of a column such as `(ARG0*`, `*)`, `(V*)`, `*`."""
    tags, label = [], None
    for cell in column:
        match = re.fullmatch(r"(\((?P<label>[^()*]+))?\*(?P<end>\))?", cell)
        begins = match is not None and match["label"] is not None
        if match is None or (begins and label is not None):
            raise ValueError(f"{cell!r} is not a role, or is nested in another role")
        label = match["label"] or label
        tags.append("O" if label is None else f"{'B' if begins else 'I'}-{label}")
        if match["end"]:
            if label is None:
                raise ValueError("a role ends before it starts")
            label = None
    if label is not None:
        raise ValueError(f"{label} does not end")
    return tags


def mentions_of_brackets(column):
    """The mentions `(chain, first, last)` of a column such as `(1`, `-`, `1)|(2)`."""
    found, begun = [], {}
    for i, cell in enumerate(column):
        for part in () if cell in ("-", "_") else cell.split("|"):
            chain = int(part.strip("()"))
            if part.startswith("("):
                begun.setdefault(chain, []).append(i)
            if part.endswith(")"):
                found.append((chain, begun[chain].pop() if begun.get(chain) else None, i))
    if any(first is None for _, first, _ in found) or any(begun.values()):
        raise ValueError("a mention does not both begin and end in this sentence")
    return found

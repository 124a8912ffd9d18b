"""Reads column files in the format of CoNLL-2012, for `srl.py` and `coref.py` to import."""

import itertools
import re

from reading import parse_tables

AUXILIARIES = ("be.03", "have.01", "do.01")  # predicates in name only: they never have arguments


def read_propositions(path):
    """Reads predicates and their arguments: for each sentence its words, and its predicates.

    These are a list of pairs, the place of a predicate in the sentence and the BIO tags of all
    words.

    Args:
        path: A file of CoNLL-2012, or one with columns of index (from 0), token, predicate (`-` for
            none) and the BIO tags of each predicate; plain, .gz or .xz.

    Raises:
        ValueError: if a sentence has a different format, or the file has no predicates.
    """
    expected = "CoNLL-2012, or columns of index (from 0), token, predicate and BIO tags"
    sentences = parse_tables(path, propositions_of, expected)
    if not any(predicates for _, predicates in sentences):
        raise ValueError(f"{path} has no predicates.")
    return sentences


def propositions_of(rows):
    """The words of a sentence, and its predicates, auxiliaries left out."""
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
    for before, tag in (pair for tags in columns for pair in itertools.pairwise(["O", *tags])):
        if not re.fullmatch(r"O|[BI]-.+", tag) or (tag[0] == "I" and before[2:] != tag[2:]):
            raise ValueError(f"{tag!r} after {before!r}")
    predicates = zip(found, columns)
    return words, [(i, tags) for i, tags in predicates if senses[i] not in AUXILIARIES]


def read_documents(path):
    """Reads documents: for each its sentences, lists of words, and its chains.

    A chain is a set of mentions `(sentence, first, last)`: the number of a sentence in the
    document, and the first and last word in it.

    Args:
        path: A file of CoNLL-2012; plain, .gz or .xz. Its first two columns say which part of which
            document a sentence belongs to.

    Raises:
        ValueError: if a sentence has a different format, or the file has no chains.
    """
    expected = "CoNLL-2012, with chains such as (12 and 12) in the last column"
    parsed = parse_tables(path, mentions_of, expected)
    documents = []
    for _, group in itertools.groupby(parsed, key=lambda sentence: sentence[0]):
        sentences, chains = [], {}
        for i, (_, words, mentions) in enumerate(group):
            sentences.append(words)
            for chain, first, last in mentions:
                chains.setdefault(chain, set()).add((i, first, last))
        documents.append((sentences, list(chains.values())))
    if not any(chains for _, chains in documents):
        raise ValueError(f"{path} has no chains.")
    return documents


def mentions_of(rows):
    """The document of a sentence, its words, and the mentions in it."""
    return rows[0][:2], [row[3] for row in rows], mentions_of_brackets([row[-1] for row in rows])


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

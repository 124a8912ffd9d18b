"""Tokens to ids of whole words, for models and token-embedding files that go by a vocabulary."""

import os

import numpy as np

from keras_elmo.text.characters import checked_tokens, token_bytes

BEGIN, END, UNKNOWN = "<S>", "</S>", b"<UNK>"
"""Keys of a sentence's boundaries, which no token has, for tokens are bytes; and of a plain word
that the file formats want."""


def encode_token_ids(sentences, vocabulary):
    """Turns tokenized sentences into ids of whole words.

    A token `"<S>"` is ordinary text, here an unknown word: boundaries come from position alone.

    Args:
        sentences: List of sentences, each a list of tokens (`str`, or UTF-8 `bytes`).
        vocabulary: The words in the order of the table's rows: the path of a file with one word a
            line, or a sequence of words. Holds `<S>`, `</S>` and `<UNK>`.

    Returns:
        int32 array `(B, T + 2)`: the word's place in the vocabulary plus 1, with the sentence's
        boundaries added and 0 for padding. Words that are not in the vocabulary get `<UNK>`'s id.

    Raises:
        ValueError: if the vocabulary lacks one of the three special words or is no UTF-8, a
            sentence is a plain string, or a token is neither `str` nor `bytes`.

    Example:

    >>> encode_token_ids([["a", "b"], ["z"]], ["<S>", "</S>", "<UNK>", "a", "b"])
    array([[1, 4, 5, 2],
           [1, 3, 2, 0]], dtype=int32)

    Reference: BILM_TF.md, "Files" (`dump_token_embeddings`); bilm-tf `TokenBatcher`.
    """
    return rows_of_ids(sentences, id_table(vocabulary))


def rows_of_ids(sentences, ids):
    """What `encode_token_ids` returns, by a table of `id_table`."""
    sentences = [checked_tokens(sentence) for sentence in sentences]
    longest = max(map(len, sentences), default=0)
    rows = np.zeros((len(sentences), longest + 2), np.int32)
    for row, sentence in zip(rows, sentences):
        keys = [BEGIN, *map(token_bytes, sentence), END]
        row[: len(keys)] = [ids.get(key, ids[UNKNOWN]) for key in keys]
    return rows


def id_table(vocabulary):
    """Ids of the words of a vocabulary, by their UTF-8; those of the boundaries by `BEGIN`, `END`.

    Args:
        vocabulary: As for `encode_token_ids`.

    Returns:
        Dict from `bytes`, `BEGIN` and `END` to `int`.

    Raises:
        ValueError: if the vocabulary lacks one of the three special words.
    """
    ids = {token_bytes(word): i for i, word in enumerate(read_words(vocabulary), start=1)}
    missing = [word for word in (BEGIN, END, UNKNOWN.decode()) if word.encode() not in ids]
    if missing:
        raise ValueError(
            f"The vocabulary of {len(ids)} words has no {', '.join(missing)}. Add it at the place "
            "where its row stands in the table."
        )
    for boundary in (BEGIN, END):
        ids[boundary] = ids.pop(boundary.encode())
    return ids


def read_words(vocabulary):
    """The words of a vocabulary.

    Args:
        vocabulary: The path of a file with one word a line, or a sequence of words.

    Returns:
        List of `str`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no UTF-8.
    """
    if not isinstance(vocabulary, (str, os.PathLike)):
        return list(vocabulary)
    with open(vocabulary, encoding="utf-8", newline="\n") as file:
        try:
            # Other white space, such as the no-break space, is part of words.
            return [line.strip(" \t\r\n") for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(
                f"The vocabulary {os.fspath(vocabulary)} is not UTF-8 ({error}). Save it as UTF-8."
            ) from None

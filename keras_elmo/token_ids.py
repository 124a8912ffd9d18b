"""Tokens to ids of whole words, for models and token-embedding files that go by a vocabulary."""

import os

import numpy as np

_BEGIN, _END, _UNKNOWN = "<S>", "</S>", "<UNK>"


def encode_token_ids(sentences, vocabulary):
    """Turns tokenised sentences into ids of whole words.

    Args:
        sentences: List of sentences, each a list of tokens (`str`).
        vocabulary: The words in the order of the table's rows: the path of a file with one word a
            line, or a sequence of words. Holds `<S>`, `</S>` and `<UNK>`.

    Returns:
        int32 array `(B, T + 2)`: the word's place in the vocabulary plus 1, with the sentence's
        boundaries added and 0 for padding. Words that are not in the vocabulary get `<UNK>`'s id.

    Raises:
        ValueError: if the vocabulary lacks one of the three special words, or a sentence is a plain
            string.

    Example:

    >>> encode_token_ids([["a", "b"], ["z"]], ["<S>", "</S>", "<UNK>", "a", "b"])
    array([[1, 4, 5, 2],
           [1, 3, 2, 0]], dtype=int32)

    Reference: BILM_TF.md, "Files" (`dump_token_embeddings`); bilm-tf `TokenBatcher`.
    """
    ids = {word: i for i, word in enumerate(read_words(vocabulary), start=1)}
    missing = [word for word in (_BEGIN, _END, _UNKNOWN) if word not in ids]
    if missing:
        raise ValueError(
            f"The vocabulary of {len(ids)} words has no {', '.join(missing)}. Add it at the place "
            "where its row stands in the table."
        )
    sentences = list(sentences)
    for sentence in sentences:
        if isinstance(sentence, (str, bytes)):
            raise ValueError(
                "Expected each sentence to be a list of tokens, found the string "
                f"{sentence[:60]!r}. Split it into tokens first."
            )
    longest = max(map(len, sentences), default=0)
    rows = np.zeros((len(sentences), longest + 2), np.int32)
    for row, sentence in zip(rows, sentences):
        tokens = [ids.get(token, ids[_UNKNOWN]) for token in sentence]
        row[: len(tokens) + 2] = [ids[_BEGIN], *tokens, ids[_END]]
    return rows


def read_words(vocabulary):
    """The words of a vocabulary.

    Args:
        vocabulary: The path of a file with one word a line, or a sequence of words.

    Returns:
        List of `str`.
    """
    if not isinstance(vocabulary, (str, os.PathLike)):
        return list(vocabulary)
    with open(vocabulary, encoding="utf-8", newline="\n") as file:
        return [line.strip() for line in file]

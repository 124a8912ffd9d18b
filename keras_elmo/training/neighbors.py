"""The nearest neighbors of a few words: whether a language model has learned what words mean."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_elmo.analysis import layer_names, nearest
from keras_elmo.embedding.embedder import Embedder
from keras_elmo.text.reader import Files
from keras_elmo.training.index import CorpusIndex, as_index

_MIN_COUNT = 3


class WordNeighbors(NamedTuple):
    """The nearest neighbors of a word."""

    word: str
    occurrences: int
    """How often it occurs in the text."""
    layers: dict[str, list[str]]
    """The nearest words by the name of the layer, the nearest one first."""


def word_neighbors(
    model: Any,
    files: Files | CorpusIndex,
    *,
    words: Sequence[str] = (),
    num_words: int = 6,
    num_neighbors: int = 3,
    max_sentences: int = 2000,
) -> list[WordNeighbors]:
    """Words of a text with the words nearest to them, by layer.

    A word is the mean of its vectors in the text. Only words of letters that occur at least three
    times are compared.

    Args:
        model: As for `Embedder`.
        files: The text, as for `perplexity`.
        words: The words; by default frequent and rare ones are chosen.
        num_words: How many words are chosen: half of them frequent, half rare.
        num_neighbors: Neighbors of each.
        max_sentences: How many sentences are read, from the beginning.

    Returns:
        A `WordNeighbors` for each of `words`, or for the chosen ones by descending count; none
        where the text has too few words.

    Raises:
        ValueError: if one of `words` is not among those compared.

    Example:

    >>> word_neighbors("default", "shards/*", words=["river"])[0].layers["LSTM 2"]
    ['lake', 'coast', 'valley']
    """
    index = as_index(files).first(max_sentences)
    order = np.argsort(-index.counts, kind="stable")
    kept = [i for i in order if index.counts[i] >= _MIN_COUNT and index.words[i].decode().isalpha()]
    if len(kept) <= num_neighbors:
        return []
    known = [index.words[i].decode() for i in kept]
    if missing := sorted({*words} - {*known}):
        raise ValueError(
            f"{missing} occur less than {_MIN_COUNT} times in the first {max_sentences:,} "
            "sentences of the text, or do not consist of letters."
        )
    if words:
        shown = [known.index(word) for word in words]
    else:  # the most frequent words have no meaning of their own
        frequent = np.linspace(0.05, 0.2, num_words // 2)
        rare = np.linspace(0.8, 1, num_words - num_words // 2)
        places = np.concatenate([frequent, rare]) * (len(known) - 1)
        shown = np.unique(places.astype(int)).tolist()
    embedder = Embedder(model)
    sentences = [index.sentence(i) for i in range(len(index))]
    ids = {word: i for i, word in enumerate(index.words)}
    shape = embedder.config.num_layers + 1, len(ids), embedder.config.output_dim
    sums = np.zeros(shape, np.float32)
    for tokens, layers in zip(sentences, embedder.embed(sentences, "layers")):
        for position, token in enumerate(tokens):
            sums[:, ids[token]] += layers[:, position]
    found = dict(zip(layer_names(len(sums)), (nearest(one[kept], num_neighbors) for one in sums)))
    return [
        WordNeighbors(
            known[i],
            int(index.counts[kept[i]]),
            {name: [known[j] for j, _ in rows[i]] for name, rows in found.items()},
        )
        for i in shown
    ]

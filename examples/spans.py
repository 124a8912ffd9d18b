"""Spans of words, as mentions and as antecedents, for `coref.py` to import."""

import keras
import numpy as np
from keras import ops

from attention import concatenate

LONGEST = 10  # words of a span
DISTANCES = np.array([1, 2, 3, 4, 5, 8, 16, 32, 64])  # where a new bucket of distances begins


class SpanVectors(keras.layers.Layer):
    """The vectors of spans: the states of their ends, the word attended to, their length.

    Call arguments:
        words, states: Floats `(T, D)` and `(T, S)`: the vectors of all words, before and after
            they were read in context.
        first, last: int32 `(M,)`: the ends of the spans, of at most `LONGEST` words. Positions
            outside the text are moved to its first or last word.

    Output shape:
        Floats `(M, 2 * S + D + 20)`.

    Reference: Lee et al. 2017, section 4.
    """

    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(1, use_bias=False)
        self.length = keras.layers.Embedding(LONGEST, 20)

    def call(self, words, states, first, last):
        places = ops.expand_dims(first, 1) + ops.arange(LONGEST, dtype="int32")
        inside = places <= ops.expand_dims(last, 1)
        first, last, places = (
            ops.clip(x, 0, ops.shape(words)[0] - 1) for x in (first, last, places)
        )
        scores = ops.where(inside, ops.take(self.head(states)[:, 0], places), -1e4)
        words = ops.take(words, places, axis=0)
        attended = ops.einsum("ml,mld->md", ops.softmax(scores, axis=-1), words)
        ends = (ops.take(states, x, axis=0) for x in (first, last))
        return concatenate(*ends, attended, self.length(ops.clip(last - first, 0, LONGEST - 1)))


class AntecedentScores(keras.layers.Layer):
    """How likely each of the spans before a span is its antecedent.

    Args:
        number: How many spans before one are scored.
        hidden_units: Size of the two hidden layers.
        dropout: Fraction of them to drop.

    Call arguments:
        spans: Floats `(M, D)`, in the order of the text.
        mentions: Floats `(M,)`: their scores as mentions.

    Output shape:
        Floats `(M, 1 + number)`: the scores of no antecedent, 0, of the span before, of the one
        before that, and so on.

    Reference: Lee et al. 2017, section 4.
    """

    def __init__(self, number, hidden_units=150, dropout=0.2):
        super().__init__()
        self.number = number
        self.distance = keras.layers.Embedding(len(DISTANCES), 20)
        # The first hidden layer, in parts: the parts for each span are computed only once.
        self.of_span, self.of_antecedent, self.of_product, self.of_distance = (
            keras.layers.Dense(hidden_units, use_bias=i == 0) for i in range(4)
        )
        self.hidden = keras.layers.Dense(hidden_units, activation="relu")
        self.score = keras.layers.Dense(1)
        self.drop = keras.layers.Dropout(dropout)

    def call(self, spans, mentions, training=None):
        back = np.arange(1, self.number + 1)
        buckets = np.searchsorted(DISTANCES, back, side="right") - 1
        others, exists = self.before(ops.shape(spans)[0])
        x = self.of_product(ops.expand_dims(spans, 1) * ops.take(spans, others, axis=0))
        x = x + ops.take(self.of_antecedent(spans), others, axis=0)
        x = x + ops.expand_dims(self.of_span(spans), 1)
        x = ops.relu(x + self.of_distance(self.distance(buckets)))
        x = self.hidden(self.drop(x, training=training))
        x = self.score(self.drop(x, training=training))[..., 0]
        x = x + ops.expand_dims(mentions, 1) + ops.take(mentions, others)
        x = ops.where(exists, x, -1e4)
        return ops.concatenate([ops.zeros_like(x[:, :1]), x], axis=1)

    def before(self, num_spans):
        """int32 and bool `(M, number)`: the spans before each, and whether they exist."""
        back = np.arange(1, self.number + 1, dtype="int32")
        others = ops.expand_dims(ops.arange(num_spans, dtype="int32"), 1) - back
        return ops.maximum(others, 0), others >= 0


def best_spans(scores, lengths, number):
    """The spans of the highest scores, such that none crosses another, in order.

    Args:
        scores: Floats `(T, LONGEST)` of the spans that begin at a word, by their length.
        lengths: The numbers of words of the sentences, which spans do not leave.
        number: The largest number of spans.

    Returns:
        int32 `(M, 2)`: their first and last words.
    """
    left = np.concatenate([np.arange(n, 0, -1) for n in lengths])  # words to the sentence's end
    starts, extra = np.nonzero(np.arange(LONGEST) < left[:, None])
    order = np.argsort(-scores[starts, extra], kind="stable")
    latest_end = np.full(len(scores), -1)  # of the spans that begin at a word
    earliest_start = np.full(len(scores), len(scores))  # of those that end at a word
    kept = []
    for start, end in zip(starts[order], starts[order] + extra[order]):
        if len(kept) == number:
            break
        crossed = (latest_end[start + 1 : end + 1] > end).any()
        if not crossed and not (earliest_start[start:end] < start).any():
            kept.append((start, end))
            latest_end[start] = max(latest_end[start], end)
            earliest_start[end] = min(earliest_start[end], start)
    return np.array(sorted(kept), np.int32).reshape(-1, 2)

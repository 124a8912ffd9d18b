"""Spans of words, as mentions and as antecedents, for `coref.py` to import.

A span is three numbers, its sentence and its first and last word in it; -1 are padding.
"""

import keras
import numpy as np
from keras import layers, ops

LONGEST = 10  # words of a span
DISTANCES = np.array([1, 2, 3, 4, 5, 8, 16, 32, 64])  # where a new bucket of distances begins


@keras.saving.register_keras_serializable("keras_elmo_examples")
class SpanVectors(layers.Layer):
    """The vectors of spans: the states of their ends, the word attended to, their length.

    Call arguments:
        words, states: Floats `(B, T, D)` and `(B, T, S)`: the vectors of the words of a document's
            sentences, before and after they were read in context.
        spans: int32 `(M, 3)`, of at most `LONGEST` words.

    Output shape:
        Floats `(M, 2 * S + D + 20)`.

    Reference: Lee et al. 2017, section 4.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self.head = layers.Dense(1, use_bias=False)
        self.length = layers.Embedding(LONGEST, 20)

    def build(self, words_shape, states_shape, spans_shape):
        self.head.build(states_shape)
        self.length.build(spans_shape[:1])

    def call(self, words, states, spans):
        sentence, first, last = ops.unstack(ops.maximum(spans, 0), 3, axis=1)
        length, start = last - first, sentence * ops.shape(words)[1] + first
        words, states = (ops.reshape(x, (-1, x.shape[-1])) for x in (words, states))
        steps = ops.arange(LONGEST, dtype="int32")
        places = ops.minimum(ops.expand_dims(start, 1) + steps, ops.shape(words)[0] - 1)
        scores = ops.take(self.head(states)[:, 0], places)
        shares = ops.softmax(ops.where(steps <= ops.expand_dims(length, 1), scores, -1e4))
        attended = sum(
            shares[:, i : i + 1] * ops.take(words, places[:, i], axis=0) for i in range(LONGEST)
        )
        ends = [ops.take(states, x, axis=0) for x in (start, start + length)]
        return ops.concatenate([*ends, attended, self.length(length)], axis=-1)

    def compute_mask(self, words, mask=None):
        return None


@keras.saving.register_keras_serializable("keras_elmo_examples")
class MentionScores(layers.Layer):
    """How likely spans are mentions: logits, or -1e4 at padding.

    Args:
        kept: How many spans to keep as mentions, per word of the document (the paper: 0.4).
        singletons: Whether mentions without an antecedent may be chains of their own.

    Call arguments:
        x: Floats `(M, D)`.
        spans: int32 `(M, 3)`.

    Output shape:
        Floats `(M,)`.
    """

    def __init__(self, kept, singletons, **options):
        super().__init__(**options)
        self.kept = kept
        self.singletons = singletons
        self.score = layers.Dense(1)

    def build(self, x_shape, spans_shape):
        self.score.build(x_shape)

    def call(self, x, spans):
        return ops.where(spans[:, 0] >= 0, self.score(x)[:, 0], -1e4)

    def loss(self, chains, scores):
        """The mean cross-entropy of spans, given their chain, from 1, or 0, or -1 at padding."""
        is_mention = ops.cast(chains > 0, scores.dtype)
        return mean_of_spans(ops.softplus(scores) - is_mention * scores, chains)

    def get_config(self):
        return {**super().get_config(), "kept": self.kept, "singletons": self.singletons}


@keras.saving.register_keras_serializable("keras_elmo_examples")
class AntecedentScores(layers.Layer):
    """How likely each of the spans before a span is its antecedent.

    Args:
        number: How many spans before one are scored (the paper: 250).
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

    def __init__(self, number=50, hidden_units=150, dropout=0.2, **options):
        super().__init__(**options)
        self.number = number
        self.hidden_units = hidden_units
        self.distance = layers.Embedding(len(DISTANCES), 20)
        # The first hidden layer, in parts: the parts for each span are computed only once.
        self.of_span, self.of_antecedent, self.of_product, self.of_distance = (
            layers.Dense(hidden_units, use_bias=i == 0) for i in range(4)
        )
        self.hidden = layers.Dense(hidden_units, activation="relu")
        self.score = layers.Dense(1)
        self.drop = layers.Dropout(dropout)

    def build(self, spans_shape, mentions_shape):
        self.distance.build((self.number,))
        for layer in (self.of_span, self.of_antecedent, self.of_product):
            layer.build(spans_shape)
        self.of_distance.build((self.number, 20))
        for layer in (self.hidden, self.score):
            layer.build((None, self.number, self.hidden_units))

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

    def loss(self, chains, scores):
        """The mean of `-log p` of all right antecedents of a span, or of none if it has none.

        Args:
            chains: Numbers `(M,)`: the chain of each span, from 1, or 0, or -1 at padding.
            scores: Output of the layer.
        """
        others, exists = self.before(ops.shape(chains)[0])
        chain = ops.expand_dims(chains, 1)
        right = (ops.take(chains, others) == chain) & exists & (chain > 0)
        is_first = ~ops.any(right, axis=1, keepdims=True)  # has no antecedent
        right = ops.where(ops.concatenate([is_first, right], axis=1), scores, -1e4)
        return mean_of_spans(ops.logsumexp(scores, axis=1) - ops.logsumexp(right, axis=1), chains)

    def get_config(self):
        own = {"number": self.number, "hidden_units": self.hidden_units, "dropout": self.drop.rate}
        return {**super().get_config(), **own}


def mean_of_spans(losses, chains):
    """The mean of the losses of spans, without padding."""
    valid = ops.cast(chains >= 0, losses.dtype)
    return ops.sum(losses * valid) / ops.sum(valid)


def spans_of(lengths):
    """int32 `(M, 3)`: all spans of at most `LONGEST` words in sentences of these lengths."""
    spans = [
        (sentence, first, last)
        for sentence, length in enumerate(lengths)
        for first in range(length)
        for last in range(first, min(first + LONGEST, length))
    ]
    return np.array(spans, np.int32)


def best_spans(spans, scores, number):
    """The spans of the highest scores, such that none crosses another, in order.

    Args:
        spans: int32 `(N, 3)`.
        scores: Floats `(N,)`.
        number: The largest number of spans.

    Returns:
        int32 `(M, 3)`.
    """
    num_sentences, _, num_words = spans.max(axis=0) + 1
    latest_end = np.full((num_sentences, num_words), -1)  # of the spans that begin at a word
    earliest_start = np.full((num_sentences, num_words), num_words)  # of those that end at a word
    kept = []
    for i, start, end in spans[np.argsort(-scores, kind="stable")]:
        if len(kept) == number:
            break
        crossed = (latest_end[i, start + 1 : end + 1] > end).any()
        if not crossed and not (earliest_start[i, start:end] < start).any():
            kept.append((i, start, end))
            latest_end[i, start] = max(latest_end[i, start], end)
            earliest_start[i, end] = min(earliest_start[i, end], start)
    return np.array(sorted(kept), np.int32)

"""The softmax over words, in full or on a sample of them."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.layers.configured import Configured
from keras_elmo.ops.custom_gradient import call_with_gradient
from keras_elmo.ops.gather import gather

_EXCLUDED_LOGIT = -1e30
"""Logit of a word that is excluded."""

_LOGITS_AT_ONCE = 1 << 25


@keras.saving.register_keras_serializable("keras_elmo")
class WordSoftmax(Configured, keras.layers.Layer):
    """A softmax over the vocabulary, as the loss of each target word.

    Args:
        vocabulary_size: Words V, boundaries included.
        num_negative_samples: Words to draw for a sampled loss; `None` for full losses only.
        has_kernel: Whether the layer has its own table, or is called with a `kernel`.

    Call arguments:
        inputs: Contexts, the top layer of the biLM.
        targets: Ids of the target words.
        sampled: Whether to compare each target with one set of sampled words, the same for all
            contexts. A target among them does not count; logits are corrected by expected counts.
        kernel: The table `(V, P)` where it belongs to the token encoder (tied weights).

    Input shape:
        Floats `(N, P)`, targets integers `(N,)`.

    Output shape:
        float32 `(N,)`: the negative log-likelihoods, in nats.

    Example:

    >>> softmax = WordSoftmax(vocabulary_size=10)
    >>> softmax.build((None, 4))
    >>> softmax(np.zeros((2, 4), "float32"), targets=np.array([3, 5]))  # log(10)
    array([2.3025851, 2.3025851], dtype=float32)

    Reference: BILM_TF.md, "Language-model training"; Jean et al. 2015, "On Using Very Large Target
    Vocabulary"; Efraimidis and Spirakis 2006 on weighted sampling without replacement.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_negative_samples: int | None = None,
        has_kernel: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.num_negative_samples = num_negative_samples
        self.has_kernel = has_kernel
        self.seed_generator = keras.random.SeedGenerator() if num_negative_samples else None

    def build(self, input_shape):
        dim = input_shape[-1]
        self.kernel = None
        if self.has_kernel:
            initializer = keras.initializers.RandomNormal(stddev=dim**-0.5)
            self.kernel = self.add_weight((self.vocabulary_size, dim), initializer, name="kernel")
        # A logit of -11 in half precision would be off by up to 0.03.
        shape = (self.vocabulary_size,)
        self.bias = self.add_weight(shape, "zeros", name="bias", autocast=False)

    def call(self, inputs, targets, sampled=False, kernel=None):
        kernel = self.kernel if kernel is None else kernel
        if not sampled:
            return self._full_losses(inputs, targets, kernel)
        candidates, expected_targets, expected = self.draw(targets)
        num_targets = ops.shape(targets)[0]
        # One lookup for both: its gradient is a whole table.
        ids = ops.concatenate([ops.cast(targets, "int32"), ops.cast(candidates, "int32")])
        rows = ops.cast(gather(kernel, ids), self.compute_dtype)
        biases = ops.cast(gather(ops.expand_dims(self.bias, -1), ids)[:, 0], "float32")
        positive = ops.sum(ops.cast(inputs * rows[:num_targets], "float32"), axis=-1)
        positive = positive + biases[:num_targets] - ops.log(expected_targets)
        biases = biases[num_targets:] - ops.log(expected)
        columns = _columns(ids[:num_targets], ids[num_targets:], self.vocabulary_size)
        arguments = self.compute_dtype, inputs, rows[num_targets:], biases, positive, columns
        return call_with_gradient(_sampled_losses, _sampled_losses_gradient, *arguments)[0]

    def _full_losses(self, inputs, targets, kernel):
        kernel = ops.transpose(ops.cast(kernel, self.compute_dtype))
        bias, num_targets = ops.cast(self.bias, "float32"), targets.shape[0] or 1
        # In slices: each context has a logit for each word of the vocabulary.
        num_slices = min(num_targets, -(-num_targets * self.vocabulary_size // _LOGITS_AT_ONCE))
        edges = [num_targets * i // num_slices for i in range(num_slices)] + [None]
        losses = []
        for start, stop in itertools.pairwise(edges):
            logits = ops.cast(ops.matmul(inputs[start:stop], kernel), "float32") + bias
            words = targets[start:stop]
            loss = keras.losses.sparse_categorical_crossentropy(words, logits, from_logits=True)
            losses.append(loss)
        return losses[0] if num_slices == 1 else ops.concatenate(losses)

    def initialize_bias(self, counts: np.ndarray) -> None:
        """Sets the bias to the log frequency of each word, from `Vocabulary.counts`.

        A sampled softmax hardly ever draws rare words, and takes long to learn that they are rare.
        """
        counts = np.asarray(counts, "float64") + 1
        self.bias.assign(np.log(counts / counts.sum()).astype("float32"))

    def draw(self, targets: Any) -> tuple[Any, Any, Any]:
        """Draws words log-uniformly by rank, each at most once.

        The first arrival of each word in a Poisson process is exponential, with its probability as
        the rate; the earliest words are those that drawing with repetitions until there are enough
        distinct ones would give.

        Returns:
            Sampled ids int32 `(num_negative_samples,)`, and the expected counts, float32, of the
            targets `(N,)` and of the sampled ids.
        """
        ranks = np.arange(self.vocabulary_size, dtype="float64")
        rates = np.log1p(1 / (ranks + 1)) / np.log1p(self.vocabulary_size)
        rates = ops.convert_to_tensor(rates.astype("float32"))
        uniform = keras.random.uniform(
            (self.vocabulary_size,), minval=1e-30, dtype="float32", seed=self.seed_generator
        )
        arrival = -ops.log(uniform) / rates
        earliest, candidates = ops.top_k(-arrival, self.num_negative_samples)
        time = -earliest[-1]

        def expected(ids):
            return -ops.expm1(-ops.take(rates, ids) * time)

        return candidates, expected(targets), expected(candidates)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple[int | None]:
        return (input_shape[0],)


def _columns(targets, candidates, vocabulary_size):
    """The index of each target among the candidates, -1 if it is not one of them; int32 `(N,)`."""
    columns = ops.arange(ops.shape(candidates)[0], dtype="int32")
    table = ops.full((vocabulary_size,), -1, dtype="int32")
    table = ops.scatter_update(table, ops.expand_dims(candidates, 1), columns)
    return ops.take(table, targets)


# The logits, contexts by words, are by far the largest array of a training step, which spends most
# of its time reading and writing it. This gradient reads it for its two products only.
def _sampled_losses(compute_dtype, inputs, rows, biases, positive, columns):
    """Negative log-likelihoods float32 `(N,)` of targets with logits `positive` `(N,)`.

    The sampled words have `rows` `(S, P)` and `biases` `(S,)`; the target's `columns` are ignored.
    """
    logits = ops.cast(ops.matmul(inputs, ops.transpose(rows)), "float32") + biases
    numbers = ops.arange(ops.shape(logits)[0], dtype="int32")
    targets = ops.stack([numbers, ops.maximum(columns, 0)], axis=1)
    kept = ops.take_along_axis(logits, targets[:, 1:], axis=1)[:, 0]
    logits = ops.scatter_update(logits, targets, ops.where(columns < 0, kept, _EXCLUDED_LOGIT))
    largest = ops.maximum(ops.max(logits, axis=1), positive)
    odds = ops.exp(logits - ops.expand_dims(largest, 1))
    own = ops.exp(positive - largest)
    total = ops.sum(odds, axis=1) + own
    saved = inputs, rows, ops.cast(odds, compute_dtype), own, total
    return (largest + ops.log(total) - positive,), saved


def _sampled_losses_gradient(compute_dtype, saved, upstream):
    inputs, rows, odds, own, total = saved
    scale = ops.expand_dims(upstream[0] / total, 1)
    d_inputs = ops.cast(ops.matmul(odds, rows), "float32") * scale
    # The bias is one more column of the contexts, of ones.
    weighted = ops.concatenate([ops.cast(inputs, "float32") * scale, scale], axis=1)
    d_table = ops.matmul(ops.transpose(odds), ops.cast(weighted, compute_dtype))
    return (
        ops.cast(d_inputs, inputs.dtype),
        ops.cast(d_table[:, :-1], rows.dtype),
        ops.cast(d_table[:, -1], "float32"),
        upstream[0] * (own / total - 1),
        None,
    )

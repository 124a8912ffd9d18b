"""Perplexity over batches, for each direction and both."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_elmo.layers.configured import Configured


@keras.saving.register_keras_serializable("keras_elmo")
class Perplexity(Configured, keras.metrics.Metric):
    """exp of the mean negative log-likelihood of a word, over all batches since the reset.

    Args:
        num_directions: 2 for a result of `perplexity_forward`, `perplexity_backward` and their
            geometric mean `perplexity`, bilm-tf's figure; 1 for only `perplexity`. Both have its
            logarithm, `loss`.

    Example:

    >>> metric = Perplexity(num_directions=1)
    >>> metric.update_state([np.log([[2.0, 8.0]])], np.ones((1, 2)))
    >>> metric.result()["perplexity"]
    4.0
    """

    def __init__(self, num_directions: int = 2, name: str = "perplexity", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        self.num_directions = num_directions
        self.totals = self.add_variable((num_directions,), initializer="zeros", name="totals")
        self.words = self.add_variable((), initializer="zeros", name="words")

    def update_state(self, losses: Sequence[Any], weights: Any) -> None:
        """Adds a batch: losses `(B, T)` in nats, one for each direction, and weights `(B, T)`."""
        sums = ops.stack([ops.sum(loss * weights) for loss in losses])
        self.totals.assign_add(ops.cast(sums, self.totals.dtype))
        self.words.assign_add(ops.cast(ops.sum(weights), self.words.dtype))

    def result(self) -> dict[str, Any]:
        means = self.totals / ops.maximum(self.words, 1.0)
        # It replaces the loss of Keras, which comes before it in the model's metrics and weighs
        # batches alike, though the last ones of a text are mostly padding.
        loss = ops.mean(means)
        both = {"loss": loss, "perplexity": ops.exp(loss)}
        if self.num_directions == 1:
            return both
        forward, backward = ops.exp(means[0]), ops.exp(means[1])
        return {"perplexity_forward": forward, "perplexity_backward": backward, **both}

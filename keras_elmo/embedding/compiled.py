"""Parts of an `ElmoLayer` as compiled functions of arrays, on each backend."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum

_FEWEST_WORDS = 8


class CompiledWords(keras.Model):
    """Ids to token vectors: the token encoder of an `ElmoLayer`."""

    def __init__(self, layer: ElmoLayer):
        super().__init__(dtype=layer.bilm_dtype_policy, name="words")
        self.token_encoder = layer.token_encoder
        self.jit_compile = keras.backend.backend() == "jax"
        self.built = True

    def call(self, inputs):
        return ops.cast(self.token_encoder(inputs), "float32")

    def run(self, ids: np.ndarray) -> np.ndarray:
        """Vectors float32 `(n, P)` of ids `(n, C)`, or `(n,)` for models that read words."""
        num_words, rows = len(ids), _FEWEST_WORDS
        while rows < num_words:
            rows *= 4
        padding = ((0, rows - num_words),) + ((0, 0),) * (ids.ndim - 1)
        return self.predict_on_batch(np.pad(ids, padding))[:num_words]


class CompiledSentences(keras.Model):
    """Token vectors to an output of `Embedder.embed`, by a `BiLMStack` and a mix."""

    def __init__(self, bilm: Any, mix: WeightedLayerSum | None, output: str):
        super().__init__(dtype=bilm.dtype_policy, name=f"sentences_{output}")
        self.bilm = bilm
        self.mix = mix
        self.output_kind = output
        self.jit_compile = keras.backend.backend() == "jax"
        self.run_eagerly = getattr(bilm, "is_compiled", False)  # a `QuantizedBiLM` may be
        self.built = True

    def call(self, inputs):
        tokens, mask = ops.cast(inputs["tokens"], self.compute_dtype), None
        if "lengths" in inputs:
            places = ops.arange(ops.shape(tokens)[1])
            mask = places < ops.expand_dims(inputs["lengths"], 1)
        layers = self.bilm(tokens, mask=mask)[:, :, 1:-1]
        if self.output_kind == "mix":
            layers = self.mix(layers)
        elif self.output_kind == "top":
            layers = layers[:, -1]
        elif self.output_kind == "average":
            layers = ops.mean(layers, axis=1)
        return ops.cast(layers, "float32")

    def run(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Vectors of token vectors `(B, T, P)` with boundaries; `lengths` `(B,)` count those."""
        num_rows, num_steps = tokens.shape[:2]
        rows = padded(num_rows)
        # Each padded step costs as much as any other; but XLA recompiles for each number of steps.
        steps = padded(num_steps) if keras.backend.backend() == "jax" else num_steps
        if (rows, steps) != (num_rows, num_steps):
            tokens = np.pad(tokens, ((0, rows - num_rows), (0, steps - num_steps), (0, 0)))
            lengths = np.pad(lengths, (0, rows - num_rows))
        inputs = {"tokens": tokens}
        if (lengths < steps).any():  # it is faster without a mask
            inputs["lengths"] = lengths
        return self.predict_on_batch(inputs)[:num_rows]


def padded(count: int, up: bool = True) -> int:
    """The bucket for a number of rows: the next size up, or down.

    XLA recompiles for each size, and oneDNN, which TensorFlow and PyTorch use, keeps code and
    memory for each.
    """
    step = 1 << max(0, count.bit_length() - 4)
    if keras.backend.backend() == "jax" and count > 1:
        step = max(8, 2 * step)
    return -(-count // step) * step if up else max(count // step * step, min(count, step))

"""The parts of an `ElmoLayer` as functions of NumPy arrays, compiled; threads can share them."""

import keras
import numpy as np
from keras import ops

from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.ops.compiled import CompiledFunction

_FEWEST_WORDS = 8


class CompiledWords:
    """Ids to token vectors: the token encoder of an `ElmoLayer`."""

    def __init__(self, layer: ElmoLayer):
        encoder = layer.token_encoder
        ids = (None, None) if layer.config.reads_text else (None,), "int32"
        self._vectors = CompiledFunction(
            lambda ids: ops.cast(encoder(ids), "float32"), encoder.variables, ids
        )

    def run(self, ids: np.ndarray) -> np.ndarray:
        """Vectors float32 `(n, P)` of ids `(n, C)`, or `(n,)` for models that read words."""
        num_words, rows = len(ids), _FEWEST_WORDS
        while rows < num_words:
            rows *= 4
        padding = ((0, rows - num_words),) + ((0, 0),) * (ids.ndim - 1)
        return self._vectors(np.pad(ids, padding))[:num_words]


class SomeWeights:
    """Numbers of an `ElmoLayer`'s biLM that change when it is trained or gets other weights."""

    def __init__(self, layer: ElmoLayer):
        variables = [*layer.token_encoder.variables, *layer.bilm.variables]
        self._numbers = CompiledFunction(
            lambda: ops.concatenate(
                [
                    ops.cast(v if len(v.shape) == 1 else ops.ravel(v[-1]), "float32")
                    for v in variables
                ]
            ),
            variables,
        )

    def run(self) -> bytes:
        """Each vector of weights, and the last row of every other array."""
        return self._numbers().tobytes()


class CompiledSentences:
    """Token vectors to an output of `Embedder.embed`, by its biLM."""

    def __init__(self, layer: ElmoLayer, output: str):
        self._layer, self._bilm, self._output = layer, layer.bilm, output
        tokens = (None, None, layer.config.projection_dim), "float32"
        self._call = CompiledFunction(self._vectors, layer.variables, tokens, ((None,), "int32"))

    def _vectors(self, tokens, lengths=None):
        mask = None
        if lengths is not None:
            mask = ops.arange(ops.shape(tokens)[1]) < ops.expand_dims(lengths, 1)
        layers = self._bilm(ops.cast(tokens, self._bilm.compute_dtype), mask=mask)[:, :, 1:-1]
        if self._output == "mix":
            layers = self._layer.mixes[0](layers, training=False)
        elif self._output == "top":
            layers = layers[:, -1]
        elif self._output == "average":
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
        if (lengths == steps).all():  # it is faster without a mask
            return self._call(tokens)[:num_rows]
        return self._call(tokens, lengths)[:num_rows]


def padded(count: int, up: bool = True) -> int:
    """The bucket for a number of rows: the next size up, or down.

    XLA recompiles for each size, and oneDNN, which TensorFlow and PyTorch use, keeps code and
    memory for each.
    """
    step = 1 << max(0, count.bit_length() - 4)
    if keras.backend.backend() == "jax" and count > 1:
        step = max(8, 2 * step)
    return -(-count // step) * step if up else max(count // step * step, min(count, step))

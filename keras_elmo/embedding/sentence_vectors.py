"""Token vectors to the vectors of words in their sentences, compiled; threads can share it."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.embedding.vector_spec import VectorSpec
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.vector_kinds import select_vectors, shape_of_vectors
from keras_elmo.ops.compiled import CompiledFunction
from keras_elmo.ops.lstm import masked
from keras_elmo.text.characters import add_boundaries


class SentenceVectors:
    """Token vectors to the vectors of `Embedder.embed`: the biLM and the mix of an `ElmoLayer`.

    The two directions of a biLM are independent, so long sentences are read in chunks: by the
    forward LSTMs from left to right and by the backward LSTMs from right to left, each with the
    state after its previous chunk. The result equals one pass.
    """

    def __init__(self, layer: ElmoLayer):
        self._layer, self._bilm = layer, layer.bilm
        config = layer.config
        self._state_shapes = (
            (config.num_layers, config.projection_dim),
            (config.num_layers, config.lstm_dim),
        )
        self._tokens = ((None, None, config.projection_dim), "float32")
        self._whole = functools.cache(self._compile_whole)
        self._direction = functools.cache(self._compile_direction)

    def _compile_whole(self, kind):
        def vectors(tokens, lengths=None):
            tokens = ops.cast(tokens, self._bilm.compute_dtype)
            return self._select(self._bilm(tokens, mask=_mask(tokens, lengths)), kind)

        lengths = ((None,), "int32")
        return CompiledFunction(vectors, self._layer.variables, self._tokens, lengths)

    def _compile_direction(self, kind, direction):
        def vectors(tokens, h, c, lengths=None):
            mask = _mask(tokens, lengths)
            tokens = ops.cast(tokens, self._bilm.compute_dtype)
            if mask is not None:
                tokens = masked(tokens, ops.expand_dims(mask, -1))
            layers, state = self._bilm.run_direction(direction, tokens, mask, (h, c))
            layers = self._select(ops.stack(layers, axis=1), kind)
            return layers, *(ops.cast(x, "float32") for x in state)

        state = [((None, *shape), "float32") for shape in self._state_shapes]
        lengths = ((None,), "int32")
        return CompiledFunction(vectors, self._layer.variables, self._tokens, *state, lengths)

    def _select(self, layers, kind):
        if kind == "mix":
            vectors = self._layer.mixes[0](layers, training=False)
        else:
            vectors = select_vectors(layers, kind)
        return ops.cast(vectors, "float32")

    def start(
        self, table: Any, sentences: Sequence[np.ndarray], chunk: int, spec: VectorSpec
    ) -> Callable[[], list[np.ndarray]]:
        """Starts to compute the vectors of each sentence of a batch.

        Args:
            table: What `as_table` returned: token vectors, the first two of the boundaries.
            sentences: Rows of the table.
            chunk: How many tokens of a sentence are read at once.
            spec: What to return. Arrays to be pooled are in float32.

        Returns:
            A function that waits for the arrays, of `shape_of_vectors`, and returns them. A GPU
            computes in the meantime.
        """
        lengths = np.array([len(rows) + 2 for rows in sentences], np.int32)
        # What pads a sentence is masked. Rows that pad the batch are read and dropped.
        index = add_boundaries((lengths - 2).tolist(), np.concatenate(sentences), begin=0, end=1)
        num_rows = padded(len(index)) - len(index)
        index = np.pad(index, ((0, num_rows), (0, 0)))
        lengths = np.pad(lengths, (0, num_rows), constant_values=index.shape[1])
        begin = 0 if spec.boundaries else 1
        dtype = spec.dtype if spec.pooling is None else "float32"
        ends = lengths[: len(sentences)] - begin
        if index.shape[1] > chunk:
            # Each direction fills its half of every layer.
            kind = "layers" if spec.vectors == "concat" else spec.vectors
            shapes = [shape_of_vectors(kind, self._layer.config, end - begin) for end in ends]
            arrays = [np.empty(shape, dtype) for shape in shapes]
            self._read_in_chunks(arrays, kind, table, index, lengths, chunk, begin, ends)
            if spec.vectors == "concat":
                arrays = [np.concatenate(array, axis=-1) for array in arrays]
            return lambda: arrays
        vectors = _call_in_few_shapes(self._whole(spec.vectors), table, index, lengths)
        vectors = ops.cast(vectors, dtype)

        def arrays_of_sentences():
            # Copies: a view would keep the whole batch in memory.
            found = zip(ops.convert_to_numpy(vectors), ends)
            return [array[..., begin:end, :].copy() for array, end in found]

        return arrays_of_sentences

    def _read_in_chunks(self, arrays, kind, table, index, lengths, chunk, begin, ends):
        """Fills the arrays of sentences, each direction in its half."""
        dim = table.shape[1]
        starts = range(0, index.shape[1], chunk)
        for d in range(self._bilm.num_directions):
            direction = self._direction(kind, d)
            state = [np.zeros((len(index), *shape), np.float32) for shape in self._state_shapes]
            for start in starts if d == 0 else reversed(starts):
                part = index[:, start : start + chunk]
                left = np.clip(lengths - start, 0, part.shape[1])
                vectors, *state = _call_in_few_shapes(direction, table, part, left, state, chunk)
                vectors = ops.convert_to_numpy(ops.cast(vectors, arrays[0].dtype.name))
                for array, found, end in zip(arrays, vectors, ends):
                    first, last = max(start, begin), min(start + chunk, end)
                    if first < last:
                        part = array[..., first - begin : last - begin, d * dim : (d + 1) * dim]
                        part[:] = found[..., first - start : last - start, :]


def as_table(vectors: np.ndarray) -> Any:
    """Token vectors `(n, P)` as a tensor, on JAX of few different sizes, for `SentenceVectors`."""
    if keras.backend.backend() == "jax":
        num_rows = 1 << len(vectors).bit_length()
        vectors = np.pad(vectors, ((0, num_rows - len(vectors)), (0, 0)))
    return ops.convert_to_tensor(vectors)


def _mask(tokens, lengths):
    if lengths is None:
        return None
    return ops.arange(ops.shape(tokens)[1]) < ops.expand_dims(lengths, 1)


def _call_in_few_shapes(function, table, index, lengths, state=(), steps=None):
    """Calls a function of token vectors `(B, T, P)`, a state and lengths, in few shapes.

    On JAX there are `steps` time steps, or as many as a bucket has. Elsewhere they are not padded:
    each padded step costs as much as any other, but only XLA recompiles for each number of steps.
    """
    num_steps, is_jax = index.shape[1], keras.backend.backend() == "jax"
    steps = (steps or padded(num_steps)) if is_jax else num_steps
    tokens = ops.take(table, np.pad(index, ((0, 0), (0, steps - num_steps))), axis=0)
    # It is faster without a mask.
    return function(tokens, *state, *([] if (lengths == steps).all() else [lengths]))


def padded(count: int, up: bool = True) -> int:
    """The bucket for a number of rows: the next size up, or down.

    XLA recompiles for each size, and oneDNN, which TensorFlow and PyTorch use, keeps code and
    memory for each. CPUs multiply fastest with a multiple of 16 rows, or of 8.
    """
    step = 1 << max(0, count.bit_length() - 4)
    if keras.backend.backend() == "jax" and count > 1:
        step = max(8, 2 * step)
    if not up and count >= 16:
        step = max(8 if count < 32 else 16, step)
    return -(-count // step) * step if up else max(count // step * step, min(count, step))

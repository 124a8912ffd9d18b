"""The biLM in 8 bits, for embedding."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.layers.bilm_stack import BiLMStack, mask_tokens, run_direction, stack_directions
from keras_elmo.layers.projected_lstm import ProjectedLSTM
from keras_elmo.ops.lstm import LSTMSpec, lstm_outputs, lstm_step, masked
from keras_elmo.ops.quantization import Int8Kernel, check_int8_products, graph_of_constants
from keras_elmo.ops.scan import scan


class QuantizedBiLM:
    """Computes what a built `BiLMStack` does, its products in 8 bits; see `Int8Kernel`.

    Everything else, the output too, is float32. Later changes of the weights of `bilm` are not
    seen. Not a Keras layer: a copy, or an unpickled one, quantizes `bilm` again. Raises ValueError
    if the backend or the processor has no fast products of 8-bit integers.
    """

    compute_dtype = "float32"

    def __init__(self, bilm: BiLMStack) -> None:
        check_int8_products()
        self.bilm = bilm
        self.projection_dim = bilm.projection_dim
        self._directions = [[_QuantizedLSTM(lstm) for lstm in lstms] for lstms in bilm.directions]
        self._every_layer = self._run
        # On TensorFlow it compiles itself: what calls it should run eagerly.
        self.is_compiled = keras.backend.backend() == "tensorflow"
        if self.is_compiled:
            tokens = ((None, None, self.projection_dim), "float32")
            self._every_layer = graph_of_constants(self._run, tokens, ((None, None), "bool"))

    def __reduce__(self):
        return QuantizedBiLM, (self.bilm,)

    def __call__(self, inputs: Any, mask: Any = None) -> Any:
        """All layers, float32 `(B, L + 1, T, D * P)`, of token vectors `(B, T, P)`."""
        mask = ops.ones(ops.shape(inputs)[:2], "bool") if mask is None else mask
        return self._every_layer(ops.convert_to_tensor(inputs), ops.convert_to_tensor(mask))

    def _run(self, tokens, mask):
        tokens, skip = mask_tokens(tokens, mask), self.bilm.use_skip_connections
        layers = (
            run_direction(lstms, tokens, mask, use_skip_connections=skip)[0]
            for lstms in self._directions
        )
        return stack_directions(layers)


class _QuantizedLSTM:
    """What a `ProjectedLSTM` computes, on tensors with the batch first."""

    def __init__(self, lstm: ProjectedLSTM) -> None:
        self._spec = lstm.spec._replace(compute_dtype="float32", state_dtype="float32")
        self._state_dims = lstm.projection_dim, lstm.units
        self._bias = _to_numpy(lstm.running_bias())
        self._kernel, *self._recurrent_kernels = (
            None if kernel is None else Int8Kernel(_to_numpy(kernel))
            for kernel in (lstm.kernel, lstm.recurrent_kernel, lstm.projection_kernel)
        )

    def __call__(self, inputs, mask, initial_state=None, return_state=True):
        del initial_state, return_state  # always zeros, and True
        batch_size, num_steps, dim = ops.shape(inputs)
        rows = ops.reshape(ops.transpose(inputs, (1, 0, 2)), (-1, dim))
        z = self._kernel(rows) + ops.convert_to_tensor(self._bias)
        z = ops.reshape(z, (num_steps, batch_size, len(self._bias)))
        valid = ops.expand_dims(ops.transpose(mask), 2)
        state = tuple(ops.zeros((batch_size, dim), "float32") for dim in self._state_dims)
        spec, kernels = self._spec, self._recurrent_kernels
        state, (outputs, _) = scan(
            _step, spec, state, (z, valid), kernels, lstm_outputs, reverse=spec.reverse
        )
        return ops.transpose(masked(outputs, valid), (1, 0, 2)), state


def _step(spec: LSTMSpec, state, inputs, kernels):
    # Integers are multiplied faster with the batch first.
    return lstm_step(spec, state, inputs, kernels, lambda _, kernel, x: kernel(x), gates_axis=1)


def _to_numpy(tensor):
    return np.array(ops.convert_to_numpy(tensor), dtype="float32")

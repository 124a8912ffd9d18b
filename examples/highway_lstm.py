"""An LSTM with highway connections as a Keras layer, for `srl.py` to import."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_elmo_examples")
class HighwayCell(keras.layers.Layer):
    """A step of an LSTM with a highway connection around it.

    Its input is already projected: for the gates i, f and o, the gate r of the highway, the
    candidate g, and the highway itself, `(B, 6 * units)`.

    Args:
        units: Size of the state.

    Reference: He et al. 2017, section 2.1.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size, self.output_size = [units, units], units

    def build(self, input_shape):
        shape = (self.units, 5 * self.units)
        self.recurrent_kernel = self.add_weight(
            shape=shape, initializer="orthogonal", name="recurrent_kernel"
        )

    def call(self, inputs, states, training=None):
        state, cell = states
        gates, highway = ops.split(inputs, [5 * self.units], axis=-1)
        gates = gates + ops.matmul(state, self.recurrent_kernel)
        i, f, o, r, g = ops.split(gates, 5, axis=-1)
        cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
        share = ops.sigmoid(r)
        state = share * ops.sigmoid(o) * ops.tanh(cell) + (1 - share) * highway
        return state, [state, cell]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("keras_elmo_examples")
class HighwayLSTM(keras.layers.Layer):
    """An LSTM with highway connections, in one direction.

    The kernels of all gates together begin as one orthogonal matrix (in the paper: one for each).

    Args:
        units: Size of the output.
        reverse: Whether to read from right to left.

    Call arguments:
        inputs: Floats `(B, T, D)`.
        mask: Booleans `(B, T)`, the valid tokens first.

    Output shape:
        Floats `(B, T, units)`.
    """

    def __init__(self, units, reverse=False, **kwargs):
        super().__init__(**kwargs)
        self.units, self.reverse = units, reverse
        self.supports_masking = True
        dtype = self.dtype_policy
        self.projection = keras.layers.Dense(
            6 * units, kernel_initializer="orthogonal", dtype=dtype
        )
        self.rnn = keras.layers.RNN(
            HighwayCell(units, dtype=dtype),
            return_sequences=True,
            go_backwards=reverse,
            dtype=dtype,
        )

    def build(self, input_shape):
        self.projection.build(input_shape)
        self.rnn.build((*input_shape[:-1], 6 * self.units))

    def call(self, inputs, mask=None):
        x = self.rnn(self.projection(inputs), mask=mask)
        return ops.flip(x, axis=1) if self.reverse else x

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "reverse": self.reverse}

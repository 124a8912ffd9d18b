"""An LSTM with highway connections as a Keras layer, for `srl.py` to import."""

import keras
from keras import ops


class HighwayCell(keras.layers.Layer):
    """A step of an LSTM with a highway connection around it.

    Its input is already projected: for the gates i, f and o, the gate r of the highway, the
    candidate g, and the highway itself, `(B, 6 * units)`. Its states, each `(B, units)`, are the
    output, the memory, and the factors of dropout on the output, which stay the same.

    Args:
        units: Size of the output.

    Reference: He et al. 2017, section 2.1.
    """

    def __init__(self, units):
        super().__init__()
        self.units = units
        self.state_size, self.output_size = [units] * 3, units

    def build(self, input_shape):
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, 5 * self.units),
            initializer=orthogonal_blocks(5),
            name="recurrent_kernel",
        )

    def call(self, inputs, states, training=None):
        output, cell, factors = states
        gates, highway = ops.split(inputs, [5 * self.units], axis=-1)
        gates = gates + ops.matmul(output, self.recurrent_kernel)
        i, f, o, r, g = ops.split(gates, 5, axis=-1)
        cell = ops.sigmoid(f) * cell + ops.sigmoid(i) * ops.tanh(g)
        share = ops.sigmoid(r)
        output = factors * (share * ops.sigmoid(o) * ops.tanh(cell) + (1 - share) * highway)
        return output, [output, cell, factors]


@keras.saving.register_keras_serializable("keras_elmo_examples")
class HighwayLSTM(keras.layers.Layer):
    """An LSTM with highway connections, in one direction.

    Args:
        units: Size of the output.
        reverse: Whether to read from right to left.
        dropout: Fraction of the outputs to drop, the same at all words of a sentence. The next word
            sees what is left.

    Call arguments:
        inputs: Floats `(B, T, D)`.
        mask: Booleans `(B, T)`, the valid tokens first. Outputs of the others have no meaning.
        training: Whether to drop.

    Output shape:
        Floats `(B, T, units)`.

    Reference: He et al. 2017, section 2.1.
    """

    def __init__(self, units, reverse=False, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.units, self.reverse, self.dropout = units, reverse, dropout
        self.supports_masking = True
        self.projection = keras.layers.Dense(6 * units, kernel_initializer=orthogonal_blocks(6))
        self.drop = keras.layers.Dropout(dropout)
        self.rnn = keras.layers.RNN(HighwayCell(units), return_sequences=True, go_backwards=reverse)

    def build(self, input_shape):
        self.projection.build(input_shape)
        self.rnn.build((*input_shape[:-1], 6 * self.units))

    def call(self, inputs, mask=None, training=None):
        x = self.projection(inputs)
        if mask is not None:
            # Zeros leave the states at 0, where a sentence begins when it is read from the right.
            x = x * ops.cast(ops.expand_dims(mask, -1), x.dtype)
        zeros = ops.zeros_like(x[:, 0, : self.units])
        factors = self.drop(ops.ones_like(zeros), training=training)
        x = self.rnn(x, initial_state=[zeros, zeros, factors])
        return ops.flip(x, axis=1) if self.reverse else x

    def get_config(self):
        own = {"units": self.units, "reverse": self.reverse, "dropout": self.dropout}
        return {**super().get_config(), **own}


def orthogonal_blocks(num_blocks):
    """An initializer of kernels beside each other, each an orthogonal matrix of its own."""

    def initialize(shape, dtype=None):
        block = (*shape[:-1], shape[-1] // num_blocks)
        kernels = [keras.initializers.Orthogonal()(block, dtype) for _ in range(num_blocks)]
        return ops.concatenate(kernels, axis=-1)

    return initialize

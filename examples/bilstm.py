"""A bidirectional LSTM as a Keras layer, for the programs to import."""

import keras
from keras import ops

from keras_elmo import ProjectedLSTM


@keras.saving.register_keras_serializable("keras_elmo_examples")
class BiLSTM(keras.layers.Layer):
    """A bidirectional LSTM made of two `ProjectedLSTM` without a projection.

    The same as `keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))`, but
    faster on a CPU.

    Args:
        units: Size of each direction.

    Call arguments:
        inputs: The sequence.
        mask: Booleans `(B, T)`, the valid tokens first. Outputs of the others are 0.

    Input shape:
        Floats `(B, T, D)`.

    Output shape:
        Floats `(B, T, 2 * units)`.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.supports_masking = True
        self.from_left, self.from_right = (
            ProjectedLSTM(units, units, reverse=reverse, dtype=self.dtype_policy, name=name)
            for name, reverse in (("from_left", False), ("from_right", True))
        )

    def build(self, input_shape):
        self.from_left.build(input_shape)
        self.from_right.build(input_shape)

    def call(self, inputs, mask=None):
        directions = (self.from_left, self.from_right)
        return ops.concatenate([lstm(inputs, mask=mask) for lstm in directions], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}

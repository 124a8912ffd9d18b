"""The dense layers of token encoders."""

import keras


class Dense(keras.layers.Dense):
    """A `keras.layers.Dense` that keeps its float kernel, which is part of a model's files.

    `keras.Model.quantize` warns that it leaves this layer out, as it does of the LSTMs.
    """

    quantize = keras.layers.Layer.quantize

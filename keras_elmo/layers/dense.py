"""The dense layers of token encoders."""

import keras


@keras.saving.register_keras_serializable("keras_elmo")
class Dense(keras.layers.Dense):
    """A `keras.layers.Dense` that keeps its float kernel, which is part of a model's files.

    `keras.Model.quantize` warns that it leaves this layer out, as it does of the LSTMs.
    """

    quantize = keras.layers.Layer.quantize

"""The highway and dense layers of token encoders."""

from typing import Any

import keras
from keras.initializers import RandomNormal

from keras_elmo.layers.configured import Configured


class Dense(keras.layers.Dense):
    """A `keras.layers.Dense` that keeps its float kernel, which is part of a model's files.

    `keras.Model.quantize` warns that it leaves this layer out, as it does of the LSTMs.
    """

    quantize = keras.layers.Layer.quantize


@keras.saving.register_keras_serializable("keras_elmo")
class Highway(Configured, keras.layers.Layer):
    """Passes each number of a vector on unchanged, transformed, or as a mix of both.

    `y = g * relu(x W_t + b_t) + (1 - g) * x` with the gate `g = sigmoid(x W_c + b_c)`. bilm-tf
    calls the gate's weights "carry"; their bias starts at -2, so that a fresh layer mostly copies.

    Input shape:
        Floats `(..., D)`.

    Output shape:
        Floats `(..., D)`.

    Example:

    >>> Highway()(np.ones((2, 8), "float32")).shape
    (2, 8)

    Reference: BILM_TF.md, "Token encoder"; Srivastava et al. 2015, "Highway Networks".
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape: tuple) -> None:
        dim = input_shape[-1]
        self.transform = self._dense(dim, "relu", "zeros", "transform")
        self.gate = self._dense(dim, "sigmoid", keras.initializers.Constant(-2.0), "gate")
        self.transform.build(input_shape)
        self.gate.build(input_shape)

    def _dense(self, dim, activation, bias_initializer, name):
        return Dense(
            dim,
            activation,
            kernel_initializer=RandomNormal(stddev=dim**-0.5),
            bias_initializer=bias_initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, inputs: Any) -> Any:
        gate = self.gate(inputs)
        return gate * self.transform(inputs) + (1 - gate) * inputs

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

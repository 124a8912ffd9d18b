"""The highway layer of the character encoder."""

import keras


@keras.saving.register_keras_serializable("keras_elmo")
class Highway(keras.layers.Layer):
    """Lets each number of a vector through, or replaces it by a transformed one.

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

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        dim = input_shape[-1]
        self.transform = self._dense(dim, "relu", "zeros", "transform")
        self.gate = self._dense(dim, "sigmoid", keras.initializers.Constant(-2.0), "gate")
        self.transform.build(input_shape)
        self.gate.build(input_shape)

    def _dense(self, dim, activation, bias_initializer, name):
        return keras.layers.Dense(
            dim,
            activation,
            kernel_initializer=keras.initializers.RandomNormal(stddev=dim**-0.5),
            bias_initializer=bias_initializer,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, inputs):
        gate = self.gate(inputs)
        return gate * self.transform(inputs) + (1 - gate) * inputs

    def compute_output_shape(self, input_shape):
        return input_shape

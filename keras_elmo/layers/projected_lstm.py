"""One direction of one LSTM layer, with projection and clips, over a whole sequence."""

from typing import Any

import keras
import numpy as np
from keras import ops
from keras.initializers import RandomUniform

from keras_elmo.layers.configured import Configured
from keras_elmo.layers.recurrent import Recurrent
from keras_elmo.ops.lstm import LSTMSpec, lstm, product_over_time


@keras.saving.register_keras_serializable("keras_elmo")
class ProjectedLSTM(Configured, Recurrent, keras.layers.Layer):
    """An LSTM whose output is projected to a smaller size, both cell and output clipped.

    With gates i, j, f, o (the order of the stored weights) from `W x + R h + b`:
    `c' = clip(sigmoid(f + 1) * c + sigmoid(i) * tanh(j), cell_clip)` and
    `h' = clip(W_P (sigmoid(o) * tanh(c')), proj_clip)`. The 1 is added when running and not stored.
    Under mixed precision the products run in the compute dtype, gates and cell in float32.

    Args:
        units: Size of the cell.
        projection_dim: Size of the output. Cells of the same size are not projected, unless
            `always_project`.
        cell_clip: Bound on the cell's values, or `None`.
        proj_clip: Bound on the projected output, or `None`.
        reverse: Whether to run from the last token to the first. Outputs stay in input order.
        always_project: Whether to project even if the sizes are equal.

    Call arguments:
        inputs: The sequence.
        mask: Booleans `(B, T)`, or `None`. Where it is `False` the output is 0 and the state stays.
        initial_state: Tuple `(h, c)` of floats `(B, projection_dim)` and `(B, units)`; zeros where
            `None`.
        return_state: Whether to also return the state after the last step.
        training: Whether to store more intermediate values, which makes the gradient faster.

    Input shape:
        Floats `(B, T, D)`.

    Output shape:
        Floats `(B, T, projection_dim)`; with `return_state` a tuple of that and `(h, c)`.

    Raises:
        ValueError: if an argument is invalid, or `initial_state` has different shapes.

    Example:

    >>> ProjectedLSTM(units=16, projection_dim=4)(np.ones((2, 5, 4), "float32")).shape
    (2, 5, 4)

    Reference: BILM_TF.md, "LSTM with projection"; Sak et al. 2014.
    """

    def __init__(
        self,
        units: int,
        projection_dim: int,
        cell_clip: float | None = None,
        proj_clip: float | None = None,
        reverse: bool = False,
        always_project: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.projection_dim = projection_dim
        self.units = units
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.reverse = reverse
        self.always_project = always_project
        self.units = self.checked_config(lstm_dim=units).lstm_dim
        self.supports_masking = True
        self.autocast = False  # Keras would round a state that is given to the compute dtype

    def build(self, input_shape: tuple) -> None:
        input_dim, gates = input_shape[-1], 4 * self.units
        # The file has both kernels in one array: Glorot's bound is computed for the whole.
        limit = (6.0 / (input_dim + self.projection_dim + gates)) ** 0.5
        self.kernel = self.add_weight(
            (gates, input_dim), RandomUniform(-limit, limit), name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            (gates, self.projection_dim), RandomUniform(-limit, limit), name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(gates,), initializer="zeros", name="bias")
        self.projection_kernel = None
        if self.always_project or self.units != self.projection_dim:
            self.projection_kernel = self.add_weight(
                (self.projection_dim, self.units), "glorot_uniform", name="projection_kernel"
            )

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        initial_state: tuple | None = None,
        return_state: bool = False,
        training: bool | None = None,
        inputs_mask: Any = None,
    ) -> Any:
        mask = inputs_mask if mask is None else mask
        self.check_state(initial_state)
        if initial_state is None:
            initial_state = self.zero_state(ops.shape(inputs)[0])
        state = (ops.transpose(ops.cast(x, self.state_dtype)) for x in initial_state)
        bias = ops.cast(self.running_bias(), self.compute_dtype)
        kernel, *recurrent_kernels = (
            None if kernel is None else ops.convert_to_tensor(kernel, self.compute_dtype)
            for kernel in (self.kernel, self.recurrent_kernel, self.projection_kernel)
        )
        inputs = ops.transpose(ops.cast(inputs, self.compute_dtype), (1, 0, 2))
        z = product_over_time(kernel, inputs, bias)
        valid = None if mask is None else ops.transpose(ops.cast(mask, "bool"))[:, None]
        spec = self.spec._replace(training=bool(training))
        outputs, h, c = lstm(spec, z, valid, *state, *recurrent_kernels)
        outputs = ops.transpose(ops.cast(outputs, self.compute_dtype), (2, 0, 1))
        return (outputs, (ops.transpose(h), ops.transpose(c))) if return_state else outputs

    def running_bias(self) -> Any:
        """The stored bias, with the 1 of the forget gate, `(4 * units,)`."""
        forget = np.repeat([0.0, 0.0, 1.0, 0.0], self.units)
        return self.bias + ops.convert_to_tensor(forget, self.bias.dtype)

    @property
    def spec(self) -> LSTMSpec:
        """The properties of the recurrence except its weights."""
        return LSTMSpec(
            self.cell_clip, self.proj_clip, self.reverse, self.compute_dtype, self.state_dtype
        )

    @property
    def state_shapes(self) -> tuple:
        return (self.projection_dim,), (self.units,)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.projection_dim)

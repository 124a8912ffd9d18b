"""Shared code of layers with a state (h, c), and the state that is carried between batches."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_elmo.ops.gather import float32_at_least
from keras_elmo.pretrained.weight_table import check_size


class Recurrent:
    """Mixin for layers that take an `initial_state` (h, c), and with `return_state` return one."""

    compute_dtype: str

    @property
    def state_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of h and c, without the batch."""
        raise NotImplementedError

    @property
    def state_dtype(self) -> str:
        """Dtype of the state: the compute dtype, but no less than float32."""
        return float32_at_least(self.compute_dtype)

    def zero_state(self, batch_size: Any) -> tuple[Any, Any]:
        """The state (h, c) of a batch for which nothing has been read."""
        shapes = ((batch_size, *shape) for shape in self.state_shapes)
        return tuple(ops.zeros(shape, self.state_dtype) for shape in shapes)

    def check_state(self, state: Sequence[Any] | None) -> None:
        """Raises ValueError if a state has other shapes."""
        found = [tuple(part.shape) for part in state or ()]
        if state is not None and [shape[1:] for shape in found] != list(self.state_shapes):
            h, c = (f"(B, {', '.join(map(str, shape))})" for shape in self.state_shapes)
            raise ValueError(f"initial_state must be (h, c) of shapes {h} and {c}, got {found}.")

    # Keras hands an earlier layer's mask over as `inputs_mask` next to an initial_state, which is a
    # tensor too, and as `mask` without one.
    def compute_output_spec(
        self, inputs, mask=None, initial_state=None, return_state=False, *_, **__
    ):
        shape = self.compute_output_shape(inputs.shape)
        outputs = keras.KerasTensor(shape, self.compute_dtype)
        if not return_state:
            return outputs
        shapes = [(shape[0], *part) for part in self.state_shapes]
        return outputs, tuple(keras.KerasTensor(part, self.state_dtype) for part in shapes)


class CarriedState:
    """The state (h, c) that a recurrent layer carries from batch to batch, zeros at first.

    Args:
        owner: The layer that gets the state as two weights, which are not trained.
        recurrent: The layer that carries it, such as a `BiLMStack`.
        num_rows: Rows of the state: the largest batch size.
        name: Prefix of the weights' names.

    Raises ValueError if the state would be of an implausible size.
    """

    def __init__(
        self, owner: keras.layers.Layer, recurrent: Recurrent, num_rows: int, name: str = "state"
    ) -> None:
        shapes = [(num_rows, *shape) for shape in recurrent.state_shapes]
        check_size(f"A state of {num_rows:,} rows", sum(map(math.prod, shapes)))
        options = {"dtype": recurrent.state_dtype, "trainable": False, "autocast": False}
        self.variables = [
            owner.add_weight(shape, "zeros", name=f"{name}_{part}", **options)
            for part, shape in zip("hc", shapes)
        ]

    def read(self) -> tuple[Any, Any]:
        """The state (h, c) of all rows."""
        # Copies: PyTorch needs the old values for the gradient when the new ones are in place.
        return tuple(ops.copy(variable) for variable in self.variables)

    def write(self, state: Sequence[Any]) -> None:
        """Replaces the first rows by the state after a batch; no gradient flows through it."""
        for variable, rows in zip(self.variables, state):
            rows = ops.stop_gradient(ops.cast(rows, variable.dtype))
            others = ops.convert_to_tensor(variable)[ops.shape(rows)[0] :]
            variable.assign(ops.concatenate([rows, others]))

    def reset(self) -> None:
        """Sets the state to zero."""
        for variable in self.variables:
            variable.assign(ops.zeros(variable.shape, variable.dtype))

"""The LSTM state that is carried from batch to batch."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_elmo.layers.recurrent import Recurrent
from keras_elmo.pretrained.weight_table import check_size


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
        self,
        owner: keras.layers.Layer,
        recurrent: Recurrent,
        num_rows: int,
        name: str = "state",
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

"""Shared code of layers with a state (h, c)."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_elmo.ops.dtypes import float32_at_least


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

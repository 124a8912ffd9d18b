"""The bidirectional language model: token vectors to every layer's vectors."""

import random
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_elmo.arguments import check_number
from keras_elmo.config import ElmoConfig
from keras_elmo.layers.configured import Configured
from keras_elmo.layers.projected_lstm import ProjectedLSTM
from keras_elmo.layers.recurrent import Recurrent
from keras_elmo.ops.lstm import masked

_ORIGINAL = ElmoConfig()


@keras.saving.register_keras_serializable("keras_elmo")
class BiLMStack(Configured, Recurrent, keras.layers.Layer):
    """Stacked LSTMs with projection, forward and backward, returning every layer.

    The two directions share only the token vectors. Layer 0 of the output is the token vector, once
    for each direction; layer j is the concatenation of the forward and the backward LSTM j.

    Args:
        lstm_dim: Units of each LSTM's cell.
        projection_dim: Size P of a token's vector in one direction.
        num_layers: Number L of LSTM layers.
        cell_clip: Bound on the cells' values, or `None`.
        proj_clip: Bound on the projected outputs, or `None`.
        use_skip_connections: Whether layers after the first add their input to their output.
        bidirectional: Whether there is a backward direction; D is 2 if so, else 1.
        dropout: Fraction of the numbers to drop in training, from the input of every LSTM and from
            the top layer.
        always_project: Whether the LSTMs have a projection even if `lstm_dim` equals P.

    Call arguments:
        inputs: Token vectors, sentence boundaries included.
        mask: Booleans `(B, T)`, `True` on the sentence and its boundaries. Masked positions of the
            output are exactly 0.
        initial_state: Tuple `(h, c)` of floats `(B, D, L, P)` and `(B, D, L, lstm_dim)`; zeros
            where `None`.
        return_state: Whether to also return the state after the last step of each direction.
        training: Whether to apply the dropout.

    Input shape:
        Floats `(B, T, P)`.

    Output shape:
        Floats `(B, L + 1, T, D * P)`; with `return_state` a tuple of that and `(h, c)`.

    Raises:
        ValueError: if an argument is invalid, or the inputs or `initial_state` have wrong shapes.

    Example:

    >>> bilm = BiLMStack(lstm_dim=16, projection_dim=4)
    >>> bilm(np.ones((2, 7, 4), "float32")).shape
    (2, 3, 7, 8)

    Reference: Peters et al. 2018, sections 3.1 and 3.4; BILM_TF.md, "LSTM with projection".
    """

    def __init__(
        self,
        lstm_dim: int = _ORIGINAL.lstm_dim,
        projection_dim: int = _ORIGINAL.projection_dim,
        num_layers: int = _ORIGINAL.num_layers,
        cell_clip: float | None = _ORIGINAL.cell_clip,
        proj_clip: float | None = _ORIGINAL.proj_clip,
        use_skip_connections: bool = _ORIGINAL.use_skip_connections,
        bidirectional: bool = _ORIGINAL.bidirectional,
        dropout: float = 0.0,
        always_project: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lstm_dim = lstm_dim
        self.projection_dim = projection_dim
        self.num_layers = num_layers
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.use_skip_connections = use_skip_connections
        self.bidirectional = bidirectional
        self.dropout = check_number("dropout", dropout, least=0, below=1)
        self.always_project = always_project
        self.num_directions = self.checked_config().num_directions
        self.seed_generator = None
        if dropout:
            # With a seed of its own: PyTorch would take its global generator's numbers otherwise.
            self.seed_generator = keras.random.SeedGenerator(random.getrandbits(31))
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: projection_dim})
        self.autocast = False  # Keras would round a state that is given to the compute dtype
        self.forward_lstms = self._lstms("forward", reverse=False)
        self.backward_lstms = self._lstms("backward", reverse=True) if self.bidirectional else []

    def _lstms(self, direction, reverse):
        return [
            ProjectedLSTM(
                self.lstm_dim,
                self.projection_dim,
                cell_clip=self.cell_clip,
                proj_clip=self.proj_clip,
                reverse=reverse,
                always_project=self.always_project,
                dtype=self.dtype_policy,
                name=f"{direction}_{layer}",
            )
            for layer in range(self.num_layers)
        ]

    @property
    def directions(self) -> list[list[ProjectedLSTM]]:
        """The LSTM layers of each direction: forward, then backward."""
        return [list(lstms) for lstms in (self.forward_lstms, self.backward_lstms) if lstms]

    @property
    def state_shapes(self) -> tuple:
        dims = (self.num_directions, self.num_layers)
        return (*dims, self.projection_dim), (*dims, self.lstm_dim)

    def build(self, input_shape: tuple) -> None:
        for lstms in self.directions:
            for lstm in lstms:
                lstm.build((None, None, self.projection_dim))

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
        inputs = ops.cast(inputs, self.compute_dtype)
        if mask is not None:
            inputs = masked(inputs, ops.expand_dims(ops.cast(mask, "bool"), -1))
        inputs = [inputs] * self.num_directions
        layers, state = self._run(inputs, mask, initial_state, training)
        outputs = ops.stack([ops.concatenate(layer, axis=-1) for layer in zip(*layers)], axis=1)
        return (outputs, state) if return_state else outputs

    def run_streams(
        self, streams: Sequence, initial_state: tuple, training: bool = False
    ) -> tuple[list, tuple]:
        """Runs each direction on separate words, as in the training of a language model.

        The backward direction reads reversed sentences, so that both can carry their state.

        Args:
            streams: Token vectors for each direction, a list of D floats `(B, T, P)`.
            initial_state: Tuple `(h, c)`, as for `call`.
            training: Whether to apply the dropout.

        Returns:
            The top layer of each direction, a list of D floats `(B, T, P)`, and the state `(h, c)`
            after the last word.

        Reference: BILM_TF.md, "Language-model training".
        """
        streams = [ops.cast(x, self.compute_dtype) for x in streams]
        layers, state = self._run(_flip_backward(streams), None, initial_state, training)
        return _flip_backward([outputs[-1] for outputs in layers]), state

    def _run(self, inputs, mask, initial_state, training):
        """The vectors of every layer of each direction on its inputs, and the state after."""
        self.check_state(initial_state)
        layers, states = [], []
        for d, x in enumerate(inputs):
            start = None if initial_state is None else [part[:, d] for part in initial_state]
            outputs, end = self.run_direction(d, x, mask, start, training)
            layers.append(outputs)
            states.append(end)
        return layers, _stack_states(states)

    def run_direction(
        self,
        direction: int,
        tokens: Any,
        mask: Any = None,
        initial_state: Sequence | None = None,
        training: bool | None = False,
    ) -> tuple[list, tuple]:
        """Runs the LSTMs of one direction, which do not depend on the other direction.

        Args:
            direction: 0 for forward, 1 for backward, which reads from the last word to the first.
            tokens: Token vectors `(B, T, P)`, zeros where masked.
            mask: Booleans `(B, T)`, or `None`.
            initial_state: Tuple `(h, c)` of floats `(B, L, ...)`; zeros where `None`.
            training: Whether to apply the dropout.

        Returns:
            The vectors of the L + 1 layers, a list of floats `(B, T, P)`, and the final state.
        """
        x, outputs, ends = tokens, [tokens], []
        for i, lstm in enumerate(self.directions[direction]):
            x = self._drop(x, training)
            start = None if initial_state is None else [part[:, i] for part in initial_state]
            y, end = lstm(x, mask=mask, initial_state=start, return_state=True)
            x = y + x if i > 0 and self.use_skip_connections else y
            outputs.append(x)
            ends.append(end)
        outputs[-1] = self._drop(x, training)
        return outputs, _stack_states(ends)

    def _drop(self, x, training):
        if not training or not self.dropout:
            return x
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None if mask is None else mask_of_layers(mask, self.num_layers + 1)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        batch_size, num_tokens = input_shape[:2]
        dim = self.num_directions * self.projection_dim
        return (batch_size, self.num_layers + 1, num_tokens, dim)


def mask_of_layers(mask: Any, num_layers: int) -> Any:
    """Repeats the mask of the tokens `(B, T)` for each layer: `(B, num_layers, T)`."""
    return ops.repeat(ops.expand_dims(mask, 1), num_layers, axis=1)


def _flip_backward(streams):
    """Reverses the second stream, if there is one: a backward LSTM runs from last to first."""
    return [*streams[:1], *(ops.flip(x, axis=1) for x in streams[1:])]


def _stack_states(states):
    """Stacks the states (h, c) of layers or directions along a new axis 1."""
    return tuple(ops.stack(part, axis=1) for part in zip(*states))

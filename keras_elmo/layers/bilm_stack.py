"""The bidirectional language model: token vectors to every layer's vectors."""

import random

import keras
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.projected_lstm import ProjectedLSTM
from keras_elmo.layers.renamed import current_names

_ORIGINAL = ElmoConfig()


@keras.saving.register_keras_serializable("keras_elmo")
class BiLMStack(keras.layers.Layer):
    """Stacked LSTMs with projection, forward and backward, returning every layer.

    The two directions share the token vectors and nothing else. Layer 0 of the output is the token
    vector, once for each direction; layer j holds the forward LSTM j beside the backward one.

    Args:
        lstm_dim: Units of each LSTM's cell.
        projection_dim: Size P of a token's vector in one direction.
        num_layers: Number L of LSTM layers.
        cell_clip: Bound on the cells' values, or `None`.
        proj_clip: Bound on the projected outputs, or `None`.
        use_skip_connections: Whether layers after the first add their input to their output.
        bidirectional: Whether there is a backward direction; D is 2 if so, else 1.
        dropout: Fraction of the numbers to drop in training, from the input of every LSTM and from
            the top layer. An LSTM that adds its input to its output adds what is left of it.

    Call arguments:
        inputs: Token vectors, sentence boundaries included.
        mask: Booleans `(B, T)`, `True` on the sentence and its boundaries. Masked positions of the
            output are exactly 0.
        initial_state: Tuple `(h, c)` of floats `(B, D, L, P)` and `(B, D, L, lstm_dim)`; zeros
            where `None`.
        return_state: Whether to return the state after the last step of each direction too. The
            backward direction ends at the first token.
        training: Whether to apply the dropout.

    Input shape:
        Floats `(B, T, P)`.

    Output shape:
        Floats `(B, L + 1, T, D * P)`; with `return_state` a tuple of that and `(h, c)`.

    Raises:
        ValueError: if the inputs are not `(B, T, P)`.

    Example:

    >>> bilm = BiLMStack(lstm_dim=16, projection_dim=4)
    >>> bilm(np.ones((2, 7, 4), "float32")).shape
    (2, 3, 7, 8)

    Reference: Peters et al. 2018, sections 3.1 and 3.4; BILM_TF.md, "LSTM with projection".
    """

    def __init__(
        self,
        lstm_dim=_ORIGINAL.lstm_dim,
        projection_dim=_ORIGINAL.projection_dim,
        num_layers=_ORIGINAL.num_layers,
        cell_clip=_ORIGINAL.cell_clip,
        proj_clip=_ORIGINAL.proj_clip,
        use_skip_connections=_ORIGINAL.use_skip_connections,
        bidirectional=_ORIGINAL.bidirectional,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}.")
        ElmoConfig(
            lstm_dim=lstm_dim,
            projection_dim=projection_dim,
            num_layers=num_layers,
            cell_clip=cell_clip,
            proj_clip=proj_clip,
            use_skip_connections=use_skip_connections,
            bidirectional=bidirectional,
        )  # raises ValueError on bad arguments
        self.lstm_dim = lstm_dim
        self.projection_dim = projection_dim
        self.num_layers = num_layers
        self.cell_clip = cell_clip
        self.proj_clip = proj_clip
        self.use_skip_connections = use_skip_connections
        self.bidirectional = bidirectional
        self.dropout = dropout
        self.seed_generator = None
        if dropout:
            # With a seed of its own: PyTorch would take its global generator's numbers otherwise.
            self.seed_generator = keras.random.SeedGenerator(random.getrandbits(31))
        self.supports_masking = True
        self.forward_lstms = self._lstms("forward", reverse=False)
        self.backward_lstms = self._lstms("backward", reverse=True) if bidirectional else []

    def _lstms(self, direction, reverse):
        return [
            ProjectedLSTM(
                self.lstm_dim,
                self.projection_dim,
                cell_clip=self.cell_clip,
                proj_clip=self.proj_clip,
                reverse=reverse,
                dtype=self.dtype_policy,
                name=f"{direction}_{layer}",
            )
            for layer in range(self.num_layers)
        ]

    @property
    def directions(self):
        """The LSTM layers of each direction, a list of lists: forward, then backward."""
        return [list(lstms) for lstms in (self.forward_lstms, self.backward_lstms) if lstms]

    def build(self, input_shape):
        for lstms in self.directions:
            for lstm in lstms:
                lstm.build((None, None, self.projection_dim))

    def call(
        self,
        inputs,
        mask=None,
        initial_state=None,
        return_state=False,
        training=None,
        inputs_mask=None,
    ):
        self._check_inputs(inputs)
        mask = inputs_mask if mask is None else mask
        if mask is not None:
            valid = ops.expand_dims(ops.cast(mask, "bool"), -1)
            inputs = ops.where(valid, inputs, ops.zeros_like(inputs))
        layers, states = [], []
        for d, lstms in enumerate(self.directions):
            outputs, state = self._run(lstms, inputs, mask, initial_state, d, training)
            layers.append(outputs)
            states.append(state)
        outputs = ops.stack([ops.concatenate(layer, axis=-1) for layer in zip(*layers)], axis=1)
        if not return_state:
            return outputs
        return outputs, _stack_states([_stack_states(state) for state in states])

    def read_streams(self, streams, initial_state, training=False):
        """Runs each direction over words of its own, as a language model is trained.

        The backward direction reads a stream of reversed sentences, both from first to last, so
        that windows can follow each other with carried state.

        Args:
            streams: Token vectors for each direction, a list of D floats `(B, T, P)`.
            initial_state: Tuple `(h, c)`, as for `call`.
            training: Whether to apply the dropout.

        Returns:
            The top layer of each direction, a list of D floats `(B, T, P)`, and the state `(h, c)`
            after the last word.

        Reference: BILM_TF.md, "Language-model training".
        """
        tops, states = [], []
        for d, (lstms, x) in enumerate(zip(self.directions, streams)):
            # A backward LSTM runs from the last place to the first.
            x = ops.flip(x, axis=1) if lstms[0].reverse else x
            outputs, state = self._run(lstms, x, None, initial_state, d, training)
            tops.append(ops.flip(outputs[-1], axis=1) if lstms[0].reverse else outputs[-1])
            states.append(state)
        return tops, _stack_states([_stack_states(state) for state in states])

    def _run(self, lstms, x, mask, initial_state, direction, training):
        """One direction: the vectors of every layer, and the final (h, c) of every LSTM."""
        outputs, states = [x], []
        for layer, lstm in enumerate(lstms):
            x = self._drop(x, training)
            state = None
            if initial_state is not None:
                state = tuple(part[:, direction, layer] for part in initial_state)
            y, state = lstm(x, mask=mask, initial_state=state, return_state=True)
            x = y + x if layer > 0 and self.use_skip_connections else y
            outputs.append(x)
            states.append(state)
        outputs[-1] = self._drop(x, training)
        return outputs, states

    def _drop(self, x, training):
        if not training or not self.dropout:
            return x
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    def _check_inputs(self, inputs):
        if len(inputs.shape) != 3 or inputs.shape[-1] != self.projection_dim:
            raise ValueError(
                f"BiLMStack expects token vectors (B, T, {self.projection_dim}), got shape "
                f"{tuple(inputs.shape)}."
            )

    def compute_mask(self, inputs, mask=None):
        return mask

    def compute_output_shape(self, input_shape):
        num_directions = 2 if self.bidirectional else 1
        batch_size, num_tokens = input_shape[:2]
        return (batch_size, self.num_layers + 1, num_tokens, num_directions * self.projection_dim)

    # Keras hands an earlier layer's mask over as `inputs_mask` beside an initial_state, which is a
    # tensor too, and as `mask` without one.
    def compute_output_spec(
        self,
        inputs,
        mask=None,
        initial_state=None,
        return_state=False,
        training=None,
        inputs_mask=None,
    ):
        shape = self.compute_output_shape(inputs.shape)
        outputs = keras.KerasTensor(shape, self.compute_dtype)
        if not return_state:
            return outputs
        dims = (shape[0], 2 if self.bidirectional else 1, self.num_layers)
        dtype = self.forward_lstms[0].state_dtype
        h = keras.KerasTensor((*dims, self.projection_dim), dtype)
        c = keras.KerasTensor((*dims, self.lstm_dim), dtype)
        return outputs, (h, c)

    def get_config(self):
        return {
            **super().get_config(),
            "lstm_dim": self.lstm_dim,
            "projection_dim": self.projection_dim,
            "num_layers": self.num_layers,
            "cell_clip": self.cell_clip,
            "proj_clip": self.proj_clip,
            "use_skip_connections": self.use_skip_connections,
            "bidirectional": self.bidirectional,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config):
        return super().from_config(current_names(config))


def _stack_states(states):
    """A list of states (h, c), one for each layer or direction, to one, along a new axis 1."""
    return tuple(ops.stack(part, axis=1) for part in zip(*states))

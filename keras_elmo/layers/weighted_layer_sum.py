"""The learned weighted sum of a biLM's layers."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.arguments import check_boolean, check_mix_weights, check_number
from keras_elmo.layers.configured import Configured

# bilm-tf's epsilon, far below half precision: the normalization runs in float32.
_LAYER_NORM_EPSILON = 1e-12
_EXCLUDED_LOGIT = -3e4  # a raw layer weight whose softmax is exactly 0, in the range of every dtype


@keras.saving.register_keras_serializable("keras_elmo")
class WeightedLayerSum(Configured, keras.layers.Layer):
    """Mixes the layers of a biLM into one vector per token: `gamma * sum_j softmax(w)_j h_j`.

    Args:
        use_top_only: Whether to take only the top layer, times gamma.
        layer_norm: Whether to normalize every layer first, to mean 0 and variance 1 over all
            unmasked tokens of the batch. Vectors then depend on the rest of the batch.
        l2: Weight of the penalty `l2 * sum(w ** 2)` on the raw layer weights, added to the model's
            losses; `None` for none. The paper's lambda.
        dropout: Fraction of the mixed vectors' numbers to drop in training.

    Call arguments:
        inputs: The vectors of every layer.
        mask: Booleans `(B, T)`, or `(B, L + 1, T)`, the same for all layers. Masked positions of
            the output are exactly 0.
        training: Whether to apply the dropout.

    Input shape:
        Floats `(B, L + 1, T, D)`.

    Output shape:
        Floats `(B, T, D)`.

    Raises:
        ValueError: if the inputs are not of rank 4, or an argument is out of its range.

    Example:

    >>> mix = WeightedLayerSum()
    >>> mix(np.ones((2, 3, 5, 8), "float32")).shape
    (2, 5, 8)
    >>> np.round(mix.normalized_weights, 2)
    array([0.33, 0.33, 0.33], dtype=float32)

    Reference: Peters et al. 2018, equation 1; BILM_TF.md, "Layers and mix".
    """

    def __init__(
        self,
        use_top_only: bool = False,
        layer_norm: bool = False,
        l2: float | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.use_top_only = check_boolean("use_top_only", use_top_only)
        self.layer_norm = check_boolean("layer_norm", layer_norm)
        self.l2 = None if l2 is None else check_number("l2", l2, least=0)
        self.dropout = check_number("dropout", dropout, least=0, below=1)
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=4)
        self.dropout_layer = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        self.num_mixed_layers = input_shape[1]
        self.input_spec = keras.layers.InputSpec(ndim=4, axes={1: self.num_mixed_layers})
        self.layer_weights = None
        if not self.use_top_only:
            penalty = keras.regularizers.L2(self.l2) if self.l2 else None
            self.layer_weights = self.add_weight(
                (self.num_mixed_layers,), "zeros", regularizer=penalty, name="layer_weights"
            )
        self.gamma = self.add_weight((1,), "ones", name="gamma")
        self.dropout_layer.build((input_shape[0], *input_shape[2:]))

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:
        mask = self.compute_mask(inputs, mask)
        valid = None if mask is None else ops.expand_dims(ops.cast(mask, "bool"), -1)
        if self.use_top_only:
            mixed = self._normalized(inputs[:, -1:], valid)[:, 0]
        else:
            weights = ops.cast(self._softmax(), inputs.dtype)
            mixed = ops.einsum("l,bltd->btd", weights, self._normalized(inputs, valid))
        mixed = self.dropout_layer(ops.cast(self.gamma, mixed.dtype) * mixed, training=training)
        return mixed if valid is None else ops.where(valid, mixed, ops.zeros_like(mixed))

    def _softmax(self):
        weights = ops.cast(self.layer_weights, "float32")
        # bilm-tf adds 1/n. It cancels in the softmax, but changes the rounding.
        return ops.softmax(weights + 1.0 / self.num_mixed_layers)

    def _normalized(self, inputs, valid):
        if not self.layer_norm:
            return inputs
        x = ops.cast(inputs, "float32")
        if valid is None:
            valid = ops.ones_like(x[:, 0, :, :1], dtype="bool")
        weight = ops.cast(ops.expand_dims(valid, 1), "float32")
        # A batch of nothing but padding has no mean; 1 in its place keeps it free of NaN.
        count = ops.maximum(ops.sum(weight) * x.shape[-1], 1.0)
        axes = (0, 2, 3)
        mean = ops.sum(x * weight, axis=axes, keepdims=True) / count
        variance = ops.sum(ops.square((x - mean) * weight), axis=axes, keepdims=True) / count
        return ops.cast((x - mean) * ops.rsqrt(variance + _LAYER_NORM_EPSILON), inputs.dtype)

    def set_normalized_weights(self, mix_weights: Sequence[float]) -> None:
        """Sets the share of each layer in the mix, of a layer that is built.

        The raw layer weights become the logarithms of the shares, minus their mean. A share of 0 is
        exact and gets no gradient: training leaves it 0.

        Args:
            mix_weights: `L + 1` numbers of at least 0 with the sum 1, as `normalized_weights`.

        Raises:
            ValueError: if they are not, or the layer has `use_top_only`; or one is 0 and the layer
                has `l2`, which draws the layer weights toward equal ones.

        Example:

        >>> mix = WeightedLayerSum()
        >>> mix.build((None, 3, None, 512))
        >>> mix.set_normalized_weights((0, 1, 0))
        >>> mix.normalized_weights
        array([0., 1., 0.], dtype=float32)
        """
        if self.layer_weights is None:
            raise ValueError("use_top_only leaves no layers to mix: leave out mix_weights.")
        shares = check_mix_weights("mix_weights", mix_weights, self.num_mixed_layers)
        mixed = shares > 0
        if self.l2 and not mixed.all():
            raise ValueError(
                "l2 draws the layer weights toward equal ones, which a weight of 0 cannot follow: "
                f"pass l2=None or a small weight instead of 0; got mix_weights={mix_weights!r}."
            )
        logs = np.log(shares[mixed])
        raw = np.full(len(shares), _EXCLUDED_LOGIT)
        raw[mixed] = logs - logs.mean()
        self.layer_weights.assign(raw)

    @property
    def normalized_weights(self) -> np.ndarray:
        """The share of each layer in the mix, a NumPy array `(L + 1,)` that sums to 1."""
        if self.use_top_only:
            return ops.convert_to_numpy(ops.eye(self.num_mixed_layers)[-1])
        return ops.convert_to_numpy(self._softmax())

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask if mask is None or len(mask.shape) == 2 else mask[:, 0]

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], *input_shape[2:])

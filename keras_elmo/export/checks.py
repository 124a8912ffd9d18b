"""Shared by all exports: the layers that can be exported, their outputs, and the comparison."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.text.tokens import split_tokens

TOLERANCE = 1e-5
"""The largest difference from the layer that an export may have."""
HALF_PRECISION_TOLERANCE = 0.05
"""The same, where weights are stored or products computed in float16 or bfloat16."""

SENTENCES = (
    "The bank raised its interest rates .",
    "",
    "Hello",
    f"Na\u00efve \u65e5\u672c\u8a9e {60 * 'long'} , and more words , to make many steps .",
)
"""The sentences of the comparison: a plain one, an empty one, one word, and long odd words."""


def named_outputs(layer: ElmoLayer, inputs: Any) -> dict[str, Any]:
    """The outputs of a served model, by the names of the TF-Hub ELMo module.

    Args:
        layer: An `ElmoLayer`.
        inputs: As for a call of the layer.

    Returns:
        A dict of floats, 0 at masked positions: `word_emb` `(B, T, P)`, the token vectors;
        `lstm_outputs1` to `lstm_outputsL` `(B, T, 2 * P)`; and of a layer that mixes, `elmo`, its
        first mix, `(B, T, 2 * P)`, and `default` `(B, 2 * P)`, the mean of `elmo` over the words, 0
        for an empty sentence.

    Reference: https://www.tensorflow.org/hub/modules/google/elmo/1, "Outputs".
    """
    layers, mask = layer.hidden_states(inputs)
    # The lowest layer is the token vector once for each direction; one of them is enough.
    outputs = {"word_emb": layers[:, 0, :, : layer.config.projection_dim]}
    for i in range(1, layer.config.num_layers + 1):
        outputs[f"lstm_outputs{i}"] = layers[:, i]
    if layer.mixes:
        # The sum over a long sentence needs float32.
        elmo = ops.cast(layer.mixes[0](layers, mask=mask), "float32")
        num_words = ops.sum(ops.cast(mask, "float32"), axis=1, keepdims=True)
        outputs["elmo"] = elmo
        outputs["default"] = ops.sum(elmo, axis=1) / ops.maximum(num_words, 1)
    return {name: ops.cast(x, "float32") for name, x in outputs.items()}


def check_stateless(layer: ElmoLayer) -> None:
    """Raises ValueError if the layer is stateful."""
    if layer.stateful:
        raise ValueError(
            "An exported model keeps no state: make the ElmoLayer without stateful=True."
        )


def check_served(layer: ElmoLayer, what: str) -> None:
    """Raises ValueError unless the layer reads characters and mixes, is not stateful and drops the
    boundaries, and the backend is TensorFlow."""
    check_stateless(layer)
    if not layer.config.reads_text:
        raise ValueError(f"This model reads token ids; {what} needs one that reads strings.")
    if layer.boundaries:
        raise ValueError(f"{what} returns tokens: make the ElmoLayer without boundaries=True.")
    if not layer.mixes:
        raise ValueError("Expected an ElmoLayer with a mix: create it with vectors='mix'.")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{what} is written by TensorFlow: set KERAS_BACKEND=tensorflow, not "
            f"{keras.backend.backend()}, before Python starts."
        )


def sentence_ids(layer: ElmoLayer) -> np.ndarray:
    """The ids of `SENTENCES`; for a layer that reads token ids, some of these."""
    if layer.text_encoder is None:
        ids = np.arange(1, 1 + 4 * 9).reshape(4, 9) % layer.config.vocabulary_size + 1
        return np.where(np.arange(9) < [[9], [2], [3], [7]], ids, 0).astype("int32")
    return layer.text_encoder.encode_sentences(map(split_tokens, SENTENCES))


def layer_outputs(layer: ElmoLayer) -> dict[str, np.ndarray]:
    """The `named_outputs` of a layer itself for `SENTENCES`, as arrays."""
    outputs = named_outputs(layer, sentence_ids(layer))
    return {name: ops.convert_to_numpy(x) for name, x in outputs.items()}


def verified(
    layer: ElmoLayer, found: Sequence[dict[str, np.ndarray]], tolerance: float | None = None
) -> dict[str, float]:
    """The largest difference of each output from the layer's, over all of `found`.

    Raises ValueError if one is larger than `tolerance`, by default that of the layer's dtype.
    """
    if tolerance is None:
        is_whole = layer.bilm_dtype_policy.compute_dtype in ("float32", "float64")
        tolerance = TOLERANCE if is_whole else HALF_PRECISION_TOLERANCE
    differences = {
        name: float(np.max([_difference(outputs[name], expected) for outputs in found]))
        for name, expected in layer_outputs(layer).items()
        if name in found[0]
    }
    wrong = [f"{name} by {x:.1e}" for name, x in differences.items() if not x <= tolerance]
    if wrong:
        raise ValueError(
            f"Read back, the export differs from the layer by more than {tolerance:.0e}, so that "
            f"nothing was written: {', '.join(wrong)}."
        )
    return differences


def _difference(found, expected):
    if found.shape != expected.shape:
        return np.inf
    return np.abs(found - expected).max(initial=0)

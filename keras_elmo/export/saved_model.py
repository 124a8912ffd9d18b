"""SavedModels, for programs that have only TensorFlow, such as TensorFlow Serving."""

import os
import re

from keras_elmo.export import checks
from keras_elmo.export.source import find_source, layer_of, paths_of
from keras_elmo.files import atomic_folder
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.locate import ModelSource
from keras_elmo.text.tokens import split_tokens

_NAMES = re.compile(r"saved_model\.pb|fingerprint\.pb|variables|assets")


def export_saved_model(
    model: ModelSource | ElmoLayer, output: str | os.PathLike, overwrite: bool = False
) -> dict[str, float]:
    """Writes a SavedModel with the signatures of the TF-Hub ELMo module.

    It needs only TensorFlow: `tf.saved_model.load`, or TensorFlow Serving, which looks for
    `<name>/<version>/`. Its signatures give the float32 outputs of `named_outputs`:

    - `default`, also as `serving_default`: `strings` `(B,)`, sentences to be split at white space.
    - `tokens`: `tokens`, strings `(B, T)`, and `sequence_len`, int32 `(B,)`. What lies beyond a
      sentence's length is not read, nor are empty strings at its end.

    Unlike TF-Hub's, its outputs are exactly 0 beyond a sentence's length.

    Args:
        model: An `ElmoLayer` that reads characters, mixes and is not stateful; or a model, as for
            `export_hdf5`.
        output: The output: a folder, which is created with its parents.
        overwrite: Whether an earlier export at that place is replaced.

    Returns:
        The largest absolute difference of each output, read back, from the layer's, by name.

    Raises:
        FileExistsError: if the folder exists and `overwrite` is not set.
        ValueError: if the layer cannot be served, the backend is not TensorFlow, or an output
            differs by more than 1e-5 (by more than 0.05, if the layer computes in half precision).

    Example:

    >>> export_saved_model(ElmoLayer(), "serving/elmo/1")
    >>> served = tf.saved_model.load("serving/elmo/1")
    >>> served.signatures["default"](strings=tf.constant(["The cat sat ."]))["elmo"].shape
    TensorShape([1, 4, 512])
    """
    found = find_source(model)
    with atomic_folder(output, overwrite, paths_of(found), _NAMES) as partial:
        return write_saved_model(layer_of(found), partial)


def write_saved_model(layer: ElmoLayer, folder: str) -> dict[str, float]:
    """Writes a layer to an empty folder, and returns the differences of what it reads back."""
    checks.check_served(layer, "A SavedModel")
    _write_saved_model(layer, folder)
    return checks.verified(layer, _run_saved_model(folder))


def _write_saved_model(layer, folder):
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, "strings")])
    def from_strings(strings):
        return checks.named_outputs(layer, strings)

    padded = tf.TensorSpec((None, None), tf.string, "tokens")
    lengths = tf.TensorSpec((None,), tf.int32, "sequence_len")

    @tf.function(input_signature=[padded, lengths])
    def from_tokens(tokens, sequence_len):
        tf.debugging.assert_equal(
            tf.shape(sequence_len),
            tf.shape(tokens)[:1],
            message="sequence_len must have a number for each row of tokens",
        )
        is_inside = tf.sequence_mask(sequence_len, tf.shape(tokens)[1])
        return checks.named_outputs(layer, tf.where(is_inside, tokens, ""))

    module = tf.Module()
    # Keras' ExportArchive would write each variable twice.
    module.weights = [weight.value for weight in layer.weights]
    module.word_table = layer.char_encoder.word_table()
    names = {"default": from_strings, "serving_default": from_strings, "tokens": from_tokens}
    tf.saved_model.save(module, folder, signatures=names)


def _run_saved_model(folder):
    """The outputs of each signature for `SENTENCES`."""
    import tensorflow as tf

    signatures = tf.saved_model.load(folder).signatures
    tokens = tf.ragged.constant(list(map(split_tokens, checks.SENTENCES)), tf.string)
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    found = [
        signatures["default"](strings=tf.constant(checks.SENTENCES)),
        signatures["serving_default"](strings=tf.constant(checks.SENTENCES)),
        # Padded with a word, to see that it is not read.
        signatures["tokens"](tokens=tokens.to_tensor("beyond"), sequence_len=lengths),
    ]
    return [{name: x.numpy() for name, x in outputs.items()} for outputs in found]

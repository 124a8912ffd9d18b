"""Models for programs without keras_elmo: SavedModel, ONNX and bilm-tf's files.

Each export is read back and compared with the layer before it takes its name.
"""

import importlib.util
import os

import keras
import numpy as np
from keras import ops

from keras_elmo.atomic import atomic_folder, atomic_write, check_free
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.text.characters import encode_sentences, split_tokens

TOLERANCE = 1e-5
"""The largest difference from the layer that an export may have."""

_ONNX_OPSET = 18
_SENTENCES = (
    "The bank raised its interest rates .",
    "",
    "Hello",
    f"Na\u00efve \u65e5\u672c\u8a9e {60 * 'long'} , and more words , to make many steps .",
)


def named_outputs(layer, inputs):
    """Everything a served model gives, by the names of the TF-Hub ELMo module.

    Args:
        layer: An `ElmoLayer` that mixes.
        inputs: Tensors, as for a call of the layer.

    Returns:
        A dict of floats, 0 at masked positions: `word_emb` `(B, T, P)`, the token vectors;
        `lstm_outputs1` to `lstm_outputsL` `(B, T, 2 * P)`; `elmo` `(B, T, 2 * P)`, the layer's
        first mix; and `default` `(B, 2 * P)`, its mean over the words, 0 for an empty sentence.

    Reference: https://www.tensorflow.org/hub/modules/google/elmo/1, "Outputs".
    """
    layers, mask = layer.every_layer(inputs)
    elmo = layer.mixes[0](layers, mask=mask)
    num_words = ops.sum(ops.cast(mask, elmo.dtype), axis=1, keepdims=True)
    outputs = {
        # The lowest layer is the token vector once for each direction; one of them is enough.
        "word_emb": layers[:, 0, :, : layer.config.projection_dim],
        **{f"lstm_outputs{i}": layers[:, i] for i in range(1, layer.config.num_layers + 1)},
        "elmo": elmo,
        "default": ops.sum(elmo, axis=1) / ops.maximum(num_words, 1),
    }
    return {name: ops.cast(x, "float32") for name, x in outputs.items()}


def export_saved_model(layer, folder, overwrite=False):
    """Writes a SavedModel with the signatures of the TF-Hub ELMo module.

    It needs TensorFlow and nothing else: `tf.saved_model.load`, or TensorFlow Serving, which looks
    for `<name>/<version>/`. Its signatures give the float32 outputs of `named_outputs`:

    - `default`, and the same as `serving_default`: `strings`, `(B,)`, sentences to be split at
      white space.
    - `tokens`: `tokens`, strings `(B, T)`, and `sequence_len`, int32 `(B,)`. What lies beyond a
      sentence's length is not read, nor are empty strings at its end.

    Unlike TF-Hub's, its outputs are exactly 0 beyond a sentence's length.

    Args:
        layer: An `ElmoLayer` that reads characters, mixes and is not stateful.
        folder: Where to; made, with those around it, when all went well.
        overwrite: Whether an earlier export at that place is replaced.

    Returns:
        The largest absolute difference of each output, read back, from the layer's: a dict of
        floats by name, of at most `TOLERANCE`.

    Raises:
        FileExistsError: if there is such a folder and it may not be replaced.
        ValueError: if the layer is of another kind, the backend is not TensorFlow, or an output
            differs by more than `TOLERANCE`.

    Example:

    >>> export_saved_model(ElmoLayer(), "serving/elmo/1")
    >>> served = tf.saved_model.load("serving/elmo/1")
    >>> served.signatures["default"](strings=tf.constant(["The cat sat ."]))["elmo"].shape
    TensorShape([1, 4, 256])
    """
    _check_layer(layer)
    _check_backend("A SavedModel")
    with atomic_folder(folder, overwrite) as partial:
        _write_saved_model(layer, partial)
        return _checked_differences(_expected(layer), *_run_saved_model(partial))


def export_onnx(layer, path, overwrite=False):
    """Writes an ONNX model that reads character ids.

    Its input is `char_ids`, int32 `(B, T + 2, C)` of `encode_sentences`, of any B and T; its
    outputs are those of `named_outputs`.

    Args:
        layer: An `ElmoLayer` that reads characters, mixes and is not stateful.
        path: The file to write, ending in .onnx.
        overwrite: Whether an existing file is replaced.

    Returns:
        The largest absolute differences, as `export_saved_model` does.

    Raises:
        FileExistsError: if there is such a file and it may not be replaced.
        FileNotFoundError: if the folder does not exist.
        ImportError: if the extra `onnx` is not installed.
        ValueError: as for `export_saved_model`, or if the path ends differently.

    Example:

    >>> export_onnx(ElmoLayer(), "elmo.onnx")
    >>> session = onnxruntime.InferenceSession("elmo.onnx")
    >>> session.run(["elmo"], {"char_ids": encode_sentences([["Hi"]])})[0].shape
    (1, 1, 256)
    """
    _check_layer(layer)
    _check_backend("An ONNX model")
    if not os.fspath(path).endswith(".onnx"):
        raise ValueError(f"The name of an ONNX model must end in .onnx; got {os.fspath(path)!r}.")
    if any(importlib.util.find_spec(name) is None for name in ("tf2onnx", "onnxruntime")):
        raise ImportError("An ONNX model needs: pip install tf2onnx onnx onnxruntime")
    check_free(path, overwrite)
    with atomic_write(path) as partial:
        _write_onnx(layer, partial)
        return _checked_differences(_expected(layer), _run_onnx(partial, layer.config))


def export_hdf5(layer, folder, overwrite=False):
    """Writes options.json and weights.hdf5, which bilm-tf and AllenNLP read, and checks them.

    The mixes are no part of these files. See `ElmoLayer.export_hdf5`.

    Args:
        layer: An `ElmoLayer` that reads characters, mixes and is not stateful.
        folder: Where to; made, with those around it, when all went well.
        overwrite: Whether an earlier export at that place is replaced.

    Returns:
        The largest absolute differences of `word_emb` and each `lstm_outputs`, as
        `export_saved_model` does.

    Raises:
        FileExistsError: if there is such a folder and it may not be replaced.
        ValueError: as for `export_saved_model`.

    Example:

    >>> export_hdf5(ElmoLayer(), "my_elmo")
    """
    _check_layer(layer)
    with atomic_folder(folder, overwrite) as partial:
        layer.export_hdf5(partial)
        again = ElmoLayer(partial, dtype=layer.bilm_dtype_policy)
        expected, found = _expected(layer), _expected(again)
        for mixed in ("elmo", "default"):
            del expected[mixed]
        return _checked_differences(expected, found)


def _check_layer(layer):
    if not layer.config.reads_characters:
        raise ValueError("This ElmoLayer reads token ids: only models of characters are exported.")
    if layer.stateful:
        raise ValueError("A served model keeps no state: make the ElmoLayer without stateful=True.")
    if not layer.mixes:
        raise ValueError("The ElmoLayer has no mix: make it with output='mix'.")


def _check_backend(what):
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{what} is written by TensorFlow: set KERAS_BACKEND=tensorflow, not "
            f"{keras.backend.backend()}, before Python starts."
        )


def _write_saved_model(layer, folder):
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, "strings")])
    def from_strings(strings):
        return named_outputs(layer, strings)

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
        return named_outputs(layer, tf.where(is_inside, tokens, ""))

    module = tf.Module()
    # Keras' ExportArchive would write each variable twice.
    module.weights = [weight.value for weight in layer.weights]
    names = {"default": from_strings, "serving_default": from_strings, "tokens": from_tokens}
    tf.saved_model.save(module, folder, signatures=names)


def _run_saved_model(folder):
    """The outputs of each signature for the sentences of the check."""
    import tensorflow as tf

    signatures = tf.saved_model.load(folder).signatures
    tokens = tf.ragged.constant([split_tokens(sentence) for sentence in _SENTENCES], tf.string)
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    found = [
        signatures["default"](strings=tf.constant(_SENTENCES)),
        signatures["serving_default"](strings=tf.constant(_SENTENCES)),
        # Filled up with a word, to see that it is not read.
        signatures["tokens"](tokens=tokens.to_tensor("beyond"), sequence_len=lengths),
    ]
    return [{name: x.numpy() for name, x in outputs.items()} for outputs in found]


def _write_onnx(layer, path):
    import onnx
    import tensorflow as tf
    import tf2onnx

    weights = {f"weight_{i}": weight for i, weight in enumerate(layer.weights)}

    @tf.function
    def outputs(char_ids, *values):
        with keras.StatelessScope(zip(weights.values(), values)):
            return named_outputs(layer, char_ids)

    width = layer.config.max_characters_per_token
    ids = tf.TensorSpec((None, None, width), tf.int32, "char_ids")
    specs = [tf.TensorSpec(weight.shape, weight.dtype, name) for name, weight in weights.items()]
    # tf2onnx copies what a graph holds some fifty times, so that it gets the weights as inputs.
    model, _ = tf2onnx.convert.from_function(outputs, [ids, *specs], opset=_ONNX_OPSET)
    _make_constant(model.graph, weights)
    _name_sizes(model.graph.input, ("sentences", "tokens_and_boundaries"))
    _name_sizes(model.graph.output, ("sentences", "tokens"))
    onnx.save(model, path)


def _make_constant(graph, weights):
    """Turns inputs of an ONNX graph into constants, given by name."""
    import onnx

    graph.initializer.extend(
        onnx.numpy_helper.from_array(ops.convert_to_numpy(weight), name)
        for name, weight in weights.items()
    )
    inputs = [x for x in graph.input if x.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)


def _name_sizes(values, names):
    """Gives the sizes that are free the names that users of the file see."""
    for value in values:
        for size, name in zip(value.type.tensor_type.shape.dim, names):
            if not size.HasField("dim_value"):
                size.dim_param = name


def _run_onnx(path, config):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"char_ids": _char_ids(config)})))


def _expected(layer):
    """The outputs of the layer itself for the sentences of the check."""
    outputs = named_outputs(layer, ops.convert_to_tensor(_char_ids(layer.config)))
    return {name: ops.convert_to_numpy(x) for name, x in outputs.items()}


def _char_ids(config):
    sentences = [split_tokens(sentence) for sentence in _SENTENCES]
    return encode_sentences(sentences, config.max_characters_per_token)


def _checked_differences(expected, *found):
    """The largest difference of each output.

    Raises:
        ValueError: if one is too large.
    """
    differences = {
        name: float(np.max([_difference(outputs[name], array) for outputs in found]))
        for name, array in expected.items()
    }
    wrong = [f"{name} by {x:.1e}" for name, x in differences.items() if not x <= TOLERANCE]
    if wrong:
        raise ValueError(
            f"Read back, the export differs from the layer by more than {TOLERANCE:.0e}, so that "
            f"nothing was written: {', '.join(wrong)}."
        )
    return differences


def _difference(found, expected):
    if found.shape != expected.shape:
        return np.inf
    return np.abs(found - expected).max(initial=0)

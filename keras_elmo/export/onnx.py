"""Models for ONNX Runtime."""

import importlib.util
import os

import keras
from keras import ops

from keras_elmo.export import checks
from keras_elmo.export.source import find_source, layer_of, paths_of
from keras_elmo.files import atomic_write
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.locate import ModelSource

_ONNX_OPSET = 18


def export_onnx(
    model: ModelSource | ElmoLayer, output: str | os.PathLike, overwrite: bool = False
) -> dict[str, float]:
    """Writes an ONNX model that reads character ids.

    Its input is `char_ids`, int32 `(B, T + 2, C)` of `encode_sentences`, for any B and T; its
    outputs are the `named_outputs`.

    Args:
        model: An `ElmoLayer` that reads characters, mixes and is not stateful; or a model, as for
            `export_hdf5`.
        output: The file to write, ending in .onnx.
        overwrite: Whether an existing file is replaced.

    Returns:
        The largest absolute difference of each output from the layer's, by name.

    Raises:
        FileExistsError: if the file exists and `overwrite` is not set.
        FileNotFoundError: if the folder does not exist.
        ImportError: if the extra `onnx` is not installed.
        ValueError: as for `export_saved_model`, or if the path ends differently.

    Example:

    >>> export_onnx(ElmoLayer(), "elmo.onnx")
    >>> session = onnxruntime.InferenceSession("elmo.onnx")
    >>> session.run(["elmo"], {"char_ids": encode_sentences([["Hi"]])})[0].shape
    (1, 1, 512)
    """
    if not os.fspath(output).endswith(".onnx"):
        raise ValueError(f"The name of an ONNX model must end in .onnx; got {os.fspath(output)!r}.")
    if any(importlib.util.find_spec(name) is None for name in ("tf2onnx", "onnxruntime")):
        raise ImportError("An ONNX model needs further packages: pip install 'keras-elmo[onnx]'")
    found = find_source(model)
    with atomic_write(output, overwrite, paths_of(found)) as partial:
        return write_onnx(layer_of(found), partial)


def write_onnx(layer: ElmoLayer, path: str) -> dict[str, float]:
    """Writes a layer to a file, and returns the differences of what it reads back."""
    checks.check_served(layer, "An ONNX model")
    _write_onnx(layer, path)
    return checks.verified(layer, [_run_onnx(path, layer)])


def _write_onnx(layer, path):
    import onnx
    import tensorflow as tf
    import tf2onnx

    weights = {f"weight_{i}": weight for i, weight in enumerate(layer.weights)}

    @tf.function
    def outputs(char_ids, *values):
        with keras.StatelessScope(zip(weights.values(), values)):
            return checks.named_outputs(layer, char_ids)

    ids = tf.TensorSpec((None, None, layer.config.row_width), tf.int32, "char_ids")
    specs = [tf.TensorSpec(weight.shape, weight.dtype, name) for name, weight in weights.items()]
    # tf2onnx copies a graph's constants some fifty times: it gets the weights as inputs.
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
    for value in [value for value in graph.input if value.name in weights]:
        graph.input.remove(value)


def _name_sizes(values, names):
    """Names the dynamic axes for users of the file."""
    for value in values:
        for size, name in zip(value.type.tensor_type.shape.dim, names):
            if not size.HasField("dim_value"):
                size.dim_param = name


def _run_onnx(path, layer):
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"char_ids": checks.sentence_ids(layer)})))

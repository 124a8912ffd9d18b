"""What cannot be exported is named before anything is written."""

import keras
import pytest

from export_checks import TINY
from helpers import assert_close, to_numpy
from keras_elmo import ElmoLayer, encode_sentences, export_hdf5, export_onnx, export_saved_model
from keras_elmo.export.checks import named_outputs

ONNX = pytest.param(export_onnx, marks=pytest.mark.needs("tf2onnx", "onnxruntime"))


@pytest.mark.parametrize("export", [export_hdf5, export_saved_model, ONNX])
def test_a_stateful_layer_is_named(export, tmp_path):
    with pytest.raises(ValueError, match="without stateful=True"):
        export(ElmoLayer(TINY, stateful=True), tmp_path / "1.onnx")


@pytest.mark.parametrize("export", [export_saved_model, ONNX])
def test_a_layer_that_reads_token_ids_is_named(export, tmp_path):
    layer = ElmoLayer(TINY, token_embeddings=TINY / "token_embeddings.hdf5")
    with pytest.raises(ValueError, match="reads token ids; .* needs one that reads strings"):
        export(layer, tmp_path / "1.onnx")


@pytest.mark.parametrize("export", [export_saved_model, ONNX])
def test_a_layer_without_a_mix_is_named(export, tmp_path):
    with pytest.raises(ValueError, match="with a mix: create it with vectors='mix'"):
        export(ElmoLayer(TINY, vectors="layers"), tmp_path / "1.onnx")


def test_the_mean_over_a_long_sentence_in_half_precision():
    layer = ElmoLayer(TINY, dtype="bfloat16")
    outputs = named_outputs(layer, encode_sentences([["cat"] * 300]))
    mean = to_numpy(outputs["elmo"]).mean(axis=1)
    assert_close(to_numpy(outputs["default"]), mean, tolerance=1e-6)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow writes them")
@pytest.mark.parametrize("export", [export_saved_model, ONNX])
def test_another_backend_is_named(elmo, export, tmp_path):
    with pytest.raises(ValueError, match="written by TensorFlow: set KERAS_BACKEND=tensorflow"):
        export(elmo, tmp_path / "1.onnx")

"""ONNX: the exported model computes the same as the layer, in ONNX Runtime."""

import os

import keras
import pytest

from export_checks import OUTPUTS, SENTENCES, assert_outputs
from helpers import assert_close, tensorflow_only, to_numpy
from keras_elmo import encode_sentences, export_onnx


@pytest.mark.slow
@tensorflow_only
@pytest.mark.needs("tf2onnx", "onnxruntime")
def test_onnx_of_any_size(elmo, tmp_path):
    import onnxruntime

    path = tmp_path / "elmo.onnx"
    differences = export_onnx(elmo, path)
    assert list(differences) == OUTPUTS
    assert max(differences.values()) <= 1e-5
    assert os.listdir(tmp_path) == ["elmo.onnx"]
    session = onnxruntime.InferenceSession(path)
    (ids,) = session.get_inputs()
    sizes = {output.name: output.shape for output in session.get_outputs()}
    assert (ids.name, ids.type) == ("char_ids", "tensor(int32)")
    assert ids.shape == ["sentences", "tokens_and_boundaries", 50]
    assert sizes["word_emb"] == ["sentences", "tokens", 12]
    assert sizes["default"] == ["sentences", 24]
    for sentences in (SENTENCES[:9], [["a"]], [["a"] * 70, [], ["b", "c"]], [[], []]):
        ids = encode_sentences(sentences)
        assert_outputs(dict(zip(sizes, session.run(list(sizes), {"char_ids": ids}))), elmo, ids)


@pytest.mark.slow
@tensorflow_only
@pytest.mark.needs("openvino")
def test_openvino_exports_of_keras_are_right(elmo, tmp_path):
    import openvino

    inputs = keras.Input((None, 50), dtype="int32")
    model = keras.Model(inputs, elmo(inputs))
    model.export(str(tmp_path / "elmo.xml"), format="openvino", verbose=False)
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    run = openvino.Core().compile_model(tmp_path / "elmo.xml", "CPU", exact)
    ids = encode_sentences(SENTENCES[:9])
    vectors = run([ids])[0]
    assert_close(vectors, to_numpy(elmo(ids)))


@tensorflow_only
def test_what_onnx_needs_is_named(elmo, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"must end in \.onnx; got 'elmo'"):
        export_onnx(elmo, "elmo")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install 'keras-elmo.onnx.'"):
        export_onnx(elmo, tmp_path / "elmo.onnx")

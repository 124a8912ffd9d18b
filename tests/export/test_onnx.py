"""ONNX: the exported model computes the same as the layer, in ONNX Runtime."""

import os

import pytest

from export_checks import OUTPUTS, SENTENCES, assert_outputs
from helpers import tensorflow_only
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


@tensorflow_only
def test_what_onnx_needs_is_named(elmo, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"must end in \.onnx; got 'elmo'"):
        export_onnx(elmo, "elmo")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install tf2onnx onnx onnxruntime"):
        export_onnx(elmo, tmp_path / "elmo.onnx")

"""Models for other programs: what is written gives what the layer gives, or is not written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import assert_close, tensorflow_only, to_numpy
from keras_elmo import ElmoLayer, cli, encode_sentences, export_onnx, export_saved_model
from keras_elmo.export import saved_model as serving

GOLDEN = Path(__file__).parents[1] / "golden" / "inference"
TINY = GOLDEN / "default"
SENTENCES = json.loads((GOLDEN / "sentences.json").read_text())["batch"]
PLAIN = ["The cat sat .", "", "  Na\u00efve \t caf\u00e9 "]
OUTPUTS = ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo", "default"]
CLIENT = """
import sys
# Stands for a machine that has TensorFlow alone.
sys.modules["keras_elmo"] = sys.modules["keras"] = None
import numpy as np, tensorflow as tf
folder, inputs, outputs = sys.argv[1:]
signatures = tf.saved_model.load(folder).signatures
inputs = np.load(inputs)
strings, tokens = tf.constant(inputs["strings"]), tf.constant(inputs["tokens"])
found = {
    "default": signatures["default"](strings),
    "serving_default": signatures["serving_default"](strings=strings),
    "tokens": signatures["tokens"](tokens=tokens, sequence_len=inputs["sequence_len"]),
}
np.savez(outputs, **{f"{s}/{name}": x for s in found for name, x in found[s].items()})
"""


@pytest.fixture(scope="module")
def elmo():
    layer = ElmoLayer(TINY)
    layer.mixes[0].layer_weights.assign([0.5, -1.0, 2.0])
    layer.mixes[0].gamma.assign([1.5])
    return layer


@pytest.fixture(scope="module")
def saved_model(elmo, tmp_path_factory):
    """The folder of an export, and the differences it reported."""
    folder = tmp_path_factory.mktemp("serving") / "elmo" / "1"
    return folder, export_saved_model(elmo, folder)


def padded(sentences, padding):
    """Tokens as UTF-8 bytes (B, T), and the lengths (B,)."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int32)
    rows = [sentence + [padding] * (lengths.max() - len(sentence)) for sentence in sentences]
    return np.array([[token.encode() for token in row] for row in rows], object), lengths


def assert_outputs(found, elmo, ids):
    """Compares with the layer's own vectors, from character ids."""
    layers = to_numpy(ElmoLayer(TINY, output="layers")(ids))
    mixed = to_numpy(elmo(ids))
    lengths = ids.any(-1).sum(1) - 2
    assert_close(found["word_emb"], layers[:, 0, :, :12])
    assert_close(found["lstm_outputs1"], layers[:, 1])
    assert_close(found["lstm_outputs2"], layers[:, 2])
    assert_close(found["elmo"], mixed)
    assert_close(found["default"], mixed.sum(1) / np.maximum(lengths, 1)[:, None])


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# --- SavedModel -------------------------------------------------------------------------------


@tensorflow_only
def test_a_fresh_process_without_keras_elmo_serves_both_signatures(saved_model, elmo, tmp_path):
    sentences = SENTENCES[:6]
    tokens, lengths = padded(sentences, "beyond")
    np.savez(
        tmp_path / "in.npz",
        strings=np.array([sentence.encode() for sentence in PLAIN]),
        tokens=tokens.astype("S"),
        sequence_len=lengths,
    )
    arguments = [saved_model[0], tmp_path / "in.npz", tmp_path / "out.npz"]
    finished = subprocess.run(
        [sys.executable, "-c", CLIENT, *map(str, arguments)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    with np.load(tmp_path / "out.npz") as file:
        found = {name: file[name] for name in file}
    assert len(found) == 3 * len(OUTPUTS)
    plain, given = (encode_sentences(s) for s in ([x.split() for x in PLAIN], sentences))
    for signature, ids in (("default", plain), ("serving_default", plain), ("tokens", given)):
        outputs = {name: found[f"{signature}/{name}"] for name in OUTPUTS}
        assert_outputs(outputs, elmo, ids)
        assert {x.dtype for x in outputs.values()} == {np.dtype("float32")}
    # And by bilm-tf itself.
    golden = np.load(TINY / "outputs.npz")
    expected = (golden["lm_embeddings"] * golden["mask"][:, None, :, None])[:6]
    expected = expected[:, :, : lengths.max()]
    assert_close(found["tokens/lstm_outputs2"], expected[:, 2], 5e-6)
    # An empty sentence has no words to take the mean of.
    assert not found["default/default"][1].any()


@tensorflow_only
def test_differences_are_reported(saved_model):
    _, differences = saved_model
    assert list(differences) == OUTPUTS
    assert 0 <= max(differences.values()) <= 1e-5


@tensorflow_only
def test_the_layout_is_tensorflow_servings(saved_model):
    folder, _ = saved_model
    assert (folder.parent.name, folder.name) == ("elmo", "1")
    assert (folder / "saved_model.pb").exists()
    assert os.listdir(folder.parent) == ["1"]
    assert os.listdir(folder.parent.parent) == ["elmo"]


@tensorflow_only
def test_padding_at_the_end_is_not_read_and_lengths_must_fit(saved_model, elmo):
    import tensorflow as tf

    signature = tf.saved_model.load(str(saved_model[0])).signatures["tokens"]
    # Empty strings at the end are padding, whatever the length says; one in the middle is a word.
    tokens = tf.constant([["a", "", "b", ""], ["c", "d", "e", "f"], ["g", "h", "", ""]])
    found = signature(tokens=tokens, sequence_len=tf.constant([4, 2, 0]))
    outputs = {name: to_numpy(x) for name, x in found.items()}
    ids = encode_sentences([["a", "", "b"], ["c", "d"], []])
    assert_outputs(outputs, elmo, np.pad(ids, ((0, 0), (0, 1), (0, 0))))
    with pytest.raises(tf.errors.InvalidArgumentError, match="a number for each row of tokens"):
        signature(tokens=tokens, sequence_len=tf.constant([4]))


@pytest.mark.slow
@tensorflow_only
def test_a_model_of_three_layers(tmp_path):
    import tensorflow as tf

    elmo = ElmoLayer(GOLDEN / "three_layers")
    differences = export_saved_model(elmo, tmp_path / "1")
    lstms = ["lstm_outputs1", "lstm_outputs2", "lstm_outputs3"]
    assert list(differences) == ["word_emb", *lstms, "elmo", "default"]
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["default"]
    layers = ElmoLayer(GOLDEN / "three_layers", output="layers")(["a b c"])
    assert_close(signature(tf.constant(["a b c"]))["lstm_outputs3"], to_numpy(layers)[:, 3])


# --- ONNX -------------------------------------------------------------------------------------


@tensorflow_only
def test_onnx_of_any_size(elmo, tmp_path):
    pytest.importorskip("tf2onnx", reason="the extra onnx is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
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


# --- written whole, or not at all -------------------------------------------------------------


def test_hdf5_on_every_backend(elmo, tmp_path):
    differences = serving.export_hdf5(elmo, tmp_path / "a" / "b")
    assert differences == dict.fromkeys(["word_emb", "lstm_outputs1", "lstm_outputs2"], 0)
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["options.json", "weights.hdf5"]


def test_an_export_that_differs_leaves_nothing(elmo, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(serving, "TOLERANCE", -1.0)
        with pytest.raises(ValueError, match=r"nothing was written: word_emb by 0\.0e\+00, lstm"):
            serving.export_hdf5(elmo, tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(serving, "_difference", lambda *_: np.nan)
    with pytest.raises(ValueError, match="word_emb by nan"):
        serving.export_hdf5(elmo, tmp_path / "a" / "b")


def test_an_existing_folder_is_replaced_only_when_told(elmo, tmp_path):
    serving.export_hdf5(elmo, tmp_path / "a")
    with pytest.raises(FileExistsError, match="a is there already: choose another name"):
        serving.export_hdf5(elmo, tmp_path / "a")
    serving.export_hdf5(elmo, tmp_path / "a", overwrite=True)
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"output": "layers"}, "has no mix: make it with output='mix'"),
        ({"stateful": True}, "without stateful=True"),
        ({"token_embeddings": TINY / "token_embeddings.hdf5"}, "only models of characters"),
    ],
)
def test_layers_that_cannot_be_served_are_named(arguments, message, tmp_path):
    layer = ElmoLayer(TINY, **arguments)
    for export in (export_saved_model, export_onnx, serving.export_hdf5):
        with pytest.raises(ValueError, match=message):
            export(layer, tmp_path / "1")


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow writes them")
@pytest.mark.parametrize("export", [export_saved_model, export_onnx])
def test_another_backend_is_named(elmo, export, tmp_path):
    with pytest.raises(ValueError, match="written by TensorFlow: set KERAS_BACKEND=tensorflow"):
        export(elmo, tmp_path / "1.onnx")


# --- the command ------------------------------------------------------------------------------


@tensorflow_only
def test_command_writes_a_saved_model_and_a_report(capsys, tmp_path):
    output = tmp_path / "elmo" / "1"
    code, out, _ = run(
        capsys, "export", "--model", TINY, "--format", "saved-model", "--output", output
    )
    assert code == 0
    assert f"Wrote {output}" in out
    assert [line.split()[0] for line in out.splitlines()[1:]] == OUTPUTS
    assert all(float(line.split()[1]) <= 1e-5 for line in out.splitlines()[1:])
    assert (output / "saved_model.pb").exists()


def test_command_writes_bilm_tf_files(capsys, tmp_path):
    arguments = ("export", "--model", TINY, "--output", tmp_path / "a")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "lstm_outputs2" in out
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "is there already" in err
    assert run(capsys, *arguments, "--overwrite")[0] == 0


def test_command_fails_when_the_export_differs(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "TOLERANCE", -1.0)
    code, _, err = run(capsys, "export", "--model", TINY, "--output", tmp_path / "a")
    assert code == 1
    assert "nothing was written" in err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "give a CHECKPOINT or --model"),
        (("run", "--model", "default"), "give a CHECKPOINT or --model"),
        (("run", "--format", "onnx"), "a checkpoint is exported as hdf5"),
    ],
)
def test_wrong_usage_leaves_with_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        cli.main(["export", *arguments, "--output", "x"])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

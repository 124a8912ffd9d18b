"""SavedModel: the export computes the same as the layer, in a program without keras_elmo."""

import os
import subprocess
import sys

import numpy as np
import pytest

from export_checks import GOLDEN, OUTPUTS, SENTENCES, TINY, assert_outputs
from helpers import assert_close, tensorflow_only, to_numpy
from keras_elmo import ElmoLayer, encode_sentences, export_saved_model

PLAIN = ["The cat sat .", "", "  Na\u00efve \t caf\u00e9 "]
CLIENT = """
import sys
# Simulates a machine that has only TensorFlow.
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
def saved_model(elmo, tmp_path_factory):
    """The folder of an export, and the differences it reported."""
    folder = tmp_path_factory.mktemp("serving") / "elmo" / "1"
    return folder, export_saved_model(elmo, folder)


def padded(sentences, padding):
    """Tokens as UTF-8 bytes (B, T), and the lengths (B,)."""
    lengths = np.array([len(sentence) for sentence in sentences], np.int32)
    rows = [sentence + [padding] * (lengths.max() - len(sentence)) for sentence in sentences]
    return np.array([[token.encode() for token in row] for row in rows], object), lengths


@pytest.mark.slow
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
def test_differences_are_reported_and_the_layout_is_tensorflow_servings(saved_model):
    folder, differences = saved_model
    assert list(differences) == OUTPUTS
    assert 0 <= max(differences.values()) <= 1e-5
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
def test_a_layer_in_half_precision(tmp_path):
    differences = export_saved_model(ElmoLayer(TINY, dtype="mixed_bfloat16"), tmp_path / "1")
    assert list(differences) == OUTPUTS and max(differences.values()) <= 0.05


@pytest.mark.slow
@tensorflow_only
def test_a_model_of_three_layers(tmp_path):
    import tensorflow as tf

    elmo = ElmoLayer(GOLDEN / "three_layers")
    differences = export_saved_model(elmo, tmp_path / "1")
    lstms = ["lstm_outputs1", "lstm_outputs2", "lstm_outputs3"]
    assert list(differences) == ["word_emb", *lstms, "elmo", "default"]
    signature = tf.saved_model.load(str(tmp_path / "1")).signatures["default"]
    layers = ElmoLayer(GOLDEN / "three_layers", vectors="layers")(["a b c"])
    assert_close(signature(tf.constant(["a b c"]))["lstm_outputs3"], to_numpy(layers)[:, 3])

"""The bundled model is the one that was released, and computes what it computed then."""

import hashlib
import json
import logging

import ml_dtypes
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import ElmoLayer, TrainingSettings, export_hdf5, load_language_model, train
from release import DEFAULT, GOLDEN, SENTENCES, rounded, text_perplexity
from training_models import DATA

EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["sha256"])
def test_files(name):
    content = (DEFAULT / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == EXPECTED["sha256"][name]
    assert EXPECTED["sha256"][name] in (DEFAULT / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_vectors():
    expected = np.load(GOLDEN / "layers.npz")["layers"]
    found = to_numpy(ElmoLayer(vectors="layers")(SENTENCES))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_perplexity():
    report = text_perplexity()
    assert report.forward == pytest.approx(EXPECTED["forward"], rel=1e-4)
    assert report.backward == pytest.approx(EXPECTED["backward"], rel=1e-4)


def test_rounding():
    values = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-9, 3e-39, 0], "float32")
    expected = values.astype(ml_dtypes.bfloat16).astype("float32")
    np.testing.assert_array_equal(rounded(values, 7), expected)
    np.testing.assert_array_equal(rounded(np.float32([1.5, 1.25, 1.75, -2.3]), 1), [1.5, 1, 2, -2])


@pytest.mark.slow
def test_a_training_starts_from_it(tmp_path, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    text = {"files": DATA / "train.txt", "vocabulary": DATA / "vocab.txt", "output": tmp_path}
    size = {"batch_size": 2, "unroll_steps": 4, "steps": 1, "negatives": 8}
    result = train(TrainingSettings(**text, **size, start_from="default", learning_rate=1e-9))
    words = DATA.joinpath("vocab.txt").read_text().split()
    bundled, vocabulary = load_language_model("default")
    shared = len(set(words) & set(vocabulary.words))
    assert f"Started from default: {shared} of 127 words were in its vocabulary" in caplog.text
    found, expected = (one.backbone.bilm.get_weights() for one in (result.model, bundled))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    rows = [model.softmax.kernel for model in (result.model, bundled)]
    own, its = (
        to_numpy(kernel.value)[words_of.index("the")]
        for kernel, words_of in zip(rows, (words, vocabulary.words))
    )
    np.testing.assert_allclose(own, its, atol=1e-6)


def test_only_models_on_this_machine_predict_words(tmp_path):
    export_hdf5("default", tmp_path / "copy")
    assert (tmp_path / "copy" / "softmax.hdf5").exists()
    with pytest.raises(FileNotFoundError, match="The model small does not include a softmax"):
        load_language_model("small")
    with pytest.raises(ValueError, match="A model with a lexicon"):
        load_language_model("many-languages/en")

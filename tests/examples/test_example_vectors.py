"""GloVe and ELMo as the inputs of the examples' models."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import ner
import word_vectors
from example_programs import TEXTS, run_of, write_glove
from helpers import TINY, assert_close, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer


def test_glove_files(tmp_path):
    words = ["the", "of", ". .", "Paris", "zebra", "quagga"]
    vectors = write_glove(tmp_path / "glove.txt", words)
    text = (tmp_path / "glove.txt").read_text()
    with gzip.open(tmp_path / "glove.txt.gz", "wt") as file:
        file.write("6 4\n" + text)
    for name in ("glove.txt", "glove.txt.gz"):
        known, table = word_vectors.read_glove(tmp_path / name, [["Zebra", "x"]], num_frequent=3)
        assert known == ["the", "of", ". .", "zebra"]
        assert_close(table[2:], vectors[[0, 1, 2, 4]])
        assert_close(table[0], np.zeros(4))
        assert_close(table[1], vectors[[0, 1, 2, 4]].mean(0))
    for name in ("no_glove", "./no.txt", "json"):
        with pytest.raises(ValueError, match=f"{name} is neither a file nor an installed package"):
            word_vectors.read_glove(name, [])


def test_files_that_are_no_glove(tmp_path):
    for text in ("", "one\n", "a 0.1 0.2\nb 0.1\n", "a 0.1 x\n"):
        (tmp_path / "glove.txt").write_text(text)
        with pytest.raises(ValueError, match="glove.txt is not a GloVe text file"):
            word_vectors.read_glove(tmp_path / "glove.txt", [])


def test_words_and_their_numbers(tmp_path):
    layer = word_vectors.WordVectors(["the", "Bob"], 3)
    assert layer.ids(["the", "The", "Bob", "bob", "x"]).tolist() == [2, 2, 3, 1, 1]
    again = word_vectors.WordVectors.from_config(layer.get_config())
    assert again.ids(["Bob"]).tolist() == [3]
    assert to_numpy(again(np.array([[3, 0]]))).shape == (1, 2, 3)
    assert word_vectors.learned_words([["a", "b"], ["a"]], seed=1).words == ["a"]
    (vectors,) = write_glove(tmp_path / "glove.txt", ["a"])
    glove = word_vectors.glove_words(tmp_path / "glove.txt", [])
    assert_close(to_numpy(glove(np.array([2])))[0], vectors)
    assert not glove.trainable


def test_a_model_needs_something_to_read(monkeypatch):
    monkeypatch.setitem(TEXTS, "ner", "Ann B-PER\nleft O\n")
    with pytest.raises(ValueError, match="needs words that occur twice"):
        ner.train(run_of("ner", features="none"))


def test_layers_are_computed_once():
    sentences = [["The", "cat"], ["Hello\u00a0you"]]
    layers = word_vectors.elmo_layers(TINY, sentences)
    expected = to_numpy(ElmoLayer(TINY, vectors="layers")(sentences))
    for one, other, tokens in zip(layers, expected, sentences):
        assert one.dtype == "float16"
        assert_close(one[()].astype("float32"), other[:, : len(tokens)], tolerance=1e-3)
    (path,) = Path("elmo_cache").glob("*.h5")
    written = path.stat().st_mtime_ns
    again = word_vectors.elmo_layers(TINY, sentences)
    np.testing.assert_array_equal(again[0], layers[0])
    assert path.stat().st_mtime_ns == written
    word_vectors.elmo_layers(TINY, sentences[:1])  # another text has a file of its own
    assert len(list(Path("elmo_cache").glob("*.h5"))) == 2


def test_only_the_lowest_layer():
    settings = run_of("ner", features="elmo-tokens")
    x = word_vectors.inputs_of(None, word_vectors.load_elmo(settings.elmo))["layers"]
    model = word_vectors.keras.Model({"layers": x}, word_vectors.mix_layers(x, settings))
    assert word_vectors.mix_weights(model) == [1]
    assert word_vectors.mix_weights(model, "output_mix") is None
    layers = np.random.default_rng(0).normal(size=(1, *x.shape[1:2], 4, x.shape[3]))
    assert_close(model.predict_on_batch({"layers": layers}), layers[:, 0].astype("float32"))


def test_models_with_rows_of_their_own(eager):
    """A biLM that reads fewer characters of a word than the tagger."""
    config = ElmoConfig(
        max_characters_per_token=9,
        char_embedding_dim=4,
        filters=((1, 4), (2, 4)),
        num_highway=1,
        lstm_dim=8,
        projection_dim=4,
    )
    elmo = ElmoLayer(None, config=config, vectors="layers")
    settings = run_of("ner", "--character-filters", "4", features="elmo")
    model = ner.make_tagger(None, elmo, ["O", "S-PER"], settings)
    saved = word_vectors.end_to_end(model, elmo)
    assert saved.input["elmo"].shape == (None, None, 9)
    sentences = [["The", "cat"], ["Hello", "unbelievably", "there"]]
    assert list(map(len, ner.tag(saved, sentences))) == [2, 3]


def test_models_of_word_numbers_are_refused(tmp_path):
    config = ElmoConfig(filters=None, vocabulary_size=5, lstm_dim=8, projection_dim=4)
    ElmoLayer(None, config=config).export_hdf5(tmp_path / "words")
    with pytest.raises(ValueError, match="takes word ids, not text"):
        word_vectors.load_elmo(str(tmp_path / "words"))

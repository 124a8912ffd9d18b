"""GloVe, cached ELMo vectors and batches."""

import gzip

import numpy as np
import pytest

import features
import ner
from example_programs import experiment_of, write_glove
from helpers import TINY, assert_close, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer, encode_sentences


def test_without_cache_computes_the_same():
    """Within the rounding of float16."""
    experiment = experiment_of("ner")
    cached, model = experiment.make_model("elmo-tokens")
    experiment.settings.no_cache = True
    live = features.prepare("elmo-tokens", experiment.settings, experiment.data)
    assert live.layers["train"] is None is not cached.layers["train"]
    logits = [
        to_numpy(model(experiment.batches(model, inputs, "train", batch_size=8)[0][0])["logits"])
        for inputs in (cached, live)
    ]
    assert_close(logits[0], logits[1], tolerance=2e-3)


def test_glove_files(tmp_path):
    words = ["the", "of", ". .", "Paris", "zebra", "quagga"]
    vectors = write_glove(tmp_path / "glove.txt", words)
    text = (tmp_path / "glove.txt").read_text()
    with gzip.open(tmp_path / "glove.txt.gz", "wt") as file:
        file.write("6 4\n" + text)
    for name in ("glove.txt", "glove.txt.gz"):
        known, table = features.read_glove(tmp_path / name, [["Zebra", "x"]], num_frequent=3)
        assert known == ["the", "of", ". .", "zebra"]
        assert_close(table[2:], vectors[[0, 1, 2, 4]])
        assert_close(table[0], np.zeros(4))
        assert_close(table[1], vectors[[0, 1, 2, 4]].mean(0))
    for name in ("no_glove", "./no.txt", "json"):
        with pytest.raises(ValueError, match=f"{name} is neither a file nor an installed package"):
            features.read_glove(name, [])


def test_files_that_are_no_glove(tmp_path):
    for text in ("", "one\n", "a 0.1 0.2\nb 0.1\n", "a 0.1 x\n"):
        (tmp_path / "glove.txt").write_text(text)
        with pytest.raises(ValueError, match="glove.txt is not a GloVe text file"):
            features.read_glove(tmp_path / "glove.txt", [])


def test_words_and_their_numbers():
    table = features.WordTable(["the", "Bob"])
    assert table.ids(["the", "The", "Bob", "bob", "x"]).tolist() == [2, 2, 3, 1, 1]
    assert len(table) == 4
    assert features.frequent_words([["a", "b"], ["a"]]) == ["a"]


def test_cached_vectors_are_those_of_the_layer(tmp_path):
    sentences = [["The", "cat"], ["Hello"]]
    cached = features.CachedLayers(sentences, TINY, tmp_path)
    expected = to_numpy(features.load_elmo(TINY)(encode_sentences(sentences)))
    assert len(cached) == 2 and isinstance(cached.tokens, np.memmap)
    for array, other, sentence in zip(cached, expected, sentences):
        assert_close(array.astype("float32"), other[:, : len(sentence)], tolerance=1e-3)
    other = features.CachedLayers([["The", "cat", "Hello"]], TINY, tmp_path)
    assert other.path != cached.path
    assert sorted(tmp_path.iterdir()) == sorted([cached.path, other.path])


def test_models_with_rows_of_their_own(eager):
    sentences = [["The", "cat"], ["Hello", "unbelievably", "there"]]
    config = ElmoConfig(
        max_characters_per_token=9,
        char_embedding_dim=4,
        filters=((1, 4), (2, 4)),
        num_highway=1,
        lstm_dim=8,
        projection_dim=4,
    )
    elmo = ElmoLayer(None, config=config, output="layers")
    model = ner.Tagger(["O"], character_filters=4, units=4, elmo=elmo)
    (batch, _), *_ = model.batches_of(sentences)
    assert batch["elmo"].shape == (2, 10, 9) and batch["characters"].shape == (2, 10, 50)
    found = elmo(batch["elmo"])
    assert_close(to_numpy(found)[:, :, :3], to_numpy(elmo(sentences)), tolerance=1e-5)
    assert list(map(len, model.predict_items(model.batches_of(sentences)))) == [2, 3]


def test_models_of_word_numbers_are_refused(tmp_path):
    config = ElmoConfig(filters=None, vocabulary_size=5, lstm_dim=8, projection_dim=4)
    ElmoLayer(None, config=config).export_hdf5(tmp_path / "words")
    with pytest.raises(ValueError, match="takes word ids, not text"):
        features.load_elmo(str(tmp_path / "words"))

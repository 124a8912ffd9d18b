"""Models of every source as hdf5: verified on every backend, complete or not at all."""

import os

import numpy as np
import pytest

from export_checks import TINY
from helpers import to_numpy
from keras_elmo import (
    ElmoConfig,
    ElmoLayer,
    Embedder,
    export_hdf5,
    export_onnx,
    export_saved_model,
)
from keras_elmo.export import checks
from keras_elmo.pretrained import hdf5, weights
from many_languages import MANY_LANGUAGES, WORD_CHAR_FIRST, golden, small_lexicon


def test_hdf5_on_every_backend(elmo, tmp_path):
    differences = export_hdf5(elmo, tmp_path / "a" / "b")
    assert differences == dict.fromkeys(["word_emb", "lstm_outputs1", "lstm_outputs2"], 0)
    names = ["README.md", "options.json", "weights.hdf5"]
    assert sorted(os.listdir(tmp_path / "a" / "b")) == names
    # A mix is no part of the files.
    assert export_hdf5(ElmoLayer(TINY, vectors="layers"), tmp_path / "layers") == differences


def test_an_export_that_differs_leaves_nothing(elmo, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("keras_elmo.export.hdf5._TOLERANCES", {"float32": -1.0})
        with pytest.raises(ValueError, match=r"nothing was written: word_emb by 0\.0e\+00, lstm"):
            export_hdf5(elmo, tmp_path / "a" / "b")
    assert os.listdir(tmp_path / "a") == []
    monkeypatch.setattr(checks, "_difference", lambda *_: np.nan)
    with pytest.raises(ValueError, match="word_emb by nan"):
        export_hdf5(elmo, tmp_path / "a" / "b")


# --- models with a lexicon ---------------------------------------------------


def layers_of(model):
    """All layers of the golden sentences."""
    elmo = ElmoLayer(model, vectors="layers")
    return to_numpy(elmo(elmo.lexicon.encode_sentences(golden("word_char")[0]["sentences"])))


def size_of(folder):
    """Bytes of the arrays, without HDF5's own data, which is most of such a small file."""
    with hdf5.open_arrays(folder / "weights.hdf5") as arrays:
        return sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize("variant", WORD_CHAR_FIRST)
def test_hdf5_of_models_with_a_lexicon(variant, tmp_path):
    expected = layers_of(MANY_LANGUAGES / variant)
    full, half, packed = tmp_path / "full", tmp_path / "half", tmp_path / "full.zip"
    assert max(export_hdf5(MANY_LANGUAGES / variant, full).values()) == 0
    np.testing.assert_array_equal(layers_of(full), expected)
    differences = export_hdf5(full, half, dtype="float16")
    assert 0 < max(differences.values()) <= 0.05
    assert size_of(half) == size_of(full) / 2
    assert 0 < np.abs(layers_of(half) - expected).max() <= 0.05
    export_hdf5(full, packed)
    assert packed.is_file()
    np.testing.assert_array_equal(layers_of(packed), expected)
    assert sorted(os.listdir(tmp_path)) == ["full", "full.zip", "half"]


def test_float16_of_a_model_of_bilm_tf(elmo, tmp_path):
    differences = export_hdf5(elmo, tmp_path / "half", dtype="float16")
    assert 0 < max(differences.values()) <= 0.05
    assert size_of(tmp_path / "half") == size_of(TINY) / 2
    assert ElmoLayer(tmp_path / "half").config == elmo.config


def test_a_weight_beyond_float16(tmp_path):
    elmo = ElmoLayer(MANY_LANGUAGES / "word_char")
    table = elmo.token_encoder.words.embedding
    table.assign(to_numpy(table.value) * 0 - 70_000)
    message = r"word_embed has a weight of 7e\+04, beyond the range of float16, 65,504"
    for name in ("half", "half.zip"):
        with pytest.raises(ValueError, match=message):
            export_hdf5(elmo, tmp_path / name, dtype="float16")
        assert os.listdir(tmp_path) == []
    export_hdf5(elmo, tmp_path / name)


@pytest.mark.parametrize("name", ["a", "a.zip"])
def test_an_existing_output_is_replaced_only_when_told_and_never_the_model(name, tmp_path):
    model, output = MANY_LANGUAGES / "word_only", tmp_path / name
    export_hdf5(model, output)
    with pytest.raises(FileExistsError, match="exists already: choose a different name"):
        export_hdf5(model, output)
    export_hdf5(MANY_LANGUAGES / "word_char", output, overwrite=True)
    with pytest.raises(ValueError, match="input.* would be overwritten: choose another output"):
        export_hdf5(output, output, dtype="float16", overwrite=True)
    assert ElmoLayer(output).lexicon.characters is not None
    assert os.listdir(tmp_path) == [name]


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="holds files that keras_elmo did not write"):
        export_hdf5(MANY_LANGUAGES / "word_only", tmp_path / "a", overwrite=True)
    assert os.listdir(tmp_path / "a") == ["thesis.tex"]


def test_an_interruption_leaves_what_was_there(tmp_path, monkeypatch):
    def tree():
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def interrupted(*_):
        raise KeyboardInterrupt

    for name in ("a", "a.zip"):
        export_hdf5(MANY_LANGUAGES / "word_only", tmp_path / name)
    before = tree()
    monkeypatch.setattr(weights, "array_of", interrupted)
    for name, overwrite in (("b", False), ("b.zip", False), ("a", True), ("a.zip", True)):
        with pytest.raises(KeyboardInterrupt):
            export_hdf5(MANY_LANGUAGES / "word_only", tmp_path / name, overwrite=overwrite)
    assert tree() == before


def test_words_and_characters_are_projected_whatever_the_sizes(tmp_path):
    lexicon = small_lexicon()
    config = ElmoConfig(
        filters=((1, 4), (2, 4)),
        char_embedding_dim=3,
        max_characters_per_token=12,
        lstm_dim=6,
        projection_dim=8,  # as many as filters
        vocabulary_size=len(lexicon.words),
        num_characters=len(lexicon.characters),
        word_dim=5,
    )
    layer = ElmoLayer(None, config=config, lexicon=lexicon)
    assert max(export_hdf5(layer, tmp_path / "a").values()) == 0


def test_a_model_of_words_is_verified_and_keeps_its_vocabulary(tmp_path):
    config = ElmoConfig(None, vocabulary_size=4, lstm_dim=8, projection_dim=4)
    ElmoLayer(None, config=config).export_hdf5(tmp_path / "words")
    (tmp_path / "words" / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    differences = export_hdf5(tmp_path / "words", tmp_path / "a.zip")
    assert differences == dict.fromkeys(["word_emb", "lstm_outputs1", "lstm_outputs2"], 0)
    assert Embedder(tmp_path / "a.zip").vocabulary == ["<S>", "</S>", "<UNK>", "the"]
    vocabulary = tmp_path / "words" / "vocabulary.txt"
    with pytest.raises(ValueError, match="neither a softmax nor a table of words: leave out"):
        export_hdf5(TINY, tmp_path / "b", vocabulary=vocabulary)
    vocabulary.rename(tmp_path / "v.txt")
    layer = ElmoLayer(tmp_path / "words")
    export_hdf5(layer, tmp_path / "b", vocabulary=tmp_path / "v.txt")
    assert ElmoLayer(tmp_path / "b").vocabulary == ["<S>", "</S>", "<UNK>", "the"]
    (tmp_path / "v.txt").write_text("<S>\n</S>\n<UNK>\nthe\na\n")
    for model in (layer, tmp_path / "words"):
        with pytest.raises(ValueError, match="has 5 words, the softmax or table of .* 4: pass"):
            export_hdf5(model, tmp_path / "c", vocabulary=tmp_path / "v.txt")


def test_an_export_with_fewer_files_replaces_an_earlier_one(tmp_path):
    export_hdf5(MANY_LANGUAGES / "word_char", tmp_path / "a")
    export_hdf5(TINY, tmp_path / "a", overwrite=True)
    assert sorted(os.listdir(tmp_path / "a")) == ["README.md", "options.json", "weights.hdf5"]


@pytest.mark.parametrize("export", [export_hdf5, export_saved_model, export_onnx])
def test_the_output_is_checked_before_a_model_is_loaded(export, tmp_path, monkeypatch):
    if export is export_onnx:
        pytest.importorskip("tf2onnx")
    (tmp_path / "a.onnx").write_text("mine")
    monkeypatch.setattr("keras_elmo.export.source.ElmoLayer.build", lambda *_: pytest.fail("built"))
    with pytest.raises(FileExistsError, match="exists already|not a folder that can be replaced"):
        export(TINY, tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").read_text() == "mine"


def test_a_folder_is_synced_once(elmo, tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(sync(file)))
    elmo.export_hdf5(tmp_path / "a")
    # Each of three files and their folder, options.json with its folder before, and the new names.
    assert len(synced) == 7


def test_bad_arguments(elmo, tmp_path):
    with pytest.raises(ValueError, match="dtype must be one of float32, float16; got 'int8'"):
        export_hdf5(elmo, tmp_path / "a", dtype="int8")
    with pytest.raises(FileNotFoundError, match="does not exist: create it before writing a.zip"):
        export_hdf5(elmo, tmp_path / "none" / "a.zip")

"""Models with a lexicon in all that takes a model: caches, threads, saved models, training."""

import copy
import json
import pickle
import threading

import keras
import numpy as np
import pytest

from helpers import assert_close, to_numpy
from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoConfig,
    ElmoLayer,
    Embedder,
    LexiconEncoder,
    TrainingSettings,
    export_hdf5,
    load_language_model,
    train,
)
from many_languages import MANY_LANGUAGES, golden, small_lexicon

MODEL = MANY_LANGUAGES / "word_char"
SENTENCES = golden("word_char")[0]["sentences"]


@pytest.fixture(scope="module")
def embedder():
    return Embedder(MODEL)


@pytest.fixture(scope="module")
def config():
    """The config of a layer that has a lexicon."""
    return json.dumps(keras.saving.serialize_keras_object(ElmoLayer(MODEL)))


# --- Embedder ---------------------------------------------------------------------------------


def test_pickled(embedder):
    words = [word for sentence in SENTENCES for word in sentence]
    again = pickle.loads(pickle.dumps(embedder))
    assert again.layer.lexicon == embedder.layer.lexicon
    assert_close(again.encode_words(words), embedder.encode_words(words))


def test_odd_tokens(embedder):
    rules = embedder.layer.lexicon
    longest = embedder.config.max_characters_per_token - 2
    same = {
        b"cat": "cat",
        "\ud800cat": "cat",
        b"c\xffat": "cat",
        "\udfff": "",
        "北京".encode(): "北京",
        b"\xe5\x8c": "",
        "z" * 100: "z" * longest,
        "<bos>": b"<bos>",
    }
    for token, other in same.items():
        np.testing.assert_array_equal(*(rules.encode_words([x]) for x in (token, other)))
    # bilm-tf's marks are plain text
    sentences = [["the", token, "cat"] for token in (*same, " ", "<S>")]
    expected = to_numpy(ElmoLayer(MODEL, vectors="layers")(rules.encode_sentences(sentences)))
    for found, other in zip(embedder.embed(sentences, "layers"), expected, strict=True):
        assert_close(found, other)


def test_sentences_of_no_words(embedder):
    assert [x.shape for x in embedder.embed(["", " \n", []])] == 3 * [(0, embedder.dim)]
    assert embedder.embed(["\u3000"])[0].shape == (1, embedder.dim)  # no ASCII white space


# --- Strings in TensorFlow --------------------------------------------------------------------


def test_threads_share_an_encoder_whose_table_is_not_made_yet():
    tf = pytest.importorskip("tensorflow")
    encoder, start, found = LexiconEncoder(small_lexicon()), threading.Barrier(4), []

    def encode(in_graph):
        call = tf.function(encoder.__call__) if in_graph else encoder
        start.wait()
        found.append(np.array(call(tf.constant(["the 猫 z"]))))

    threads = [threading.Thread(target=encode, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = encoder.lexicon.encode_sentences([["the", "猫", "z"]])
    assert len(found) == 4
    for rows in found:
        np.testing.assert_array_equal(rows, expected)


def test_copied_encoders_make_tables_of_their_own():
    tf = pytest.importorskip("tensorflow")
    encoder, text = LexiconEncoder(small_lexicon()), tf.constant(["the 猫"])
    expected = np.array(encoder(text))
    again = LexiconEncoder.from_config(encoder.get_config())
    np.testing.assert_array_equal(again(text), expected)
    assert again.word_table() is not encoder.word_table() is encoder.word_table()


def test_rows_keep_a_window_of_padding_where_a_word_has_the_same_id():
    tf = pytest.importorskip("tensorflow")
    lexicon = small_lexicon(words="a b c d e f g h cat")
    word = lexicon.words[lexicon.padding - 1]
    assert word == "cat" and lexicon.encode_words([word])[0, 0] == lexicon.padding
    rows, _ = LexiconEncoder(lexicon).encode_distinct(tf.constant([[word]]), widest_filter=3)
    assert rows.shape[1] == 1 + len("cat") + 2 + 3  # the word, its characters, marks, padding


# --- Saved, cloned, subclassed ----------------------------------------------------------------


@keras.saving.register_keras_serializable("test_lexicon_models")
class Tagger(keras.Model):
    def __init__(self, elmo=None, **kwargs):
        super().__init__(**kwargs)
        self.elmo = ElmoLayer(MODEL) if elmo is None else elmo
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(self.elmo(inputs))

    def get_config(self):
        return {**super().get_config(), "elmo": keras.saving.serialize_keras_object(self.elmo)}

    @classmethod
    def from_config(cls, config):
        config["elmo"] = keras.saving.deserialize_keras_object(config["elmo"])
        return cls(**config)


@pytest.mark.slow
def test_subclassed_and_functional_models(tmp_path):
    ids = ElmoLayer(MODEL).lexicon.encode_sentences(SENTENCES)
    inputs = keras.Input(ids.shape[1:], dtype="int32")
    functional = keras.Model(inputs, keras.layers.Dense(2)(ElmoLayer(MODEL)(inputs)))
    for model in (Tagger(), functional):
        expected = to_numpy(model(ids))
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        assert_close(to_numpy(again(ids)), expected)
        pickled = pickle.loads(pickle.dumps(model))
        assert_close(to_numpy(pickled(ids)), expected)
        assert_close(to_numpy(copy.deepcopy(model)(ids)), expected)
    clone = keras.models.clone_model(functional)
    layers = [x for x in clone.layers if isinstance(x, ElmoLayer)]
    assert_close(to_numpy(layers[0](ids)), to_numpy(ElmoLayer(MODEL)(ids)))


# --- Configs of an enemy ----------------------------------------------------------------------

WORDS = "<oov>\n<bos>\n<eos>\n<pad>"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"words": WORDS}, "The lexicon belongs to a different model"),
        ({"words": None}, "The lexicon belongs to a different model"),
        ({"characters": None}, "The lexicon belongs to a different model"),
        ({"max_characters_per_token": 1_000}, "The lexicon belongs to a different model"),
        ({"max_characters_per_token": -3}, "must be an integer of at least 7; got -3"),
        ({"max_characters_per_token": "9"}, "must be an integer of at least 7; got '9'"),
        ({"words": 5}, "Expected a dict made by Lexicon.to_dict"),
        ({"words": ["<oov>"]}, "Expected a dict made by Lexicon.to_dict"),
        ({"characters": {}}, "Expected a dict made by Lexicon.to_dict"),
        ({"words": "a\tb"}, "Entry 0 of word.dic must be a string that does not begin"),
        ({"words": ""}, "Entry 0 of word.dic|word.dic does not list <oov>"),
        ({"words": ...}, "Expected a dict made by Lexicon.to_dict"),
    ],
)
def test_edited_lexicons(config, changes, message):
    config = json.loads(config)
    lexicon = {**config["config"]["lexicon"], **changes}
    lexicon = {name: value for name, value in lexicon.items() if value is not ...}
    config["config"]["lexicon"] = lexicon
    with pytest.raises(ValueError, match=message) as caught:
        keras.saving.deserialize_keras_object(config)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("lexicon", ["a", 5, {}])
def test_what_is_no_lexicon(config, lexicon):
    config = json.loads(config)["config"] | {"lexicon": lexicon}
    for make in (lambda: LexiconEncoder(lexicon), lambda: ElmoLayer.from_config(config)):
        with pytest.raises(ValueError, match="Expected a dict made by Lexicon.to_dict"):
            make()


def test_a_lexicon_where_there_is_none_to_give(config):
    lexicon = small_lexicon()
    for other in (ElmoConfig(), ElmoConfig().with_word_input(9)):
        with pytest.raises(ValueError, match="got a lexicon, but its config reads none"):
            ElmoLayer(None, config=other, lexicon=lexicon)
    with pytest.raises(ValueError, match="got both model=.*, and a lexicon: leave it out"):
        ElmoLayer(MODEL, lexicon=lexicon)
    with pytest.raises(ValueError, match="The config needs a lexicon"):
        ElmoLayer.from_config(json.loads(config)["config"] | {"lexicon": None})


# --- Language models --------------------------------------------------------------------------

NOT_TRAINED = "with a lexicon, such as an ELMoForManyLangs model, cannot be trained or evaluated"


def test_no_language_model(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_elmo.pretrained.locate.download", lambda _: pytest.fail("read"))
    export_hdf5(MODEL, tmp_path / "hdf5")
    config = ElmoLayer(MODEL).config
    with pytest.raises(ValueError, match=NOT_TRAINED):
        BidirectionalLanguageModel(config, 100)
    (tmp_path / "text.txt").write_text("a b\n")
    settings = {"files": tmp_path / "text.txt", "output": tmp_path / "run"}
    for model in (MODEL, tmp_path / "hdf5", "many-languages/it"):
        with pytest.raises(ValueError, match=NOT_TRAINED):
            train(TrainingSettings(**settings, start_from=model))
    with pytest.raises(ValueError, match=NOT_TRAINED):
        train(TrainingSettings(**settings, options=tmp_path / "hdf5" / "options.json"))
    for model in (MODEL, tmp_path / "hdf5"):
        with pytest.raises(ValueError, match=NOT_TRAINED):
            load_language_model(model)
    assert not (tmp_path / "run").exists()  # told before anything is counted

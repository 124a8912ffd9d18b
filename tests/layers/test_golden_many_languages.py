"""ElmoLayer and Embedder against the outputs of ELMoForManyLangs itself."""

import shutil

import keras
import numpy as np
import pytest

from helpers import assert_close, compiled, tensorflow_only, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer, Embedder, export_saved_model
from many_languages import MANY_LANGUAGES, VARIANTS, WORD_CHAR_FIRST, golden, small_lexicon

IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
TEXT = ["the cat sat", "我 爱 北京"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_numbers_of_the_original_from_zero_state(variant):
    elmo, (texts, outputs) = ElmoLayer(MANY_LANGUAGES / variant, vectors="layers"), golden(variant)
    ids = elmo.lexicon.encode_sentences(texts["sentences"])
    tokens, layers = to_numpy(elmo.token_encoder(ids)), to_numpy(elmo(ids))
    with_boundaries = to_numpy(elmo.bilm(elmo.token_encoder(ids), mask=ids.any(-1)))
    for i, sentence in enumerate(texts["sentences"]):
        length = len(sentence)
        assert_close(tokens[i, : length + 2], outputs[f"token_vectors_{i}"])
        assert_close(with_boundaries[i, 1:, : length + 2], outputs[f"encoder_{i}"])
        assert_close(layers[i, :, :length], outputs[f"alone_all_{i}"])
        assert_close(layers[i, :, :length], outputs[f"batch_all_{i}"])
        assert not layers[i, :, length:].any()


# Other backends compile each call, and only the encoders differ, which the test above compares.
@pytest.mark.parametrize("variant", VARIANTS if IS_TENSORFLOW else ["tanh_clips"])
def test_carried_state(variant):
    elmo = ElmoLayer(MANY_LANGUAGES / variant, vectors="layers", stateful=True, max_batch_size=8)
    texts, outputs = golden(variant)
    for k, call in enumerate(texts["calls"]):
        sentences = [texts["sentences"][i] for i in call["rows"]]
        layers = to_numpy(elmo(elmo.lexicon.encode_sentences(sentences)))
        for j, i in enumerate(call["sentences"]):
            found = layers[call["rows"].index(i), :, : len(texts["sentences"][i])]
            assert_close(found, outputs[f"call_{k}_{j}"], tolerance=1e-5)
        num_rows = outputs[f"call_{k}_h"].shape[1]
        state = to_numpy(elmo.state.variables[0].value)[:num_rows]  # rows, directions, layers, P
        state = np.moveaxis(state, 2, 0).reshape(outputs[f"call_{k}_h"].shape)
        assert_close(state, outputs[f"call_{k}_h"], tolerance=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_embedder(variant):
    embedder, (texts, outputs) = Embedder(MANY_LANGUAGES / variant), golden(variant)
    for _ in range(2):  # the second time from the word cache
        for i, array in enumerate(embedder.embed(texts["sentences"], vectors="layers")):
            if texts["sentences"][i][-1:] == [""]:
                assert not array[:, -1].any()  # padding, which in the original is an empty word
            else:
                assert_close(array, outputs[f"alone_all_{i}"])


@tensorflow_only
@pytest.mark.parametrize("variant", WORD_CHAR_FIRST)
def test_saved_models_need_no_files(variant, tmp_path):
    import tensorflow as tf

    shutil.copytree(MANY_LANGUAGES / variant, tmp_path / "model")
    elmo = ElmoLayer(tmp_path / "model", vectors="layers")
    shutil.rmtree(tmp_path / "model")
    model, text = keras.Sequential([elmo]), tf.constant(TEXT)
    expected = to_numpy(model(text))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.layers[0].lexicon == elmo.lexicon
    for one in (again, keras.models.clone_model(model)):
        assert_close(to_numpy(one(text)), expected)
    model.export(tmp_path / "keras", verbose=False)
    served = tf.saved_model.load(tmp_path / "keras")
    assert_close(served.serve(text), expected)


@pytest.mark.slow
@tensorflow_only
def test_saved_model_with_the_signatures_of_tf_hub(tmp_path):
    differences = export_saved_model(ElmoLayer(MANY_LANGUAGES / "word_char"), tmp_path / "served")
    assert max(differences.values()) <= 1e-6


@pytest.mark.slow
def test_functional_model_on_ids_is_fine_tuned(tmp_path):
    elmo = ElmoLayer(MANY_LANGUAGES / "word_char", trainable_bilm=True)
    inputs = keras.Input((None, elmo.config.row_width), dtype="int32")
    outputs = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(elmo(inputs)))
    model = keras.Model(inputs, outputs)
    compiled(model, "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids = elmo.lexicon.encode_sentences([["the", "cat"], ["北京", "xyz"]])
    before = [to_numpy(weight.value).copy() for weight in elmo.token_encoder.weights]
    model.fit(ids, np.array([0, 1]), verbose=0)
    changed = [
        not np.array_equal(old, to_numpy(new.value))
        for old, new in zip(before, elmo.token_encoder.weights)
    ]
    assert all(changed)
    elmo.export_hdf5(tmp_path / "tuned")
    found = ElmoLayer(tmp_path / "tuned", vectors="layers")(ids)
    assert_close(to_numpy(found), to_numpy(elmo.hidden_states(ids)[0]))


def test_pairs_and_stored_token_vectors(tmp_path):
    folder = MANY_LANGUAGES / "tanh_clips"
    pair = folder / "config.json", folder / "encoder.pkl"
    elmo = ElmoLayer(pair, vectors="layers")
    vectors = Embedder(pair).encode_words(["北京", "cat"])
    stored = ElmoLayer(pair, vectors="layers", token_embeddings=np.pad(vectors, ((2, 0), (0, 0))))
    assert stored.lexicon is None
    tokens = to_numpy(stored(np.array([[1, 3, 4, 2]])))[0, 0, :, : vectors.shape[1]]
    assert_close(tokens, to_numpy(elmo([["北京", "cat"]]))[0, 0, :, : vectors.shape[1]])


def test_a_fresh_layer_needs_a_lexicon_of_its_size():
    lexicon = small_lexicon()
    config = ElmoConfig(
        filters=((1, 4), (2, 4)),
        char_embedding_dim=3,
        max_characters_per_token=12,
        lstm_dim=6,
        projection_dim=4,
        vocabulary_size=len(lexicon.words),
        num_characters=len(lexicon.characters),
        word_dim=5,
    )
    assert ElmoLayer(None, config=config, lexicon=lexicon)(["the cat 猫"]).shape == (1, 3, 8)
    with pytest.raises(ValueError, match="needs a lexicon: pass lexicon="):
        ElmoLayer(None, config=config)
    with pytest.raises(ValueError, match="The lexicon belongs to a different model"):
        ElmoLayer(None, config=config, lexicon=small_lexicon(width=13))

"""The helpers of AllenNLP and bilm-tf: their shapes, dtypes, ids and numbers."""

import json
import warnings
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from helpers import assert_close, to_numpy
from keras_elmo import ElmoLayer, WeightedLayerSum, encode_sentences
from keras_elmo.compat import (
    Batcher,
    ElmoEmbedder,
    Embedder,
    TokenBatcher,
    add_sentence_boundaries,
    batch_to_ids,
    weight_layers,
)
from many_languages import MANY_LANGUAGES, VARIANTS, golden

GOLDEN = Path(__file__).parent / "golden" / "inference"
TINY = GOLDEN / "default"
SENTENCES = json.loads((GOLDEN / "sentences.json").read_text())["batch"]
OUTPUTS = np.load(TINY / "outputs.npz")
EDGE = json.loads((GOLDEN / "char_ids_edge.json").read_text())
BEGIN, END = [[259, mark, 260] + [261] * 47 for mark in (257, 258)]


@pytest.fixture(scope="module")
def embedder():
    return ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")


def write_words(path, words):
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return path


# --- AllenNLP ---------------------------------------------------------------------------------


def test_batch_to_ids_has_no_boundaries():
    ids = batch_to_ids([["a", "\u00e9"], [], ["b"]])
    assert (ids.shape, ids.dtype) == ((3, 2, 50), np.int64)
    assert ids[0, 1].tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260] + [261] * 46
    assert not ids[1].any()
    assert not ids[2, 1].any()
    assert batch_to_ids([[]]).shape == (1, 0, 50)
    # Generators are read once.
    np.testing.assert_array_equal(batch_to_ids(iter([iter(["a", "\u00e9"]), [], ["b"]])), ids)


def test_batch_to_ids_of_odd_words():
    expected = np.load(GOLDEN / "char_ids_edge.npz")["with_specials"]
    words = EDGE["words"]
    np.testing.assert_array_equal(batch_to_ids([words])[0], expected[1 : len(words) + 1])
    assert batch_to_ids([["<S>", "</S>"]]).tolist() == [[BEGIN, END]]


def test_ids_with_boundaries_are_those_of_encode_sentences():
    sentences = [*SENTENCES, []]
    ids = add_sentence_boundaries(batch_to_ids(sentences))
    np.testing.assert_array_equal(ids, encode_sentences(sentences))
    assert ids.dtype == np.int32
    with pytest.raises(ValueError, match="boundaries of sentences already"):
        add_sentence_boundaries(ids)
    elmo = ElmoLayer(TINY)
    with pytest.warns(UserWarning, match="no rows for the boundaries .*add_sentence_boundaries"):
        elmo(batch_to_ids(sentences))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        elmo(ids)
        elmo(np.zeros_like(ids))


def test_embed_batch_gives_every_layer(embedder):
    arrays = embedder.embed_batch(SENTENCES)
    assert len(arrays) == len(SENTENCES)
    for array, expected, sentence in zip(arrays, OUTPUTS["lm_embeddings"], SENTENCES):
        assert array.shape == (3, len(sentence), 24)
        assert array.dtype == np.float32
        assert_close(array, expected[:, : len(sentence)], 5e-6)
    assert embedder.embed_batch([]) == []


def test_empty_sentences_have_no_vectors(embedder):
    assert embedder.embed_sentence([]).shape == (3, 0, 24)
    assert [array.shape for array in embedder.embed_batch([[], ["a"]])] == [(3, 0, 24), (3, 1, 24)]


def test_a_sentence_does_not_depend_on_those_before(embedder):
    first = embedder.embed_sentence(SENTENCES[0])
    embedder.embed_sentence(SENTENCES[2])
    np.testing.assert_allclose(embedder.embed_sentence(SENTENCES[0]), first, atol=1e-6)


def test_embed_sentences_reads_as_it_gives(embedder):
    read = []

    def sentences():
        for sentence in SENTENCES[:5]:
            read.append(sentence)
            yield sentence

    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        next(embedder.embed_sentences(SENTENCES, batch_size=0))
    arrays = embedder.embed_sentences(sentences(), batch_size=2)
    assert read == []
    assert next(arrays).shape == (3, len(SENTENCES[0]), 24)
    assert len(read) == 2
    assert len(list(arrays)) == 4


@pytest.mark.parametrize(
    "kind, output", [("all", "layers"), ("top", "top"), ("average", "average")]
)
def test_embed_file(embedder, tmp_path, kind, output):
    path = tmp_path / "vectors.hdf5"
    embedder.embed_file(["a b \n", "c\n", "a b"], path, kind)
    expected = embedder.embedder.embed(["a b", "c", "a b"], output)
    with h5py.File(path) as file:
        assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
        for i, array in enumerate(expected):
            assert_close(file[str(i)][:], array)
        assert json.loads(file["sentence_to_index"][0]) == {"a b": "2", "c": "1"}
    embedder.embed_file(iter(["a b", "c"]), path, kind, use_sentence_keys=True)
    with h5py.File(path) as file:
        assert sorted(file) == ["a b", "c"]
    embedder.embed_file(["a b"], path, kind, forget_sentences=True)
    with h5py.File(path) as file:
        assert list(file) == ["0"]


def test_embed_file_of_bad_lines(embedder, tmp_path):
    with pytest.raises(ValueError, match="one of all, top, average; got 'mix'"):
        embedder.embed_file([], tmp_path / "v.h5", "mix")
    for lines, by_sentence in ((["a", " "], False), (["a", "a"], True)):
        with pytest.raises(ValueError, match="Remove lines that are empty, or that repeat"):
            embedder.embed_file(lines, tmp_path / "v.h5", use_sentence_keys=by_sentence)
    assert not list(tmp_path.iterdir())


def test_embedder_wants_both_files_or_none():
    with pytest.raises(ValueError, match="both options_file and weight_file"):
        ElmoEmbedder(TINY / "options.json")


# --- bilm-tf ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant, width", [("default", 50), ("short_words", 12)])
def test_batcher_has_boundaries(variant, width):
    ids = Batcher(GOLDEN / "vocab.txt", width).batch_sentences(SENTENCES)
    np.testing.assert_array_equal(ids, np.load(GOLDEN / variant / "outputs.npz")["char_ids"])
    assert ids.dtype == np.int64


def test_batcher_of_odd_words_goes_by_the_vocabulary(tmp_path):
    goldens = np.load(GOLDEN / "char_ids_edge.npz")
    with_specials = write_words(tmp_path / "with.txt", EDGE["vocab_with"])
    without = write_words(tmp_path / "without.txt", EDGE["vocab_without"])
    ids = Batcher(with_specials, 50).batch_sentences([EDGE["words"]])
    np.testing.assert_array_equal(ids[0], goldens["with_specials"])
    # bilm-tf encodes the last word of a vocabulary without specials as </S>; we do not.
    words = EDGE["without_specials_words"]
    ids = Batcher(without, 50).batch_sentences([words])[0]
    expected = goldens["without_specials"]
    np.testing.assert_array_equal(ids[:-2], expected[:-2])
    np.testing.assert_array_equal(ids[-1], expected[-1])
    assert ids[-2, 1:5].tolist() == [byte + 1 for byte in b"last"]


def test_token_batcher():
    ids = TokenBatcher(GOLDEN / "vocab.txt").batch_sentences(SENTENCES[:9])
    elmo = ElmoLayer(TINY, output="layers", token_embeddings=TINY / "token_embeddings.hdf5")
    golden = np.load(TINY / "token_input_outputs.npz")
    expected = golden["lm_embeddings"] * golden["mask"][:, None, :, None]
    assert ids.dtype == np.int64
    assert_close(to_numpy(elmo(ids)), expected, 5e-6)


def test_token_batcher_knows_boundaries_in_a_text(tmp_path):
    words = write_words(tmp_path / "words.txt", ["<S>", "</S>", "<UNK>", "a"])
    ids = TokenBatcher(words).batch_sentences([["<S>", "a", "z", "</S>"]])
    assert ids.tolist() == [[1, 1, 4, 3, 2, 2]]


def test_token_batcher_of_the_words_of_a_text(tmp_path):
    """Without <UNK>, as the example of bilm-tf for word input writes it."""
    words = write_words(tmp_path / "words.txt", ["boats", "</S>", "row", "<S>", "."])
    batcher = TokenBatcher(words)
    assert batcher.batch_sentences([["row", "boats", "."], ["<S>"]]).tolist() == [
        [4, 3, 1, 5, 2],
        [4, 4, 2, 0, 0],
    ]
    with pytest.raises(ValueError, match=r"The word 'gently' is not in the vocabulary"):
        batcher.batch_sentences([["row", "gently"]])


def test_token_batcher_wants_the_special_words(tmp_path):
    with pytest.raises(ValueError, match="no </S>"):
        TokenBatcher(write_words(tmp_path / "words.txt", ["<S>", "<UNK>"]))


@pytest.mark.parametrize(
    "mix, arguments",
    [
        ("plain", {}),
        ("ln", {"do_layer_norm": True}),
        ("top", {"use_top_only": True}),
        ("top", {"use_top_only": True, "do_layer_norm": True}),
    ],
)
def test_weight_layers(mix, arguments):
    ops = {"lm_embeddings": OUTPUTS["lm_embeddings"], "mask": OUTPUTS["mask"]}
    layer = weight_layers("input", ops, **arguments)["layer"]
    layer.gamma.assign(OUTPUTS["mix_gamma"])
    if mix != "top":
        layer.layer_weights.assign(OUTPUTS["mix_W"])
    mixed = weight_layers("input", ops, reuse=layer, **arguments)["weighted_op"]
    valid = OUTPUTS["mask"][..., None]
    assert_close(to_numpy(mixed), OUTPUTS[f"mix_{mix}"] * valid, 5e-6)


def test_regularization_is_of_the_raw_weights():
    ops = {"lm_embeddings": OUTPUTS["lm_embeddings"]}
    assert weight_layers("input", ops)["regularization_op"] == 0
    layer = weight_layers("input", ops, l2_coef=0.5)["layer"]
    layer.layer_weights.assign([1.0, 2.0, 3.0])
    penalty = weight_layers("input", ops, reuse=layer)["regularization_op"]
    np.testing.assert_allclose(to_numpy(penalty), 7.0)


def test_layers_of_a_model_share_their_weights_and_bring_their_mask():
    inputs = keras.Input((None, 50), dtype="int32")
    ops = {"lm_embeddings": ElmoLayer(TINY, output="layers")(inputs)}
    first = weight_layers("input", ops, l2_coef=0.5)
    second = weight_layers("input", ops, reuse=first["layer"])
    model = keras.Model(inputs, [first["weighted_op"], second["weighted_op"]])
    assert len(model.trainable_weights) == 2
    assert isinstance(first["layer"], WeightedLayerSum)
    assert model.get_layer("input") is first["layer"]
    ids = encode_sentences(SENTENCES[:3])
    one, other = model.predict(ids, verbose=0)
    np.testing.assert_array_equal(one, other)
    assert_close(one, to_numpy(ElmoLayer(TINY)(ids)))


def test_reuse_wants_a_layer():
    with pytest.raises(ValueError, match="the 'layer' of an earlier result; got True"):
        weight_layers("input", {"lm_embeddings": OUTPUTS["lm_embeddings"]}, reuse=True)


@pytest.mark.parametrize(
    "other", [{"do_layer_norm": True}, {"use_top_only": True}, {"l2_coef": 0.5}]
)
def test_reuse_wants_the_same_settings(other):
    ops = {"lm_embeddings": OUTPUTS["lm_embeddings"]}
    layer = weight_layers("input", ops)["layer"]
    with pytest.raises(ValueError, match="use_top_only and do_layer_norm with which it was made"):
        weight_layers("input", ops, reuse=layer, **other)


@pytest.mark.parametrize(
    "encode", [batch_to_ids, lambda x: Batcher(GOLDEN / "vocab.txt", 50).batch_sentences(x)]
)
def test_a_string_is_no_list_of_tokens(encode):
    with pytest.raises(ValueError, match="each sentence to be a list of tokens"):
        encode(["one sentence"])


# --- elmoformanylangs -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("batch_size", [1, 64])
def test_sents2elmo(variant, batch_size):
    texts, outputs = golden(variant)
    sentences = texts["sentences"]
    embedder = Embedder(MANY_LANGUAGES / variant, batch_size)
    most = embedder.embedder.config.num_layers
    layers = {
        output_layer: embedder.sents2elmo(sentences, output_layer)
        for output_layer in range(-most - 1, most + 1)
    }
    for i, sentence in enumerate(sentences):
        assert_close(layers[-2][i], outputs[f"alone_all_{i}"])
        if sentence:  # the original stops at an empty one
            for j in range(-1, most + 1):
                assert_close(layers[j][i], outputs[f"alone_layer{j}_{i}"])
            assert_close(layers[-1][i], outputs[f"batch_mean_{i}"])
        for j in range(-most - 1, -2):
            assert_close(layers[j][i], outputs[f"alone_all_{i}"][j])
        assert layers[-1][i].shape == (len(sentence), embedder.embedder.dim)
        assert layers[-1][i].dtype == np.float32
    assert sentences.count([]) == 1


def test_sents2elmo_of_no_such_layer():
    embedder = Embedder(MANY_LANGUAGES / "word_only")  # one LSTM layer
    read = []
    for output_layer in (2, -3, 1.5, "top"):
        with pytest.raises(ValueError, match=r"output_layer must be -2, -1 or from 0 to 1; got"):
            embedder.sents2elmo(map(read.append, ["a"]), output_layer)
    assert not read  # told at once
    assert embedder.sents2elmo([]) == []
    with pytest.raises(ValueError, match="got the single string 'a b'"):
        embedder.sents2elmo("a b")

"""The helpers of AllenNLP and bilm-tf: their shapes, dtypes, ids and numbers."""

import dataclasses
import functools
import json
import shutil
import warnings
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

import numpy_reference
from helpers import GOLDEN, TINY, assert_close, compiled, to_numpy
from keras_elmo import ElmoLayer, WeightedLayerSum, encode_sentences
from keras_elmo.compat import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    Batcher,
    BidirectionalLanguageModel,
    Elmo,
    ElmoEmbedder,
    Embedder,
    TokenBatcher,
    add_sentence_boundaries,
    batch_to_ids,
    dump_bilm_embeddings,
    dump_token_embeddings,
    weight_layers,
)
from keras_elmo.pretrained import registry
from keras_elmo.text.characters import ByteRules
from many_languages import MANY_LANGUAGES, WORD_CHAR_FIRST, golden

SENTENCES, CARRY = (
    json.loads((GOLDEN / "sentences.json").read_text())[name] for name in ("batch", "carry")
)
OUTPUTS = np.load(TINY / "outputs.npz")
EDGE = json.loads((GOLDEN / "char_ids_edge.json").read_text())
IS_TORCH = keras.backend.backend() == "torch"
EAGERLY = keras.backend.backend() == "tensorflow"  # faster there: it compiles slowly
BEGIN, END = [[259, mark, 260] + [261] * 47 for mark in (257, 258)]


def write_words(path, words):
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return path


# --- Sentences, in every helper -----------------------------------------------------------------

ENCODERS = {
    "batch_to_ids": lambda x: ids_of(x),
    "Batcher": lambda x: Batcher(GOLDEN / "vocab.txt", 50).batch_sentences(x),
    "TokenBatcher": lambda x: TokenBatcher(GOLDEN / "vocab.txt").batch_sentences(x),
    "embed_batch": lambda x: elmo_embedder().embed_batch(x),
    "embed_sentence": lambda x: [elmo_embedder().embed_sentence(sentence) for sentence in x],
    "embed_sentences": lambda x: list(elmo_embedder().embed_sentences(x, batch_size=2)),
    "sents2elmo": lambda x: many_languages_embedder().sents2elmo(x, -2),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_string_is_its_characters(name):
    encode = ENCODERS[name]
    strings = ["MKTAYIA", "\u00e9 b", ["a", "bc"], ""]
    expected = encode([list("MKTAYIA"), ["\u00e9", " ", "b"], ["a", "bc"], []])
    for actual, of_lists in zip(encode(strings), expected, strict=True):
        assert_close(actual, of_lists)
    if name != "embed_sentence":
        for sentences in ("a b", b"a b"):
            with pytest.raises(ValueError, match="got the single string b?'a b"):
                encode(sentences)


def ids_of(sentences):
    """AllenNLP's ids as an array on every backend."""
    return np.asarray(batch_to_ids(sentences))


EMPTY_WORDS = [["a", ""], ["", "b", "", ""], [""], [b"a", b""], ["a", "b"]]


def test_an_empty_word_is_no_padding_in_ids():
    empty = [259, 260] + [261] * 48
    ids = ids_of(EMPTY_WORDS)
    assert ids.any(axis=2).sum(axis=1).tolist() == [2, 4, 1, 2, 2]
    is_empty = (ids == empty).all(axis=2)
    assert is_empty.nonzero()[1].tolist() == [1, 0, 2, 3, 0, 1]
    rows = Batcher(GOLDEN / "vocab.txt", 50).batch_sentences(EMPTY_WORDS)
    np.testing.assert_array_equal(rows, add_sentence_boundaries(ids))
    # No line of the vocabulary is empty.
    token_ids = TokenBatcher(GOLDEN / "vocab.txt").batch_sentences([["", "z" * 30, ""]])
    assert len(set(token_ids[0, 1:-1])) == 1


@pytest.mark.parametrize("name", ["elmo", "many languages"])
def test_an_empty_word_has_a_vector(name):
    if name == "elmo":
        rules, arrays = ByteRules(50), elmo_embedder().embed_batch(EMPTY_WORDS)
        layer = ElmoLayer(TINY, vectors="layers")
    else:
        arrays = many_languages_embedder().sents2elmo(EMPTY_WORDS, -2)
        layer = ElmoLayer(MANY_LANGUAGES / "word_char", vectors="layers")
        rules = layer.lexicon
    vectors = to_numpy(layer(ids_of_empty_words(rules)))
    for array, expected, sentence in zip(arrays, vectors, EMPTY_WORDS, strict=True):
        assert_close(array, expected[:, : len(sentence)])
        assert array.any(axis=(0, 2)).all()


def ids_of_empty_words(rules):
    """The ids of a model for EMPTY_WORDS, made without an empty word in a sentence."""
    words = [[word or "x" for word in sentence] for sentence in EMPTY_WORDS]
    ids, (empty,) = rules.encode_sentences(words), rules.encode_words([""])
    ids[(ids == rules.encode_words(["x"])).all(axis=2)] = empty
    return ids


@functools.cache
def elmo_embedder():
    return ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")


@functools.cache
def many_languages_embedder():
    return Embedder(MANY_LANGUAGES / "word_char")


# --- AllenNLP ---------------------------------------------------------------------------------


def test_batch_to_ids_has_no_boundaries():
    ids = ids_of([["a", "\u00e9"], [], ["b"]])
    assert (ids.shape, ids.dtype) == ((3, 2, 50), np.int64)
    assert ids[0, 1].tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260] + [261] * 46
    assert not ids[1].any()
    assert not ids[2, 1].any()
    assert batch_to_ids([[]]).shape == (1, 0, 50)
    # Generators are read once.
    np.testing.assert_array_equal(batch_to_ids(iter([iter(["a", "\u00e9"]), [], ["b"]])), ids)
    expected, words = np.load(GOLDEN / "char_ids_edge.npz")["with_specials"], EDGE["words"]
    np.testing.assert_array_equal(batch_to_ids([words])[0], expected[1 : len(words) + 1])
    assert batch_to_ids([["<S>", "</S>"]]).tolist() == [[BEGIN, END]]


def test_ids_with_boundaries_are_those_of_encode_sentences():
    np.testing.assert_array_equal(
        add_sentence_boundaries(batch_to_ids([[], []])), encode_sentences([[], []])
    )
    sentences = [*SENTENCES, []]
    ids = add_sentence_boundaries(batch_to_ids(sentences))
    np.testing.assert_array_equal(ids, encode_sentences(sentences))
    assert ids.dtype == np.int32
    with pytest.raises(ValueError, match="without sentence boundaries, of batch_to_ids, got"):
        add_sentence_boundaries(ids)
    elmo = ElmoLayer(TINY)
    message = "no rows for the boundaries .*add_sentence_boundaries"
    with pytest.warns(UserWarning, match=message) as warned:
        elmo(ids_of(sentences))
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        elmo(ids)
        elmo(np.zeros_like(ids))


def test_embed_batch_gives_every_layer():
    embedder = elmo_embedder()
    for arrays in (embedder.embed_batch(SENTENCES), list(embedder.embed_sentences(SENTENCES))):
        assert len(arrays) == len(SENTENCES)
        for array, expected, sentence in zip(arrays, OUTPUTS["lm_embeddings"], SENTENCES):
            assert array.shape == (3, len(sentence), 24)
            assert array.dtype == np.float32
            assert_close(array, expected[:, : len(sentence)], 5e-6)
    # A sentence does not depend on those before.
    np.testing.assert_allclose(embedder.embed_sentence(SENTENCES[0]), arrays[0], atol=1e-6)
    assert embedder.embed_batch([]) == []
    assert embedder.embed_sentence([]).shape == (3, 0, 24)


def test_batch_to_embeddings():
    vectors, mask = elmo_embedder().batch_to_embeddings(SENTENCES[:3])
    lengths = list(map(len, SENTENCES[:3]))
    assert to_numpy(mask).sum(axis=1).tolist() == lengths
    for array, row, length in zip(
        elmo_embedder().embed_batch(SENTENCES[:3]), to_numpy(vectors), lengths, strict=True
    ):
        assert_close(row[:, :length], array)
        assert not row[:, length:].any()
    assert mask.shape[0] == 3 and mask.shape[1] == vectors.shape[2] == max(lengths)


def test_embed_file(tmp_path):
    embedder, path = elmo_embedder(), tmp_path / "vectors.hdf5"
    layers = embedder.embed_batch([["a", "b"], ["c"]])
    for kind, reduced in (
        ("all", lambda x: x),
        ("top", lambda x: x[-1]),
        ("average", lambda x: x.mean(axis=0)),
    ):
        embedder.embed_file(["a b \n", "c\n", "a b"], path, kind)
        with h5py.File(path) as file:
            assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
            for i, j in enumerate([0, 1, 0]):
                assert_close(file[str(i)][:], reduced(layers[j]))
            assert json.loads(file["sentence_to_index"][0]) == {"a b": "2", "c": "1"}
    embedder.embed_file(iter(["a b", "c"]), path, use_sentence_keys=True)
    with h5py.File(path) as file:
        assert sorted(file) == ["a b", "c"]
    names = list(map(str, range(12)))
    embedder.embed_file(names, path, "top", forget_sentences=True)
    with h5py.File(path) as file:
        assert list(file) == names


def test_invalid_lines_of_embed_file(tmp_path):
    embedder = elmo_embedder()
    with pytest.raises(ValueError, match="one of all, top, average; got 'mix'"):
        embedder.embed_file([], tmp_path / "v.h5", "mix")
    for lines, by_sentence, message in (
        (["a", " "], False, "Line 2 of the input, '', is empty: remove it"),
        (["a", "b", "a"], True, "Line 3 of the input, 'a', repeats line 1"),
        (["a", "km / h"], True, "Line 2 of the input, 'km / h', cannot be the name of a dataset"),
        (["."], True, r"Line 1 of the input, '\.', cannot be .*Leave out use_sentence_keys"),
    ):
        with pytest.raises(ValueError, match=message):
            embedder.embed_file(lines, tmp_path / "v.h5", use_sentence_keys=by_sentence)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="both options_file and weight_file"):
        ElmoEmbedder(TINY / "options.json")


def tiny_elmo(num_mixes=1, **arguments):
    return evaluated(Elmo(TINY / "options.json", TINY / "weights.hdf5", num_mixes, **arguments))


def evaluated(module):
    """The module; PyTorch's drop unless they are told not to."""
    return module.eval() if IS_TORCH else module


def test_elmo():
    ids = ids_of([*SENTENCES[:4], []])
    elmo, layer = tiny_elmo(2), ElmoLayer(TINY, num_mixes=2)
    for ours, theirs in zip(elmo.layer.mixes, layer.mixes):
        for mix in (ours, theirs):
            mix.gamma.assign([1.5])
    for mix in (elmo.layer.mixes[1], layer.mixes[1]):
        mix.layer_weights.assign([0.5, -1.0, 2.0])
    output = elmo(ids)
    assert list(output) == ["elmo_representations", "mask"]
    expected = layer(add_sentence_boundaries(ids))
    for ours, theirs in zip(output["elmo_representations"], expected, strict=True):
        assert_close(to_numpy(ours), to_numpy(theirs))
    mask = to_numpy(output["mask"])
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, ids.any(axis=2))
    assert elmo.get_output_dim() == 24
    # No state is carried, and nothing is dropped.
    for ours, again in zip(output["elmo_representations"], elmo(ids)["elmo_representations"]):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(again))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_elmo_with_sentence_boundaries(layer_norm):
    sentences = SENTENCES[:3]
    ids = ids_of(sentences)
    rows = add_sentence_boundaries(ids)
    module = ElmoLayer(TINY)
    mask = rows.any(axis=2)
    layers = to_numpy(module.bilm(module.token_encoder(rows), mask=mask))
    # AllenNLP normalizes the layers with the boundaries in them.
    weights = np.array([0.5, -1.0, 2.0])
    expected = numpy_reference.mix(layers, mask, weights, 1.0, layer_norm=layer_norm)
    arguments = {"do_layer_norm": layer_norm, "scalar_mix_parameters": weights.tolist()}
    kept = tiny_elmo(keep_sentence_boundaries=True, **arguments)(ids)
    assert_close(to_numpy(kept["elmo_representations"][0]), expected, 1e-5)
    np.testing.assert_array_equal(to_numpy(kept["mask"]), mask)
    output = tiny_elmo(**arguments)(ids)
    valid = ids.any(axis=2)
    expected = expected[:, 1:-1] * valid[..., None]
    assert_close(to_numpy(output["elmo_representations"][0]), expected, 1e-5)
    np.testing.assert_array_equal(to_numpy(output["mask"]), valid)


@pytest.mark.parametrize("boundaries", [False, True])
def test_elmo_in_a_functional_model_reads_no_padding(boundaries):
    ids, numbers = keras.Input((None, 50), dtype="int32"), keras.Input((None,), dtype="int32")
    elmo = tiny_elmo(2, keep_sentence_boundaries=boundaries)
    _, vectors = elmo(ids)["elmo_representations"]
    embedded = keras.layers.Embedding(9, 4, mask_zero=True)(numbers)
    merged = keras.layers.Concatenate()([vectors, embedded])
    model = keras.Model([ids, numbers], keras.layers.GlobalAveragePooling1D()(merged))
    short = ids_of([["a", "b", "c"], ["d"]]).astype("int32")
    places = np.array([[3, 4, 5], [6, 0, 0]])
    if boundaries:
        places = np.array([[1, 3, 4, 5, 2], [1, 6, 2, 0, 0]])
    model.run_eagerly = EAGERLY
    expected = model.predict([short, places], verbose=0)
    longer = [np.pad(short, ((0, 0), (0, 3), (0, 0))), np.pad(places, ((0, 0), (0, 3)))]
    np.testing.assert_allclose(model.predict(longer, verbose=0), expected, atol=1e-5)


def test_elmo_drops_in_training():
    ids = ids_of(SENTENCES[:2])
    (vectors,) = tiny_elmo()(ids, training=True)["elmo_representations"]
    vectors = to_numpy(vectors)[ids.any(axis=2)]
    assert 0.3 < (vectors == 0).mean() < 0.7  # half of them


@pytest.mark.skipif(not IS_TORCH, reason="PyTorch's modules")
def test_a_torch_module_drops_in_train():
    import torch

    ids = batch_to_ids(SENTENCES[:2])
    assert ids.dtype == torch.int64
    module = torch.nn.Sequential(tiny_elmo())
    dropped = {}
    for name in ("train", "eval"):
        getattr(module, name)()
        (vectors,) = module(ids.to("cpu"))["elmo_representations"]
        dropped[name] = (vectors[ids.any(axis=2)] == 0).float().mean().item()
    assert 0.3 < dropped["train"] < 0.7 and dropped["eval"] == 0


@pytest.mark.skipif(IS_TORCH, reason="other backends")
def test_torch_attributes_on_other_backends():
    for value, name in ((batch_to_ids([["a"]]), "to"), (tiny_elmo(), "cuda")):
        with pytest.raises(AttributeError, match="set KERAS_BACKEND=torch before Python starts"):
            getattr(value, name)
        with pytest.raises(AttributeError, match="has no attribute 'nothing'.$"):
            value.nothing  # noqa: B018


def test_trained_weights_of_elmo():
    def trained(**arguments):
        elmo = tiny_elmo(2, **arguments)
        elmo.trainable = False
        assert not elmo.trainable_weights
        elmo.trainable = True
        return elmo.trainable_weights

    assert len(trained()) == 4  # the weights and gamma of each mix
    assert not trained(scalar_mix_parameters=[1, 2, 3])
    biggest = len(ElmoLayer(TINY, trainable_bilm=True, vectors="layers").trainable_weights)
    assert len(trained(requires_grad=True)) == biggest + 4


def test_elmo_is_trained_and_saved_in_a_model(tmp_path):
    inputs = keras.Input((None, 50), dtype="int32")
    elmo = tiny_elmo(2, do_layer_norm=True)
    output = elmo(inputs)
    first, second = output["elmo_representations"]
    model = keras.Model(inputs, [first + second, output["mask"]])
    compiled(model, keras.optimizers.SGD(0.1), ["mse", None], run_eagerly=EAGERLY)
    ids = ids_of(SENTENCES[:4])
    zeros = np.zeros((*ids.shape[:2], 24), "float32")
    model.fit(ids, [zeros, ids.any(axis=2)], verbose=0)
    assert to_numpy(elmo.layer.mixes[0].gamma) != 1
    assert to_numpy(elmo.layer.mixes[0].layer_weights).any()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = False
    for before, after in zip(model.predict(ids, verbose=0), loaded.predict(ids, verbose=0)):
        assert_close(after, before)
    assert len(loaded.trainable_weights) == len(model.trainable_weights) == 4


def test_a_saved_or_cloned_elmo_has_its_weights(tmp_path):
    inputs, ids = keras.Input((None, 50), dtype="int32"), ids_of(SENTENCES[:2])
    elmo = tiny_elmo(scalar_mix_parameters=np.array([0, 1, 0]))
    expected = to_numpy(elmo(ids)["elmo_representations"][0])
    model = keras.Model(inputs, elmo(inputs)["elmo_representations"][0])
    model.save(tmp_path / "model.keras")
    for copy in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(model),
    ):
        assert not copy.trainable_weights
        shares = copy.layers[-1].layer.mixes[0].normalized_weights
        np.testing.assert_allclose(shares, np.exp([0, 1, 0]) / np.exp([0, 1, 0]).sum(), rtol=1e-6)
        assert_close(to_numpy(copy(ids)), expected)


def test_an_input_cannot_be_the_output(tmp_path):
    text, files = tmp_path / "text.txt", (TINY / "options.json", TINY / "weights.hdf5")
    text.write_text("<S>\n</S>\n<UNK>\n")
    with open(text) as lines, pytest.raises(ValueError, match="choose another output"):
        elmo_embedder().embed_file(lines, text)
    with pytest.raises(ValueError, match="choose another output"):
        dump_bilm_embeddings(text, text, *files, text)
    with pytest.raises(ValueError, match="choose another output"):
        dump_token_embeddings(text, *files, text)
    assert text.read_text() == "<S>\n</S>\n<UNK>\n"


def test_a_saved_elmo_names_no_file():
    config = tiny_elmo().get_config()
    assert str(TINY) not in str(config)
    config = {**config, "options_file": "/etc/passwd", "weight_file": "/etc/passwd"}
    assert len(Elmo.from_config(config).layer.mixes) == 1
    del config["layer"]
    with pytest.raises(ValueError, match="needs a config"):
        Elmo.from_config(config)


def test_bad_arguments_and_shapes_of_elmo():
    with pytest.raises(ValueError, match="vocab_to_cache must be None: an ElmoLayer"):
        tiny_elmo(vocab_to_cache=["a"])
    with pytest.raises(ValueError, match="must be the weights of 3 layers, got 2"):
        tiny_elmo(scalar_mix_parameters=[1, 2])
    with pytest.raises(ValueError, match="Unrecognized keyword arguments .*use_top_only"):
        tiny_elmo(use_top_only=True)
    folder = MANY_LANGUAGES / "word_char"
    with pytest.raises(ValueError, match="character ids, which this model does not"):
        Elmo(folder / "config.json", folder / "encoder.pkl", 1)
    ids = ids_of(SENTENCES)
    elmo = tiny_elmo()
    for wrong in (ids[None], ids[:, 0], ids[..., :49], ids.tolist(), ["a b"]):
        with pytest.raises(ValueError, match=r"expects character ids \(B, T, 50\) of batch_to_ids"):
            elmo(wrong)


UNREADABLE = {
    "float32": "got .* of dtype float32",
    "uint8": "uint8 cannot hold",
    "bounded": "without sentence boundaries",
    "left-padded": "only at the right",
    "too large": "ids from 0 to 261; got 0 to 262",
    "negative": "ids from 0 to 261; got -1",
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_invalid_ids(kind):
    ids = ids_of(SENTENCES[:3]).astype(kind if kind[-1] in "28" else "int32")
    if kind == "bounded":
        ids = encode_sentences(SENTENCES[:3])
    elif kind == "left-padded":
        ids = np.roll(ids, 1, axis=1)
    elif kind in ("too large", "negative"):
        ids[0, 0, 1] = 262 if kind == "too large" else -1
    elmo = tiny_elmo()
    with pytest.raises(ValueError, match=UNREADABLE[kind]):
        elmo(ids)
    with pytest.raises(ValueError, match=UNREADABLE[kind]):
        add_sentence_boundaries(ids)
    if kind[-1] in "28":  # a dtype, which tensors have as well
        with pytest.raises(ValueError, match=UNREADABLE[kind]):
            elmo(keras.ops.convert_to_tensor(ids))


URLS = {
    "small": "2x1024_128_2048cnn_1xhighway/elmo_2x1024_128_2048cnn_1xhighway_{}",
    "medium": "2x2048_256_2048cnn_1xhighway/elmo_2x2048_256_2048cnn_1xhighway_{}",
    "original": "2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway_{}",
    "original-5.5b": "2x4096_512_2048cnn_2xhighway_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B_{}",
    "pubmed": "contributed/pubmed/elmo_2x4096_512_2048cnn_2xhighway_{}",
    "allennlp/pt": "contributed/pt/elmo_pt_{}",
}
BASES = (
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
    "https://allennlp.s3.amazonaws.com/models/elmo",
)


def test_published_urls():
    for name, url in URLS.items():
        weights = "weights_PubMed_only.hdf5" if name == "pubmed" else "weights.hdf5"
        ends = [url.format(end) for end in ("options.json", weights)]
        for base in BASES:
            assert registry.known_model([f"{base}/{end}" for end in ends]).name == name
    ends = ("options.json", "weights.hdf5")
    defaults = [f"{BASES[0]}/{URLS['original']}".format(end) for end in ends]
    assert defaults == [DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE]


def test_urls_work_like_the_name_of_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    known = registry.get_model("original")
    # As if it had been downloaded, but smaller.
    known = dataclasses.replace(known, config=None, weights_bytes=None)
    monkeypatch.setattr(registry, "_MODELS", {**registry._MODELS, "original": known})
    pair = (DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE)
    folder = tmp_path / "keras_elmo" / "original"
    folder.mkdir(parents=True)
    for source, url in zip(("options.json", "weights.hdf5"), pair):
        shutil.copy(TINY / source, folder / Path(url).name)
    expected = to_numpy(ElmoLayer(TINY)([["a", "b"]]))
    assert_close(to_numpy(ElmoLayer(pair)([["a", "b"]])), expected)
    assert_close(ElmoEmbedder(*pair).embed_sentence(["a", "b"]).mean(axis=0), expected[0])
    (vectors,) = evaluated(Elmo(*pair, 1))(batch_to_ids([["a", "b"]]))["elmo_representations"]
    assert_close(to_numpy(vectors), expected)


def test_other_urls_are_refused():
    options, weights = DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
    for pair in (
        (options, "https://example.org/weights.hdf5"),
        ("https://example.org/options.json", weights),
        (options, weights.replace("2x4096", "2x1024")),
        (weights, options),
    ):
        with pytest.raises(FileNotFoundError, match="is a URL: pass a published model by its"):
            ElmoEmbedder(*pair)


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
    golden = np.load(TINY / "token_input_outputs.npz")
    np.testing.assert_array_equal(ids, golden["token_ids"])
    assert ids.dtype == np.int64


def test_token_batcher_of_special_words(tmp_path):
    words = write_words(tmp_path / "words.txt", ["<S>", "</S>", "<UNK>", "a"])
    ids = TokenBatcher(words).batch_sentences([["<S>", "a", "z", "</S>"]])
    assert ids.tolist() == [[1, 1, 4, 3, 2, 2]]
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


def test_layers_of_a_keras_model_share_their_weights_and_bring_their_mask():
    inputs = keras.Input((None, 50), dtype="int32")
    ops = language_model("default")(inputs)
    first = weight_layers("input", ops, l2_coef=0.5)
    without_mask = {"lm_embeddings": ElmoLayer(TINY, vectors="layers")(inputs)}
    second = weight_layers("input", without_mask, reuse=first["layer"])
    model = keras.Model(inputs, [first["weighted_op"], second["weighted_op"], ops["lengths"]])
    assert len(model.trainable_weights) == 2
    assert isinstance(first["layer"], WeightedLayerSum)
    assert model.get_layer("input") is first["layer"]
    ids = encode_sentences(SENTENCES[:3])
    *mixes, lengths = model.predict(ids, verbose=0)
    for mixed in mixes:
        assert_close(mixed, to_numpy(ElmoLayer(TINY)(ids)))
    assert lengths.tolist() == list(map(len, SENTENCES[:3]))


def test_reuse_is_of_the_last_layer_of_that_name():
    ops = {"lm_embeddings": OUTPUTS["lm_embeddings"]}
    with pytest.raises(ValueError, match="No layer 'first' is in use: call weight_layers without"):
        weight_layers("first", ops, reuse=True)
    first, other = weight_layers("first", ops, l2_coef=0.5), weight_layers("other", ops)
    assert weight_layers("first", ops, reuse=True)["layer"] is first["layer"]
    assert weight_layers("other", ops, reuse=True)["layer"] is other["layer"]
    for arguments in ({"l2_coef": 1.0}, {"use_top_only": True}, {"do_layer_norm": True}):
        with pytest.raises(ValueError, match="reuse shares a layer with its settings"):
            weight_layers("first", ops, reuse=True, **arguments)
    again = weight_layers("first", ops)
    assert again["layer"] is not first["layer"]
    assert weight_layers("first", ops, reuse=True)["layer"] is again["layer"]


# What bilm-tf itself computed.
@pytest.mark.parametrize("variant", ["default", "short_words", "three_layers"])
def test_bidirectional_language_model(variant):
    golden = np.load(GOLDEN / variant / "outputs.npz")
    valid = golden["mask"][:, None, :, None]
    bilm = language_model(variant)
    ops = {name: to_numpy(x) for name, x in bilm(golden["char_ids"]).items()}
    assert list(ops) == ["lm_embeddings", "lengths", "token_embeddings", "mask"]
    assert_close(ops["lm_embeddings"], golden["lm_embeddings"] * valid, 5e-6)
    tokens = golden["token_embeddings"] * (golden["char_ids"] != 0).any(axis=2)[..., None]
    assert_close(ops["token_embeddings"], tokens, 5e-6)
    np.testing.assert_array_equal(ops["mask"], golden["mask"])
    np.testing.assert_array_equal(ops["lengths"], golden["mask"].sum(axis=1))
    assert (ops["mask"].dtype, ops["lengths"].dtype) == (np.bool_, np.int32)
    assert not bilm.layer.trainable_weights


def test_bidirectional_language_model_carries_its_state():
    bilm, batcher = language_model("default", max_batch_size=5), ENCODERS["Batcher"]
    for _ in range(2):
        for i, batch in enumerate(CARRY):
            ids = batcher(batch)
            valid = (ids[:, None, 2:, :1] != 0) * 1.0
            vectors = to_numpy(bilm(ids)["lm_embeddings"])
            assert_close(vectors, OUTPUTS[f"stateful_{i}"] * valid, 5e-6)
        bilm.layer.reset_states()
    with pytest.raises(ValueError, match="more than max_batch_size=5"):
        bilm(batcher(SENTENCES[:6]))


def test_bidirectional_language_model_of_whole_words():
    golden = np.load(TINY / "token_input_outputs.npz")
    stored = {"embedding_weight_file": TINY / "token_embeddings.hdf5"}
    with pytest.raises(ValueError, match="pass an embedding_weight_file"):
        language_model("default", use_character_inputs=False)
    bilm = language_model("default", use_character_inputs=False, **stored)
    ops = {name: to_numpy(x) for name, x in bilm(golden["token_ids"]).items()}
    assert_close(ops["lm_embeddings"], golden["lm_embeddings"] * golden["mask"][:, None, :, None])
    np.testing.assert_array_equal(ops["mask"], golden["mask"])
    np.testing.assert_array_equal(ops["lengths"], golden["mask"].sum(axis=1))
    with h5py.File(stored["embedding_weight_file"]) as file:
        table = np.pad(file["embedding"][:], ((1, 0), (0, 0)))
    assert_close(ops["token_embeddings"], table[golden["token_ids"]])
    # As in bilm-tf, stored vectors are not used for characters.
    ids = ENCODERS["Batcher"](SENTENCES[:2])
    vectors = to_numpy(language_model("default", **stored)(ids)["lm_embeddings"])
    assert_close(vectors, to_numpy(ElmoLayer(TINY, vectors="layers")(ids)))


def language_model(variant, **arguments):
    folder = GOLDEN / variant
    return BidirectionalLanguageModel(folder / "options.json", folder / "weights.hdf5", **arguments)


def test_dump_bilm_embeddings(tmp_path):
    files = (TINY / "options.json", TINY / "weights.hdf5")
    path = tmp_path / "vectors.hdf5"
    dump_bilm_embeddings(GOLDEN / "vocab.txt", GOLDEN / "dataset.txt", *files, path)
    # bilm-tf's own file, with its state carried from line to line.
    with h5py.File(path) as file, h5py.File(TINY / "bilm_embeddings.hdf5") as golden:
        assert sorted(file) == sorted(golden)
        for name, array in golden.items():
            assert file[name].dtype == array.dtype
            assert_close(file[name][:], array[:], 5e-6)
    (tmp_path / "text.txt").write_text("a\n\nb c\n", encoding="utf-8")
    dump_bilm_embeddings(GOLDEN / "vocab.txt", tmp_path / "text.txt", *files, path)
    with h5py.File(path) as file:
        assert [file[name].shape for name in "012"] == [(3, 1, 24), (3, 0, 24), (3, 2, 24)]


def test_dump_token_embeddings(tmp_path):
    path = tmp_path / "words.hdf5"
    dump_token_embeddings(GOLDEN / "vocab.txt", TINY / "options.json", TINY / "weights.hdf5", path)
    with h5py.File(path) as file, h5py.File(TINY / "token_embeddings.hdf5") as golden:
        assert list(file) == list(golden) == ["embedding"]
        assert file["embedding"].dtype == golden["embedding"].dtype
        assert_close(file["embedding"][:], golden["embedding"][:])


# --- elmoformanylangs -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", WORD_CHAR_FIRST)
def test_sents2elmo(variant):
    texts, outputs = golden(variant)
    sentences = texts["sentences"]
    embedder = Embedder(MANY_LANGUAGES / variant)
    most = embedder.embedder.config.num_layers
    layers = {j: embedder.sents2elmo(sentences, j) for j in range(-2, most + 1)}
    for i, sentence in enumerate(sentences):
        assert_close(layers[-2][i], outputs[f"alone_all_{i}"])
        if sentence:  # the original stops at an empty one
            for j in range(-1, most + 1):
                assert_close(layers[j][i], outputs[f"alone_layer{j}_{i}"])
            assert_close(layers[-1][i], outputs[f"batch_mean_{i}"])
        assert layers[-1][i].shape == (len(sentence), embedder.embedder.dim)
        assert layers[-1][i].dtype == np.float32
    assert sentences.count([]) == 1


def test_sents2elmo_of_a_missing_layer():
    embedder = Embedder(MANY_LANGUAGES / "word_only")  # one LSTM layer
    read = []
    for output_layer in (2, -3, 1.5, "top"):
        with pytest.raises(ValueError, match="output_layer must be from -2 to 1; got"):
            embedder.sents2elmo(map(read.append, ["a"]), output_layer)
    assert not read  # told at once
    assert embedder.sents2elmo([]) == []
    with pytest.raises(ValueError, match="got the single string 'a b'"):
        embedder.sents2elmo("a b")

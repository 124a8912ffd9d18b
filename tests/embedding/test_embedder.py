"""Many sentences at once: the vectors of the layer, whatever the batches."""

import dataclasses
import logging
import os
import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from helpers import assert_close, to_numpy
from keras_elmo import (
    ElmoConfig,
    ElmoLayer,
    Embedder,
    WordCache,
    encode_sentences,
    register_model,
)
from keras_elmo.embedding.compiled import CompiledSentences
from keras_elmo.layers import process
from keras_elmo.pretrained import registry

GOLDEN = Path(__file__).parents[1] / "golden" / "inference"
TINY = GOLDEN / "default"
SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    [],
    ["a"],
    ["naïve", "", "cafés", "🙂" * 30, ""],  # an empty word, and padding
    ["the", "cat", "the", "cat"],
    ["<S>", "</S>", "<UNK>"],
]


@pytest.fixture(scope="module")
def layers():
    """All layers of SENTENCES by the layer itself."""
    outputs = to_numpy(ElmoLayer(TINY, output="layers")(SENTENCES))
    return [array[:, : len(tokens)] for array, tokens in zip(outputs, SENTENCES)]


def small(**arguments):
    return Embedder(TINY, **arguments)


@pytest.mark.parametrize("batch_tokens", [1, 12, 2048])
@pytest.mark.parametrize("word_cache", [0, 4, 1000])
def test_vectors_are_the_layers(layers, batch_tokens, word_cache):
    embedder = small(batch_tokens=batch_tokens, word_cache=word_cache)
    for _ in range(2):
        found = embedder.embed(SENTENCES, output="layers")
        assert [array.dtype for array in found] == ["float32"] * len(SENTENCES)
        for array, expected in zip(found, layers):
            assert_close(array, expected)


def test_outputs_and_pooling(layers):
    embedder = small()
    expected = {
        "mix": [array.mean(axis=0) for array in layers],
        "average": [array.mean(axis=0) for array in layers],
        "top": [array[-1] for array in layers],
    }
    for output, arrays in expected.items():
        for array, other in zip(embedder.embed(SENTENCES, output), arrays):
            assert_close(array, other)
        for pooling in ("mean", "max"):
            pooled = embedder.embed(SENTENCES, output, pooling)
            assert not pooled[1].any() and pooled[1].shape == pooled[0].shape
            assert_close(pooled[0], getattr(arrays[0], pooling)(axis=0))
    assert embedder.embed(SENTENCES, "layers", "mean")[0].shape == (3, layers[0].shape[-1])


def test_the_mix_is_the_layers_own(layers):
    elmo = ElmoLayer(TINY)
    elmo.mixes[0].layer_weights.assign([2.0, -1.0, 0.5])
    elmo.mixes[0].gamma.assign([3.0])
    shares = elmo.mixes[0].normalized_weights
    for array, expected in zip(Embedder(elmo).embed(SENTENCES), layers):
        assert_close(array, 3 * np.einsum("l,ltd->td", shares, expected), 5e-6)


def test_strings_iterators_and_nothing(layers):
    embedder = small()
    texts = (" ".join(tokens) for tokens in SENTENCES[:3])
    for array, expected in zip(embedder.embed(texts, "layers"), layers):
        assert_close(array, expected)
    assert embedder.embed([]) == []
    stream = embedder.stream(iter(SENTENCES[4:]), "layers")
    assert_close(next(stream), layers[4])


class Series:
    """Like a column of pandas: it iterates over its values."""

    def __init__(self, values):
        self._values = values

    def __iter__(self):
        return iter(self._values)

    def to_numpy(self):
        return np.array(self._values, dtype=object)


def test_tensors_arrays_and_series():
    tf = pytest.importorskip("tensorflow")
    embedder, texts = small(), ["The cat sat .", "", "naïve"]
    expected = embedder.embed(texts)
    tokens = [text.split() for text in texts]
    for sentences in (
        tf.constant(texts),
        np.array(texts),
        Series(texts),
        tf.data.Dataset.from_tensor_slices(texts),
        tf.ragged.constant(tokens, tf.string),
    ):
        for array, other in zip(embedder.embed(sentences), expected, strict=True):
            np.testing.assert_array_equal(array, other)
    padded = tf.ragged.constant(tokens, tf.string).to_tensor("")
    for rows in (padded, padded.numpy(), padded.numpy().tolist()):
        for array, other in zip(embedder.embed(rows), expected, strict=True):
            np.testing.assert_allclose(array[: len(other)], other, atol=1e-6)
            assert array.shape == (4, 24)
            assert not array[len(other) :].any()


def test_padding_is_that_of_the_layer():
    embedder, elmo = small(), ElmoLayer(TINY)
    rows = [["a", "b", ""], ["", "c"], ["", ""]]
    for row, array in zip(rows, embedder.embed(rows), strict=True):
        assert_close(array, to_numpy(elmo([row]))[0])
    for pooling in ("mean", "max"):
        found = embedder.embed(rows, pooling=pooling)
        expected = embedder.embed([["a", "b"], ["", "c"], []], pooling=pooling)
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("method", ["embed", "stream"])
def test_tables_and_sentences_in_a_column(method):
    embed = getattr(small(), method)
    with pytest.raises(ValueError, match=r'got a dict\. Pass the column .*data\["text"\]'):
        embed({"text": ["a b"]})
    with pytest.raises(ValueError, match="single string"):
        embed(np.array("a b"))
    with pytest.warns(UserWarning, match=r"white space.*each string is one token"):
        list(embed(np.array([["a b"], ["c d"]])))
    with pytest.warns(UserWarning, match=r"white space.*each string is one token"):
        list(embed([["a b"], ["c d"]]))


def test_each_word_is_encoded_once(monkeypatch):
    encoded = []
    embedder = small()
    encode = embedder._encode
    monkeypatch.setattr(embedder, "_encode", lambda keys: encoded.extend(keys) or encode(keys))
    embedder.embed([["a", "b", "a"], ["b", b"a"]])
    assert encoded == ["<S>", "</S>", b"<UNK>", b"a", b"b"]
    embedder.embed([["c", "a"]])
    assert encoded[5:] == [b"c"]
    assert (embedder.word_cache.hits, embedder.word_cache.misses) == (4, 6)


def test_long_texts_in_pieces(layers):
    tokens = SENTENCES[0] * 6
    whole = small().embed([tokens], "layers")[0]
    embedder = small(max_tokens=20, overlap=8)
    pieces = embedder.embed([SENTENCES[0], tokens], "layers")
    assert_close(pieces[0], layers[0])
    assert pieces[1].shape == whole.shape
    # The token vectors know no context; the first half of the first piece has all of its left one.
    assert_close(pieces[1][0], whole[0])
    dim = whole.shape[-1] // 2
    assert_close(pieces[1][:, :16, :dim], whole[:, :16, :dim])
    assert_close(pieces[1][:, 28:, dim:], whole[:, 28:, dim:])
    # Each token is of the piece in which it is nearer to the middle.
    second = small().embed([tokens[12:32]], "layers")[0]
    assert_close(pieces[1][:, 16:28], second[:, 4:16])


def test_too_large_a_batch_is_halved(monkeypatch, layers):
    run = CompiledSentences.run
    sizes = []

    def run_small(self, tokens, lengths):
        sizes.append(len(tokens))
        if len(tokens) > 2:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")
        return run(self, tokens, lengths)

    monkeypatch.setattr(CompiledSentences, "run", run_small)
    embedder = small()
    for array, expected in zip(embedder.embed(SENTENCES, "layers"), layers):
        assert_close(array, expected)
    assert sizes == [6, 3, 1, 2, 3, 1, 2]
    assert embedder.batch_tokens < 2048
    monkeypatch.setattr(CompiledSentences, "run", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError, match="piece of 7 tokens: make the Embedder with a smaller"):
        embedder.embed(SENTENCES[:1])
    monkeypatch.setattr(
        CompiledSentences, "run", lambda *_: (_ for _ in ()).throw(KeyError("other"))
    )
    with pytest.raises(KeyError, match="other"):
        embedder.embed(SENTENCES)


def test_files(tmp_path, layers):
    source, target = tmp_path / "text.txt", tmp_path / "vectors.h5"
    source.write_text("\n".join(" ".join(SENTENCES[i]) for i in (0, 1, 2, 4)) + "\n")
    assert small().embed_file(source, target, "layers").lines == 4
    with h5py.File(target) as file:
        for name, i in zip("0123", (0, 1, 2, 4)):
            assert_close(file[name][:], layers[i])
    with pytest.raises(FileNotFoundError):
        small().embed_file(tmp_path / "none.txt", target)


def test_words(tmp_path, monkeypatch):
    embedder = small()
    vectors = embedder.encode_words(["cat", b"mat", "cat"])
    tokens = to_numpy(embedder.layer.token_encoder(encode_sentences([["cat", "mat"]])))[0]
    assert_close(vectors, tokens[[1, 2, 1]])
    words = ["<S>", "</S>", "<UNK>", "cat", "mat"]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    embedder.dump_words(tmp_path / "words.txt", tmp_path / "words.h5")
    # bilm-tf's way of use: the file in the place of the character encoder.
    elmo = ElmoLayer(TINY, token_embeddings=tmp_path / "words.h5")
    table = Embedder(elmo, vocabulary=words)
    with monkeypatch.context() as patch:
        patch.delattr("keras_elmo.embedding.embedder.read_words")  # once is enough
        found = table.embed([["cat", b"mat"], ["dog"], ["<S>", "</S>"]])
    expected = embedder.embed([["cat", "mat"], ["<UNK>"], ["<UNK>", "<UNK>"]])
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    with pytest.raises(ValueError, match="has no <S> and no </S>: it must begin with"):
        Embedder(elmo, vocabulary=["cat"])
    with pytest.raises(ValueError, match="vocabulary has 4 words, the model's table 5"):
        Embedder(elmo, vocabulary=words[:-1])
    with pytest.raises(ValueError, match="vocabulary has 7 words, the model's table 5"):
        Embedder(elmo, vocabulary=[*words, "", "dog"])
    assert Embedder(elmo, vocabulary=[*words, ""]).embed(["cat"])  # a blank line at the end
    cache = WordCache.from_files(tmp_path / "words.h5", tmp_path / "words.txt")
    other = small(word_cache=cache)
    assert cache.misses == 0
    for one, two in zip(other.embed([["cat", "new"]]), embedder.embed([["cat", "new"]])):
        assert_close(one, two)
    assert cache.misses == 1
    remembered = small()
    remembered.remember_words(tmp_path / "words.txt")
    assert len(remembered.word_cache) == 5


def test_words_of_a_text_with_blank_lines_and_without_the_unknown_word(tmp_path):
    embedder = small()
    path = tmp_path / "words.txt"
    for end in ("", "\n"):  # the blank line at the end is a row, too
        path.write_text("mat\n</S>\n\ncat\n<S>\n" + end)
        embedder.dump_words(path, tmp_path / "words.h5")
        elmo = ElmoLayer(TINY, token_embeddings=tmp_path / "words.h5")
        table = Embedder(elmo, vocabulary=path)
        for text in (["cat", b"mat", "cat"], []):
            assert_close(table.embed([text])[0], embedder.embed([text])[0])
        assert_close(table.encode_words(["mat"]), embedder.encode_words(["mat"]))
        with pytest.raises(ValueError, match="The word 'dog' is not in the vocabulary"):
            table.embed([["cat", "dog"]])
        cache = WordCache.from_files(tmp_path / "words.h5", path)
        assert_close(small(word_cache=cache).embed(["cat dog"])[0], embedder.embed(["cat dog"])[0])


def test_half_precision(layers):
    embedder = small(dtype="mixed_bfloat16")
    for array, expected in zip(embedder.embed(SENTENCES[:1], "layers"), layers):
        assert array.dtype == np.float32
        assert 0 < np.abs(array - expected).max() < 0.05


def test_progress(capsys):
    small(progress=True).embed(SENTENCES)
    assert "embedding" in capsys.readouterr().err
    small().embed(SENTENCES)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_tokens": 0}, "batch_tokens must be an integer of at least 1, got 0"),
        ({"max_tokens": 8, "overlap": 8}, "overlap must be .* below max_tokens=8, got 8"),
        ({"word_cache": -1}, "max_words must be an integer of at least 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)


def test_bad_requests():
    embedder = small()
    for sentences, arguments, message in (
        ("one sentence", {}, "got the single string 'one sentence'. Put it into a list"),
        ([[1, 2]], {}, "Expected tokens to be strings, found 1 of type int"),
        ([["a"]], {"output": "sum"}, "output must be one of mix, layers, top, average; got 'sum'"),
        ([["a"]], {"pooling": "sum"}, "pooling must be None, 'mean' or 'max'; got 'sum'"),
    ):
        with pytest.raises(ValueError, match=message):
            embedder.embed(sentences, **arguments)
    with pytest.raises(ValueError, match="has no mix: make it with output='mix'"):
        Embedder(ElmoLayer(TINY, output="layers")).embed([["a"]])
    with pytest.raises(ValueError, match="layer_norm, which depends on the batch"):
        Embedder(ElmoLayer(TINY, layer_norm=True)).embed([["a"]])
    with pytest.raises(ValueError, match="dtype is set by the ElmoLayer"):
        Embedder(ElmoLayer(TINY), dtype="float16")
    with pytest.raises(ValueError, match="remembers 0 words, not 4: make it with word_cache=8"):
        small(word_cache=0).remember_words(["a"])
    words = ElmoConfig(filters=None, vocabulary_size=9, lstm_dim=8, projection_dim=4)
    with pytest.raises(
        ValueError, match=r"reads whole words: give the vocabulary \(--vocabulary\)"
    ):
        Embedder(ElmoLayer(None, config=words))


def test_the_vocabulary_beside_a_model_of_words_is_read(tmp_path, monkeypatch):
    config = ElmoConfig(filters=None, vocabulary_size=4, lstm_dim=8, projection_dim=4)
    ElmoLayer(None, config=config).export_hdf5(tmp_path)
    words = ["<S>", "</S>", "<UNK>", "cat"]
    with pytest.raises(ValueError, match=r"put it beside the weights as vocabulary\.txt"):
        Embedder(tmp_path)
    (tmp_path / "vocabulary.txt").write_text("\n".join(words))
    pair = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    expected = Embedder(tmp_path, vocabulary=words).embed(["cat dog"])[0]
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    register_model("words", tmp_path)
    for model in (tmp_path, str(tmp_path), pair, "words"):
        np.testing.assert_array_equal(Embedder(model).embed(["cat dog"])[0], expected)


@pytest.mark.parametrize("words", [["<S>", "</S>", "<UNK>"], ["cat", "sat"], ["<UNK>", "cat"]])
@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, "its vectors of .* are not those of this model's token encoder"),
        ({"projection_dim": 6}, "its vectors have 6 numbers, this model's have 12"),
    ],
)
def test_a_cache_of_another_model(tmp_path, words, changes, message):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(small().config, **changes)
    other = Embedder(ElmoLayer(None, config=config))
    paths = tmp_path / "words.h5", tmp_path / "words.txt"
    paths[1].write_text("\n".join(words) + "\n")
    other.dump_words(words, paths[0])
    assert len(Embedder(other.layer, word_cache=WordCache.from_files(*paths)).word_cache) > 1
    with pytest.raises(ValueError, match=f"word cache is of another model: {message}"):
        small(word_cache=WordCache.from_files(*paths))


@pytest.mark.parametrize("variant", ["default", "short_words"])
@pytest.mark.parametrize("character", ["x", "é", "日", "😀"])
def test_words_cut_at_any_byte(tmp_path, variant, character):
    embedder = Embedder(GOLDEN / variant)
    width, size = embedder.config.max_characters_per_token, len(character.encode())
    counts = range((width - 8) // size, (width + 12) // size)
    words = [
        "ab!"[:n] + character * count + end
        for n in range(4)
        for count in counts
        for end in ("", "y")
    ]
    ids = encode_sentences([words], width)
    expected = to_numpy(embedder.layer.token_encoder(ids))[0, 1:-1]
    assert_close(embedder.encode_words(words), expected)
    embedder.embed([words])
    assert embedder.word_cache.misses == 3 + len(set(map(embedder._key, words)))
    # What is remembered can be written and is met again, whole words of a vocabulary too.
    paths = tmp_path / "words.h5", tmp_path / "words.txt"
    embedder.word_cache.save(*paths)
    caches = [WordCache.from_files(*paths)]
    paths[1].write_text("\n".join(["<S>", "</S>", "<UNK>", *words]), encoding="utf-8")
    embedder.dump_words(paths[1], paths[0])
    caches.append(WordCache.from_files(*paths))
    again = [Embedder(GOLDEN / variant, word_cache=cache) for cache in caches]
    again.append(Embedder(GOLDEN / variant))
    again[-1].remember_words(paths[1])
    for other in again:
        misses = other.word_cache.misses
        assert_close(other.encode_words(words), expected)
        assert other.word_cache.misses == misses


def test_a_block_without_sentences():
    assert small().embed_block([]) == []


def test_threads_share_an_embedder():
    rng = random.Random(0)
    words = [f"w{i}" for i in range(60)]
    requests = [
        ([[rng.choice(words) for _ in range(rng.randrange(9))] for _ in range(3)], output)
        for output in ("mix", "layers") * 10
    ]
    alone = small(word_cache=0)
    expected = [alone.embed(*request) for request in requests]
    shared = small(word_cache=20)  # words come and go

    def largest_difference(i):
        pairs = zip(shared.embed(*requests[i]), expected[i], strict=True)
        return max(np.abs(one - other).max(initial=0) for one, other in pairs)

    with ThreadPoolExecutor(4) as threads:
        differences = list(threads.map(largest_difference, [*range(20)] * 3))
    differences += map(largest_difference, range(20))  # nothing wrong is left in the cache
    assert max(differences) < 2e-6


def test_an_empty_cache_belongs_to_the_first_model_that_uses_it():
    keras.utils.set_random_seed(1)
    cache = WordCache()
    first, second = small(word_cache=cache), small(word_cache=cache)
    other = Embedder(ElmoLayer(None, config=first.config), word_cache=cache)
    vectors = first.embed([["cat"]])[0]
    np.testing.assert_array_equal(second.embed([["cat"]])[0], vectors)
    assert cache.misses == 4
    for use in (other.embed, other.remember_words, other.encode_words):
        with pytest.raises(ValueError, match="of another model.* Give each model a WordCache of"):
            use(["dog"])
    assert len(cache) == 4


@pytest.mark.parametrize("same_weights", [True, False])
def test_a_cache_stays_that_of_a_model_that_reads_more_of_a_word(same_weights):
    keras.utils.set_random_seed(1)
    cache, owner = WordCache(), small()
    owner = Embedder(owner.layer, word_cache=cache)
    width = owner.config.max_characters_per_token
    longer = width * "x" + "y"
    expected = [small(word_cache=0).encode_words([word]) for word in (longer, longer[:12])]
    np.testing.assert_allclose(owner.encode_words([longer]), expected[0], atol=1e-6)
    config = dataclasses.replace(owner.config, max_characters_per_token=8)
    other = ElmoLayer(None, config=config)
    if same_weights:
        other.set_weights(owner.layer.get_weights())
    with pytest.raises(ValueError, match="word cache is of another model"):
        Embedder(other, word_cache=cache)
    np.testing.assert_allclose(owner.encode_words([longer[:12]]), expected[1], atol=1e-6)


@pytest.mark.parametrize("given", [100, None], ids=["own cache", "given cache"])
def test_words_are_encoded_anew_when_the_weights_change(given):
    cache = WordCache() if given is None else given
    embedder = small(word_cache=cache)
    before, encoder = embedder.embed(["the cat"])[0], embedder.layer.token_encoder
    if given is None:
        kept = cache.latest(5)[1]
    for change in (0.5, 1e-3):  # the smaller is not noticed by comparing vectors
        encoder.projection.kernel.assign(to_numpy(encoder.projection.kernel.value) * (1 + change))
        expected = to_numpy(embedder.layer(["the cat"]))[0]
        assert np.abs(expected - before).max() > 1e-5
        again = pickle.loads(pickle.dumps(embedder))
        for one in (embedder, again):
            assert_close(one.embed(["the cat"])[0], expected)
        before = expected
    assert len(embedder.word_cache) == 5
    lstm = embedder.layer.bilm.forward_lstms[1]
    lstm.recurrent_kernel.assign(to_numpy(lstm.recurrent_kernel.value) * 1.5)
    assert_close(embedder.embed(["the cat"])[0], to_numpy(embedder.layer(["the cat"]))[0])
    if given is None:  # as it may be another Embedder's, too
        np.testing.assert_array_equal(cache.latest(5)[1], kept)


def test_threads_see_new_weights_at_once():
    """From the first call after the change on, no thread gets a vector of the old weights."""
    embedder, words = small(), [f"word{i}" for i in range(40)]
    encoder = embedder.layer.token_encoder
    for factor in (1.0003, 0.9998, 2.0):
        embedder.encode_words(words)
        encoder.projection.kernel.assign(to_numpy(encoder.projection.kernel.value) * factor)
        expected = Embedder(embedder.layer, word_cache=0).encode_words(words)
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda _: embedder.encode_words(words), range(16)))
        assert max(np.abs(one - expected).max() for one in found) < 2e-6


def test_models_of_whole_words_have_no_cache(tmp_path):
    config = ElmoConfig(filters=None, vocabulary_size=4, lstm_dim=8, projection_dim=4)
    embedder = Embedder(ElmoLayer(None, config=config), vocabulary=["<S>", "</S>", "<UNK>", "cat"])
    embedder.remember_words(["cat"])
    assert embedder.word_cache is None
    table = embedder.layer.token_encoder.embedding
    table.assign(2 * to_numpy(table.value))
    np.testing.assert_array_equal(embedder.encode_words(["cat"]), to_numpy(table.value)[3:])


def test_a_failed_first_word_does_not_bind_a_cache(monkeypatch):
    cache = WordCache()
    first = small(word_cache=cache)
    other = Embedder(ElmoLayer(None, config=first.config), word_cache=cache)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(other, "_encode", lambda keys: (_ for _ in ()).throw(KeyboardInterrupt))
        other.embed(["cat"])
    first.embed(["cat"])
    with pytest.raises(ValueError, match="of another model"):
        other.embed(["cat"])


def test_pickled():
    embedder = small(batch_tokens=64, overlap=7)
    vectors = embedder.embed(SENTENCES)
    again = pickle.loads(pickle.dumps(embedder))
    assert (again.batch_tokens, again.overlap, again.dtype) == (64, 7, embedder.dtype)
    misses = again.word_cache.misses
    for one, other in zip(again.embed(SENTENCES), vectors):
        np.testing.assert_array_equal(one, other)
    assert again.word_cache.misses == misses
    assert pickle.loads(pickle.dumps(small(word_cache=0))).word_cache is None


def test_shown():
    assert repr(Embedder()) == "<Embedder dim=256, dtype='float32'>"
    assert small().encode_words([]).shape == (0, 12)


def test_a_forked_process_is_told_to_be_spawned(monkeypatch):
    embedder = small()
    embedder.layer([["a"]])
    monkeypatch.setattr(process.os, "getpid", lambda: -1)
    uses = [lambda: embedder.embed([["a"]]), lambda: embedder.encode_words(["a"])]
    for use in [*uses, small, lambda: embedder.layer([["a"]])]:
        with pytest.raises(RuntimeError, match=r'was forked .*set_start_method\("spawn"\)'):
            use()


PY_DATASET = """
import multiprocessing, sys
import keras, numpy as np
from keras_elmo import Embedder

class Vectors(keras.utils.PyDataset):
    def __init__(self, embedder, **arguments):
        super().__init__(**arguments)
        self.embedder = embedder

    def __len__(self):
        return 4

    def __getitem__(self, index):
        vectors = self.embedder.embed([["a", "b"]] * 2, pooling="mean")
        return np.stack(vectors), np.zeros((2, 1))

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    dataset = Vectors(Embedder(sys.argv[1]), workers=2, use_multiprocessing=True)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    print(model.fit(dataset, verbose=0).history)
"""


@pytest.mark.slow
def test_processes_of_a_py_dataset(tmp_path):
    (tmp_path / "program.py").write_text(PY_DATASET)
    root = str(Path(__file__).parents[2])

    def run(start_method):
        return subprocess.run(
            [sys.executable, str(tmp_path / "program.py"), str(TINY), start_method],
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            timeout=300,
        )

    spawned = run("spawn")
    assert spawned.returncode == 0 and "loss" in spawned.stdout, spawned.stderr
    forked = run("fork")
    assert forked.returncode == 1 and "This process was forked" in forked.stderr


def test_no_warning_of_retracing():
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("tensorflow").addHandler(handler)
    for _ in range(3):
        embedder = small(word_cache=0)
        for i in range(1, 5):
            for output in ("mix", "top"):
                embedder.embed([["a"] * i, ["b"]], output)
                embedder.embed([["a" * 5 * i]], output)
    logging.getLogger("tensorflow").removeHandler(handler)
    assert not [record for record in records if "retracing" in record.getMessage()]

"""Many sentences at once: the vectors of the layer, whatever the batches."""

import functools
import logging
import os
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest

from helpers import GOLDEN, TINY, assert_close, to_numpy
from keras_elmo import (
    ElmoConfig,
    ElmoLayer,
    Embedder,
    encode_sentences,
    register_model,
)
from keras_elmo.embedding.sentence_vectors import SentenceVectors
from keras_elmo.embedding.word_vectors import WordVectors
from keras_elmo.layers import process
from keras_elmo.ops.compiled import CompiledFunction
from keras_elmo.pretrained import registry

SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    [],
    ["a"],
    ["naïve", "", "cafés", "🙂" * 30, ""],  # an empty word, and padding
    ["the", "cat", "the", "cat"],
    ["<S>", "</S>", "<UNK>"],
]

# For tests that compile much: one LSTM.
SMALL = ElmoConfig(((1, 4),), lstm_dim=8, projection_dim=4, num_layers=1, bidirectional=False)


@pytest.fixture(scope="module")
def layers():
    """All layers of SENTENCES by the layer itself."""
    outputs = to_numpy(ElmoLayer(TINY, vectors="layers")(SENTENCES))
    return [array[:, : len(tokens)] for array, tokens in zip(outputs, SENTENCES)]


def small(**arguments):
    return Embedder(TINY, **arguments)


@pytest.fixture(scope="module")
def embedder():
    """Of a cache with fewer words than some sentences have."""
    return small(word_cache=4)


def assert_all_close(found, expected, tolerance=2e-6):
    for array, other in zip(found, expected, strict=True):
        assert_close(array, other, tolerance)


def test_vectors_are_the_layers(layers, embedder, monkeypatch):
    for batch_tokens in (12, 12, 1):
        monkeypatch.setattr(embedder, "batch_tokens", batch_tokens)
        found = embedder.embed(SENTENCES, vectors="layers")
        assert [array.dtype for array in found] == ["float32"] * len(SENTENCES)
        assert_all_close(found, layers)


def test_outputs_and_pooling(layers, embedder):
    expected = {
        "mix": [array.mean(axis=0) for array in layers],
        "average": [array.mean(axis=0) for array in layers],
        "sum": [array.sum(axis=0) for array in layers],
        "top": [array[-1] for array in layers],
    }
    for output, arrays in expected.items():
        assert_all_close(embedder.embed(SENTENCES, output), arrays)
        for pooling in ("mean", "max"):
            pooled = embedder.embed(SENTENCES, output, pooling)
            assert not pooled[1].any() and pooled[1].shape == pooled[0].shape
            assert_close(pooled[0], getattr(arrays[0], pooling)(axis=0))
    assert embedder.embed(SENTENCES, "layers", "mean")[0].shape == (3, layers[0].shape[-1])


def test_arrays_of_float16(embedder, monkeypatch):
    monkeypatch.setattr("keras_elmo.embedding.embedder._CHUNK_TOKENS", 64)
    for sentences, arguments in (
        (SENTENCES[:2], {}),
        (SENTENCES[:2], {"pad_to": 7}),
        (LONG[1:3], {}),  # in pieces
        (LONG[1:3], {"pooling": "mean"}),
    ):
        found = embedder.embed(sentences, "top", dtype="float16", **arguments)
        expected = embedder.embed(sentences, "top", **arguments)
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other.astype(array.dtype))
        assert found[0].dtype == "float16"
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float16'"):
        embedder.embed(["a"], dtype="bfloat16")


def test_strings_iterators_and_nothing(layers, embedder):
    texts = (" ".join(tokens) for tokens in SENTENCES[:3])
    assert_all_close(embedder.embed(texts, "layers"), layers[:3])
    assert embedder.embed([]) == list(embedder.stream([])) == []
    assert embedder.encode_words([]).shape == (0, 12)
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


def test_tensors_arrays_series_and_docs(embedder):
    tf = pytest.importorskip("tensorflow")
    texts = ["The cat sat .", "", "naïve"]
    expected = embedder.embed(texts)
    tokens = [text.split() for text in texts]
    for sentences in (
        tf.constant(texts),
        np.array(texts),
        Series(texts),
        tf.data.Dataset.from_tensor_slices(texts),
        tf.ragged.constant(tokens, tf.string),
        [tuple(SimpleNamespace(text=x) for x in row) for row in tokens],  # as a Doc of spaCy
    ):
        assert_all_close(embedder.embed(sentences), expected, 0)
    padded = tf.ragged.constant(tokens, tf.string).to_tensor("")
    for rows in (padded, padded.numpy(), padded.numpy().tolist()):
        for array, other in zip(embedder.embed(rows), expected, strict=True):
            np.testing.assert_allclose(array[: len(other)], other, atol=1e-6)
            assert array.shape == (4, 24)
            assert not array[len(other) :].any()


def test_padding_is_that_of_the_layer(embedder):
    elmo = ElmoLayer(TINY)
    rows = [["a", "b", ""], ["", "c"], ["", ""]]
    assert_all_close(embedder.embed(rows), [to_numpy(elmo([row]))[0] for row in rows])
    for pooling in ("mean", "max"):
        found = embedder.embed(rows, pooling=pooling)
        expected = embedder.embed([["a", "b"], ["", "c"], []], pooling=pooling)
        assert_all_close(found, expected, 0)
    (kept,) = embedder.embed(rows[:1], boundaries=True)  # padding follows </S>
    (expected,) = embedder.embed([["a", "b"]], boundaries=True)
    np.testing.assert_array_equal(kept, np.pad(expected, ((0, 1), (0, 0))))


@pytest.mark.parametrize("kind", ["layers", "top"])
@pytest.mark.parametrize("pad_to, width", [("longest", 9), (np.int64(12), 12)])
def test_one_padded_array_and_its_mask(embedder, kind, pad_to, width):
    expected = embedder.embed(SENTENCES, kind, boundaries=True)
    found, mask = embedder.embed(iter(SENTENCES), kind, boundaries=True, pad_to=pad_to)
    layers = (3,) if kind == "layers" else ()
    assert found.shape == (6, *layers, width, 24) and found.dtype == np.float32
    assert mask.sum(axis=1).tolist() == [9, 2, 3, 6, 6, 5]  # padding of the input is not counted
    for array, row, other in zip(found, mask, expected, strict=True):
        length = row.sum()
        assert row[:length].all() and not array[..., length:, :].any()
        np.testing.assert_allclose(array[..., :length, :], other[..., :length, :], atol=1e-6)


def test_padded_arrays_of_nothing_and_in_a_model(embedder):
    for pad_to, width in (("longest", 0), (5, 5)):
        vectors, mask = embedder.embed([], "layers", pad_to=pad_to)
        assert vectors.shape == (0, 3, width, 24) and mask.shape == (0, width)
    vectors, mask = embedder.embed(SENTENCES, pad_to=8)
    inputs, given = keras.Input((None, 24)), keras.Input((None,), dtype="bool")
    mean = keras.layers.GlobalAveragePooling1D()
    model = keras.Model([inputs, given], mean(inputs, mask=given))
    rows = [0, 2, 3, 4]
    expected = np.stack(embedder.embed(SENTENCES, pooling="mean"))[rows]
    assert_close(to_numpy(model([vectors[rows], mask[rows]])), expected)
    masked = keras.Sequential([keras.layers.Masking(), mean])
    assert_close(to_numpy(masked(vectors[rows])), expected)


@pytest.mark.parametrize("method", ["embed", "stream"])
def test_tables_and_sentences_in_a_column(method, embedder):
    embed = getattr(embedder, method)
    with pytest.raises(ValueError, match=r'got a dict\. Pass the column .*data\["text"\]'):
        embed({"text": ["a b"]})
    for column in ([["a b"], ["c d"]], np.array([["a b"], ["c d"]])):
        with pytest.warns(UserWarning, match=r"white space.*each string is one token") as warned:
            list(embed(column))
        assert warned[0].filename == __file__


def test_each_word_is_encoded_once(embedder, monkeypatch):
    encoded, encode = [], WordVectors.encode
    monkeypatch.setattr(
        WordVectors, "encode", lambda s, keys: encoded.append(len(keys)) or encode(s, keys)
    )
    monkeypatch.setattr(embedder, "_words", WordVectors(embedder.layer, None, max_words=9))
    embedder.embed([["a", "b", "a"], ["b", b"a"]])
    embedder.embed([["b", "a"]])
    assert encoded == [4]  # with the two boundaries
    embedder.embed([["c", "a"]])
    assert encoded == [4, 1]


RAW = ["He left. She  stayed.", "", ["a", "list"], "Why? Who knows."]
SPLIT = ["He left .", "She stayed .", "", "a list", "Why ?", "Who knows ."]


def test_raw_texts_are_their_sentences(embedder, tmp_path):
    def tokens(text):
        return [s.split() for s in {RAW[0]: SPLIT[:2], "": [], RAW[3]: SPLIT[4:]}[text]]

    one = embedder.embed(SPLIT, vectors="layers")
    expected = [np.concatenate(one[:2], 1), one[2], one[3], np.concatenate(one[4:], 1)]
    found = embedder.embed(RAW, vectors="layers", tokenize=tokens)
    assert_all_close(found, expected, 1e-6)
    pooled = embedder.embed(RAW, vectors="top", pooling="max", tokenize=tokens)
    assert_all_close(pooled[::3], [array[-1].max(axis=0) for array in expected[::3]], 1e-6)
    one = embedder.embed(SPLIT, boundaries=True)
    expected = [np.concatenate(one[:2]), one[2], one[3], np.concatenate(one[4:])]
    found = embedder.embed(RAW, tokenize=tokens, boundaries=True)
    assert [len(array) for array in found] == [10, 2, 4, 9]
    assert_all_close(found, expected, 1e-6)
    padded, mask = embedder.embed(RAW, tokenize=tokens, boundaries=True, pad_to="longest")
    assert mask.sum(axis=1).tolist() == [10, 2, 4, 9]
    np.testing.assert_allclose(padded[mask], np.concatenate(expected), atol=1e-6)
    text, target = tmp_path / "text.txt", tmp_path / "v.h5"
    text.write_text(RAW[0])
    for function in (functools.partial(tokens), lambda text: tokens(text), tokens):
        embedder.embed_file(text, target, tokenize=function, overwrite=True)
        with pytest.raises(ValueError, match="made with tokenize="):
            embedder.embed_file(text, target, tokenize=lambda text: [[text]], resume=True)
    assert embedder.embed_file(text, target, tokenize=tokens, resume=True).was_complete
    tokens.__qualname__ = "tokens"
    embedder.embed_file(text, target, tokenize=tokens, overwrite=True)

    def other(text):
        return [[text]]

    other.__qualname__ = "tokens"
    with pytest.raises(ValueError, match="made with tokenize='test_embedder.tokens [0-9a-f]{16}'"):
        embedder.embed_file(text, target, tokenize=other, resume=True)
    with pytest.raises(ValueError, match="tokenize must be True, the code of a language, or a fun"):
        embedder.embed(RAW, tokenize=3)


@pytest.mark.needs("spacy", "syntok")
def test_raw_text_by_its_language(embedder, tmp_path):
    (tmp_path / "text.txt").write_text(f"{RAW[0]}\n\n{RAW[3]}\n")
    embedder.embed_file(tmp_path / "text.txt", tmp_path / "v.h5", tokenize="en")
    expected = embedder.embed([RAW[0], "", RAW[3]], tokenize=True)
    with h5py.File(tmp_path / "v.h5") as file:
        assert_all_close([file[str(i)][()] for i in range(3)], expected, 1e-6)
    assert [len(array) for array in expected] == [6, 0, 5]
    with pytest.raises(ValueError, match="made with tokenize="):
        embedder.embed_file(tmp_path / "text.txt", tmp_path / "v.h5", resume=True)


def test_raw_text_is_hinted_at_once(embedder, monkeypatch, caplog):
    monkeypatch.setattr(embedder, "_has_hinted", False)
    embedder.embed(["It rained .", "Mr. X left", "He left. She"])
    assert not caplog.records
    for _ in range(2):
        embedder.embed(["It rained.", "Who knows?", "Nobody ."])
    (record,) = caplog.records
    assert "end in punctuation, such as 'rained.'" in record.message


LONG = [SENTENCES[0] * 6, SENTENCES[0] * 5, ["a"] * 20, SENTENCES[4] * 3, ["the"], []]


@pytest.mark.parametrize(
    "variant, batch_tokens",
    [
        ("default", 2048),
        ("one_direction", 1),
        pytest.param("noskip", 1, marks=pytest.mark.slow),
        pytest.param("three_layers", 2048, marks=pytest.mark.slow),
    ],
)
def test_long_texts_are_read_exactly_in_pieces(variant, batch_tokens, embedder, monkeypatch):
    monkeypatch.setattr("keras_elmo.embedding.embedder._CHUNK_TOKENS", 16)
    if variant == "one_direction":
        config = ElmoConfig(((1, 4),), lstm_dim=8, projection_dim=4, bidirectional=False)
        embedder = Embedder(ElmoLayer(None, config=config))
    elif variant != "default":
        embedder = Embedder(GOLDEN / variant)
    monkeypatch.setattr(embedder, "batch_tokens", batch_tokens)
    ids = encode_sentences(LONG, embedder.config.max_characters_per_token)
    expected = to_numpy(embedder.layer.backbone(ids, mask=ids.any(axis=-1)))
    chosen = {"layers": lambda x: x, "top": lambda x: x[-1], "average": lambda x: x.mean(axis=0)}
    for output, edge in (("layers", 0), ("layers", 1), ("top", 0), ("average", 1)):
        found = embedder.embed(LONG, output, boundaries=not edge)
        for array, layers, tokens in zip(found, expected, LONG, strict=True):
            assert_close(array, chosen[output](layers[:, edge : len(tokens) + 2 - edge]))


def test_a_long_text_is_in_memory_a_piece_at_a_time(embedder, monkeypatch):
    sizes, call = [], CompiledFunction.__call__
    monkeypatch.setattr(
        CompiledFunction, "__call__", lambda s, *x: sizes.append(x[0].shape) or call(s, *x)
    )
    monkeypatch.setattr(embedder, "batch_tokens", 64)
    embedder.embed([["a", "b"] * 500], "top")
    assert max(np.prod(shape[:2]) for shape in sizes if len(shape) == 3) == 64


@pytest.mark.parametrize("fails", ["when started", "when awaited"])
def test_too_large_a_batch_is_halved(monkeypatch, embedder, layers, fails):
    start, sizes = SentenceVectors.start, []

    def out_of_memory():
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")

    def start_small(self, table, sentences, *arguments):
        sizes.append(len(sentences))
        if len(sentences) <= 2:
            return start(self, table, sentences, *arguments)
        return out_of_memory if fails == "when awaited" else out_of_memory()

    monkeypatch.setattr(SentenceVectors, "start", start_small)
    monkeypatch.setattr(embedder, "batch_tokens", 2048)
    assert_all_close(embedder.embed(SENTENCES, "layers"), layers)
    assert sizes == [6, 3, 1, 2, 3, 1, 2]
    assert embedder.batch_tokens < 2048
    monkeypatch.setattr(SentenceVectors, "start", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError, match="Not enough memory: make the Embedder with a smaller"):
        embedder.embed(SENTENCES[:1])
    monkeypatch.setattr(
        SentenceVectors, "start", lambda *_: (_ for _ in ()).throw(KeyError("other"))
    )
    with pytest.raises(KeyError, match="other"):
        embedder.embed(SENTENCES)


def test_the_files_of_the_model_are_no_output(tmp_path):
    (tmp_path / "text.txt").write_text("the cat\n")
    folder = shutil.copytree(TINY, tmp_path / "model")
    weights = folder / "weights.hdf5"
    before = weights.read_bytes()
    names = folder.rename(tmp_path / "names") / "elmo_weights.hdf5"
    (tmp_path / "names" / "weights.hdf5").rename(names)
    shutil.copytree(TINY, folder)
    by_name, pair = Embedder(names.parent, progress=False), (folder / "options.json", weights)
    with pytest.raises(ValueError, match="is an input and would be overwritten"):
        by_name.dump_words(["a"], names, overwrite=True)
    embedders = [Embedder(model, progress=False) for model in (folder, pair)]
    for embedder in (*embedders, pickle.loads(pickle.dumps(embedders[0]))):
        with pytest.raises(ValueError, match="is an input and would be overwritten"):
            embedder.dump_words(["a"], weights, overwrite=True)
        with pytest.raises(ValueError, match="is an input and would be overwritten"):
            embedder.embed_file(tmp_path / "text.txt", weights, overwrite=True)
    assert weights.read_bytes() == before


def test_words(tmp_path, monkeypatch, embedder):
    vectors = embedder.encode_words(["cat", b"mat", "cat"])
    tokens = to_numpy(embedder.layer.token_encoder(encode_sentences([["cat", "mat"]])))[0]
    assert_close(vectors, tokens[[1, 2, 1]])
    words = ["<S>", "</S>", "<UNK>", "cat", "mat"]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n")
    assert embedder.dump_words(tmp_path / "words.txt", tmp_path / "words.h5") == 5
    with pytest.raises(FileExistsError, match="words.h5 exists already"):
        embedder.dump_words(words, tmp_path / "words.h5")
    with pytest.raises(ValueError, match="is an input and would be overwritten"):
        embedder.dump_words(tmp_path / "words.txt", tmp_path / "words.txt", overwrite=True)
    late = tmp_path / "late.h5"
    with monkeypatch.context() as patch, pytest.raises(FileExistsError, match="late.h5 exists"):
        patch.setattr(embedder._words, "keys", lambda words: late.touch() or words)
        embedder.dump_words(words, late)
    assert late.read_bytes() == b""  # of another process
    # bilm-tf's way of use: the file in the place of the character encoder.
    elmo = ElmoLayer(TINY, token_embeddings=tmp_path / "words.h5")
    table = Embedder(elmo, vocabulary=words)
    with monkeypatch.context() as patch:
        patch.delattr("keras_elmo.embedding.embedder.read_words")  # once is enough
        found = table.embed([["cat", b"mat"], ["dog"], ["<S>", "</S>"]])
    expected = embedder.embed([["cat", "mat"], ["<UNK>"], ["<UNK>", "<UNK>"]])
    assert_all_close(found, expected)
    with pytest.raises(ValueError, match="has no <S> and no </S>: it must begin with"):
        Embedder(elmo, vocabulary=["cat"])
    with pytest.raises(ValueError, match="vocabulary has 4 words, the model's table 5"):
        Embedder(elmo, vocabulary=words[:-1])
    with pytest.raises(ValueError, match="vocabulary has 7 words, the model's table 5"):
        Embedder(elmo, vocabulary=[*words, "", "dog"])
    assert Embedder(elmo, vocabulary=[*words, ""]).embed(["cat"])  # a blank line at the end


def test_words_of_a_text_with_blank_lines_and_without_the_unknown_word(tmp_path, embedder):
    path = tmp_path / "words.txt"
    for end in ("", "\n"):  # the blank line at the end is a row, too
        path.write_text("mat\n</S>\n\ncat\n<S>\n" + end)
        embedder.dump_words(path, tmp_path / "words.h5", overwrite=bool(end))
        elmo = ElmoLayer(TINY, token_embeddings=tmp_path / "words.h5")
        table = Embedder(elmo, vocabulary=path)
        assert_close(table.encode_words(["mat"]), embedder.encode_words(["mat"]))
        with pytest.raises(ValueError, match="The word 'dog' is not in the vocabulary"):
            table.embed([["cat", "dog"]])
    for text in (["cat", b"mat", "cat"], []):
        assert_close(table.embed([text])[0], embedder.embed([text])[0])


def test_half_precision(layers):
    """Of a layer, too, which computes in another dtype itself."""
    layer = ElmoLayer(TINY)
    for model in (TINY, layer):
        embedder = Embedder(model, compute_dtype="mixed_bfloat16")
        assert embedder.compute_dtype == "mixed_bfloat16"
        for array, expected in zip(embedder.embed(SENTENCES[:1], "layers"), layers):
            assert array.dtype == np.float32
            assert 0 < np.abs(array - expected).max() < 0.05
    half = Embedder(ElmoLayer(TINY, dtype="mixed_bfloat16"), compute_dtype="float32")
    assert_close(half.embed(SENTENCES[:1], "layers")[0], layers[0])
    assert Embedder(layer).compute_dtype == layer.bilm_dtype_policy.name == "float32"


def test_progress(capsys, embedder, monkeypatch):
    embedder.embed(["a"])
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(embedder, "progress", True)
    embedder.embed(["a"])
    assert "embedding" in capsys.readouterr().err


def test_bad_requests(embedder):
    for sentences, arguments, message in (
        ("one sentence", {}, "got the single string 'one sentence'. Put it into a list"),
        ([[1, 2]], {}, "Expected tokens to be strings, found 1 of type int"),
        ([["a"]], {"pooling": "sum"}, "pooling must be None, 'mean' or 'max'; got 'sum'"),
        (
            [["a"]],
            {"pooling": "max", "boundaries": True},
            "boundaries and pooling cannot be combined: pooling never includes boundaries",
        ),
        ([["a"]], {"pooling": "mean", "pad_to": 3}, "pad_to and pooling cannot be combined"),
        ([["a"]], {"truncate": True}, "truncate=True needs a number of tokens, pad_to"),
        ([["a"]], {"pad_to": "long"}, "pad_to, unless it is 'longest', must be .* got 'long'"),
        ([["a"]], {"pad_to": 0}, "must be an integer of at least 1; got 0"),
        (["a b", "a b c"], {"pad_to": 2}, r"sentences\[1\] has 3 tokens, more than pad_to=2"),
    ):
        with pytest.raises(ValueError, match=message):
            embedder.embed(sentences, **arguments)
    with pytest.raises(ValueError, match="got the single string 'bank'. Put it into a list"):
        embedder.encode_words("bank")
    for use in (embedder.encode_words, lambda words: embedder.dump_words(words, "none.h5")):
        with pytest.raises(ValueError, match="Expected tokens to be strings, found nan of type"):
            use(["bank", float("nan")])
    with pytest.raises(ValueError, match="batch_tokens must be an integer of at least 1; got 0"):
        small(batch_tokens=0)
    with pytest.raises(ValueError, match="word_cache must be an integer of at least 0; got -1"):
        small(word_cache=-1)
    with pytest.raises(ValueError, match="has vectors='layers' and no mix: pass"):
        Embedder(ElmoLayer(TINY, vectors="layers")).embed([["a"]])
    with pytest.raises(ValueError, match="layer_norm, which depends on the batch"):
        Embedder(ElmoLayer(TINY, layer_norm=True)).embed([["a"]])
    words = ElmoConfig(filters=None, vocabulary_size=9, lstm_dim=8, projection_dim=4)
    with pytest.raises(ValueError, match="reads whole words: pass vocabulary="):
        Embedder(ElmoLayer(None, config=words))


def test_the_vocabulary_beside_a_model_of_words_is_read(tmp_path, monkeypatch):
    config = ElmoConfig(None, vocabulary_size=4, lstm_dim=8, projection_dim=4, num_layers=1)
    ElmoLayer(None, config=config).export_hdf5(tmp_path)
    words = ["<S>", "</S>", "<UNK>", "cat"]
    with pytest.raises(ValueError, match=r"put them next to the weights as vocabulary\.txt"):
        Embedder(tmp_path)
    (tmp_path / "vocabulary.txt").write_text("\n".join(words))
    pair = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    embedder = Embedder(tmp_path, vocabulary=words)
    table = to_numpy(embedder.layer.token_encoder.embedding.value)
    np.testing.assert_array_equal(embedder.encode_words(["cat"]), table[3:])
    expected = embedder.embed(["cat dog"])[0]
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    register_model("words", tmp_path)
    for model in (tmp_path, str(tmp_path), pair, "words"):
        assert Embedder(model).vocabulary == words
    np.testing.assert_array_equal(Embedder(tmp_path).embed(["cat dog"])[0], expected)


@pytest.mark.parametrize("variant", ["default", "short_words"])
def test_words_cut_at_any_byte(variant):
    embedder = Embedder(GOLDEN / variant)
    width = embedder.config.max_characters_per_token
    words = [
        "ab!"[:n] + character * count + end
        for character, size in (("x", 1), ("é", 2), ("日", 3), ("😀", 4))
        for n in range(4)
        for count in range((width - 8) // size, (width + 12) // size)
        for end in ("", "y")
    ]
    ids = encode_sentences([words], width)
    expected = to_numpy(embedder.layer.token_encoder(ids))[0, 1:-1]
    assert_close(embedder.encode_words(words), expected)


def test_threads_share_an_embedder():
    rng = random.Random(0)
    words = [f"w{i}" for i in range(60)]
    elmo = ElmoLayer(None, config=SMALL)
    requests = [
        ([[rng.choice(words) for _ in range(rng.randrange(9))] for _ in range(3)], output)
        for output in ("mix", "layers") * 10
    ]
    alone, shared = Embedder(elmo, word_cache=0), Embedder(elmo, word_cache=20)
    expected = [alone.embed(*request) for request in requests]

    def largest_difference(i):
        # In the cache of 20 words, words come and go.
        pairs = zip(shared.embed(*requests[i]), expected[i], strict=True)
        return max(np.abs(one - other).max(initial=0) for one, other in pairs)

    with ThreadPoolExecutor(4) as threads:
        differences = list(threads.map(largest_difference, [*range(20)] * 3))
    differences += map(largest_difference, range(20))  # nothing wrong is left in the cache
    assert max(differences) < 2e-6


def test_the_weights_are_those_that_the_layer_had():
    """Later, neither token vectors, which are cached, nor others change, nor those of a pickle."""
    elmo = ElmoLayer(None, config=SMALL)
    elmo.mixes[0].layer_weights.assign([2.0, -1.0])
    elmo.mixes[0].gamma.assign([3.0])
    embedder = Embedder(elmo, batch_tokens=64, word_cache=7)
    expected = to_numpy(elmo([["the", "cat"]]))[0]
    assert_close(embedder.embed(["the"])[0], expected[:1])  # before a cat is met
    for part in (elmo.token_encoder, elmo.bilm, elmo.mixes[0]):
        part.set_weights([1.5 * weight for weight in part.get_weights()])
    now = to_numpy(elmo([["the", "cat"]]))[0]
    assert np.abs(now - expected).max() > 0.01
    pickled = pickle.loads(pickle.dumps(embedder))
    assert (pickled.batch_tokens, pickled.word_cache) == (64, 7)
    assert pickled.compute_dtype == embedder.compute_dtype
    for one in (embedder, pickled):
        assert_close(one.embed(["the cat"])[0], expected)
    assert_close(Embedder(elmo).embed(["the cat"])[0], now)


def test_a_forked_process_is_told_to_be_spawned(embedder, monkeypatch):
    assert repr(embedder) == "<Embedder dim=24, compute_dtype='float32'>"
    monkeypatch.setattr(process.os, "getpid", lambda: -1)
    uses = [lambda: embedder.embed([["a"]]), lambda: embedder.encode_words(["a"])]
    for use in [*uses, small, lambda: embedder.layer([["a"]])]:
        with pytest.raises(RuntimeError, match=r'Forked processes .*set_start_method\("spawn"\)'):
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
        return 2

    def __getitem__(self, index):
        vectors = self.embedder.embed([["a", "b"]] * 2, pooling="mean")
        return np.stack(vectors), np.zeros((2, 1))

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    dataset = Vectors(Embedder(sys.argv[1]), workers=1, use_multiprocessing=True)
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
    assert forked.returncode == 1 and "Forked processes cannot use ELMo layers" in forked.stderr


def test_no_warning_of_retracing():
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("tensorflow").addHandler(handler)
    elmo = ElmoLayer(None, config=SMALL)
    for _ in range(2):
        embedder = Embedder(elmo, word_cache=0)
        for i in range(1, 4):
            for output in ("mix", "top"):
                embedder.embed([["a"] * i, ["b"]], output)
                embedder.embed([["a" * 5 * i]], output)
    logging.getLogger("tensorflow").removeHandler(handler)
    assert not [record for record in records if "retracing" in record.getMessage()]

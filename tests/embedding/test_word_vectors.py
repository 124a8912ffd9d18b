"""Vectors of words, and of those met before, in bounded memory."""

import numpy as np
import pytest

from helpers import TINY
from keras_elmo import Embedder
from keras_elmo.embedding.word_vectors import WordCache
from many_languages import MANY_LANGUAGES


def vectors_of(keys):
    """Vectors that tell which word they are of."""
    numbers = [[len(key), sum(map(ord, str(key)))] for key in keys]
    return np.array(numbers, "float32").reshape(len(keys), 2)


@pytest.fixture
def encoded():
    return []


@pytest.fixture
def make(encoded):
    return lambda size: WordCache(size, lambda keys: encoded.extend(keys) or vectors_of(keys))


def test_the_words_used_last_are_kept(make, encoded):
    cache = make(3)
    for keys in (["<S>", b"b"], [b"c"], ["<S>"], [b"d"]):
        np.testing.assert_array_equal(cache.vectors(keys), vectors_of(keys))
    assert len(cache) == 3
    del encoded[:]
    cache.vectors([b"d", "<S>", b"c"])
    assert encoded == []
    cache.vectors([b"b", b"c"])
    assert encoded == [b"b"]


@pytest.mark.parametrize("size", [0, 5])
def test_more_words_at_once_than_it_keeps(make, rng, size):
    cache = make(size)
    for _ in range(50):
        keys = [b"%d" % i for i in rng.permutation(12)[: rng.integers(0, 12)]]
        np.testing.assert_array_equal(cache.vectors(keys), vectors_of(keys))
        assert len(cache) <= size


@pytest.mark.parametrize("model", ["default", TINY, MANY_LANGUAGES / "word_char"], ids=str)
def test_a_vector_does_not_depend_on_what_is_encoded_with_it(model, rng):
    """Not in its last bit: so a run that resumes without cached words writes the same file."""
    embedder = Embedder(model, word_cache=0)
    words = ["".join(rng.choice([*"abcdeé猫"], size=n)) for n in rng.integers(1, 60, size=300)]
    expected = embedder.encode_words(words)
    for size in (1, 7, 64, 100, 299):
        some = rng.permutation(300)[:size]
        found = embedder.encode_words([words[i] for i in some])
        np.testing.assert_array_equal(found, expected[some])

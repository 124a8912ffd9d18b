"""Vectors of words met before, in bounded memory."""

import copy

import h5py
import numpy as np
import pytest

from keras_elmo import WordCache
from keras_elmo.pretrained.hdf5 import write_token_embeddings


def encode(keys):
    """Vectors that tell which word they are of."""
    return np.array([[len(key), sum(map(ord, str(key)))] for key in keys], "float32")


def refuse(keys):
    raise AssertionError(f"{keys} were not remembered")


def test_least_recently_used_go_first():
    cache = WordCache(max_words=3)
    for keys in ([b"a", b"b"], [b"c"], [b"a"], [b"d"]):
        np.testing.assert_array_equal(cache.fetch(keys, encode), encode(keys))
    assert len(cache) == 3
    np.testing.assert_array_equal(
        cache.fetch([b"d", b"a", b"c"], refuse), encode([b"d", b"a", b"c"])
    )
    seen = []
    cache.fetch([b"b"], lambda keys: seen.extend(keys) or encode(keys))
    assert seen == [b"b"]


def test_more_words_at_once_than_it_keeps(rng):
    cache = WordCache(max_words=5)
    for _ in range(50):
        keys = [b"%d" % i for i in rng.permutation(12)[: rng.integers(1, 12)]]
        np.testing.assert_array_equal(cache.fetch(keys, encode), encode(keys))
        assert len(cache) <= 5
    assert cache.hits and cache.misses


def test_grows_as_needed():
    cache = WordCache()
    keys = [b"%d" % i for i in range(5000)]
    for start in range(0, 5000, 700):
        cache.fetch(keys[start : start + 700], encode)
    np.testing.assert_array_equal(cache.fetch(keys, refuse), encode(keys))


def test_save_and_read(tmp_path):
    cache = WordCache()
    paths = tmp_path / "words.h5", tmp_path / "words.txt"
    with pytest.raises(ValueError, match="lacks <S>, </S> or <UNK>: embed some sentences first"):
        cache.save(*paths)
    special = ["<S>", "</S>", b"<UNK>"]
    words = [b"a", "\u00fc".encode(), "\u00a0".encode(), "\u3000x".encode()]
    cache.fetch([*special, *words, b"two words", b"", b"<S>"], encode)
    cache.save(*paths)
    saved = "<S> </S> <UNK> \u3000x \u00a0 ü a ".replace(" ", "\n")
    assert paths[1].read_text(encoding="utf-8") == saved
    with h5py.File(paths[0]) as file:
        np.testing.assert_array_equal(file["embedding"][:], encode(special + words[::-1]))
    again = WordCache.from_files(*paths)
    assert again.max_words == 14
    np.testing.assert_array_equal(again.fetch(special + words, refuse), encode(special + words))


def test_the_first_words_of_a_file_are_kept_longest(tmp_path):
    paths = tmp_path / "words.h5", tmp_path / "words.txt"
    keys = [b"%d" % i for i in range(6)]
    write_token_embeddings(paths[0], encode(keys), [key.decode() for key in keys])
    paths[1].write_bytes(b"\n".join(keys))
    cache = WordCache.from_files(*paths, max_words=4)
    assert cache.latest(9)[0] == keys[:4]
    cache.fetch([b"new"], encode)
    np.testing.assert_array_equal(cache.fetch(keys[:3], refuse), encode(keys[:3]))


def test_words_of_other_keys():
    cache = WordCache(max_words=7)
    keys = [b"abc", b"ab", b"xyz", b"xyw", b"q"]
    cache.fetch(keys, encode)
    cache.adopt("two bytes", lambda key: key[:2])
    renamed = [b"abc", b"ab", b"xy", b"xyw", b"q"]
    assert cache.latest(5)[0] == renamed[::-1]
    np.testing.assert_array_equal(cache.fetch(renamed, refuse), encode(keys))
    cache.fetch([b"new", b"newer"], encode)
    cache.adopt("two bytes", lambda key: key[:1])
    with pytest.raises(ValueError, match="which reads other parts of a word"):
        cache.adopt("three bytes", lambda key: key[:3])
    np.testing.assert_array_equal(cache.fetch(renamed, refuse), encode(keys))


def test_files_that_do_not_belong_together(tmp_path):
    cache = WordCache()
    cache.fetch(["<S>", "</S>", b"<UNK>"], encode)
    paths = tmp_path / "words.h5", tmp_path / "words.txt"
    cache.save(*paths)
    paths[1].write_text("<S>\n</S>\n")
    with pytest.raises(ValueError, match="The 3 vectors in .* are not those of the 2 words given"):
        WordCache.from_files(*paths)
    paths[1].write_text("<S>\n</S>\nunknown\n")
    with pytest.raises(ValueError, match="The 3 vectors in .* are not those of the 3 words given"):
        WordCache.from_files(*paths)
    paths[1].write_text("<S>\n</S>\n</S>\n")
    with h5py.File(paths[0], "a") as file:
        del file["embedding"].attrs["words"]  # as bilm-tf writes it
    with pytest.raises(ValueError, match="'</S>' is listed twice"):
        WordCache.from_files(*paths)
    with pytest.raises(ValueError, match="max_words must be an integer of at least 1, got 0"):
        WordCache(0)


def test_copied():
    cache = WordCache()
    cache.fetch([b"a", b"b"], encode)
    again = copy.deepcopy(cache)
    again.fetch([b"c"], encode)
    np.testing.assert_array_equal(again.fetch([b"b", b"a"], refuse), encode([b"b", b"a"]))
    assert (len(cache), len(again)) == (2, 3)

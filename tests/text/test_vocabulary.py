"""Vocabulary files, the counting of corpora, and ids of whole words against bilm-tf's."""

import gzip
import json
import lzma

import numpy as np
import pytest

from helpers import GOLDEN
from keras_elmo import Vocabulary, count_words, encode_sentences, encode_token_ids
from keras_elmo.text.characters import ByteRules
from keras_elmo.text.reader import TextStats
from keras_elmo.text.vocabulary import encode_vocabulary, read_words

LETTERS = ["<S>", "</S>", "<UNK>", "a", "b"]
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "naïve"]


def test_ids_and_characters():
    vocabulary = Vocabulary(WORDS)
    assert len(vocabulary) == 6
    assert (vocabulary.begin_id, vocabulary.end_id, vocabulary.unknown_id) == (0, 1, 2)
    assert vocabulary.ids(["the", b"cat", "dog", "na\u00efve", "<UNK>"]) == [3, 4, 2, 5, 2]
    # Only the position makes a boundary: spelled out, they are ordinary words.
    assert vocabulary.ids(["<S>", "</S>"]) == [2, 2]
    for words in (["the", "dog", "<S>"], [b"the", b"dog", b"<S>"]):
        assert [word in vocabulary for word in words] == [True, False, False]
    rows = encode_vocabulary(vocabulary.words, ByteRules(12))
    spelled = encode_sentences([["<UNK>", "the", "cat", "naïve"]], 12)[0]
    np.testing.assert_array_equal(rows, spelled[[0, -1, 1, 2, 3, 4]])


def test_write_and_read(tmp_path):
    path = tmp_path / "vocab.txt"
    Vocabulary(WORDS).write(path)
    assert path.read_bytes() == ("\n".join(WORDS) + "\n").encode()
    assert Vocabulary.from_file(path) == Vocabulary(WORDS)
    path.write_bytes(("\r\n".join(WORDS) + "\r\n\r\n").encode())
    assert Vocabulary.from_file(path) == Vocabulary(WORDS)


@pytest.mark.parametrize(
    "lines, message",
    [
        (["the", "</S>", "cat"], "has no <S> and no <UNK>: it must begin with"),
        (
            [*WORDS, "dog 17"],
            r"vocab\.txt has white space in 1 line, .* line 7, 'dog 17': .* without",
        ),
        (["<S>\t9", "</S>\t9", "<UNK>\t1", "the\t5"], "in 4 lines, of which the first is line 1"),
        (["", ""], r"vocab\.txt is empty: expected a word on each line"),
    ],
)
def test_bad_files_are_explained(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_file(path)


@pytest.mark.parametrize("word", [" dog", "dog\n", "\t", "a dog"])
def test_words_have_no_white_space(word):
    with pytest.raises(ValueError, match="white space in 1 line, of which the first is line 7"):
        Vocabulary([*WORDS, word])


def test_lines_that_no_text_uses_keep_their_rows(tmp_path):
    """A model that was trained with the file has a row for each line; bilm-tf counts them so."""
    path = tmp_path / "vocab.txt"
    words = [*WORDS[:4], "", "", "the", "cat"]
    path.write_text("\r\n".join(words) + "\r\n\r\n\r\n")
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.words == words
    assert vocabulary.ids(["the", "cat", "dog"]) == [6, 7, 2]
    assert (vocabulary.begin_id, vocabulary.end_id, vocabulary.unknown_id) == (0, 1, 2)
    np.testing.assert_array_equal(
        encode_token_ids([["the", "cat"]], path), encode_token_ids([["the", "cat"]], words)
    )
    vocabulary.write(tmp_path / "copy.txt")
    assert Vocabulary.from_file(tmp_path / "copy.txt") == vocabulary
    # Blank lines at the end are rows only of a model that has as many.
    assert [len(Vocabulary.from_file(path, size)) for size in (7, 8, 9, 10, 11)] == [
        8,
        8,
        9,
        10,
        10,
    ]


def test_files_of_other_encodings_are_explained(tmp_path):
    path = tmp_path / "vocab.txt"
    for number, message in ((0, "1 invalid byte in the first"), (999, "Save it as UTF-8")):
        words = ["<S>", "</S>", "<UNK>", *map(str, range(number)), "na\u00efve"]
        path.write_bytes("\n".join(words).encode("latin-1"))
        with pytest.raises(ValueError, match=rf"vocab\.txt is not UTF-8.* {message}"):
            Vocabulary.from_file(path)
    path.write_text("\n".join(WORDS), "utf-16")
    with pytest.raises(ValueError, match=r"vocab\.txt is UTF-16"):
        Vocabulary.from_file(path)
    path.write_text("\n".join(WORDS), "utf-8-sig")
    assert Vocabulary.from_file(path).words == WORDS


def test_order_against_a_corpus(tmp_path):
    words = [f"w{i}" for i in range(50)]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join([word] * (200 // (i + 1))) for i, word in enumerate(words)))
    counts = count_words(text)
    vocabulary = Vocabulary.from_counts(counts.counts)
    vocabulary.check_order(vocabulary.counts(counts))
    vocabulary = Vocabulary([*WORDS[:3], *reversed(words)])
    with pytest.warns(UserWarning, match="not sorted by descending count in this corpus"):
        vocabulary.check_order(vocabulary.counts(counts))


def test_from_counts():
    counts = {"b": 2, "a": 2, b"c": 5, "<S>": 9, "rare": 1}
    assert Vocabulary.from_counts(counts, min_count=2).words == [*WORDS[:3], "c", "a", "b"]
    assert Vocabulary.from_counts(counts, size=5).words == [*WORDS[:3], "c", "a"]
    with pytest.raises(ValueError, match="No word occurs 10 times"):
        Vocabulary.from_counts(counts, min_count=10)
    with pytest.raises(ValueError, match="No word was counted"):
        Vocabulary.from_counts({})
    with pytest.raises(ValueError, match="must be at least 4, .* got 3"):
        Vocabulary.from_counts(counts, size=3)


def test_counts_of_a_corpus(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the cat <UNK>\n\nthe dog\xff s\xc3\xa4t\r\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"the end"))
    (tmp_path / "c.txt.xz").write_bytes(lzma.compress(b"\n \n"))
    counted = count_words(f"{tmp_path}/*.txt*")
    stats = counted.stats
    assert (stats.files, stats.sentences, stats.tokens) == (3, 3, 8)
    assert (stats.blank_lines, stats.invalid_lines) == (3, 1)
    assert stats.empty_files == ["c.txt.xz"] and stats.predictions == 11
    assert counted.counts[b"the"] == 3 and counted.counts[b"dog"] == 1
    assert len(stats.warnings()) == 3 and not TextStats().warnings()
    # <S>, </S>, <UNK>, the, cat, naïve: dog, sät, end and the literal <UNK> are unknown.
    np.testing.assert_array_equal(Vocabulary(WORDS).counts(counted), [3, 3, 4, 3, 1, 0])


def test_token_ids_are_bilm_tf_ids():
    sentences = json.loads((GOLDEN / "sentences.json").read_text())["batch"][:9]
    expected = np.load(GOLDEN / "default" / "token_input_outputs.npz")["token_ids"]
    np.testing.assert_array_equal(encode_token_ids(sentences, GOLDEN / "vocab.txt"), expected)


def test_token_ids_of_unknown_words_boundaries_and_padding():
    ids = encode_token_ids([["a", "zebra"], [], ["b"]], LETTERS)
    np.testing.assert_array_equal(ids, [[1, 4, 3, 2], [1, 2, 0, 0], [1, 5, 2, 0]])
    assert ids.dtype == np.int32


def test_without_the_unknown_word_only_unknown_words_are_an_error(tmp_path):
    path = tmp_path / "words.txt"  # the words of a text, in any order
    path.write_text("boats\n</S>\nrow\n<S>\n.\n")
    ids = encode_token_ids([["row", b"boats", "."], []], path)
    np.testing.assert_array_equal(ids, [[4, 3, 1, 5, 2], [4, 2, 0, 0, 0]])
    for word in ("zoë", b"zo\xc3\xab", "<UNK>", "<S>", ""):
        shown = repr(word.decode() if isinstance(word, bytes) else word)
        with pytest.raises(
            ValueError, match=f"The word {shown} is not in the vocabulary, which has no"
        ):
            encode_token_ids([["row", word]], path)


def test_bytes_are_words_and_boundaries_in_a_text_are_unknown():
    ids = encode_token_ids(
        [[b"a", "b\ud800", "\u00e9".encode()], ["<S>", "</S>", "<UNK>"]], LETTERS
    )
    np.testing.assert_array_equal(ids, [[1, 4, 5, 3, 2], [1, 3, 3, 3, 2]])


def test_words_of_other_white_space_are_words(tmp_path):
    path = tmp_path / "vocabulary.txt"
    words = [*LETTERS, "\u00a0", "\u3000", "\u2003x\u0085"]
    Vocabulary(words).write(path)
    assert read_words(path) == Vocabulary.from_file(path).words == words


def test_bilm_tfs_line_without_a_word_is_skipped(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"<S>\r\n</S>\r\n<UNK>\r\n!!!MAXTERMID\r\na\r\nb")  # without a last newline
    assert Vocabulary.from_file(path).words == LETTERS
    np.testing.assert_array_equal(
        encode_token_ids([["a", "b"]], path), encode_token_ids(["a b"], LETTERS)
    )


def test_bad_sentences_and_vocabularies_are_named():
    with pytest.raises(ValueError, match="vocabulary has no </S>: it must begin with"):
        encode_token_ids([["a"]], ["<S>", "a"])
    with pytest.raises(ValueError, match="got the single string 'a b'"):
        encode_token_ids("a b", LETTERS)
    with pytest.raises(ValueError, match="Expected tokens to be strings, found 1"):
        encode_token_ids([["a", 1]], LETTERS)

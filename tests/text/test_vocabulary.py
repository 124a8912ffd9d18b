"""Vocabulary files and the counting of corpora."""

import gzip
import lzma

import numpy as np
import pytest

from keras_elmo import Vocabulary, count_words, encode_sentences
from keras_elmo.text.reader import TextReport, find_files, read_sentences

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "naïve"]


def test_ids_and_characters():
    vocabulary = Vocabulary(WORDS)
    assert len(vocabulary) == 6
    assert (vocabulary.begin_id, vocabulary.end_id, vocabulary.unknown_id) == (0, 1, 2)
    assert vocabulary.ids(["the", b"cat", "dog", "na\u00efve", "<UNK>"]) == [3, 4, 2, 5, 2]
    # Boundaries come from position alone: spelled out they are words like any other.
    assert vocabulary.ids(["<S>", "</S>"]) == [2, 2]
    assert vocabulary.count_unknown([b"the", b"dog", b"<S>"]) == 2
    assert vocabulary.count_unknown(["the", "dog", "<S>"]) == 2
    rows = vocabulary.character_ids(12)
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
        (["the", "</S>", "cat"], "It has no <S> and no <UNK>: a vocabulary begins with"),
        ([*WORDS, "the", "cat"], "occur twice: the, cat. Remove the later ones"),
        ([*WORDS[:4], "", "", "cat"], "Blank lines: 5, 6. Remove them"),
        ([*WORDS, "dog 17"], "More than one word on the lines 7: .* no counts"),
    ],
)
def test_bad_files_are_explained(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=message) as error:
        Vocabulary.from_file(path)
    assert str(path) in str(error.value)


def test_files_of_other_encodings_are_explained(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("<S>\n</S>\n<UNK>\nna\u00efve\n".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8"):
        Vocabulary.from_file(path)


def test_odd_orders_are_warned_of(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("the\n<S>\n</S>\n<UNK>\n")
    with pytest.warns(UserWarning, match="does not begin with <S>, </S>, <UNK>"):
        Vocabulary.from_file(path)
    path.write_text("\n".join([*WORDS[:3], *(f"word{i:02d}" for i in range(20))]))
    with pytest.warns(UserWarning, match="alphabetical order"):
        Vocabulary.from_file(path)


def test_order_against_a_corpus(tmp_path):
    words = [f"w{i}" for i in range(50)]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join([word] * (200 // (i + 1))) for i, word in enumerate(words)))
    counts = count_words(text)
    Vocabulary.from_counts(counts.counts).check_order(counts)
    with pytest.warns(UserWarning, match="not sorted by falling count in this corpus"):
        Vocabulary([*WORDS[:3], *reversed(words)]).check_order(counts)


def test_from_counts():
    counts = {"b": 2, "a": 2, b"c": 5, "<S>": 9, "rare": 1}
    assert Vocabulary.from_counts(counts, min_count=2).words == [*WORDS[:3], "c", "a", "b"]
    assert Vocabulary.from_counts(counts, size=5).words == [*WORDS[:3], "c", "a"]
    with pytest.raises(ValueError, match="No word occurs 10 times"):
        Vocabulary.from_counts(counts, min_count=10)
    with pytest.raises(ValueError, match="size 3 has no word besides"):
        Vocabulary.from_counts(counts, size=3)


def test_counts_of_a_corpus(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the cat <UNK>\n\nthe dog\xff sat\r\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"the end"))
    (tmp_path / "c.txt.xz").write_bytes(lzma.compress(b"\n \n"))
    seen = []
    counted = count_words(f"{tmp_path}/*.txt*", seen.append)
    report = counted.report
    assert [path.rsplit("/", 1)[1] for path in seen] == ["a.txt", "b.txt.gz", "c.txt.xz"]
    assert (report.files, report.sentences, report.tokens) == (3, 3, 8)
    assert (report.blank_lines, report.invalid_lines) == (3, 1)
    assert report.empty_files == ["c.txt.xz"] and report.predictions == 11
    assert counted.counts[b"the"] == 3 and counted.counts[b"dog"] == 1
    assert len(report.oddities()) == 3 and not TextReport().oddities()
    # <S>, </S>, <UNK>, the, cat, naïve: dog, sat, end and the literal <UNK> are unknown.
    np.testing.assert_array_equal(Vocabulary(WORDS).counts(counted), [3, 3, 4, 3, 1, 0])


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No text file matches '.*missing\*'"):
        find_files(f"{tmp_path}/missing*")
    with pytest.raises(FileNotFoundError, match="list of text files is empty"):
        find_files([])
    odd = tmp_path / "odd[1].txt"
    odd.write_text("a")
    assert find_files([odd, str(odd)]) == [str(odd)]


@pytest.mark.parametrize("ending, compress", [("gz", gzip.compress), ("xz", lzma.compress)])
def test_damaged_files_are_named(tmp_path, ending, compress):
    path = tmp_path / f"text.{ending}"
    data = compress(b"a b c\n" * 10_000)
    for damaged in (data[: len(data) // 2], b"not compressed"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"text.{ending} is damaged or truncated"):
            list(read_sentences(path))

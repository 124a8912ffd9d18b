"""The index of a text: its ids, what it reports, and when it is made again."""

import errno
import gzip
import lzma
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_elmo import CorpusIndex, LanguageModelCorpus, Vocabulary, count_words, encode_sentences
from keras_elmo.text import reader
from keras_elmo.text.reader import read_sentences
from keras_elmo.training import index as index_module
from training_models import CONFIG, DATA


def sentences_of(index):
    return [index.sentence(i) for i in range(len(index))]


def test_an_index_holds_the_text(tmp_path):
    index = CorpusIndex.build(DATA / "train.txt", tmp_path)
    lines = (DATA / "train.txt").read_bytes().splitlines()
    expected = [line.split() for line in lines]
    assert sentences_of(index) == expected == list(read_sentences(DATA / "train.txt"))
    assert index.stats.tokens == sum(map(len, expected)) == index.counts.sum()
    assert index.ids.dtype == np.int32
    np.testing.assert_array_equal(index.ids[index.starts[:-1]], 0)
    np.testing.assert_array_equal(index.ids[index.starts[1:] - 1], 1)
    assert index.words == list(dict.fromkeys(word for tokens in expected for word in tokens))
    assert index.word_counts == count_words(DATA / "train.txt")
    in_memory = CorpusIndex.from_sentences(expected)
    assert sentences_of(in_memory) == expected and in_memory.stats == index.stats
    np.testing.assert_array_equal(in_memory.counts, index.counts)
    assert in_memory.text_hash == index.text_hash


@pytest.mark.parametrize("number, expected", [(0, []), (2, [["b", "a"], ["b"]]), (9, None)])
def test_the_first_sentences(tmp_path, number, expected):
    (tmp_path / "text.txt").write_bytes(b"b a\n\xff\nb\n\n\xc3\xa7 a\n")
    index = CorpusIndex.build(tmp_path / "text.txt")
    first = index.first(number)
    expected = [["b", "a"], ["b"], ["\u00e7", "a"]] if expected is None else expected
    expected = [[word.encode() for word in sentence] for sentence in expected]
    whole = CorpusIndex.from_sentences(expected)
    assert sentences_of(first) == expected and first.words == whole.words
    assert first.stats == whole.stats and first.text_hash == whole.text_hash
    np.testing.assert_array_equal(first.counts, whole.counts)
    np.testing.assert_array_equal(
        first.characters(50), index.characters(50)[: 2 + len(first.words)]
    )


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_last_sentences(tmp_path, on_disk):
    sentences = [[b"b", b"a"], [b"b"], [b"c", b"a"]]
    index = CorpusIndex.from_sentences(sentences)
    if on_disk:
        (tmp_path / "text.txt").write_bytes(b"b a\nb\nc a\n")
        index = CorpusIndex.build(tmp_path / "text.txt")
    last = index.last(2)
    assert sentences_of(last) == sentences[1:] and last.stats.tokens == 3
    assert +last.word_counts.counts == {b"b": 1, b"c": 1, b"a": 1}
    assert last.text_hash != CorpusIndex.from_sentences(sentences[:2]).text_hash
    np.testing.assert_array_equal(last.characters(50), index.characters(50))
    assert sentences_of(index.last(9)) == sentences


def test_white_space_does_not_change_the_hash(tmp_path):
    hashes = set()
    for number, content in enumerate(["a b\nc\n", " a  b\r\n\nc", "a b\nd\n", "a\nb c\n"]):
        (tmp_path / f"{number}.txt").write_text(content)
        hashes.add(CorpusIndex.build(tmp_path / f"{number}.txt").text_hash)
    assert len(hashes) == 3


def test_an_index_of_proteins(tmp_path):
    path = tmp_path / "p.fasta.gz"
    path.write_bytes(gzip.compress(b">a\nMK\nvl\n>b\nGS\n"))
    index = CorpusIndex.build(path)
    assert sentences_of(index) == [[b"M", b"K", b"V", b"L"], [b"G", b"S"]]
    assert sentences_of(index.first(1)) == sentences_of(index)[:1]
    path.write_bytes(gzip.compress(b">a\nMK\n>b\nG*\n"))
    with pytest.raises(ValueError, match=r"p\.fasta\.gz: entry 'b': '\*' at position 2 is not"):
        CorpusIndex.build(path)


@pytest.mark.parametrize("on_disk", [True, False])
def test_ids_and_characters(tmp_path, on_disk, monkeypatch):
    monkeypatch.setattr(index_module, "_WORDS_ENCODED_TOGETHER", 3)
    words = ["Zebras", "ate", "<S>", "<UNK>", "Zoë", "x" * 60]
    (tmp_path / "text.txt").write_text(" ".join(words))
    build = CorpusIndex.build(tmp_path / "text.txt")
    index = build if on_disk else CorpusIndex.from_sentences([[x.encode() for x in words]])
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "ate"])
    # Boundaries and the unknown word, spelled out in a text, are words like any other.
    assert index.vocabulary_ids(vocabulary)[index.ids].tolist() == [0, 2, 3, 2, 2, 2, 2, 1]
    expected = encode_sentences([words])[0]
    for _ in range(2):  # written, and read again
        characters = index.characters(50)
        np.testing.assert_array_equal(characters[index.ids], expected)
        assert characters.dtype == np.int16


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 21])
def test_odd_files_are_read_and_reported(tmp_path, block_bytes, monkeypatch):
    monkeypatch.setattr(reader, "_BLOCK_BYTES", block_bytes)
    (tmp_path / "a").write_bytes(
        b"\xef\xbb\xbfthe\r\n\r\n  \nthe e\xffnd\n\xff\nl\xc3\xa4\xc3\xa4st"
    )
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "c.gz").write_bytes(gzip.compress("the Zoë\u00a0s\n\n".encode()))
    (tmp_path / "d.xz").write_bytes(lzma.compress(b"x y\n" * 50))
    index = CorpusIndex.build(f"{tmp_path}/*")
    the = [b"the"]
    expected = [
        the,
        [b"the", b"end"],
        ["l\u00e4\u00e4st".encode()],
        [b"the", "Zoë\u00a0s".encode()],
    ]
    assert sentences_of(index) == [*expected, *[[b"x", b"y"]] * 50]
    stats = index.stats
    assert (stats.files, stats.sentences, stats.tokens) == (4, 54, 106)
    assert (stats.blank_lines, stats.invalid_lines, stats.empty_files) == (4, 2, ["b"])
    assert "4 blank lines (skipped)" in "\n".join(stats.lines())


def test_an_index_is_opened_again_and_made_again_for_another_text(tmp_path):
    text, folder = tmp_path / "text.txt", tmp_path / "index"
    text.write_text("a b\nc\n")
    first = CorpusIndex.build(text, folder)
    first.characters(50)
    made = next(folder.glob("*/ids.bin")).stat()
    assert sentences_of(CorpusIndex.build(text, folder)) == [[b"a", b"b"], [b"c"]]
    assert next(folder.glob("*/ids.bin")).stat().st_ino == made.st_ino
    os.utime(text, ns=(0, 0))  # copied elsewhere, for example
    assert CorpusIndex.build(text, folder).text_hash == first.text_hash
    text.write_text("a b\nd\n")  # of the same size
    (folder / "mine.txt").write_text("a file of the user")
    (folder / ".partial-killed").mkdir()
    (folder / "0123456789abcdef").mkdir()  # a folder of the user
    changed = CorpusIndex.build(text, folder)
    assert sentences_of(changed) == [[b"a", b"b"], [b"d"]]
    assert changed.text_hash != first.text_hash
    assert sentences_of(first) == [[b"a", b"b"], [b"c"]]  # an open index keeps its files
    rows = changed.characters(50)[changed.ids]
    expected = encode_sentences([["a", "b"], ["d"]])
    np.testing.assert_array_equal(rows, [*expected[0], *expected[1, :3]])
    assert len(list(folder.glob("index-*"))) == 1 and not list(folder.glob(".partial-*"))
    with pytest.raises(
        FileNotFoundError, match="used for the index of a different text: use a separate folder"
    ):
        first.characters(50)
    assert (folder / "mine.txt").exists() and (folder / "0123456789abcdef").exists()


@pytest.mark.parametrize("name", ["text.json", "ids.bin", "words.bin"])
def test_a_damaged_index_is_named(tmp_path, name):
    (tmp_path / "text.txt").write_text("a b\nc\n")
    CorpusIndex.build(tmp_path / "text.txt", tmp_path / "index")
    (path,) = tmp_path.glob(f"index/*/{name}")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match=rf"index.{path.parent.name} is damaged .* delete it"):
        CorpusIndex.build(tmp_path / "text.txt", tmp_path / "index")


def test_the_folder_of_an_index_may_be_relative(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("a b\nc\n")
    monkeypatch.chdir(tmp_path)
    index = CorpusIndex.build("text.txt", "index")
    monkeypatch.chdir("/")
    assert len(index.characters(50)) == 5


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="No text file matches"):
        CorpusIndex.build(tmp_path / "none*")
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "other").write_text("")
    with pytest.raises(ValueError, match=r"No sentence was found in .*empty or in 1 other file"):
        CorpusIndex.build([tmp_path / "empty", tmp_path / "other"], tmp_path / "index")
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["lock"]
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(ValueError, match=r"bad\.gz is damaged or truncated"):
        CorpusIndex.build(tmp_path / "bad.gz")


def test_threads_make_the_characters_of_one_index(tmp_path):
    index = CorpusIndex.build(DATA / "train.txt", tmp_path)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: np.array(index.characters(50)), range(8)))
    for characters in found:
        np.testing.assert_array_equal(characters, found[0])
    assert not list(tmp_path.rglob(".partial-*"))


def test_the_text_counts_and_not_its_name(tmp_path):
    (tmp_path / "1.txt").write_text("a b\n")
    (tmp_path / "2.gz").write_bytes(gzip.compress(b"a b\n"))
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a"])
    size = {"batch_size": 1, "unroll_steps": 2, "seed": 0}
    one, two = (
        LanguageModelCorpus(tmp_path / name, vocabulary, CONFIG, **size).identity()
        for name in ("1.txt", "2.gz")
    )
    assert one == two
    texts = [CorpusIndex.from_sentences([[word]]) for word in (b"a", b"b")]
    one, two = (LanguageModelCorpus(text, vocabulary, CONFIG, **size).identity() for text in texts)
    assert one != two


def test_too_many_open_files_are_no_damage(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("a b\n")
    CorpusIndex.build(tmp_path / "text.txt", tmp_path / "index")
    refused = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(np, "memmap", lambda *_, **__: raise_(refused))
    with pytest.raises(OSError, match="^.Errno 24. Too many open files$"):
        CorpusIndex.build(tmp_path / "text.txt", tmp_path / "index")


def raise_(error):
    raise error

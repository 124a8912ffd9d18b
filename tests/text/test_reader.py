"""Finding and reading text files."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import threading

import pytest

from keras_elmo.text import reader
from keras_elmo.text.reader import check_text, find_files, read_records, read_sentences


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is a folder: pass its files, '.*\*'"):
        find_files(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No text file matches '.*missing\*'"):
        find_files(f"{tmp_path}/missing*")
    with pytest.raises(FileNotFoundError, match="at least one text file, got an empty list"):
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


@pytest.mark.parametrize("is_open", [False, True])
def test_every_line_is_a_record(tmp_path, is_open):
    content = b"a b\r\n\nc d e"
    (tmp_path / "text.txt").write_bytes(content)
    source = io.BytesIO(content) if is_open else tmp_path / "text.txt"
    found = list(read_records(source, max_line_tokens=2))
    assert [record.tokens for record in found] == [[b"a", b"b"], [], []]
    assert [record.error for record in found[:2]] == [None, None]
    assert found[2].error == "3 tokens, more than max_line_tokens=2"
    starts = [content[:5], content[:6], content]
    assert [record.digest for record in found] == [hashlib.sha256(s).hexdigest() for s in starts]
    assert found[-1].position == (0 if is_open else len(content))


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_MAX_LINE_BYTES", 2**20)
    path = tmp_path / "text.gz"
    for first in (b"", b"one two\n"):
        path.write_bytes(gzip.compress(first + 2**20 * b"a" + b"\n"))
        for read in (read_records, read_sentences):
            with pytest.raises(ValueError, match="has a line of more than 1 MiB: put each"):
                list(read(path))


def test_a_pattern_for_all_folders(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        (folder / "text.txt").write_text("a")
    assert len(find_files(f"{tmp_path}/**/*.txt")) == 3


@pytest.mark.parametrize("ending, compress", [("txt", bytes), ("gz", gzip.compress)])
def test_a_byte_order_mark_is_no_text(tmp_path, ending, compress):
    path = tmp_path / f"text.{ending}"
    path.write_bytes(compress("a b\nc\n".encode("utf-8-sig")))
    assert list(read_sentences(path)) == [[b"a", b"b"], [b"c"]]
    assert next(read_records(path)).tokens == [b"a", b"b"]
    path.write_bytes(compress("".encode("utf-8-sig")))
    assert list(read_records(path)) == []


@pytest.mark.parametrize(
    "content, message",
    [
        ("a b\n".encode("utf-16"), "is UTF-16 or not text: convert it to UTF-8"),
        ("a b\n".encode("utf-16-le"), "is UTF-16"),
        ("a b\n".encode("utf-16-be"), "is UTF-16"),
        (b"a b\rc\rd", "has lines that end in CR without LF"),
        (b"\ra", "has lines that end in CR without LF"),
        # without a time of its own, since parallel workers must collect the same test names
        (gzip.compress(b"a b", mtime=0), "is gzip, not text: decompress it"),
        (lzma.compress(b"a b"), "is xz, not text"),
        (bz2.compress(b"a b"), "is bzip2, not text"),
        (b"PAR1\x15\x04", "is Parquet, not text: write its sentences"),
        (b"{\\rtf1\\ansi a b}", "is RTF, not text"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n", "is XML, not text"),
        (b"<!DOCTYPE html>\n", "is HTML, not text"),
        (b"ustar of the text\0", "is UTF-16 or not text"),
    ],
)
def test_texts_of_other_kinds_are_named(tmp_path, content, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    for read in (read_sentences, read_records):
        with pytest.raises(ValueError, match=rf"text\.txt {message}"):
            list(read(path))
    with pytest.raises(ValueError, match=f"The text {message}"):
        list(read_records(io.BytesIO(content)))


@pytest.mark.parametrize("content", [b"a b\r\n", b"a b\r\r\nc", b"a\rb\n", b"a b\r"])
def test_other_carriage_returns_are_white_space(tmp_path, content):
    (tmp_path / "text.txt").write_bytes(content)
    assert next(read_sentences(tmp_path / "text.txt")) == [b"a", b"b"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_read_by_its_name(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a b\nc\n",))
    writer.start()
    found = list(read_records(tmp_path / "pipe"))
    writer.join()
    assert [record.tokens for record in found] == [[b"a", b"b"], [b"c"]]
    assert found[1].position == 0


def test_a_token_of_invalid_utf8_alone_is_none_anywhere(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"a \xff b\xfe\n\xc3\xa9\xc3\xa8")
    expected = [b"a", b"b"]
    record = next(read_records(path))
    assert record.tokens == expected and not record.is_utf8
    assert next(read_sentences(path)) == expected


@pytest.mark.parametrize(
    "number, other, is_refused",
    [
        (1, "", True),
        (1, "a" * 980, True),
        (1, "a" * 1000, False),  # one line of a document
        (9, "a b\n" * 2_000, True),
        (9, "a b\n" * 3_000, False),
        (1, "ü", False),
        (9, "üäß日本語\n", True),
        (9, "üäß日本語\n" * 2, False),
    ],
)
def test_texts_in_another_encoding(tmp_path, number, other, is_refused):
    path = tmp_path / "text.txt"
    content = "Müller\n".encode("latin-1") * number + other.encode()
    path.write_bytes(content)
    if is_refused:
        message = f"{number} invalid bytes? in the first {len(content):,}, .* iconv -f"
        for read in (read_sentences, read_records):
            with pytest.raises(ValueError, match=f"text.txt is not UTF-8: {message}"):
                next(read(path))
    else:
        assert next(read_sentences(path)) == next(read_records(path)).tokens == [b"Mller"]


def test_what_is_checked_before_a_model_is_loaded(tmp_path):
    (tmp_path / "text.txt").write_bytes("a b\n".encode("utf-16"))
    (tmp_path / "a.fasta").write_text("a b\n")
    for name, message in (("text.txt", "UTF-16"), ("a.fasta", "'>' at the beginning")):
        with pytest.raises(ValueError, match=message):
            check_text(tmp_path / name)
    check_text(tmp_path / "a.fasta", format="text")
    (tmp_path / "empty.jsonl").write_text("")
    check_text(tmp_path / "empty.jsonl")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_nothing_is_read_of_a_pipe_to_check_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    check_text(tmp_path / "pipe.jsonl")
    with pytest.raises(ValueError, match="leave out field and tokenize"):
        check_text(tmp_path / "pipe.jsonl", format="fasta", tokenize=True)

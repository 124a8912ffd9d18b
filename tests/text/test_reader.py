"""Finding and reading text files."""

import gzip
import lzma

import pytest

from keras_elmo.text.reader import find_files, read_sentences


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

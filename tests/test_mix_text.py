"""Mixing corpora for the bundled model: `weights/mix_text.py`."""

import hashlib
import lzma

import pytest

import mix_text


def test_every_shard_has_some_of_each_corpus(tmp_path, capsys):
    corpora = {name: [f"{name} {i} .\n" for i in range(40)] for name in ("books", "modern")}
    for name, lines in corpora.items():
        for part in range(2):
            text = "".join(lines[part::2]).encode()
            (tmp_path / f"{name}-{part}.xz").write_bytes(lzma.compress(text))
    patterns = [str(tmp_path / f"{name}-*.xz") for name in corpora]
    shards = {}
    for folder in ("first", "again"):
        mix_text.main([*patterns, "--output", str(tmp_path / folder), "--shards", "3"])
        paths = sorted((tmp_path / folder).iterdir())
        shards[folder] = {path.stem: lzma.decompress(path.read_bytes()) for path in paths}
    assert shards["first"] == shards["again"] and len(shards["first"]) == 3
    texts = [text.decode().splitlines(keepends=True) for text in shards["first"].values()]
    for lines in texts:
        kinds = [line.split()[0] for line in lines]
        assert 26 <= len(lines) <= 27 and min(map(kinds.count, corpora)) >= 5
        assert kinds != sorted(kinds)
    mixed = [line for lines in texts for line in lines]
    assert sorted(mixed) == sorted(corpora["books"] + corpora["modern"])
    hashes = dict(line.split()[::-1] for line in capsys.readouterr().out.splitlines())
    for name, text in shards["first"].items():
        assert hashes[name] == hashlib.sha256(text).hexdigest()


def test_sentences_stay_apart_and_a_folder_is_written_once(tmp_path):
    (tmp_path / "a.txt").write_bytes(
        b"\xef\xbb\xbfone .\ntwo ."
    )  # a BOM, and no newline at the end
    (tmp_path / "b.txt").write_bytes(b"three .\nfour .")
    arguments = [str(tmp_path / "?.txt"), "--output", str(tmp_path / "text"), "--shards", "1"]
    mix_text.main(arguments)
    (shard,) = (tmp_path / "text").iterdir()
    lines = lzma.decompress(shard.read_bytes()).splitlines(keepends=True)
    assert sorted(lines) == [b"four .\n", b"one .\n", b"three .\n", b"two .\n"]
    with pytest.raises(FileExistsError, match="text exists already"):
        mix_text.main(arguments)

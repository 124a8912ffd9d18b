"""Mixing corpora for the bundled model: `weights/mix_text.py`."""

import hashlib
import lzma

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

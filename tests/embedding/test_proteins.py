"""FASTA files to files of vectors."""

import gzip
import io
import sys

import h5py
import numpy as np
import pytest

from helpers import TINY, assert_close, to_numpy
from keras_elmo import ElmoLayer, Embedder, cli, encode_sentences


def layers_of(*sequences):
    """Every layer of residues, in one pass: `(L + 1, T, 2 * P)` of each sequence."""
    found = to_numpy(
        ElmoLayer(TINY, vectors="layers")(encode_sentences(list(map(list, sequences))))
    )
    return [array[:, : len(sequence)] for array, sequence in zip(found, sequences)]


def test_many_proteins(tmp_path, rng):
    letters, lengths = list("ACDEFGHIKLMNPQRSTVWYXUBZO"), rng.integers(1, 60, size=60)
    lengths[20] = 5_000
    proteins = {f"P{i}": "".join(rng.choice(letters, size=n)) for i, n in enumerate(lengths)}
    entries = (
        f">sp|{name}|NAME\n{proteins[name][:40]}\n{proteins[name][40:].lower()}\n"
        for name in proteins
    )
    source, target = tmp_path / "proteins.fasta.gz", tmp_path / "vectors.h5"
    source.write_bytes(gzip.compress("".join(entries).encode()))
    command = ["embed", "--model", str(TINY), "--input", str(source), "--output", str(target)]
    assert cli.main([*command, "--vectors", "sum"]) == 0
    with h5py.File(target) as file:
        assert set(file) == set(proteins)
        assert all(file[name].shape == (len(proteins[name]), 24) for name in proteins)
        some = [f"P{i}" for i in range(0, 60, 20)]
        for name, layers in zip(some, layers_of(*map(proteins.get, some))):
            assert_close(file[name][()], layers.sum(axis=0), 5e-6)


def test_proteins_of_the_standard_input(tmp_path, monkeypatch, capsys):
    content, target = b">a\nMKV\n>b x\nM*\n>c\nmkvl\n", tmp_path / "vectors.h5"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    command = ["embed", "--model", str(TINY), "--format", "fasta", "--vectors", "sum"]
    assert cli.main([*command, "--pooling", "mean", "--output", str(target)]) == 0
    error = "'*' at position 2 is not the letter of an amino acid"
    assert f"keras-elmo: entry b: {error}\n" in capsys.readouterr().err
    with h5py.File(target) as file:
        assert list(file) == ["a", "b", "c"]
        for name, layers in zip("ac", layers_of("MKV", "MKVL")):
            assert_close(file[name][()], layers.sum(axis=0).mean(axis=0), 5e-6)
        assert not file["b"][()].any() and file["b"].attrs["error"] == error
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert cli.main(command) == 0
    shown = capsys.readouterr()
    assert "keras-elmo: entry b: '*'" in shown.err and "│ V" in shown.out


@pytest.mark.needs("pyarrow")
def test_proteins_as_parquet(tmp_path):
    import pyarrow.parquet as parquet

    source, target = tmp_path / "p.fasta", tmp_path / "v.parquet"
    source.write_text(">a\nMKV\n>b\n\n")
    report = Embedder(TINY).embed_file(source, target, "sum", "max")
    assert report.reasons == [("b", "no residues")] and (report.lines, report.tokens) == (2, 3)
    rows = parquet.read_table(target).to_pylist()
    assert [row["id"] for row in rows] == ["a", "b"] and rows[0]["tokens"] == ["M", "K", "V"]
    np.testing.assert_allclose(
        rows[0]["vectors"], layers_of("MKV")[0].sum(axis=0).max(axis=0), atol=1e-5
    )


def test_identifiers_stay_unique_after_a_correction(tmp_path):
    """What was embedded before an identifier that occurs twice is kept."""
    source, target = tmp_path / "p.fasta", tmp_path / "v.h5"
    embedder = Embedder(TINY, batch_tokens=10)
    entries = "".join(f">{i}\nMKVL\n" for i in range(100))
    for last, message in ("3", "got '3' for entry 101"), ("4", "got '4' for entry 101"):
        source.write_text(f"{entries}>{last}\nM\n")
        with pytest.raises(ValueError, match=message):
            embedder.embed_file(source, target, resume=True)
    source.write_text(f"{entries}>last\nM\n")
    report = embedder.embed_file(source, target, resume=True)
    assert report.lines == 101 and report.tokens < 400
    with h5py.File(target) as file:
        assert len(file) == 101 and file["last"].shape == (1, 24)


@pytest.mark.parametrize("name", ["a_b", "", "."])
def test_identifiers_that_no_array_can_have(tmp_path, name):
    source = tmp_path / "p.fasta"
    source.write_text(f">a/b\nM\n>{name}\nM\n")
    with pytest.raises(ValueError, match=f"its own identifier, got '{name}' for entry 2"):
        Embedder(TINY).embed_file(source, tmp_path / "v.h5")

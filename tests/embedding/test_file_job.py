"""Text files to files of vectors."""

import dataclasses
import gzip
import io
import itertools
import json
import os

import h5py
import numpy as np
import pytest

from helpers import GOLDEN, assert_close
from keras_elmo import ElmoConfig, ElmoLayer, Embedder
from keras_elmo.embedding.file_job import fingerprint
from keras_elmo.embedding.writers import stored_lines
from keras_elmo.text import reader

needs_parquet = pytest.mark.needs("pyarrow")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "to", "it"]


@pytest.fixture(scope="module")
def embedder():
    """Of small batches, so that a few lines are several blocks."""
    return Embedder(GOLDEN / "default", batch_tokens=12)


@pytest.fixture
def lines(rng):
    """40 lines of 0 to 9 words."""
    return [" ".join(rng.choice(WORDS, size=n)) for n in rng.integers(0, 10, size=40)]


def write(path, lines):
    content = "".join(line + "\n" for line in lines).encode()
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        file.write(content)
    return path


def read(path):
    if path.suffix == ".npz":
        with np.load(path) as file:
            return list(file.values())
    with h5py.File(path) as file:
        assert sorted(map(int, file)) == list(range(len(file)))
        return [file[str(i)][()] for i in range(len(file))]


def test_every_line_has_its_row(tmp_path, embedder, lines):
    target = tmp_path / "v.h5"
    report = embedder.embed_file(write(tmp_path / "text.gz", lines), target, "layers")
    assert (report.lines, report.failed) == (40, 0)
    assert report.tokens == sum(len(line.split()) for line in lines)
    for found, expected in zip(read(target), embedder.embed(lines, "layers"), strict=True):
        assert_close(found, expected)


def test_json_lines(tmp_path, embedder):
    rows = [
        json.dumps({"text": "the cat", "id": 1}),
        json.dumps({"text": ["the", "black cat"]}),
        "{",
        json.dumps({"id": 2}),
        json.dumps({"text": 7}),
        json.dumps(["text"]),
        "[" * 100_000,
    ]
    source, target = write(tmp_path / "text.jsonl", rows), tmp_path / "v.h5"
    report = embedder.embed_file(source, target)
    assert [len(array) for array in read(target)] == [2, 2, 0, 0, 0, 1, 0]
    assert (report.lines, report.failed) == (7, 4)
    reasons = dict(report.reasons)
    assert sorted(reasons) == [2, 3, 4, 6]
    assert "not JSON" in reasons[2] and reasons[3] == "no field 'text', only 'id'"
    assert reasons[4] == "field 'text' is neither a string nor a list of strings"
    with h5py.File(target) as file:
        assert file["3"].attrs["error"] == reasons[3]
    source = write(tmp_path / "named.txt", [json.dumps({"body": "a b c"})])
    embedder.embed_file(source, tmp_path / "named.h5", field="body")
    assert len(read(tmp_path / "named.h5")[0]) == 3


def test_odd_lines(tmp_path, embedder):
    emoji = "\U0001f600 \u00a0".encode()
    lines = [b"a\xff b", b"\x00 \x00\x01", b"x" * 100_000, emoji, b" \t", b"a b c d"]
    source, target = tmp_path / "text.txt", tmp_path / "v.h5"
    source.write_bytes(b"\r\n".join([*lines, *[b"c"] * 20]))  # no end of line after the last
    report = embedder.embed_file(source, target, max_line_tokens=3)
    assert [len(array) for array in read(target)] == [2, 2, 1, 2, 0, 0, *[1] * 20]
    assert report.reasons == [(5, "4 tokens, more than max_line_tokens=3")]
    assert all(np.isfinite(array).all() for array in read(target))


@pytest.mark.parametrize("name", ["v.h5", pytest.param("v.parquet", marks=needs_parquet)])
def test_a_text_without_lines(tmp_path, embedder, name):
    source, target = write(tmp_path / "text.txt", []), tmp_path / name
    for _ in range(2):
        assert embedder.embed_file(source, target, resume=True).lines == 0
        assert sorted(os.listdir(tmp_path)) == ["text.txt", name]
    assert target.is_dir() if name == "v.parquet" else read(target) == []
    write(source, ["the cat"])
    assert embedder.embed_file(source, target, overwrite=True).lines == 1


def lines_of(path):
    """The vectors of each line, its tokens and sentences, its error, and its field "id"."""
    names = ("tokens", "sentence_lengths", "error", "id")
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        rows = parquet.read_table(path).to_pylist()
        return [(np.array(row["vectors"]), *map(row.get, names)) for row in rows]
    if path.suffix == ".npz":
        with np.load(path) as file:
            arrays = dict(file)
        lines = [name for name in arrays if "/" not in name]
        notes = [{name: arrays.get(f"{name}/{line}") for name in names} for line in lines]
        notes = [{k: None if v is None else v.item() for k, v in note.items()} for note in notes]
    else:
        with h5py.File(path) as file:
            lines, arrays = list(file), {name: array[()] for name, array in file.items()}
            notes = [dict(file[line].attrs) for line in lines]
    for note in notes:
        assert "\\u" not in str(note.get("tokens"))  # readable
        note.update((name, json.loads(note[name])) for name in names[:2] if note.get(name))
    return [(arrays[line], *map(note.get, names)) for line, note in zip(lines, notes)]


SUFFIXES = [".h5", ".npz", pytest.param(".parquet", marks=needs_parquet)]


@pytest.mark.parametrize("options", [{}, {"boundaries": True}, {"pooling": "max"}], ids=str)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_raw_text_tells_which_rows_are_whose(tmp_path, embedder, suffix, options):
    """Also where a sentence ends in padding."""
    texts = [[["the", "cát"], ["on"], ["a", "mat"]], [[]], [["sat"]], [["padded", ""], ["too"]], []]
    source, target = tmp_path / "text.jsonl", tmp_path / f"v{suffix}"
    write(source, [*(json.dumps({"text": json.dumps(text)}) for text in texts[:-1]), "no JSON"])
    embedder.embed_file(source, target, tokenize=json.loads, **options)
    found = lines_of(target)
    assert [row[3] is None for row in found] == [True, True, True, True, False]
    for (vectors, tokens, lengths, *_), text in zip(found, texts, strict=True):
        rows = text
        if options == {"boundaries": True}:
            rows = [["<S>", *filter(None, x), "</S>", *([""] * x.count(""))] for x in text or [[]]]
        assert tokens == list(itertools.chain.from_iterable(rows))
        assert lengths == list(map(len, rows))
        if "pooling" not in options:
            assert len(vectors) == len(tokens)
            parts = np.split(vectors, np.cumsum(lengths)[:-1])
            for part, expected in zip(parts, embedder.embed(text or [[]], **options)):
                np.testing.assert_allclose(part, expected.reshape(part.shape), atol=1e-5)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_fields_of_json_are_kept(tmp_path, embedder, suffix):
    rows = [
        {"text": "the cat", "id": "a\0\ud800é", "label": 3},
        {"text": "the cat"},
        {"id": 1.5},
        {"text": ["the"], "id": {"é": [1, None]}},
        {"text": "the", "id": "x" * 200_000},  # more than an attribute of HDF5 itself may have
        {"text": "the cat", "id": None},
    ]
    source, target = tmp_path / "text.jsonl", tmp_path / f"v{suffix}"
    write(source, [json.dumps(row) for row in rows])
    for resume in (False, True):
        embedder.embed_file(source, target, keep_fields=("id", "text"), resume=resume)
    found = [row[-1] for row in lines_of(target)]
    assert found == ["a\ufffdé", None, "1.5", '{"é": [1, null]}', "x" * 200_000, None]
    with pytest.raises(ValueError, match="made with keep_fields=\\['id', 'text'\\]"):
        embedder.embed_file(source, target, keep_fields=["id"], resume=True)


@pytest.mark.parametrize(
    "name, fields, message",
    [
        ("text.jsonl", "id", "must be a list of names of fields, got 'id'"),
        ("text.jsonl", ["id", 3], "must be a list of names of fields"),
        ("text.jsonl", ["id", "vectors"], "cannot have 'vectors', which files of vectors have"),
        ("text.txt", ["id"], "text.txt is not read as JSON: leave out keep_fields"),
    ],
)
def test_fields_that_cannot_be_kept(tmp_path, embedder, name, fields, message):
    source = write(tmp_path / name, ['{"text": "the cat", "id": 1}'])
    with pytest.raises(ValueError, match=message):
        embedder.embed_file(source, tmp_path / "v.h5", keep_fields=fields)
    assert os.listdir(tmp_path) == [name]


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    "text, name",
    [
        ("text.txt", "v.h5"),
        ("text.txt", "v.npz"),
        pytest.param("text.txt", "v.parquet", marks=needs_parquet),
        ("text.faa", "v.h5"),
    ],
)
def test_resumes_after_each_kill(tmp_path, embedder, lines, text, name, monkeypatch):
    """With the same bits, although the cache of words is empty after each kill."""
    if text == "text.faa":
        lines = [f">{39 - i}\n{line}" for i, line in enumerate(lines)]
    source, target = write(tmp_path / text, lines), tmp_path / name
    whole = tmp_path / f"whole_{name}"
    monkeypatch.setattr("keras_elmo.embedding.writers._PART_BYTES", 1)
    monkeypatch.setattr("keras_elmo.embedding.embedder._BATCHES_TOGETHER", 4)
    embedder.embed_file(source, whole)
    done = [0]
    while not target.exists():
        resumed, count = Embedder(embedder.layer, batch_tokens=12), [0]

        def run_a_little(*args, run=resumed._start, count=count):
            count[0] += 1
            if count[0] > 10:
                raise Killed
            return run(*args)

        monkeypatch.setattr(resumed, "_start", run_a_little)
        try:
            resumed.embed_file(source, target, resume=True)
        except Killed:
            done.append(stored_lines(target))
            assert done[-1] > done[-2]
    assert len(done) > 2
    if name != "v.parquet":
        for found, expected in zip(read(target), read(whole), strict=True):
            np.testing.assert_array_equal(found, expected)
        return
    import pyarrow.parquet as parquet

    found, expected = (parquet.read_table(path).to_pylist() for path in (target, whole))
    assert found == expected


def test_the_same_command_twice(tmp_path, embedder, lines):
    """With resume the work is done once, with overwrite again; with neither it is refused."""
    source, target = write(tmp_path / "text.txt", lines), tmp_path / "v.h5"
    assert embedder.embed_file(source, target, resume=True).tokens > 0
    content = target.read_bytes()
    report = embedder.embed_file(source, target, resume=True)
    assert (report.lines, report.tokens, report.was_complete) == (40, 0, True)
    with pytest.raises(FileExistsError):
        embedder.embed_file(source, target)
    for _ in range(2):
        assert embedder.embed_file(source, target, overwrite=True).tokens > 0
    assert target.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "v.h5"]


def test_a_complete_file_is_that_of_its_text_and_settings(tmp_path, embedder, lines):
    source, target = write(tmp_path / "text.txt", lines[:30]), tmp_path / "v.h5"
    num_tokenized = [0]

    def tokenize(text):
        num_tokenized[0] += 1
        return [text.split()]

    for _ in range(2):  # the second time only hashes are compared
        embedder.embed_file(source, target, tokenize=tokenize, resume=True)
        assert num_tokenized == [30]
    embedder.embed_file(source, target, overwrite=True)
    content = target.read_bytes()
    for text, message in (
        (lines, "has more than the 30 lines of .*v.h5, which is complete: replace it"),
        (lines[1:31], "does not begin with the 30 lines that"),
        (lines[:29], "does not begin with the 30 lines that"),
    ):
        write(source, text)
        with pytest.raises(ValueError, match=message):
            embedder.embed_file(source, target, resume=True)
    write(source, lines[:30])
    with pytest.raises(ValueError, match="made with vectors='mix': resume"):
        embedder.embed_file(source, target, "top", resume=True)
    assert target.read_bytes() == content and len(list(tmp_path.iterdir())) == 2


def test_messages_call_a_line_what_the_format_does(tmp_path, embedder, monkeypatch, caplog):
    source, target = tmp_path / "text.fasta", tmp_path / "v.h5"
    entries, pairs = [f">{i}\nMKV" for i in range(3)], embedder.pairs

    def too_large(*args):
        first, second, *_ = itertools.chain.from_iterable(pairs(*args))
        yield [first, (second[0], np.full((3, 24), np.inf, np.float16))]

    with monkeypatch.context() as patch:
        patch.setattr(embedder, "pairs", too_large)
        with pytest.raises(ValueError, match="The vectors of entry 2 have a number beyond"):
            embedder.embed_file(write(source, entries), target)
    assert "The vectors of the first 1 entry are kept" in caplog.text
    embedder.embed_file(source, target, resume=True)
    for rows, message in (
        (entries[1:], "does not begin with the 3 entries that"),
        ([*entries, ">3\nM"], "has more than the 3 entries of .*v.h5, which is complete"),
    ):
        with pytest.raises(ValueError, match=message):
            embedder.embed_file(write(source, rows), target, resume=True)


def test_bad_requests_leave_an_existing_file_alone(tmp_path, embedder, lines):
    source, target = write(tmp_path / "text.txt", lines), tmp_path / "v.h5"
    target.write_bytes(b"mine")
    for options in ({"overwrite": True}, {"resume": True}):
        with pytest.raises(ValueError, match="vectors must be .mix"):
            embedder.embed_file(source, target, "all", **options)
    with pytest.raises(FileNotFoundError):
        embedder.embed_file(tmp_path / "none.txt", target, overwrite=True)
    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_the_input_is_not_replaced(tmp_path, embedder, lines, options):
    source, link = write(tmp_path / "text.h5", lines), tmp_path / "link.h5"
    link.symlink_to(source)
    content, message = source.read_bytes(), "is an input and would be overwritten: choose another"
    for one, other in ((source, source), (source, link), (link, source)):
        with pytest.raises(ValueError, match=message):
            embedder.embed_file(one, other, **options)
    with open(source, "rb") as opened, pytest.raises(ValueError, match="is an input"):
        embedder.embed_file(opened, source, **options)
    assert source.read_bytes() == content and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("source", [io.StringIO("the cat\n"), ["the cat"]])
def test_text_in_other_forms_is_refused(tmp_path, embedder, source):
    with pytest.raises(ValueError, match="must be a path or a file opened in binary mode, 'rb'"):
        embedder.embed_file(source, tmp_path / "v.h5")


def test_a_damaged_text_leaves_the_lines_before(tmp_path, embedder, lines, monkeypatch):
    monkeypatch.setattr(reader, "_HEAD_BYTES", 100)  # which is read first
    source, target = write(tmp_path / "text.gz", lines * 5), tmp_path / "v.h5"
    source.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"text\.gz is damaged or truncated"):
        embedder.embed_file(source, target)
    assert 0 < stored_lines(target) < 200 and not target.exists()
    write(source, lines * 5)
    assert embedder.embed_file(source, target, resume=True).lines == len(read(target)) == 200


def test_models_are_told_apart():
    config = ElmoConfig(((1, 4),), lstm_dim=8, projection_dim=4, num_layers=1)
    layer = ElmoLayer(None, config=config)
    found = fingerprint(Embedder(layer))
    # The vocabulary of a softmax changes no vector.
    assert found == fingerprint(Embedder(layer, vocabulary=["<S>", "</S>", "<UNK>"]))
    assert found != fingerprint(Embedder(ElmoLayer(None, config=config)))  # other weights
    for changes in ({"use_skip_connections": False}, {"cell_clip": 1.0}):
        changed = ElmoLayer(None, config=dataclasses.replace(config, **changes))
        changed.set_weights(layer.get_weights())
        assert found != fingerprint(Embedder(changed))
    stateful = ElmoLayer(None, config=config, stateful=True, max_batch_size=1)
    for part in ("token_encoder", "bilm"):
        getattr(stateful, part).set_weights(getattr(layer, part).get_weights())
    stateful([["A", "state", "."]])
    assert found == fingerprint(Embedder(stateful))


def test_vocabularies_are_told_apart():
    """A table's rows are other words."""
    config = ElmoConfig(None, vocabulary_size=5, lstm_dim=8, projection_dim=4, num_layers=1)
    words, layer = ["<S>", "</S>", "<UNK>", "cat", "dog"], ElmoLayer(None, config=config)
    one, other = (Embedder(layer, vocabulary=v) for v in (words, [*words[:3], b"dog", b"cat"]))
    assert fingerprint(one) == fingerprint(Embedder(layer, vocabulary=words)) != fingerprint(other)


def test_progress(tmp_path, embedder, lines, capsys, monkeypatch):
    source = write(tmp_path / "text.txt", lines)
    monkeypatch.setattr(embedder, "progress", True)
    embedder.embed_file(source, tmp_path / "v.h5")
    assert "40 lines" in capsys.readouterr().err

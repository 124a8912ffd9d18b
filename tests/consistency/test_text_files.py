"""What does this file hold? Embedding, counting, training and evaluation find the same tokens."""

import gzip
import json
import lzma
from collections import Counter

import h5py
import numpy as np
import pytest

from helpers import TINY
from keras_elmo import CorpusIndex, Embedder, Vocabulary, cli, count_words
from keras_elmo.training.evaluation import Scorer
from training_models import tiny_model, vocabulary

SENTENCES = [["The", "café", "<S>", "isn't", "open", "."], ["Why", "not\u00a0now", "?"], ["-"]]
PROTEINS = [["M", "K", "V"], ["G"]]
LINES = "\n".join(map(" ".join, SENTENCES)) + "\n"
INVALID = LINES.encode().replace(b" ", b" \xff ", 2)
ROWS = [{"text": " ".join(SENTENCES[0])}, *({"text": tokens} for tokens in SENTENCES[1:])]
RAW = {"text": " | ".join(map(" ".join, SENTENCES))}
CONLLU = "\n\n".join(
    "# a comment\n1-2\ta range\n"
    + "\n".join(f"{i}\t{word}\tlemma\tX" for i, word in enumerate(sentence, 1))
    + "\n1.1\tan empty node"
    for sentence in SENTENCES
)


def split_at_bars(text):
    """A function as `tokenize`: sentences end at |."""
    return [sentence.split(" ") for sentence in text.split(" | ")]


# The name of a file, its content, the argument `tokenize`, and its sentences.
FILES = {
    "lines": ("a.txt", LINES, None, SENTENCES),
    "other white space": ("a", LINES.replace(" ", "\t ").replace("\n", " \r\n\n"), None, SENTENCES),
    "lines with a byte order mark": ("a.txt", "\ufeff" + LINES, None, SENTENCES),
    "lines with invalid UTF-8": ("a.txt", INVALID, None, SENTENCES),
    "gzip": ("a.txt.gz", gzip.compress(LINES.encode()), None, SENTENCES),
    "xz": ("a.TXT.XZ", lzma.compress(LINES.encode()), None, SENTENCES),
    "JSON Lines": ("a.jsonl", "\n".join(map(json.dumps, ROWS)), None, SENTENCES),
    "an array of JSON": ("a.json", json.dumps(ROWS), None, SENTENCES),
    "an indented array of JSON": ("a.json", json.dumps(ROWS, indent=2), None, SENTENCES),
    "CoNLL-U": ("a.conllu", CONLLU, None, SENTENCES),
    "CoNLL-U, packed": ("a.conll.gz", gzip.compress(CONLLU.encode()), None, SENTENCES),
    "FASTA": ("a.fasta", ">one\nMk\nv\n>two\nG\n", None, PROTEINS),
    "raw text": ("a.txt", LINES.replace(".\nWhy", ". | Why"), split_at_bars, SENTENCES),
    "raw text in JSON": ("a.jsonl", json.dumps(RAW), split_at_bars, SENTENCES),
}


@pytest.fixture(scope="module")
def embedder():
    return Embedder(TINY)


@pytest.fixture(scope="module")
def scorer():
    return Scorer(tiny_model())


@pytest.fixture(params=FILES)
def file(request, tmp_path):
    """The path of a file, the argument `tokenize`, and the sentences of the file."""
    name, content, tokenize, sentences = FILES[request.param]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path, tokenize, sentences


def test_embedding(file, embedder, tmp_path):
    path, tokenize, sentences = file
    embedder.embed_file(path, tmp_path / "v.h5", tokenize=tokenize)
    with h5py.File(tmp_path / "v.h5") as vectors:
        found = [vectors[name][()] for name in sorted(vectors, key=lambda x: (len(x), x))]
    found = np.concatenate([array for array in found if len(array)])
    np.testing.assert_allclose(found, np.concatenate(embedder.embed(sentences)), atol=1e-5)


def test_counting_and_training(file):
    path, tokenize, sentences = file
    expected = [[token.encode() for token in tokens] for tokens in sentences]
    index = CorpusIndex.build(path, tokenize=tokenize)
    assert list(map(index.sentence, range(len(index)))) == expected
    in_memory = CorpusIndex.from_sentences(expected)
    assert index.text_hash == in_memory.text_hash
    words = count_words(path, tokenize=tokenize)
    assert words.counts == Counter(token for tokens in expected for token in tokens)
    assert words.counts == index.word_counts.counts and words.stats == index.stats


def test_evaluation(file, scorer):
    path, tokenize, sentences = file
    index, scores = CorpusIndex.build(path, tokenize=tokenize), []
    scorer.perplexity(index, vocabulary(), on_sentence=scores.append)
    assert [score.tokens for score in scores] == sentences


def test_another_field_of_json(embedder, tmp_path):
    path, sentences = tmp_path / "a.txt", [["a", "b"], ["c"]]
    rows = ({"text": "d", "body": " ".join(tokens)} for tokens in sentences)
    path.write_text("\n".join(map(json.dumps, rows)))
    assert embedder.embed_file(path, tmp_path / "v.h5", field="body").tokens == 3
    for field, words in (("body", [b"a", b"b", b"c"]), ("text", [b"d"])):
        index = CorpusIndex.build(path, tmp_path / "index", field=field)
        assert index.words == words
        assert count_words(path, field=field).counts == index.word_counts.counts
    vocab = ["vocab", str(path), "--field", "body", "--min-count", "1"]
    assert cli.main([*vocab, "--output", str(tmp_path / "words.txt")]) == 0
    assert Vocabulary.from_file(tmp_path / "words.txt").words[3:] == ["a", "b", "c"]
    assert cli.main(["evaluate", "default", str(path), "--field", "body"]) == 0


def commands(text, output):
    """Each command that reads a text."""
    return [
        ["embed", "--input", str(text), "--output", f"{output}.h5", "--model", str(TINY)],
        ["vocab", str(text), "--output", str(output)],
        ["train", str(text), "--output", str(output)],
        ["evaluate", "default", str(text)],
    ]


REFUSED = {
    "a table": ("a.csv", "text,label\na b,1\n", "is a table"),
    "a page": ("a.html.gz", gzip.compress(b"<p>a b</p>\n"), "is markup"),
    "a document": ("a.docx", b"PK\x03\x04", "is a formatted document"),
    "Latin-1": (
        "a.txt",
        "a\ncafé\nb".encode("latin-1"),
        "is not UTF-8: 1 invalid byte in the first",
    ),
    "Latin-1 in CoNLL-U": ("a.conllu", "1\tcafé\n\n".encode("latin-1"), "is not UTF-8"),
    "Windows-1251": ("a.txt.gz", gzip.compress("Привет\n".encode("cp1251")), "is not UTF-8"),
    "UTF-16": ("a.txt", LINES.encode("utf-16"), "is UTF-16"),
    "gzip without .gz": ("a.txt", gzip.compress(LINES.encode()), "is gzip, not text"),
    "another CoNLL": ("a.conll", "a\tO\nb\tO\n", "to be CoNLL-U"),
    "a damaged array": ("a.json", '[{"text": "a"}', "is not a JSON array"),
    "no FASTA": ("a.fa", "a b\n", "to be FASTA"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_every_command_refuses(kind, tmp_path, capsys):
    """With the same message, and without writing anything."""
    name, content, message = REFUSED[kind]
    text, output = tmp_path / name, tmp_path / "output"
    text.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in commands(text, output):
        assert cli.main(command) == 1
        assert message in capsys.readouterr().err
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept <= {name, "output"} and not list(output.glob("*.*"))


@pytest.mark.needs("spacy", "syntok")
@pytest.mark.parametrize("language", ["", "../../etc", "qq"])
def test_languages_that_every_command_refuses(language, tmp_path, capsys):
    text, output = tmp_path / "a.txt", tmp_path / "output"
    text.write_text(LINES)
    for command in commands(text, output):
        assert cli.main([*command, "--language", language]) == 1
        assert f"Unknown language '{language}'" in capsys.readouterr().err

"""Which tokens does a sentence have? However it is written, the layer, the `Embedder`, and the
index of training read the same ones."""

import json

import h5py
import numpy as np
import pytest

from helpers import TINY, to_numpy
from keras_elmo import CorpusIndex, ElmoLayer, Embedder, Vocabulary, count_words, encode_sentences

SENTENCES = {
    "words": ["The", "caf\u00e9", "is", "open", "."],
    "boundaries and unknown words, spelled out": ["<S>", "a", "</S>", "<UNK>"],
    "white space beyond ASCII": ["10\u00a0000", "\u3000", "\u2003km\u0085"],
    "tokens with white space": ["New York", "is", "big\n"],
    "an empty token between others": ["a", "", "b"],
    "padding": ["a", "b", "", ""],
    "no tokens": [],
}
BOUNDARIES = b"<S>", b"</S>"
LISTS = {
    "list": list,
    "tuple": tuple,
    "bytes": lambda tokens: [token.encode() for token in tokens],
    "bytes that are not UTF-8": lambda tokens: [x and x.encode() + b"\xff" for x in tokens],
    "lone surrogates": lambda tokens: [x and x + "\ud800" for x in tokens],
    "objects": lambda tokens: np.array([*tokens, None], object)[:-1],
}
STRINGS = {
    "str": " ".join,
    "bytes": lambda tokens: " ".join(tokens).encode(),
    "other white space": lambda tokens: "\t" + "  ".join(tokens) + " \n",
}
FILES = {
    "JSON list": ("a.jsonl", json.dumps, None),
    "JSON list of surrogates": (
        "a.jsonl",
        lambda tokens: json.dumps([x and x + "\ud800" for x in tokens]),
        None,
    ),
    "function": ("a.txt", json.dumps, lambda line: [json.loads(line)]),
    "function to bytes": (
        "a.txt",
        json.dumps,
        lambda line: [[token.encode() for token in json.loads(line)]],
    ),
}


pytestmark = pytest.mark.filterwarnings("ignore:The strings contain white space")


def write(folder, sentence, way):
    """A file with the sentence; what `tokenize` must be to read it."""
    name, make, tokenize = FILES[way]
    line = make(sentence)
    line = f'{{"text": {line}}}' if name == "a.jsonl" else line
    (folder / name).write_text(line + "\n")
    return folder / name, tokenize


def is_plain(tokens):
    """Whether a string can hold them: each has a character, none white space."""
    return all(token.encode().split() == [token.encode()] for token in tokens)


def without_padding(sentence):
    return sentence[:-2] if sentence[-2:] == ["", ""] else sentence


@pytest.fixture(scope="module")
def embedder():
    return Embedder(TINY)


@pytest.fixture(scope="module")
def layer():
    return ElmoLayer(TINY)


@pytest.fixture(params=SENTENCES)
def sentence(request):
    return SENTENCES[request.param]


def ways_in_memory(sentence):
    ways = [make(sentence) for make in LISTS.values()]
    return ways + [make(sentence) for make in STRINGS.values() if is_plain(sentence)]


def test_layer_and_embedder(sentence, layer, embedder):
    """The vectors of the ids of the tokens; those of padding are zero."""
    tokens = without_padding(sentence)
    ids = encode_sentences([tokens])
    expected = np.zeros((len(sentence), embedder.dim), np.float32)
    expected[: len(tokens)] = to_numpy(layer(ids))[0][: len(tokens)]
    for way in ways_in_memory(sentence):
        np.testing.assert_allclose(embedder.embed([way])[0], expected, atol=1e-5)
        found = to_numpy(layer([way]))[0][: len(sentence)]
        np.testing.assert_allclose(found, expected[: len(found)], atol=1e-5)


@pytest.mark.parametrize("way", FILES)
def test_files(sentence, way, embedder, tmp_path):
    path, tokenize = write(tmp_path, sentence, way)
    expected = [token.encode() for token in without_padding(sentence)]
    embedder.embed_file(path, tmp_path / "v.h5", tokenize=tokenize)
    with h5py.File(tmp_path / "v.h5") as vectors:
        np.testing.assert_allclose(vectors["0"][()], embedder.embed([sentence])[0], atol=1e-5)
    if not expected:
        with pytest.raises(ValueError, match="No sentence was found in"):
            CorpusIndex.build(path, tokenize=tokenize)
        return
    index = CorpusIndex.build(path, tokenize=tokenize)
    assert list(map(index.sentence, range(len(index)))) == [expected]
    words = count_words(path, tokenize=tokenize)
    assert words.counts == index.word_counts.counts
    known = Vocabulary.from_counts(words.counts)
    unknown = [x for x in expected if x in BOUNDARIES or (x and x.split() != [x])]
    assert [x for x in expected if x not in known] == unknown

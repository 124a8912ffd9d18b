"""The nearest neighbors that a training ends with are those of the words' mean vectors."""

import collections

import numpy as np
import pytest

from helpers import TINY
from keras_elmo import CorpusIndex, Embedder, analysis
from keras_elmo.training.neighbors import word_neighbors
from training_models import DATA

TEXT = DATA / "train.txt"


def test_neighbors_are_those_of_the_mean_vectors():
    sentences = [line.split() for line in TEXT.read_text().splitlines()[:30]]
    vectors = collections.defaultdict(list)
    for tokens, layers in zip(sentences, Embedder(TINY).embed(sentences, "layers")):
        for token, vector in zip(tokens, np.swapaxes(layers, 0, 1)):
            vectors[token].append(vector)
    kept = {word: np.mean(x, 0) for word, x in vectors.items() if word.isalpha() and len(x) >= 3}
    found = word_neighbors(TINY, TEXT, num_words=4, num_neighbors=2, max_sentences=30)
    assert len(found) == 4
    counts = [one.occurrences for one in found]
    assert counts == sorted(counts, reverse=True) and counts[-1] == 3
    for one in found:
        assert one.occurrences == len(vectors[one.word])
        assert list(one.layers) == ["token vectors", "LSTM 1", "LSTM 2"]
        for number, nearest in enumerate(one.layers.values()):
            others = {word: x[number] for word, x in kept.items() if word != one.word}
            own = kept[one.word][number][None]
            cosines = {w: analysis.cosines(own, x[None]).item() for w, x in others.items()}
            assert nearest == sorted(cosines, key=cosines.get, reverse=True)[:2]
    words = [one.word for one in reversed(found)]
    limits = {"num_neighbors": 2, "max_sentences": 30}
    assert word_neighbors(TINY, TEXT, words=words, **limits) == found[::-1]
    with pytest.raises(ValueError, match=r"\['absent'\] occur less than 3 times"):
        word_neighbors(TINY, TEXT, words=[*words, "absent"], **limits)


def test_a_text_of_few_words_has_no_neighbors():
    assert word_neighbors(TINY, CorpusIndex.from_sentences([[b"a", b"b"]] * 3)) == []

"""What the tests of every export compare with."""

import json

import numpy as np

from helpers import GOLDEN, TINY, assert_close, to_numpy
from keras_elmo import ElmoLayer

SENTENCES = json.loads((GOLDEN / "sentences.json").read_text())["batch"]
OUTPUTS = ["word_emb", "lstm_outputs1", "lstm_outputs2", "elmo", "default"]


def assert_outputs(found, elmo, ids):
    """Compares with the layer's own vectors, from character ids."""
    layers = to_numpy(ElmoLayer(TINY, vectors="layers")(ids))
    mixed = to_numpy(elmo(ids))
    lengths = ids.any(-1).sum(1) - 2
    assert_close(found["word_emb"], layers[:, 0, :, :12])
    assert_close(found["lstm_outputs1"], layers[:, 1])
    assert_close(found["lstm_outputs2"], layers[:, 2])
    assert_close(found["elmo"], mixed)
    assert_close(found["default"], mixed.sum(1) / np.maximum(lengths, 1)[:, None])

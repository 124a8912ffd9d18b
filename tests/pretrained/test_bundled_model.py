"""The bundled model is the one that was released, and computes what it computed then."""

import hashlib
import json

import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import ElmoLayer
from release import DEFAULT, GOLDEN, SENTENCES, frequent_words_perplexity

EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["sha256"])
def test_files(name):
    content = (DEFAULT / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == EXPECTED["sha256"][name]
    assert EXPECTED["sha256"][name] in (DEFAULT / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_vectors():
    expected = np.load(GOLDEN / "layers.npz")["layers"]
    found = to_numpy(ElmoLayer(output="layers")(SENTENCES))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_perplexity():
    """Over the most frequent words, whose rows of the softmax are kept here in float16."""
    report = frequent_words_perplexity()
    assert report.forward == pytest.approx(EXPECTED["forward"], rel=1e-4)
    assert report.backward == pytest.approx(EXPECTED["backward"], rel=1e-4)

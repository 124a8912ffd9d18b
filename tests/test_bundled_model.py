"""The bundled model is the one that was released, and computes what it computed then."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import BidirectionalLanguageModel, ElmoLayer, Vocabulary, perplexity

GOLDEN = Path(__file__).parent / "golden" / "bundled"
DEFAULT = Path(__file__).parent.parent / "weights" / "default"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
SENTENCES = [
    ["The", "bank", "of", "the", "river", "was", "covered", "with", "grass", "."],
    ["Zoë", "'s", "tweets", "?"],
]


@pytest.mark.parametrize("name", EXPECTED["sha256"])
def test_files(name):
    content = (DEFAULT / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == EXPECTED["sha256"][name]
    assert EXPECTED["sha256"][name] in (DEFAULT / "MODEL_CARD.md").read_text(encoding="utf-8")


def test_vectors():
    expected = np.load(GOLDEN / "layers.npz")["layers"]
    np.testing.assert_allclose(
        to_numpy(ElmoLayer(output="layers")(SENTENCES)), expected, atol=1e-5, rtol=1e-5
    )


def test_perplexity(tmp_path):
    """Over the most frequent words, whose rows of the softmax are kept here in float16."""
    shutil.copy(DEFAULT / "weights.hdf5", tmp_path)
    shutil.copy(GOLDEN / "softmax.hdf5", tmp_path)
    words = Vocabulary.from_file(DEFAULT / "vocabulary.txt").words[:4000]
    config = ElmoLayer().config
    model = BidirectionalLanguageModel(config, len(words), carry_state=False)
    assert model.load_hdf5(tmp_path)
    report = perplexity(model, GOLDEN / "text.txt", Vocabulary(words))
    assert report.forward == pytest.approx(EXPECTED["forward"], rel=1e-4)
    assert report.backward == pytest.approx(EXPECTED["backward"], rel=1e-4)

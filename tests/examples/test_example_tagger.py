"""examples/tagger.py: learns, reads no padding, and can be saved."""

import keras
import numpy as np
import pytest

import tagger
from example_programs import write_glove
from helpers import TINY, tensorflow_only
from word_vectors import glove_words

pytestmark = tensorflow_only

TEXT = """\
Ada\tB-PER
Byron\tI-PER
lived\tO
in\tO
London\tB-LOC

Rome\tB-LOC
fell\tO
"""


@pytest.mark.slow
def test_the_program_learns(tmp_path, run_here):
    path, glove = tmp_path / "text.conll", tmp_path / "glove.txt"
    path.write_text("\ufeff" + TEXT * 8, encoding="utf-8")
    write_glove(glove, ["ada", "byron", "lived", "in", "london", "rome", "fell"], dim=16)
    files = ("--train", path, "--test", path, "--glove", glove)
    printed = run_here("tagger.py", *files, "--elmo", TINY, "--epochs", 60)
    assert printed.splitlines()[-1] == "F1 100.00"


def test_the_model_reads_no_padding(tmp_path, eager):
    path = tmp_path / "text.conll"
    path.write_text(TEXT, encoding="utf-8")
    tokens, tags = tagger.read_column_file(path)
    assert tokens == [["Ada", "Byron", "lived", "in", "London"], ["Rome", "fell"]]
    assert tags == [["B-PER", "I-PER", "O", "O", "B-LOC"], ["B-LOC", "O"]]
    write_glove(tmp_path / "glove.txt", ["ada", "rome"], dim=6)
    glove, names = glove_words(tmp_path / "glove.txt", []), ["O", "B-PER", "I-PER"]
    ((inputs, labels),) = tagger.make_dataset(tokens, tags, glove, names)
    assert [x.tolist() for x in (inputs[1].numpy(), labels.numpy())] == [
        [[2, 1, 1, 1, 1], [3, 1, 0, 0, 0]],
        [[1, 2, 0, 0, 0], [0, 0, 0, 0, 0]],
    ]
    model = tagger.make_model(glove, 3, TINY)
    logits = model.predict_on_batch(inputs)
    single = model.predict_on_batch([x[1:, :2] for x in inputs])
    np.testing.assert_allclose(logits[1, :2], single[0], atol=1e-5)
    model.save(tmp_path / "tagger.keras")
    again = keras.models.load_model(tmp_path / "tagger.keras")
    np.testing.assert_allclose(again.predict_on_batch(inputs), logits, atol=1e-5)
    assert [len(row) for row in tagger.tag(model, [(inputs, labels)], [5, 2], names)] == [5, 2]

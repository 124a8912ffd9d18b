"""The example programs on tiny data, as a user runs them."""

import re

import pytest

from example_programs import EXAMPLES, run_program
from helpers import tensorflow_only
from keras_elmo import ElmoLayer
from training_models import DATA


@pytest.mark.slow
def test_pretrain(tmp_path):
    arguments = [
        DATA / "train.txt", "--held-out", DATA / "heldout.txt", "--output", tmp_path,
        "--words", 100, "--batch-size", 4, "--steps", 6, "--report", 3,
        "--lstm-dim", 16, "--projection-dim", 8,
    ]  # fmt: skip
    printed = run_program("pretrain.py", *arguments)
    assert "819 tokens" in printed and "Held-out perplexity" in printed
    assert "Vectors of 16 numbers" in printed
    assert (tmp_path / "log.csv").read_text().count("\n") == 3
    assert (tmp_path / "checkpoints" / "step-00000006.npz").exists()


@tensorflow_only
def test_migration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ElmoLayer().export_hdf5(tmp_path)
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\n")
    text = (EXAMPLES / "migrate_tf_hub.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    before = ("tensorflow_hub", "allennlp.", "from bilm ")
    after = [block for block in blocks if not any(name in block for name in before)]
    assert len(blocks) == len(after) + 3
    names = {}
    for block in after:
        exec(block.replace('"original"', '"default"'), names)
    assert names["vectors"].shape == names["again"].shape == (1, 3, 256)
    assert names["first"].shape == (2, 3, 256)
    assert names["layers"].shape == (3, 4, 256)
    assert names["word_emb"].shape == (1, 3, 128)
    assert names["sentences"].shape == (1, 256)

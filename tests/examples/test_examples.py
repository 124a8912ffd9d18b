"""The example programs on tiny data, as a user runs them."""

import pytest

from example_programs import run_program
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

"""The example programs on tiny data, as a user runs them."""

import pytest

from training_models import DATA


@pytest.mark.slow
def test_pretrain(tmp_path, run_here):
    arguments = [
        DATA / "train.txt", "--output", tmp_path,
        "--steps", 6, "--lstm-dim", 16, "--projection-dim", 8,
    ]  # fmt: skip
    printed = run_here("pretrain.py", *arguments)
    assert "Held-out perplexity" in printed and "Vectors of 16 numbers" in printed
    assert (tmp_path / "log.csv").read_text().count("\n") == 7
    assert (tmp_path / "checkpoints" / "step-00000006.ckpt").exists()
    printed = run_here("pretrain.py", *arguments)
    assert "Held-out perplexity" in printed

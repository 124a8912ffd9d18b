"""The example programs on tiny data, as a user runs them."""

import pytest

from training_models import DATA


@pytest.mark.slow
def test_pretrain(tmp_path, run_here, capsys):
    arguments = [
        DATA / "train.txt", "--held-out", DATA / "heldout.txt", "--output", tmp_path,
        "--words", 100, "--steps", 6, "--lstm-dim", 16, "--projection-dim", 8,
    ]  # fmt: skip
    printed = run_here("pretrain.py", *arguments)
    # 879 words to predict: one row of 20 gives an epoch of 43 steps.
    assert "819 tokens" in printed and "6 steps of 1 x 20 words, 0.1 epochs" in printed
    assert "Held-out perplexity" in printed and "Vectors of 16 numbers" in printed
    assert (tmp_path / "log.csv").read_text().count("\n") == 7
    assert (tmp_path / "checkpoints" / "step-00000006.ckpt").exists()
    arguments[arguments.index("--words") + 1] = 90
    with pytest.raises(SystemExit):
        run_here("pretrain.py", *arguments)
    assert "created with a different text or --words" in capsys.readouterr().err

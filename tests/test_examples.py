"""The example programs on tiny data, as a user runs them."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from training_models import DATA

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *arguments):
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )


@pytest.mark.slow
def test_pretrain(tmp_path):
    arguments = [
        DATA / "train.txt", "--held-out", DATA / "heldout.txt", "--output", tmp_path,
        "--words", 100, "--batch-size", 4, "--steps", 6, "--report", 3,
        "--lstm-dim", 16, "--projection-dim", 8,
    ]  # fmt: skip
    result = run("pretrain.py", *arguments)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "819 tokens" in result.stdout and "Held-out perplexity" in result.stdout
    assert "Vectors of 16 numbers" in result.stdout
    assert (tmp_path / "log.csv").read_text().count("\n") == 3
    assert (tmp_path / "checkpoints" / "step-00000006.npz").exists()

"""What the tests of the example programs share: where they are, and tiny files to run them on."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
ELMO = Path(__file__).parent / "golden" / "inference" / "default"

trains_a_model = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="a program's training takes minutes on this backend; its layers are tested on all",
)


def run_program(name, *arguments):
    """Runs a program in a process of its own and returns what it printed."""
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


def write_glove(path, words, dim=4):
    """Writes a GloVe text file of random vectors; returns them as an array."""
    vectors = np.random.default_rng(1).normal(size=(len(words), dim)).round(3)
    rows = (f"{word} {' '.join(map(str, vector))}\n" for word, vector in zip(words, vectors))
    path.write_text("".join(rows), encoding="utf-8")
    return vectors.astype("float32")

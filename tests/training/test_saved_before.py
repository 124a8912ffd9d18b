"""A training that an earlier version began, and that was killed, is resumed and ends the same."""

import csv
import io
import shutil
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from helpers import assert_close
from keras_elmo import cli
from training_models import DATA

SAVED = Path(__file__).parents[1] / "golden" / "saved_before"
same_random_numbers = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="each backend draws random numbers of its own, and TensorFlow's were recorded",
)


@pytest.mark.parametrize(
    "name, settings",
    [
        ("training", ["--dropout", "0", "--negatives", "0"]),
        pytest.param(
            "training_sampled",
            ["--dropout", "0.2", "--negatives", "40"],
            marks=[same_random_numbers, pytest.mark.slow],
        ),
    ],
)
def test_resume(capsys, tmp_path, monkeypatch, name, settings):
    folder = shutil.copytree(SAVED / name, tmp_path / name)
    monkeypatch.chdir(DATA)
    code = cli.main(
        ["train", "train.txt", "--vocab", "vocab.txt", "--options", str(SAVED / "options.json"),
         "--batch-size", "4", "--unroll-steps", "8", "--steps", "18", "--keep", "1",
         "--evaluate-every", "6", "--output", str(folder), *settings]
    )  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0, captured.err
    # Killed after step 9, in the middle of an epoch; the corpus was counted before.
    assert "step 12, perplexity" in captured.out and "step 6, perplexity" not in captured.out
    assert "Corpus:" not in captured.out
    expected = np.load(SAVED / f"{name}.npz")
    arrays = {name: expected[name] for name in expected if name != "log"}
    with (
        h5py.File(folder / "model" / "weights.hdf5") as weights,
        h5py.File(folder / "model" / "softmax.hdf5") as softmax,
    ):
        for path, array in arrays.items():
            file = softmax if path.startswith("softmax") else weights
            assert_close(file[path][()], array, tolerance=1e-5)
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    expected_rows = list(csv.DictReader(io.StringIO(expected["log"].item())))
    assert [row["step"] for row in rows] == [row["step"] for row in expected_rows]
    for row, other in zip(rows, expected_rows):
        assert float(row["perplexity"]) == pytest.approx(float(other["perplexity"]), rel=1e-4)

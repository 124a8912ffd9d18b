"""What does an epoch leave behind? History, log.csv, checkpoints, callbacks and log agree."""

import csv
import logging
import re

import keras
import pytest

from keras_elmo import TrainingSettings, train
from keras_elmo.training.checkpoint import read_checkpoint_state
from training_models import BATCH, DATA, ONE_LAYER

STEPS_PER_PASS = 27


class Seen(keras.callbacks.Callback):
    """Keeps what Keras tells a callback, and stops as a kill would in a batch."""

    def __init__(self, killed_in_batch=None):
        super().__init__()
        self.epochs = []
        self.batches_left = killed_in_batch

    def on_train_batch_end(self, batch, logs=None):
        if self.batches_left is not None:
            self.batches_left -= 1
            if self.batches_left == 0:
                raise KeyboardInterrupt

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, dict(logs)))


def run(folder, *callbacks):
    settings = TrainingSettings(
        files=DATA / "train.txt",
        vocabulary=DATA / "vocab.txt",
        held_out=DATA / "heldout.txt",
        output=folder,
        options=ONE_LAYER.to_dict(),
        negatives=40,
        steps=7,
        checkpoint_every=3,
        patience=0,
        **BATCH,
    )
    return train(settings, callbacks)


def logged(caplog):
    """Step, perplexity and held-out perplexity of each line on an epoch, as in the log."""
    pattern = r"step (\d+), perplexity ([\d.]+), held-out ([\d.]+), [\d,]+ tokens/s"
    found = (re.match(pattern, record.getMessage()) for record in caplog.records)
    return [match.groups() for match in found if match]


def without_speed(rows):
    return [{name: x for name, x in row.items() if name != "tokens_per_second"} for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    seen = Seen()
    result = run(tmp_path_factory.mktemp("whole"), seen)
    return result, seen


@pytest.mark.parametrize("killed", [False, True])
def test_all_agree(killed, tmp_path, caplog, whole):
    caplog.set_level(logging.INFO, "keras_elmo")
    before, after = Seen(killed_in_batch=5), Seen()
    if killed:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, before)
    result = run(tmp_path, after)
    history = result.history
    assert without_speed(history) == without_speed(whole[0].history)

    assert [row["step"] for row in history] == [3, 6, 7]
    assert [row["epoch"] for row in history] == [round(n / STEPS_PER_PASS, 4) for n in (3, 6, 7)]
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [list(row) for row in history]
    assert [{name: float(x) for name, x in row.items()} for row in rows] == history
    for path in (tmp_path / "checkpoints").iterdir():
        state = read_checkpoint_state(path)
        assert state["history"] == [row for row in history if row["step"] <= state["step"]]
        assert path.name == f"step-{state['step']:08d}.ckpt"
    assert logged(caplog) == [
        (str(row["step"]), f"{row['perplexity']:.1f}", f"{row['val_perplexity']:.1f}")
        for row in history
    ]

    # Keras' epochs are the segments between two checkpoints; what it logs is in the history.
    epochs = [*before.epochs, *after.epochs]
    assert [epoch for epoch, _ in epochs] == [0, 1, 2]
    for (_, logs), row in zip(epochs, history):
        assert row.items() >= logs.items() and "val_perplexity" in logs
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"7 steps of 4 x 8 words, {history[-1]['epoch']:.4g} passes over the text" in card

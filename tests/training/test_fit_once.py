"""Keras' `fit` runs once, whatever the lengths of the epochs, and resumes at any point."""

import csv

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import TrainingCheckpoint
from training_models import held_out, tiny_corpus, tiny_model

CLOCK = ("tokens_per_second",)
STEPS = 5


class Stop(Exception):
    pass


class Calls(keras.callbacks.Callback):
    """Records what Keras calls."""

    def __init__(self):
        super().__init__()
        self.names, self.lengths = [], []

    def on_train_begin(self, logs=None):
        self.names.append("train_begin")

    def on_train_end(self, logs=None):
        self.names.append("train_end")

    def on_epoch_begin(self, epoch, logs=None):
        self.names.append(epoch)
        self.lengths.append(0)

    def on_train_batch_end(self, batch, logs=None):
        self.lengths[-1] = batch + 1


class StopAt(keras.callbacks.Callback):
    """Raises the n-th time that Keras calls something."""

    def __init__(self, place, number):
        super().__init__()
        self.number = number
        setattr(self, place, self._called)

    def _called(self, *args, **kwargs):
        self.number -= 1
        if self.number == 0:
            raise Stop


def new_model():
    model = tiny_model(num_negative_samples=20)
    model.compile()
    return model


def fit(corpus=None, model=None, callbacks=(), **arguments):
    model = new_model() if model is None else model
    corpus = tiny_corpus() if corpus is None else corpus
    history = model.fit(
        corpus, verbose=0, steps_per_epoch=STEPS, callbacks=list(callbacks), **arguments
    )
    return model, history


def everything(model):
    return [to_numpy(v.value) for v in (*model.variables, *model.optimizer.variables)]


def assert_same(model, expected):
    for one, other in zip(everything(model), everything(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def without_clock(rows):
    return [{name: row[name] for name in row if name not in CLOCK} for row in rows]


def columns(history):
    return {name: values for name, values in history.items() if name not in CLOCK}


def test_callbacks_see_one_training(tmp_path):
    calls, log = Calls(), keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
    _, history = fit(total_steps=13, callbacks=[calls, log])
    assert calls.names == ["train_begin", 0, 1, 2, "train_end"]
    assert calls.lengths == [5, 5, 3]
    with open(tmp_path / "log.csv", newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1", "2"]
    assert history.epoch == [0, 1, 2] and len(history.history["loss"]) == 3


def test_early_stopping_keeps_its_patience_in_a_resumed_training(tmp_path):
    with pytest.raises(Stop):
        stop = StopAt("on_train_batch_end", 3)
        fit(epochs=9, callbacks=[TrainingCheckpoint(tmp_path, every_steps=1), stop])
    # The loss never improves by so much, so that the third epoch is the last.
    early = keras.callbacks.EarlyStopping("loss", patience=2, min_delta=1e9)
    _, history = fit(epochs=9, callbacks=[TrainingCheckpoint(tmp_path), early])
    assert history.epoch == [0, 1, 2]


def test_a_callback_stops_within_and_at_the_end_of_a_short_epoch():
    class StopTraining(keras.callbacks.Callback):
        def __init__(self, place, number):
            super().__init__()
            self.place, self.number = place, number

        def on_train_batch_end(self, batch, logs=None):
            self.count("batch")

        def on_epoch_end(self, epoch, logs=None):
            self.count("epoch")

        def count(self, place):
            if place == self.place:
                self.number -= 1
                if self.number == 0:
                    self.model.stop_training = True

    model = new_model()
    for place, number, epochs, batches in (
        ("batch", 7, 2, 7),
        ("batch", 13, 3, 13),
        ("epoch", 2, 2, 10),
        ("epoch", 3, 3, 13),
    ):
        corpus = tiny_corpus()
        stop = StopTraining(place, number)
        _, history = fit(corpus, model, total_steps=13, callbacks=[stop])
        assert (len(history.epoch), corpus.num_batches) == (epochs, batches)
        assert model.stop_training


@pytest.mark.parametrize(
    "is_before",
    [pytest.param(True, id="before"), pytest.param(False, id="after", marks=pytest.mark.slow)],
)
def test_stopped_around_the_ends_of_epochs(tmp_path, is_before, uninterrupted):
    """Before and after the checkpoint's callback, with a checkpoint due at every step."""
    model = new_model()
    for place, number in (
        ("on_train_batch_end", 9),
        ("on_train_batch_end", 1),
        ("on_test_begin", 1),
        ("on_test_batch_end", 1),
        ("on_test_end", 1),
        ("on_epoch_end", 1),
        ("on_epoch_begin", 1),
        ("on_train_batch_begin", 2),
        ("on_test_begin", 1),
        ("on_epoch_end", 1),
        ("on_train_end", 1),
    ):
        stop = StopAt(place, number)
        checkpoint = TrainingCheckpoint(tmp_path, every_steps=1)
        callbacks = [stop, checkpoint] if is_before else [checkpoint, stop]
        with pytest.raises(Stop):
            fit(model=model, total_steps=13, validation_data=held_out(), callbacks=callbacks)
    checkpoint = TrainingCheckpoint(tmp_path, every_steps=1)
    model, history = fit(total_steps=13, validation_data=held_out(), callbacks=[checkpoint])
    expected, rows, expected_history = uninterrupted
    assert without_clock(checkpoint.history) == rows
    assert columns(history.history) == expected_history
    assert history.epoch == [0, 1, 2]
    assert_same(model, expected)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    checkpoint = TrainingCheckpoint(tmp_path_factory.mktemp("whole"))
    model, history = fit(total_steps=13, validation_data=held_out(), callbacks=[checkpoint])
    return model, without_clock(checkpoint.history), columns(history.history)


@pytest.mark.slow
def test_more_steps_resume_the_last_epoch(tmp_path, uninterrupted):
    fit(total_steps=12, validation_data=held_out(), callbacks=[TrainingCheckpoint(tmp_path)])
    checkpoint = TrainingCheckpoint(tmp_path)
    model, _ = fit(total_steps=13, validation_data=held_out(), callbacks=[checkpoint])
    assert [row["step"] for row in checkpoint.history] == [5, 10, 12, 13]
    # Its training loss is that of the steps since the last report.
    last, expected = checkpoint.history[-1], uninterrupted[1][-1]
    names = [name for name in expected if name.startswith("val_")]
    assert len(names) == 4 and all(last[name] == expected[name] for name in names)
    assert last["loss"] != expected["loss"]
    assert_same(model, uninterrupted[0])


@pytest.mark.slow
def test_several_steps_per_execution():
    model = tiny_model(num_negative_samples=20)
    model.compile(steps_per_execution=2 if keras.backend.backend() != "torch" else 1)
    if model.steps_per_execution == 2:
        with pytest.raises(ValueError, match="multiples of steps_per_execution=2"):
            fit(model=model, total_steps=10)
    corpus, calls = tiny_corpus(), Calls()
    model.fit(corpus, total_steps=10, steps_per_epoch=4, verbose=0, callbacks=[calls])
    assert calls.lengths == [4, 4, 2] and corpus.num_batches == 10
    assert int(model.optimizer.iterations) == 10

"""A training that was stopped ends as one that was not; checkpoints are whole."""

import dataclasses
import errno
import os
import signal
import stat

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import TrainingCheckpoint
from keras_elmo.training.checkpoint import (
    DamagedCheckpointError,
    latest_checkpoint,
    latest_step,
    load_checkpoint,
    read_checkpoint_state,
    save_checkpoint,
)
from training_models import CONFIG, held_out, tiny_corpus, tiny_model


class StopAfter(keras.callbacks.Callback):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch, logs=None):
        self.steps -= 1
        if self.steps == 0:
            raise KeyboardInterrupt


def train(folder, stop_after=None, epochs=3, dtype=None, **arguments):
    model = tiny_model(num_negative_samples=20, dtype=dtype)
    model.compile()
    checkpoint = TrainingCheckpoint(folder, every_steps=5, **arguments)
    callbacks = [checkpoint] + ([StopAfter(stop_after)] if stop_after else [])
    model.fit(
        tiny_corpus(),
        epochs=epochs,
        verbose=0,
        validation_data=held_out(),
        callbacks=callbacks,
    )
    return model, checkpoint


def everything(model):
    return [to_numpy(v.value) for v in (*model.variables, *model.optimizer.variables)]


def test_stopped_again_and_again_is_the_same_to_the_bit(tmp_path):
    expected, whole = train(tmp_path / "whole")
    # From the end of an epoch, of 27 steps, and from within; JAX compiles anew at each start.
    for steps in (28, 20) if keras.backend.backend() == "jax" else (28, 3, 26):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "stopped", steps)
    model, stopped = train(tmp_path / "stopped")
    for one, other in zip(everything(expected), everything(model)):
        np.testing.assert_array_equal(one, other)
    assert stopped.step == whole.step == 81
    for row in (*stopped.history, *whole.history):
        assert row.pop("tokens_per_second") > 0
    assert stopped.history == whole.history and len(whole.history) == 3
    assert "val_perplexity" in whole.history[0]
    # Nothing is left to do: the same command once more changes nothing.
    again, _ = train(tmp_path / "stopped")
    np.testing.assert_array_equal(everything(again)[5], everything(model)[5])


class SignalAt(keras.callbacks.Callback):
    """Sends signals in a step, as Ctrl-C does, before the checkpoint is asked."""

    def __init__(self, step, times=1):
        super().__init__()
        self.steps, self.times = step, times

    def on_train_batch_begin(self, batch, logs=None):
        self.steps -= 1
        if self.steps == 0:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.fixture
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


# In the second step, and in the last one of an epoch, which is evaluated before it stops.
@pytest.mark.parametrize("step, rows", [(2, 0), (27, 1)])
def test_ctrl_c_saves_the_step(tmp_path, default_handler, step, rows):
    seen = []
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    model, checkpoint = tiny_model(num_negative_samples=20), TrainingCheckpoint(tmp_path)
    model.compile()
    with pytest.raises(KeyboardInterrupt):
        model.fit(
            tiny_corpus(),
            epochs=2,
            verbose=0,
            validation_data=held_out(),
            callbacks=[SignalAt(step), checkpoint, watch],
        )
    assert latest_step(tmp_path) == checkpoint.step == step
    assert len(checkpoint.history) == len(seen) == rows


def test_ctrl_c_twice_stops_at_once(tmp_path, default_handler):
    model = tiny_model(num_negative_samples=20)
    model.compile()
    with pytest.raises(KeyboardInterrupt):
        callbacks = [SignalAt(2, times=2), TrainingCheckpoint(tmp_path)]
        model.fit(tiny_corpus(), verbose=0, callbacks=callbacks)
    assert latest_step(tmp_path) == 0


def test_a_handler_of_the_program_is_kept(tmp_path):
    received = []
    before = signal.signal(signal.SIGINT, lambda *_: received.append(1))
    try:
        model = tiny_model(num_negative_samples=20)
        model.compile()
        callbacks = [SignalAt(2), TrainingCheckpoint(tmp_path)]
        model.fit(tiny_corpus(), total_steps=3, verbose=0, callbacks=callbacks)
    finally:
        signal.signal(signal.SIGINT, before)
    assert received == [1] and latest_step(tmp_path) == 3


class Diverge(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 6:
            weight = self.model.softmax.bias
            weight.assign(weight + float("nan"))


def test_a_training_that_has_diverged_is_not_saved(tmp_path):
    model = tiny_model(num_negative_samples=20)
    model.compile()
    callbacks = [TrainingCheckpoint(tmp_path, every_steps=5, keep=1), Diverge()]
    with pytest.raises(ValueError, match="has diverged: .* holds NaN"):
        model.fit(tiny_corpus(), verbose=0, callbacks=callbacks)
    assert latest_step(tmp_path) == 5


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_float16", "bfloat16"])
def test_half_precision_goes_on_too(tmp_path, dtype):
    expected, _ = train(tmp_path / "whole", epochs=1, dtype=dtype)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", 12, epochs=1, dtype=dtype)
    model, _ = train(tmp_path / "stopped", epochs=1, dtype=dtype)
    scales = type(model.optimizer).__name__ == "LossScaleOptimizer"
    assert scales is (dtype == "mixed_float16")
    for one, other in zip(everything(expected), everything(model)):
        np.testing.assert_array_equal(one, other)


def test_the_last_are_kept(tmp_path):
    train(tmp_path, epochs=1, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000025.npz", "step-00000027.npz"]
    assert latest_checkpoint(tmp_path).name == "step-00000027.npz"
    assert read_checkpoint_state(latest_checkpoint(tmp_path))["step"] == 27
    with pytest.raises(ValueError, match="keep must be at least 1"):
        TrainingCheckpoint(tmp_path, keep=0)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    error = OSError(errno.ENOSPC, "No space left on device")
    savez, before = np.savez, {}

    def full(file, **arrays):
        before.update({path.name: path.read_bytes() for path in tmp_path.glob("step-*")})
        if len(before) < 2:
            return savez(file, **arrays)
        savez(file, some=1)
        raise error

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left to write the checkpoint .* as they were"):
        train(tmp_path, epochs=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_corpus_may_have_been_used_before(tmp_path):
    model, corpus = tiny_model(), tiny_corpus()
    model.compile()
    model.fit(corpus, steps_per_epoch=3, verbose=0)
    model.fit(corpus, steps_per_epoch=4, verbose=0, callbacks=[TrainingCheckpoint(tmp_path)])
    state = read_checkpoint_state(tmp_path / "step-00000004.npz")
    assert state["corpus"]["target"] == corpus.num_batches == 7


def test_what_a_checkpoint_does_not_go_with(tmp_path):
    model, callbacks = tiny_model(), [TrainingCheckpoint(tmp_path)]
    model.compile()
    with pytest.raises(ValueError, match="needs a LanguageModelCorpus"):
        model.fit(next(iter(tiny_corpus())), callbacks=callbacks)
    with pytest.raises(ValueError, match="leave out initial_epoch"):
        model.fit(tiny_corpus(), epochs=2, initial_epoch=1, callbacks=callbacks)


def test_an_architecture_of_the_same_shapes_is_refused(tmp_path):
    for config in (CONFIG, dataclasses.replace(CONFIG, use_skip_connections=False)):
        model = tiny_model(config)
        model.compile()
        if config is CONFIG:
            save_checkpoint(tmp_path / "one.npz", model)
            load_checkpoint(tmp_path / "one.npz", model)
    with pytest.raises(ValueError, match="its architecture is another one"):
        load_checkpoint(tmp_path / "one.npz", model)


def test_other_settings_are_refused(tmp_path):
    model = tiny_model(num_negative_samples=20)
    model.compile()
    save_checkpoint(tmp_path / "step-00000001.npz", model, {"step": 1, "history": []})
    model = tiny_model(num_negative_samples=20)
    model.compile("adam")
    with pytest.raises(ValueError, match="another model or optimizer: its optimizer is Clipped"):
        model.fit(tiny_corpus(), verbose=0, callbacks=[TrainingCheckpoint(tmp_path)])
    other = tiny_model(num_negative_samples=20, batch_size=2)
    other.compile()
    with pytest.raises(ValueError, match=r"is \(4, 2, 2, 8\) there, \(2, 2, 2, 8\) here"):
        other.fit(tiny_corpus(batch_size=2), verbose=0, callbacks=[TrainingCheckpoint(tmp_path)])


def test_files_that_are_no_checkpoints_are_named(tmp_path):
    path = tmp_path / "step-00000001.npz"
    np.savez(path, x=1)
    with pytest.raises(ValueError, match="not a checkpoint of keras_elmo"):
        read_checkpoint_state(path)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="not a checkpoint of keras_elmo"):
        read_checkpoint_state(path)
    path.write_bytes(b"cut off")
    with pytest.raises(ValueError, match="cut off or damaged"):
        read_checkpoint_state(path)
    np.savez(path, state=np.zeros(100_000))
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(ValueError, match="cut off or damaged"):
        read_checkpoint_state(path)
    assert latest_checkpoint(tmp_path / "nothing") is None


def test_what_a_kill_left_is_no_checkpoint_and_is_removed(tmp_path):
    (tmp_path / ".partial-1.npz").write_bytes(b"killed while writing")
    (tmp_path / "step-1.npz.tmp").write_bytes(b"something else")
    assert latest_checkpoint(tmp_path) is None
    train(tmp_path, epochs=0)
    assert [path.name for path in tmp_path.iterdir()] == ["step-1.npz.tmp"]


@pytest.mark.parametrize("field, value", [(4, 0xFF), (6, 1)])
def test_a_damaged_header_is_damage(tmp_path, field, value):
    """NumPy says that the version of a zip file is too new, or that it asks for a password."""
    model = tiny_model()
    model.compile()
    path = tmp_path / "step-00000001.npz"
    save_checkpoint(path, model)
    content = bytearray(path.read_bytes())
    start = content.rindex(b"PK\x01\x02")  # the last entry of the directory
    content[start + 2 + field] = value
    path.write_bytes(content)
    with pytest.raises(DamagedCheckpointError, match="cut off or damaged"):
        read_checkpoint_state(path)


def test_a_checkpoint_that_would_fill_the_memory_is_refused(tmp_path):
    path = tmp_path / "step-00000001.npz"
    np.savez_compressed(path, state=np.zeros(1 << 27, np.uint8))
    with pytest.raises(DamagedCheckpointError, match="too few for the arrays of 134,217,"):
        read_checkpoint_state(path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1000])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, pytest.param(flip, marks=pytest.mark.slow)])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, damage):
    expected, _ = train(tmp_path / "whole", epochs=1, keep=1)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", 13, epochs=1)
    folder = tmp_path / "stopped"
    damage(folder / "step-00000010.npz")
    with pytest.warns(UserWarning, match="step-00000010.npz is not .* falls back to the check"):
        model, _ = train(folder, epochs=1, keep=1)
    assert sorted(path.name for path in folder.iterdir()) == [
        "step-00000010.npz.damaged",
        "step-00000027.npz",
    ]
    for one, other in zip(everything(expected), everything(model)):
        np.testing.assert_array_equal(one, other)
    damage(folder / "step-00000027.npz")
    with pytest.warns(UserWarning, match="falls back"):
        _, checkpoint = train(folder, epochs=0)
    assert checkpoint.step == 0


def test_checkpoints_are_on_the_disk_before_they_take_their_names(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    model = tiny_model()
    model.compile()
    save_checkpoint(tmp_path / "step-00000001.npz", model)
    assert [stat.S_ISDIR(found.st_mode) for found in synced] == [False, True]
    assert synced[0].st_size == (tmp_path / "step-00000001.npz").stat().st_size


def test_a_link_to_nothing_is_no_checkpoint_that_another_process_moved(tmp_path):
    (tmp_path / "step-00000001.npz").symlink_to(tmp_path / "moved.npz")
    model = tiny_model()
    model.compile()
    with pytest.raises(FileNotFoundError):
        model.fit(tiny_corpus(), callbacks=[TrainingCheckpoint(tmp_path)])


def test_one_checkpoint_callback(tmp_path):
    model = tiny_model()
    model.compile()
    with pytest.raises(ValueError, match="Give one TrainingCheckpoint at most, got 2"):
        model.fit(tiny_corpus(), callbacks=[TrainingCheckpoint(tmp_path)] * 2)


def test_an_error_of_the_system_is_no_damage(tmp_path, monkeypatch):
    (tmp_path / "step-00000001.npz").write_bytes(b"")

    def failing(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(np, "load", failing)
    with pytest.raises(OSError, match="Input/output error"):
        read_checkpoint_state(tmp_path / "step-00000001.npz")


def test_an_error_while_saving_is_not_hidden_by_ctrl_c(tmp_path, default_handler, monkeypatch):
    model = tiny_model(num_negative_samples=20)
    model.compile()

    def failing(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(np, "savez", failing)
    with pytest.raises(OSError, match="Input/output error"):
        callbacks = [SignalAt(2), TrainingCheckpoint(tmp_path)]
        model.fit(tiny_corpus(), verbose=0, callbacks=callbacks)

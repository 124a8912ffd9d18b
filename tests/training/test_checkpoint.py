"""A training run that was stopped ends as one that was not; checkpoints are valid or refused."""

import dataclasses
import errno
import functools
import io
import os
import re
import shutil
import stat
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import TrainingCheckpoint
from keras_elmo.pretrained.folder import latest_checkpoint
from keras_elmo.training.checkpoint import (
    DamagedCheckpointError,
    load_checkpoint,
    read_checkpoint_state,
    save_checkpoint,
)
from training_models import ONE_LAYER, held_out, tiny_corpus, tiny_model

STEPS = 3


class Stop(Exception):
    pass


class StopAt(keras.callbacks.Callback):
    """Raises the n-th time that Keras calls something, as a kill would."""

    def __init__(self, place, number):
        super().__init__()
        self.number = number
        setattr(self, place, self._called)

    def _called(self, *args, **kwargs):
        self.number -= 1
        if self.number == 0:
            raise Stop


@functools.cache
def compiled(dtype):
    """A model whose functions are compiled once, and the values that it begins with."""
    model = tiny_model(ONE_LAYER, num_negative_samples=20, dtype=dtype)
    model.compile()
    return model, everything(model)


def fresh(dtype=None):
    """That model, with those values."""
    model, first = compiled(dtype)
    for variable, value in zip((*model.variables, *model.optimizer.variables), first):
        variable.assign(value)
    return model


def train(folder, *callbacks, epochs=4, dtype=None, keep=3):
    """Trains from the beginning, or the checkpoint in the folder: the values in the end."""
    model = fresh(dtype)
    corpus, checkpoint = tiny_corpus(), TrainingCheckpoint(folder, keep=keep)
    model.fit(
        corpus,
        epochs=epochs,
        steps_per_epoch=STEPS,
        initial_epoch=checkpoint.restore(model, corpus) // STEPS,
        verbose=0,
        validation_data=held_out(),
        callbacks=[*callbacks, checkpoint],
    )
    return everything(model), checkpoint


def everything(model):
    return [to_numpy(v.value) for v in (*model.variables, *model.optimizer.variables)]


def assert_same(values, others):
    for one, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize(
    "places",
    [
        [("on_train_batch_end", 5)],
        pytest.param(
            [("on_test_batch_end", 1), ("on_epoch_end", 1), ("on_epoch_begin", 2)],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_stopped_anywhere_is_the_same_to_the_bit(tmp_path, whole, places):
    for place, number in places:
        with pytest.raises(Stop):
            train(tmp_path, StopAt(place, number))
    expected, checkpoint = whole
    values, stopped = train(tmp_path)
    assert_same(values, expected)
    assert stopped.step == checkpoint.step == 12
    assert stopped.history == checkpoint.history
    assert [row["step"] for row in stopped.history] == [3, 6, 9, 12]
    assert "val_perplexity" in stopped.history[0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["mixed_float16", "bfloat16"])
def test_half_precision_is_resumed_too(tmp_path, dtype):
    expected, _ = train(tmp_path / "whole", dtype=dtype)
    with pytest.raises(Stop):
        train(tmp_path / "stopped", StopAt("on_train_batch_end", 7), dtype=dtype)
    values, _ = train(tmp_path / "stopped", dtype=dtype)
    scales = type(compiled(dtype)[0].optimizer).__name__ == "LossScaleOptimizer"
    assert scales is (dtype == "mixed_float16")
    assert_same(values, expected)


@pytest.mark.slow
def test_the_latest_are_kept_and_more_epochs_may_follow(tmp_path, whole):
    train(tmp_path, keep=2, epochs=3)
    (tmp_path / ".partial-1.ckpt").write_bytes(b"killed while writing")
    (tmp_path / "step-1.ckpt.tmp").write_bytes(b"something else")
    values, _ = train(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000009.ckpt",
        "step-00000012.ckpt",
        "step-1.ckpt.tmp",
    ]
    assert_same(values, whole[0])
    assert read_checkpoint_state(latest_checkpoint(tmp_path)[1])["step"] == 12
    assert latest_checkpoint(tmp_path / "nothing") == (0, None)
    with pytest.raises(ValueError, match="keep must be an integer of at least 1"):
        TrainingCheckpoint(tmp_path, keep=0)


class Diverge(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if self.model.optimizer.iterations == 4:
            weight = self.model.softmax.bias
            weight.assign(weight + float("nan"))


def test_a_training_that_has_diverged_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="has diverged: .* holds NaN"):
        train(tmp_path, Diverge())
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003.ckpt"]


def test_an_older_run_in_the_folder_is_not_mixed_with_a_new_one(saved, tmp_path):
    fresh = TrainingCheckpoint(tmp_path)
    fresh.set_model(saved[0])
    with pytest.raises(ValueError, match="checkpoint of step 1, which was not restored before"):
        fresh.save()


def test_a_run_stopped_inside_an_epoch_continues_there(tmp_path):
    class Stopped(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.stop_training = batch == 1

    _, checkpoint = train(tmp_path, Stopped(), epochs=1)
    assert checkpoint.step == 2
    model = fresh()
    again = TrainingCheckpoint(tmp_path)
    again.restore(model)
    rest = {"steps_per_epoch": 2 * STEPS - again.step, "validation_data": held_out(), "verbose": 0}
    model.fit(tiny_corpus(), callbacks=[again], **rest)
    assert again.step == 2 * STEPS and again.corpus == tiny_corpus().identity()
    values = everything(model)
    assert_same(values, train(tmp_path / "whole", epochs=2)[0])


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="Keras has it elsewhere")
def test_steps_that_are_executed_together_are_counted(tmp_path):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=4)
    checkpoint, data = TrainingCheckpoint(tmp_path), np.ones((9, 1))
    fit = {"batch_size": 1, "epochs": 2, "verbose": 0, "callbacks": [checkpoint]}
    model.fit(data[:8], data[:8], **fit)
    assert checkpoint.step == int(model.optimizer.iterations) == 16
    with pytest.raises(ValueError, match="has 9 steps, not a multiple of steps_per_execution=4"):
        model.fit(data, data, **fit)


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory):
    model = fresh()
    path = tmp_path_factory.mktemp("saved") / "step-00000001.ckpt"
    state = {"step": 1, "history": [], "corpus": tiny_corpus().identity()}
    save_checkpoint(path, model, state)
    return model, path


@pytest.fixture
def saved(saved_once, tmp_path):
    """A model, and the path of a copy of its checkpoint."""
    model, path = saved_once
    return model, Path(shutil.copy(path, tmp_path))


def test_what_does_not_match_is_refused(saved, tmp_path):
    model, path = saved
    with pytest.raises(ValueError, match="the seed of its corpus is 3, here 4"):
        TrainingCheckpoint(tmp_path).restore(model, tiny_corpus(seed=4))
    config = dataclasses.replace(ONE_LAYER, use_skip_connections=False)
    changes = {"batch_size": 2, "dropout": 0.0, "carry_state": False}
    other = tiny_model(config, num_negative_samples=20, **changes)
    other.compile("adam")
    with pytest.raises(ValueError, match="its optimizer is FusedAdagrad, here Adam") as error:
        load_checkpoint(path, other)
    for message in (
        r"its config is ElmoConfig\(.*True.*, here ElmoConfig\(.*False",
        "its batch_size is 4, here 2;",
        "its dropout is 0.1, here 0.0; its carry_state is True, here False",
    ):
        assert re.search(message, str(error.value))
    load_checkpoint(path, model)


def replaced(path, name, content):
    """Rewrites a checkpoint with different content in one member."""
    with zipfile.ZipFile(path) as file:
        members = {one: file.read(one) for one in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for one, data in {**members, name: content}.items():
            file.writestr(one, data)


def header(shape, dtype="<f4"):
    """A .npy file that declares an array, and has 4 bytes of it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + bytes(4)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1000]),
        lambda path: path.write_bytes(b""),
        lambda path: zipfile.ZipFile(path, "w").close(),
        lambda path: replaced(path, "model/0000.npy", header((1,), "|O")),
        lambda path: replaced(path, "model/0000.npy", b"no array"),
        lambda path: replaced(path, "state.json", b"{"),
        lambda path: replaced(path, "state.json", b"[]"),
    ],
)
def test_damage_is_told(saved, damage):
    model, path = saved
    damage(path)
    with pytest.raises(DamagedCheckpointError, match="not a valid checkpoint of keras_elmo"):
        load_checkpoint(path, model)


def test_any_flipped_byte_is_found(saved, rng):
    model, path = saved
    content = path.read_bytes()
    before = everything(model)
    found = 0
    for place in rng.choice(len(content), 60, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            load_checkpoint(path, model)
        except ValueError:
            found += 1
        # Unless it was found, the byte is one that no value depends on.
        assert_same(everything(model), before)
    assert found > 40


def test_any_damage_to_the_directory_of_names_is_found(saved, rng):
    model, path = saved
    content = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        start = file.start_dir
    state, before = read_checkpoint_state(path), everything(model)
    for place in rng.choice(range(start, len(content)), 400):
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            assert load_checkpoint(path, model) == state
        except DamagedCheckpointError:
            continue
        assert_same(everything(model), before)  # of a byte that means nothing here


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, whole):
    with pytest.raises(Stop):
        train(tmp_path, StopAt("on_train_batch_end", 8))
    latest = tmp_path / "step-00000006.ckpt"
    content = bytearray(latest.read_bytes())
    content[len(content) // 2] ^= 1
    latest.write_bytes(content)
    with pytest.warns(UserWarning, match=r"ckpt is not .* renamed to step-00000006.ckpt.damaged"):
        values, _ = train(tmp_path, keep=1)
    names = ["step-00000006.ckpt.damaged", "step-00000012.ckpt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert_same(values, whole[0])
    (tmp_path / names[1]).write_bytes(b"")
    with pytest.warns(UserWarning, match="continues from the checkpoint before it, if there is"):
        _, checkpoint = train(tmp_path, epochs=0)
    assert checkpoint.step == 0


def test_a_full_disk_leaves_what_was_there(saved, tmp_path, monkeypatch):
    model, path = saved
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("keras_elmo.training.checkpoint.write_array", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, model)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_checkpoints_are_on_the_disk_before_they_take_their_names(saved, monkeypatch):
    model, path = saved
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    save_checkpoint(path, model)
    assert [stat.S_ISDIR(found.st_mode) for found in synced] == [False, True]
    assert synced[0].st_size == path.stat().st_size

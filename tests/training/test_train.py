"""Settings of a training, and a whole training from Python."""

import collections
import contextlib
import dataclasses
import functools
import importlib.util
import io
import json
import logging
import os
import shutil
import warnings
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from helpers import tensorflow_only, to_numpy
from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoLayer,
    TrainingSettings,
    Vocabulary,
    export_hdf5,
    load_language_model,
    perplexity,
    register_model,
    train,
)
from keras_elmo.pretrained import registry
from keras_elmo.pretrained.folder import latest_checkpoint
from keras_elmo.training.devices import split_batches
from keras_elmo.training.loading import copy_weights, saved_model, start_from
from training_models import (
    BATCH,
    CONFIG,
    DATA,
    ONE_LAYER,
    WORDS,
    tiny_model,
    vocabulary,
    write_tf1_checkpoint,
)


def settings(output, **changes):
    return TrainingSettings(
        **{
            "files": DATA / "train.txt",
            "vocabulary": DATA / "vocab.txt",
            "held_out": DATA / "heldout.txt",
            "output": output,
            "options": ONE_LAYER.to_dict(),
            "batch_size": 4,
            "unroll_steps": 8,
            "negatives": 40,
            "steps": 6,
            "checkpoint_every": 3,
            "patience": 0,
            "optimizer": "adagrad",
            "schedule": "constant",
            **changes,
        }
    )


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A training: its folder, result, standard error, and the callbacks that `fit` took."""
    folder, shown, callbacks = tmp_path_factory.mktemp("training") / "run[1]", io.StringIO(), []
    early = keras.callbacks.EarlyStopping("val_perplexity", mode="min", patience=9)
    fit = keras.Model.fit

    @functools.wraps(fit)
    def watched(self, *args, **kwargs):
        callbacks.extend(kwargs["callbacks"])
        return fit(self, *args, **kwargs)

    numbers = {"batch_size": np.int64(4), "steps": np.int32(7), "learning_rate": np.float32(0.5)}
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(shown):
        patch.setattr(keras.Model, "fit", watched)
        result = train(settings(folder, **numbers), [early], show_progress=True)
    return SimpleNamespace(
        folder=folder, early=early, result=result, shown=shown.getvalue(), callbacks=callbacks
    )


@pytest.fixture
def run(once, tmp_path):
    """A copy of its folder."""
    return shutil.copytree(once.folder, tmp_path / "run[1]")


SAME = {"learning_rate": 0.5, "steps": 7}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"preset": "huge"}, "preset must be one of tiny, small, medium, original, got 'huge'"),
        ({"optimizer": "sgd"}, "optimizer must be one of adagrad, adam, got 'sgd'"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1; got 0"),
        ({"keep": 1.5}, "keep must be an integer of at least 1; got 1.5"),
        ({"negatives": -1}, "negatives must be an integer of at least 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be a number above 0"),
        ({"clip_norm": float("nan")}, "clip_norm must be a number of at least 0"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1"),
        ({"epochs": 2}, "Pass epochs or steps, not both"),
        ({"warmup_steps": 2, "schedule": "constant"}, "warmup_steps needs schedule="),
        ({"cooldown_steps": 2, "schedule": "cosine"}, "cooldown_steps needs schedule="),
        ({"tensorboard": "no"}, "tensorboard must be True or False; got 'no'"),
        ({"zero_softmax_bias": 1}, "zero_softmax_bias must be True or False; got 1"),
        ({"keep": True}, "keep must be an integer of at least 1; got True"),
        ({"recipe": "best"}, "recipe must be one of bilm-tf, got 'best'"),
        ({"hosts": "a:1"}, "hosts needs process"),
        ({"process": "0/2"}, "process needs hosts"),
        ({"process": "2/2", "hosts": "a:1,b:1"}, "process must be I/N, .* got '2/2'"),
        ({"batch_size": "4"}, "batch_size must be an integer of at least 1; got '4'"),
        ({"learning_rate": "0.1"}, "learning_rate must be a number above 0; got '0.1'"),
        ({"seed": -1}, "seed must be an integer from 0 to 4,294,967,295"),
        ({"compute_dtype": "float16"}, "compute_dtype must be one of float32, mixed_bfloat16"),
        ({"start_from": "small"}, "start_from has the architecture of its model"),
        (
            {"start_from": "small", "options": None, "preset": "medium"},
            "start_from has the architecture of its model: leave out preset",
        ),
        ({"preset": "tiny"}, "Pass preset or options, not both"),
        ({"start_vocabulary": DATA / "vocab.txt"}, "start_vocabulary needs start_from"),
    ],
)
def test_bad_settings_are_named(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        settings(tmp_path, **changes)


def test_train_from_python(once):
    result, history = once.result, once.result.history
    assert [row["step"] for row in history] == [3, 6, 7]
    # Of the text, which has 27 steps.
    assert [row["epoch"] for row in history] == [0.1111, 0.2222, 0.2593]
    assert [row["learning_rate"] for row in history] == [0.5] * 3
    # All 12 sentences are evaluated on at each report.
    last = history[-1]["val_perplexity"]
    assert once.early.best <= last == pytest.approx(result.report.perplexity, rel=1e-5)
    assert result.report.tokens == 187 and len(result.vocabulary) == 127
    assert ElmoLayer(result.folder).config.lstm_dim == 16
    # Numbers of NumPy are written as those of Python.
    assert json.loads((once.folder / "training.json").read_text())["learning_rate"] == 0.5
    model, words = load_language_model(once.folder)
    assert words == result.vocabulary
    for one, other in zip(model.trainable_variables, result.model.trainable_variables):
        np.testing.assert_array_equal(*map(to_numpy, (one, other)))


def test_one_process_at_a_time_trains_in_a_folder(run):
    fcntl = pytest.importorskip("fcntl")
    with open(run / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="Another training is running in"):
            train(settings(run, **SAME))
    # The lock is gone with a training, one that failed too.
    with pytest.raises(ValueError, match="other settings: zero_softmax_bias was False, now True"):
        train(settings(run, zero_softmax_bias=True, **SAME))


def test_a_training_that_has_ended_stays(once, run, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    index = next((run / "index").glob("index-*"))
    for folder in (run, run / "checkpoints", run / "model", run / "index", index):
        (folder / ".partial-3.x").write_bytes(b"cut off")  # left by a kill
    (run / "index" / ".partial-4").mkdir()
    (run / "log.csv").unlink()
    again = train(settings(run, compute_dtype="float32", **SAME))
    assert again.history == once.result.history and again.report == once.result.report
    assert "already ended after step 7" in caplog.text
    assert not list(run.rglob(".partial-*"))
    assert (run / "log.csv").read_text().count("\n") == 4


@pytest.mark.parametrize("damage", [True, False])
def test_a_model_whose_checkpoints_are_gone_is_not_replaced(run, damage):
    weights = (run / "model" / "weights.hdf5").read_bytes()
    for path in (run / "checkpoints").iterdir():
        path.write_bytes(b"damaged") if damage else path.unlink()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            with pytest.raises(ValueError, match="holds the model of a training run that has ende"):
                train(settings(run, **SAME))
    renamed = [one.filename for one in warned if "was renamed" in str(one.message)]
    assert set(renamed) == ({__file__} if damage else set())  # warnings point to the caller
    assert (run / "model" / "weights.hdf5").read_bytes() == weights
    assert ElmoLayer(run)


def test_model_cards(once, run, tmp_path):
    """Of the model, and of an export of a checkpoint."""
    steps, last = "steps of 4 x 8 words, 0.2", once.result.history[-1]["val_perplexity"]
    card = (run / "model" / "README.md").read_text()
    assert f"| Training | 7 {steps}593 passes over the text |\n" in card
    assert f"| Held-out perplexity | {last:.2f} |\n| Settings | min_count=2, devices=1, " in card
    assert "| Softmax | 127 words |" in card
    export_hdf5(run / "checkpoints" / "step-00000006.ckpt", tmp_path / "six")
    six = (tmp_path / "six" / "README.md").read_text()
    assert f"| Training | 6 {steps}222 passes over the text |\n" in six
    log = run / "log.csv"
    log.write_text(log.read_text().replace("0.2593", "1.0"))
    assert saved_model(run).details()["Training"] == "7 steps of 4 x 8 words, 1 pass over the text"
    log.unlink()
    export_hdf5(run, tmp_path / "seven")
    seven = (tmp_path / "seven" / "README.md").read_text()
    assert "| Training | 7 steps of 4 x 8 words |\n| Settings |" in seven


OVERFITS = {"patience": 2, "steps": 40, "checkpoint_every": 2, "learning_rate": 1.0, "keep": 1}


def test_a_run_ends_when_the_held_out_perplexity_rises(tmp_path, caplog):
    """And is the same after kills, with the weights of the best checkpoint as the model."""

    class Kill(keras.callbacks.Callback):
        def __init__(self, step):
            super().__init__()
            self.step = step

        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == self.step:
                raise KeyboardInterrupt

    caplog.set_level(logging.INFO, "keras_elmo")
    whole = train(settings(tmp_path / "whole", **OVERFITS))
    values = [row["val_perplexity"] for row in whole.history]
    best = int(np.argmin(values))
    assert len(values) == best + 3 < 20  # and two that are not better
    assert whole.report.perplexity == pytest.approx(values[best], rel=1e-5)
    assert f"held-out perplexity has not fallen since step {2 * best + 2}" in caplog.text
    assert f"Model:      the weights of step {2 * best + 2}" in caplog.text
    names = [path.name for path in sorted((tmp_path / "whole" / "checkpoints").iterdir())]
    assert names == [f"step-{2 * n:08d}.ckpt" for n in (best + 1, best + 3)]
    card = (whole.folder / "README.md").read_text()
    assert f"| Training | {2 * best + 2} steps of" in card and f"{values[best]:.2f} |" in card

    last = whole.history[-1]["step"]
    for step in (1, 4, last - 1, last):
        with pytest.raises(KeyboardInterrupt):
            train(settings(tmp_path / "killed", **OVERFITS), [Kill(step)])
    with pytest.raises(ValueError, match="pass held_out again"):
        train(settings(tmp_path / "killed", **{**OVERFITS, "held_out": None}))
    for _ in range(2):  # the second time it has ended
        killed = train(settings(tmp_path / "killed", **OVERFITS))
        assert [row["val_perplexity"] for row in killed.history] == values
        for one, other in zip(killed.model.trainable_variables, whole.model.trainable_variables):
            np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
    assert f"already ended after step {last}" in caplog.text
    longer = train(settings(tmp_path / "killed", **{**OVERFITS, "patience": 3}))
    assert longer.history[len(values)]["step"] == last + 2


def test_patience_chooses_the_model_of_a_run_that_has_ended(tmp_path):
    options = {**OVERFITS, "steps": 20, "patience": 20}
    best = train(settings(tmp_path, **options))
    last = train(settings(tmp_path, **{**options, "patience": 0}))
    again = train(settings(tmp_path, **options))
    values = [row["val_perplexity"] for row in best.history]
    assert min(values) < values[-1]
    for result, value in ((best, min(values)), (last, values[-1]), (again, min(values))):
        assert result.report.perplexity == pytest.approx(value, rel=1e-5)
    exported = load_language_model(again.folder)[0]
    for one, other in zip(exported.backbone.weights, best.model.backbone.weights):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


def test_text_in_another_field_of_json(tmp_path):
    lines, paths = (DATA / "train.txt").read_text().splitlines(), []
    for name, part in (("train", lines[:-9]), ("held_out", lines[-9:])):
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(json.dumps({"body": line}) + "\n" for line in part))
    options = {"files": paths[0], "held_out": paths[1], "field": "body", "steps": 1}
    assert train(settings(tmp_path / "run", **options)).report.sentences == 9
    with pytest.raises(ValueError, match="field was 'body', now 'text'"):
        train(settings(tmp_path / "run", **{**options, "field": "text"}))


def test_a_damaged_best_checkpoint_is_told(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:  # killed before the export
        patch.setattr("keras_elmo.training.train.perplexity", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings(tmp_path, **OVERFITS))
    min((tmp_path / "checkpoints").iterdir()).write_bytes(b"PK")
    with pytest.warns(UserWarning, match="not a valid checkpoint.* The weights of the last step"):
        result = train(settings(tmp_path, **OVERFITS))
    assert result.report.perplexity == pytest.approx(result.history[-1]["val_perplexity"], rel=1e-5)


@pytest.mark.parametrize(
    "text, is_english", [("We sat , then we walked .", True), ("Nous avons marché .", False)]
)
def test_an_english_text_is_told_of_the_bundled_model(tmp_path, caplog, text, is_english):
    caplog.set_level(logging.INFO, "keras_elmo")
    (tmp_path / "text.txt").write_text(9 * f"{text}\n", encoding="utf-8")
    train(settings(tmp_path / "run", files=tmp_path / "text.txt", vocabulary=None, steps=1))
    assert ("start_from='default'" in caplog.text) == is_english


def test_the_end_of_the_text_is_set_aside(tmp_path, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    alone, parts = {"held_out": None, "vocabulary": None}, (tmp_path / "train", tmp_path / "end")
    lines = (DATA / "train.txt").read_text().splitlines(keepends=True)
    for path, part in zip(parts, (lines[:-3], lines[-3:])):
        path.write_text("".join(part))
    result = train(settings(tmp_path / "run", **alone))
    assert "Held out: the last 3 sentences of the text" in caplog.text
    given = {**alone, "files": parts[0], "held_out": parts[1]}
    expected = train(settings(tmp_path / "other", **given))
    assert result.report.perplexity == expected.report.perplexity
    assert result.report.sentences == 3 and result.vocabulary == expected.vocabulary
    assert result.unigram_perplexity == expected.unigram_perplexity > 1
    for one, other in zip(result.model.weights, expected.model.weights):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
    counts = collections.Counter("".join(lines[:-3]).split())
    words = {word for word, count in counts.items() if count >= 2}
    assert set(result.vocabulary.words) == {"<S>", "</S>", "<UNK>", *words}

    assert train(settings(tmp_path / "none", **alone, set_aside=0)).report is None
    assert "Held out: nothing" not in caplog.text
    train(settings(tmp_path / "few", **{**alone, "files": parts[1]}))
    assert "Held out: nothing, since the text has only 3 sentences" in caplog.text
    with pytest.raises(ValueError, match="set_aside must be smaller than the 60 sentences"):
        train(settings(tmp_path / "all", **alone, set_aside=60))
    with pytest.raises(ValueError, match="set_aside=3 evaluates on the end of the text"):
        settings(tmp_path, set_aside=3)


def test_no_callback_waits_for_every_step(once):
    assert "7/7" in once.shown and "perplexity" in once.shown
    assert len(once.callbacks) == 2  # one is the user's
    for callback in once.callbacks:  # with these JAX starts a step while the one before it runs
        is_default = (
            type(callback).on_train_batch_end is keras.callbacks.Callback.on_train_batch_end
        )
        assert is_default or callback.async_safe


@pytest.mark.slow
def test_a_run_stopped_by_a_callback_or_made_longer_ends_as_one_that_was_not(tmp_path, monkeypatch):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 0

    stopped = train(settings(tmp_path / "parts", steps=4), [Stop()])
    assert [row["step"] for row in stopped.history] == [3]
    train(settings(tmp_path / "parts", steps=4))
    weights = tmp_path / "parts" / "model" / "weights.hdf5"
    exported = weights.read_bytes()
    with monkeypatch.context() as patch:  # killed before the export
        patch.setattr("keras_elmo.training.train.perplexity", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings(tmp_path / "parts", steps=7))
    assert weights.read_bytes() == exported
    os.utime(weights)  # copied, for example
    parts = train(settings(tmp_path / "parts", steps=7))
    found = ElmoLayer(parts.folder).bilm.get_weights()
    for one, other in zip(found, parts.model.backbone.bilm.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="holds a training run of 7 steps, more than steps=6"):
        train(settings(tmp_path / "parts", steps=6))
    assert json.loads((tmp_path / "parts" / "training.json").read_text())["steps"] == 7
    whole = train(settings(tmp_path / "whole", steps=7))
    assert [row["step"] for row in parts.history] == [3, 4, 7]
    for one, other in zip(parts.model.variables, whole.model.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


@pytest.mark.parametrize(
    "name, file, message",
    [
        ("files", "text", "The text has 4 words to predict"),
        ("files", "empty", "No sentence was found in .*empty"),
        ("vocabulary", "text", "has white space in 1 line"),
        ("held_out", "empty", "No sentence was found in .*empty"),
    ],
)
def test_a_run_that_fails_at_once_leaves_no_more_than_its_index(tmp_path, name, file, message):
    (tmp_path / "text").write_text("too little text\n")
    (tmp_path / "empty").write_text("\n")
    run = tmp_path / "run"
    with pytest.raises(ValueError, match=message):
        train(settings(run, **{name: tmp_path / file}))
    assert {path.name for path in run.iterdir()} <= {"index", ".lock"}


def test_a_run_that_failed_before_its_first_step_can_be_repeated(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("keras_elmo.training.train.write_record", lambda *_: 1 / 0)
        train(settings(tmp_path / "run"))
    assert train(settings(tmp_path / "run", steps=1, held_out=None)).history


def test_an_output_that_is_no_folder_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(NotADirectoryError, match="file is not a folder"):
            settings(path).check_files()


@pytest.mark.slow
def test_early_stopping_takes_the_best_weights_of_one_run(tmp_path):
    """Keras calls the callback once, at the end, though the last epoch is shorter."""
    ends = []
    watch = keras.callbacks.LambdaCallback(on_train_end=lambda logs: ends.append(1))
    best = keras.callbacks.EarlyStopping("val_loss", patience=9, restore_best_weights=True)
    first = train(settings(tmp_path, steps=7), [watch, best])
    assert ends == [1]
    exported = (tmp_path / "model" / "weights.hdf5").read_bytes()
    assert first.report.perplexity < 130
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"| Held-out perplexity | {first.report.perplexity:.2f} |" in card
    # Once more: there is nothing to train, and the model stays.
    # Also in a copy, whose files have other times.
    copy = shutil.copytree(tmp_path, tmp_path / "copy", copy_function=shutil.copy)
    found, words = load_language_model(copy)
    assert perplexity(found, DATA / "heldout.txt", words) == first.report
    again = train(settings(copy, steps=7), [watch])
    assert (copy / "model" / "weights.hdf5").read_bytes() == exported
    assert again.report == first.report


def test_before_its_first_checkpoint_a_run_takes_other_settings(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(BidirectionalLanguageModel, "fit", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(settings(tmp_path))
    assert json.loads((tmp_path / "training.json").read_text())["dropout"] == 0.4
    result = train(settings(tmp_path, dropout=0.3, steps=1, held_out=None))
    assert result.model.dropout == 0.3
    assert json.loads((tmp_path / "training.json").read_text())["dropout"] == 0.3


def test_a_function_tokenizes_the_text_again_when_a_run_is_resumed(tmp_path):
    def upper(text):
        return [text.upper().split()]

    changes = {"vocabulary": None, "held_out": None, "options": WORDS.to_dict(), "steps": 2}
    first = train(settings(tmp_path, tokenize=upper, **changes))
    assert "THE" in first.vocabulary and "the" not in first.vocabulary
    assert train(settings(tmp_path, tokenize=upper, **changes)).history == first.history
    with pytest.raises(ValueError, match=r"tokenized by .*upper\(\): pass it as tokenize"):
        train(settings(tmp_path, **changes))


def test_a_text_that_changed_is_told(run, tmp_path, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    text = tmp_path / "text.txt"
    text.write_text("a b c\n" * 400)
    changed = settings(run, files=text, vocabulary=None, held_out=(), **SAME)
    with pytest.raises(ValueError, match="the text of its corpus is different"):
        train(changed)
    for path in (run / "exported", *(run / "checkpoints").iterdir()):
        path.unlink()
    # Nothing has been learned, so that everything is made of the new text.
    assert train(changed).vocabulary.words == ["<S>", "</S>", "<UNK>", "a", "b", "c"]
    assert "step 6, perplexity" in caplog.text and "0 s left" in caplog.text


def test_another_vocabulary_is_refused(run, tmp_path):
    words = vocabulary().words
    Vocabulary([*words[:-2], words[-1], words[-2]]).write(tmp_path / "words.txt")
    with pytest.raises(ValueError, match="the vocabulary of its corpus is different"):
        train(settings(run, vocabulary=tmp_path / "words.txt", **SAME))
    for model in (run, run / "checkpoints", run / "model"):
        assert load_language_model(model, DATA / "vocab.txt")[1] == vocabulary()
        with pytest.raises(ValueError, match="differs from the model's own vocabulary"):
            load_language_model(model, tmp_path / "words.txt")
    path = latest_checkpoint(run / "checkpoints")[1]
    (tmp_path / "alone").mkdir()
    shutil.copy(path, tmp_path / "alone")
    assert load_language_model(tmp_path / "alone" / path.name, DATA / "vocab.txt")
    with pytest.raises(ValueError, match="vocabulary is not the one of .*: pass the one"):
        load_language_model(tmp_path / "alone" / path.name, tmp_path / "words.txt")
    assert Vocabulary.from_file(run / "vocabulary.txt") == vocabulary()


@pytest.mark.parametrize("content", ["{", "7", '{"a": ' * 10**5, '{"config": {}}'])
def test_damaged_settings_are_named(run, content):
    (run / "training.json").write_text(content)
    message = r"training\.json (is not a JSON|must hold a JSON|is damaged: it has no batch_size)"
    for use in (lambda: train(settings(run, **SAME)), lambda: saved_model(run).record):
        with pytest.raises(ValueError, match=message):
            use()


@pytest.mark.slow
def test_length_chosen_when_resumed(tmp_path):
    def trapezoid(folder, steps, cooldown_steps):
        changes = {"schedule": "trapezoid", "warmup_steps": 3, "optimizer": "adam"}
        lengths = {"steps": steps, "cooldown_steps": cooldown_steps, "held_out": ()}
        return train(settings(tmp_path / folder, **lengths, **changes))

    whole = trapezoid("whole", 16, 6)
    # The rate is held for 8 steps; then a fall is chosen that ends at step 16.
    trapezoid("parts", 8, 0)
    with pytest.raises(ValueError, match="learning rate of step 8, .* was 0.003; .* been 0.0025"):
        trapezoid("parts", 12, 6)
    parts = trapezoid("parts", 16, 6)
    for one, other in zip(parts.model.variables, whole.model.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))
    with pytest.raises(ValueError, match="can change only before the learning rate starts to fall"):
        trapezoid("parts", 30, 6)
    assert trapezoid("parts", 16, 6).history == parts.history


def test_the_documentation_lists_every_setting():
    for field in dataclasses.fields(TrainingSettings):
        assert f"\n        {field.name}: " in TrainingSettings.__doc__


@pytest.mark.parametrize("config", [CONFIG, WORDS], ids=["characters", "words"])
def test_take_over_words_of_another_vocabulary(config):
    words = vocabulary().words
    old, new = Vocabulary(words), Vocabulary([*words[:3], "unheard-of", *reversed(words[60:])])
    source = tiny_model(config, seed=1)
    model = BidirectionalLanguageModel(config, len(new), **BATCH)
    kernel = to_numpy(model.softmax.kernel.value)
    assert copy_weights(model, source, new, old) == len(new) - 1
    found = to_numpy(model.softmax.kernel.value)
    np.testing.assert_array_equal(found[3], kernel[3])
    np.testing.assert_array_equal(found[4], to_numpy(source.softmax.kernel.value)[-1])
    for one, two in zip(model.backbone.bilm.get_weights(), source.backbone.bilm.get_weights()):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="a different architecture"):
        copy_weights(tiny_model(WORDS if config is CONFIG else CONFIG), source, old, old)
    with pytest.raises(ValueError, match="vocabulary has 126 words, the model predicts 127"):
        copy_weights(tiny_model(config), source, old, Vocabulary(words[:-1]))


def test_a_name_comes_before_a_folder(tmp_path, monkeypatch):
    tiny_model().export_hdf5(tmp_path / "small", vocabulary())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"small does not include a softmax.*\./small"):
        load_language_model("small")
    assert load_language_model("./small")[1] == vocabulary()


@pytest.mark.parametrize(
    "changes",
    [
        {"files": "none.txt"},
        {"held_out": "none.txt"},
        {"vocabulary": "none.txt"},
        {"options": "none.txt"},
        {"options": None, "start_from": "./none.txt"},
        {"options": None, "start_from": "small", "start_vocabulary": "none.txt"},
    ],
)
def test_missing_files_are_named_before_anything_is_written(tmp_path, changes):
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        train(settings(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_a_bad_number_in_the_options_is_named_as_there(tmp_path):
    options = {**CONFIG.to_dict(), "all_clip_norm_val": -1}
    with pytest.raises(ValueError, match="all_clip_norm_val in the options must be a num"):
        train(settings(tmp_path, options=options))


def test_tensorboard_needs_tensorflow_too(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "keras_elmo.training.train.find_spec", lambda name: name != "tensorflow" and find("json")
    )
    with pytest.raises(ValueError, match="pip install 'keras-elmo.tensorboard.'"):
        train(settings(tmp_path, tensorboard=True))


@pytest.mark.slow
@tensorflow_only
def test_lines_that_no_text_uses_are_kept_where_a_model_has_them(tmp_path):
    words = vocabulary().words
    lines = [*words[:50], "", *words[50:], "the", ""]
    config = dataclasses.replace(WORDS, vocabulary_size=len(lines))
    model = BidirectionalLanguageModel(config, len(lines), **BATCH)
    folders = tf1, hdf5 = [tmp_path / name for name in ("tf1", "hdf5")]
    tf1.mkdir()
    (tf1 / "vocabulary.txt").write_text("\n".join(lines) + "\n")
    write_tf1_checkpoint(model, tf1 / "model.ckpt-7", steps=7)
    config.to_json(tf1 / "options.json")
    export_hdf5(tf1, hdf5)
    for folder in folders:
        found, its_words = load_language_model(folder)
        assert its_words.words == lines and found.vocabulary_size == 130
        np.testing.assert_array_equal(to_numpy(found.softmax.bias), to_numpy(model.softmax.bias))
        assert perplexity(found, DATA / "heldout.txt", its_words).sentences > 0
    run = {"vocabulary": tf1 / "vocabulary.txt", "held_out": (), "steps": 1}
    result = train(settings(tmp_path / "run", start_from=tf1, options=None, **run))
    assert result.vocabulary.words == lines[:-1]
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert f"start_from={tf1.name}" in card and str(tmp_path) not in card
    assert load_language_model(tmp_path / "run")[1] == result.vocabulary


def test_an_exported_model_keeps_the_options_of_its_training(run, tmp_path):
    export_hdf5(run / "model", tmp_path / "copy")
    for name in ("options.json", "vocabulary.txt"):
        assert (tmp_path / "copy" / name).read_text() == (run / "model" / name).read_text()
    settings(run, options=None, start_from=run / "model").check_files()
    # A run, its checkpoint and its model are started from with the same options.
    assert saved_model(run).config == saved_model(run / "model").config
    assert saved_model(run).config.training_options["batch_size"] == 4


@pytest.mark.slow
def test_the_order_of_the_vocabulary_matters_only_from_scratch(tmp_path):
    """A model to start from has the order of the corpus that it was trained on."""
    words = Vocabulary([*vocabulary().words[:3], *reversed(vocabulary().words[3:])])
    words.write(tmp_path / "words.txt")
    changes = {"vocabulary": tmp_path / "words.txt", "steps": 1, "held_out": ()}
    with pytest.warns(UserWarning, match="not sorted by descending count in this corpus"):
        train(settings(tmp_path / "run", **changes))
    start = {"options": None, "start_from": tmp_path / "run"}
    assert train(settings(tmp_path / "more", **start, **changes)).history


@pytest.mark.slow
def test_start_from_a_registered_model_without_a_softmax(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    elmo = ElmoLayer(None, config=CONFIG)
    elmo.export_hdf5(tmp_path / "elmo")
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    register_model("mine", tmp_path / "elmo")
    run = {"options": None, "steps": 1, "learning_rate": 1e-9, "held_out": ()}
    result = train(settings(tmp_path / "run", start_from="mine", **run))
    assert "Started from mine, with a new softmax" in caplog.text
    weights = (one.backbone.bilm.get_weights() for one in (result.model, elmo))
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_rows_of_whole_words_are_not_taken_for_others(tmp_path):
    tiny_model(WORDS).export_hdf5(tmp_path / "words", vocabulary())
    (tmp_path / "words" / "softmax.hdf5").unlink()
    words = vocabulary().words
    reverse = Vocabulary([*words[:3], *reversed(words[3:])])
    model = tiny_model(WORDS, seed=1)
    start_from(model, tmp_path / "words", vocabulary())
    with pytest.raises(ValueError, match="whole words and has no softmax.hdf5: train with its own"):
        start_from(model, tmp_path / "words", reverse)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="an error of the other backends")
def test_other_backends_are_told_what_to_set(tmp_path):
    with pytest.raises(ValueError, match="needs JAX: set KERAS_BACKEND=jax"):
        train(settings(tmp_path, devices=2))


def test_batches_are_split_into_equal_parts():
    with pytest.raises(ValueError, match="batch_size=4 cannot be split into 3 equal parts"):
        split_batches(4, 3, num_processes=1).__enter__()

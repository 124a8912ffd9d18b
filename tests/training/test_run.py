"""Settings of a training, and a whole training from Python."""

import dataclasses
import importlib.util
import json
import logging
import os

import keras
import numpy as np
import pytest

from helpers import tensorflow_only, to_numpy
from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoLayer,
    TrainingSettings,
    Vocabulary,
    load_language_model,
    perplexity,
    register_model,
    train,
)
from keras_elmo.pretrained import registry
from keras_elmo.training.evaluation import Scorer
from keras_elmo.training.loading import export_language_model, start_from
from keras_elmo.training.run import _resolved
from training_models import BATCH, CONFIG, DATA, WORDS, tiny_model, vocabulary, write_tf1_checkpoint


def settings(output, **changes):
    return TrainingSettings(
        **{
            "files": DATA / "train.txt",
            "vocabulary": DATA / "vocab.txt",
            "held_out": DATA / "heldout.txt",
            "output": output,
            "options": CONFIG.to_dict(),
            "batch_size": 4,
            "unroll_steps": 8,
            "negatives": 40,
            "steps": 6,
            "evaluate_every": 3,
            **changes,
        }
    )


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"preset": "huge"}, "preset must be one of tiny, small, medium, original, got 'huge'"),
        ({"optimizer": "sgd"}, "optimizer must be one of adagrad, adam, got 'sgd'"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine"),
        ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
        ({"keep": 1.5}, "keep must be a positive integer, got 1.5"),
        ({"negatives": -1}, "negatives must be 0 or a positive integer"),
        ({"learning_rate": float("inf")}, "learning_rate must be a positive number"),
        ({"clip_norm": float("nan")}, "clip_norm must be 0 or a positive number"),
        ({"dropout": 1.0}, "dropout must be from 0 to below 1"),
        ({"epochs": 2}, "give epochs or steps, not both"),
        ({"dtype": "bfloat16", "optimizer": "adam"}, "In bfloat16 Adam's beta_2 is 1"),
        ({"warmup_steps": 2}, "warmup_steps needs the schedule cosine"),
        ({"hosts": "a:1"}, "hosts needs process"),
        ({"process": "0/2"}, "process needs hosts"),
        ({"process": "2/2", "hosts": "a:1,b:1"}, "process must be I/N, .* got '2/2'"),
        ({"batch_size": "4"}, "batch_size must be a positive integer, got '4'"),
        ({"learning_rate": "0.1"}, "learning_rate must be a positive number, got '0.1'"),
        ({"seed": -1}, "seed must be 0 or a positive integer"),
        ({"dtype": "float16"}, "dtype must be one of float32, mixed_bfloat16"),
        ({"start_from": "small"}, "start_from has the architecture of its model"),
        (
            {"start_from": "small", "options": None, "preset": "medium"},
            "start_from has the architecture of its model: leave out preset",
        ),
        ({"preset": "tiny"}, "give preset or options, not both"),
        ({"start_vocabulary": DATA / "vocab.txt"}, "start_vocabulary needs start_from"),
    ],
)
def test_bad_settings_are_named(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        settings(tmp_path, **changes)


def test_train_from_python(tmp_path, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    early = keras.callbacks.EarlyStopping("held_out_perplexity", mode="min", patience=9)
    result = train(settings(tmp_path), callbacks=[early])
    assert "step 6, perplexity" in caplog.text
    assert [row["step"] for row in result.history] == [3, 6]
    # Of the text, which has 27 steps.
    assert [row["epoch"] for row in result.history] == [0.1111, 0.2222]
    assert early.best == min(row["held_out_perplexity"] for row in result.history)
    assert result.report.tokens == 187 and len(result.vocabulary) == 127
    assert ElmoLayer(result.folder).config.lstm_dim == 16
    # Resumed by an earlier version's file, which lacks a setting; a kill had left a file.
    recorded = json.loads((tmp_path / "training.json").read_text())
    assert recorded.pop("uniform_bias") is False
    (tmp_path / "training.json").write_text(json.dumps(recorded))
    for name in (".partial-1.csv", "model/.partial-2.hdf5", "checkpoints/.partial-3.npz"):
        (tmp_path / name).write_bytes(b"cut off")
    os.utime(tmp_path / ".partial-1.csv", (0, 0))
    (tmp_path / ".partial-4.jsonl").write_bytes(b"of another command, which runs")
    (tmp_path / "log.csv").unlink()
    again = train(settings(tmp_path))
    assert again.history == result.history and again.report == result.report
    assert [path.name for path in tmp_path.rglob(".partial-*")] == [".partial-4.jsonl"]
    assert (tmp_path / "log.csv").read_text().count("\n") == 3
    model, vocabulary = load_language_model(tmp_path)
    assert vocabulary == result.vocabulary
    for one, other in zip(model.trainable_variables, result.model.trainable_variables):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)))
    with pytest.raises(ValueError, match="begun with other settings: uniform_bias False, now True"):
        train(settings(tmp_path, uniform_bias=True))


def test_a_text_too_small_leaves_no_vocabulary_behind(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("too little text\n")
    with pytest.raises(ValueError, match="4 words to predict, less than one step of batch_s"):
        train(settings(tmp_path / "run", files=text, vocabulary=None))
    assert os.listdir(tmp_path) == ["text.txt"]


@pytest.mark.parametrize("existing", ["", "runs", "runs/run"])
def test_a_training_that_fails_at_once_leaves_nothing(tmp_path, existing):
    """It removes the folders that it made, and no others."""
    text, run = tmp_path / "text.txt", tmp_path / "runs" / "run"
    text.write_text("too little text\n")
    (tmp_path / existing).mkdir(parents=True, exist_ok=True)
    before = sorted(tmp_path.rglob("*"))
    for changes in ({"files": text}, {"files": "none.txt"}, {"vocabulary": text}):
        with pytest.raises((FileNotFoundError, ValueError)):
            train(settings(run, **changes))
        assert sorted(tmp_path.rglob("*")) == before
    run.mkdir(parents=True, exist_ok=True)
    (run / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="less than one step"):
        train(settings(run, files=text))
    assert sorted(os.listdir(run)) == [".lock", "notes.txt"]


def test_a_folder_that_cannot_be_locked_is_named(tmp_path, monkeypatch):
    def denied(lock):
        raise PermissionError(13, "Permission denied", lock.lock_file)

    monkeypatch.setattr("keras_elmo.locks.FileLock.acquire", denied)
    with pytest.raises(PermissionError) as caught:
        train(settings(tmp_path / "run"))
    assert caught.value.filename == str(tmp_path / "run") and ".lock" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_text_without_a_sentence(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n \n")
    with pytest.raises(ValueError, match=r"no sentence in .*text.txt\.$"):
        train(settings(tmp_path / "run", files=text))


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
    with pytest.raises(ValueError, match="all_clip_norm_val in the options must be 0 or a pos"):
        train(settings(tmp_path, options=options))


def test_epochs_of_the_options(tmp_path):
    options = {**CONFIG.to_dict(), "n_epochs": 2}
    found = [_resolved(settings(tmp_path, options=options, steps=n))[1] for n in (None, 2)]
    assert [(one.epochs, one.steps) for one in found] == [(2, None), (None, 2)]
    given = settings(tmp_path, options=options, steps=None, epochs=0.5)
    assert _resolved(given)[1].epochs == 0.5


def test_what_can_be_told_before_the_first_step(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(ValueError, match=r"no sentence in .*empty\.txt"):
        train(settings(tmp_path / "run", held_out=empty))
    with pytest.raises(NotADirectoryError, match=r"empty\.txt is a file: the output must be a fol"):
        train(settings(empty))
    assert not (tmp_path / "run").exists()


def test_tensorboard_needs_tensorflow_too(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "keras_elmo.training.run.find_spec", lambda name: name != "tensorflow" and find("json")
    )
    with pytest.raises(ValueError, match="pip install tensorboard tensorflow"):
        train(settings(tmp_path, tensorboard=True))


@pytest.mark.slow
@tensorflow_only
def test_reports_on_held_out_text_are_not_compiled_anew(tmp_path, monkeypatch):
    traced, call = [], Scorer.call
    monkeypatch.setattr(
        Scorer, "call", lambda self, inputs: traced.append(len(inputs)) or call(self, inputs)
    )
    result = train(settings(tmp_path, evaluate_every=1, evaluate_sentences=5))
    # For the first shape of the characters, and for any, by Keras' way.
    assert len(result.history) == 6 and len(traced) <= 4


def test_one_process_at_a_time_trains_in_a_folder(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="Another training is running in"):
            train(settings(tmp_path))
    assert train(settings(tmp_path)).history
    # The lock is gone with the training, the one that failed too.
    with pytest.raises(ValueError, match="begun with other settings"):
        train(settings(tmp_path, seed=1))
    assert train(settings(tmp_path)).history


@pytest.mark.slow
def test_a_pattern_may_match_what_the_training_writes(tmp_path):
    text = (DATA / "train.txt").read_text()
    (tmp_path / "text.txt").write_text(text)
    pattern = str(tmp_path / "*.txt")
    first = train(settings(tmp_path, files=pattern, vocabulary=None))
    assert (tmp_path / "vocabulary.txt").exists()
    again = train(settings(tmp_path, files=pattern, vocabulary=None))
    assert again.history == first.history and again.vocabulary == first.vocabulary
    deeper = [pattern, str(tmp_path / "*" / "*.txt")]  # that of the model too
    assert train(settings(tmp_path, files=deeper, vocabulary=None)).history == first.history
    (tmp_path / "text.txt").unlink()
    with pytest.raises(ValueError, match="are only those that a training run wrote, no text: "):
        train(settings(tmp_path, files=pattern, vocabulary=None))


@pytest.mark.slow
def test_the_vocabulary_of_a_training_that_never_began_is_made_anew(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b c\n" * 400)
    train(settings(tmp_path / "run", files=text, vocabulary=None, held_out=()))
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    text.write_text("d e f\n" * 400)
    result = train(settings(tmp_path / "run", files=text, vocabulary=None, held_out=()))
    assert set(result.vocabulary.words) >= {"d", "e", "f"} and "a" not in result.vocabulary.words
    # One that was given is kept, though the text has changed.
    text.write_text((DATA / "train.txt").read_text())
    again = settings(tmp_path / "given", files=text, held_out=())
    chosen = train(again).vocabulary
    for path in (tmp_path / "given" / "checkpoints").iterdir():
        path.unlink()
    text.write_text(2 * (DATA / "train.txt").read_text())
    found = train(dataclasses.replace(again, vocabulary=None)).vocabulary
    assert found == chosen


@tensorflow_only
def test_lines_that_no_text_uses_are_kept_where_a_model_has_them(tmp_path):
    words = vocabulary().words
    lines = [*words[:50], "", *words[50:], "the", ""]
    config = dataclasses.replace(WORDS, vocabulary_size=len(lines))
    model = BidirectionalLanguageModel(config, len(lines), **BATCH)
    folders = tf1, hdf5 = [tmp_path / name for name in ("tf1", "hdf5")]
    for folder in folders:
        folder.mkdir()
        (folder / "vocabulary.txt").write_text("\n".join(lines) + "\n")
    write_tf1_checkpoint(model, tf1 / "model.ckpt-7", steps=7)
    config.to_json(tf1 / "options.json")
    export_language_model(tf1, hdf5, overwrite=True)
    for folder in folders:
        found, its_words = load_language_model(folder)
        assert its_words.words == lines and found.vocabulary_size == 130
        np.testing.assert_array_equal(to_numpy(found.softmax.bias), to_numpy(model.softmax.bias))
        assert perplexity(found, DATA / "heldout.txt", its_words).sentences > 0
    # To continue the model, but not to train a new one.
    run = {"vocabulary": tf1 / "vocabulary.txt", "held_out": (), "steps": 1}
    result = train(settings(tmp_path / "run", start_from=tf1, options=None, **run))
    assert result.vocabulary.words == lines[:-1]
    assert load_language_model(tmp_path / "run")[1] == result.vocabulary
    for options in (CONFIG, config):
        new = settings(tmp_path / "new", options=options.to_dict(), **run)
        with pytest.raises(
            ValueError, match=r"vocabulary\.txt cannot be used for a new model. Blank"
        ):
            train(new)
    (tf1 / "vocabulary.txt").write_text("\n".join([*words, "the"]))
    with pytest.raises(ValueError, match="occur twice: the. Remove the later ones"):
        train(new)
    assert not (tmp_path / "new" / "vocabulary.txt").exists()


def test_numbers_of_numpy_are_those_of_python(tmp_path):
    numbers = {"batch_size": np.int64(4), "steps": np.int32(3), "learning_rate": np.float32(0.5)}
    result = train(settings(tmp_path, **numbers))
    assert json.loads((tmp_path / "training.json").read_text())["learning_rate"] == 0.5
    assert train(settings(tmp_path, steps=3, learning_rate=0.5)).history == result.history


def test_a_training_folder_with_options_is_loaded_from_its_checkpoint(tmp_path):
    """As one that the options were kept in, to begin with."""
    run = tmp_path / "run"
    first = train(settings(run, steps=3))
    options = {**CONFIG.to_dict(), "batch_size": 3}
    (run / "options.json").write_text(json.dumps({**options, "bidirectional": False}))
    model, vocabulary = load_language_model(run)
    assert model.vocabulary_size == len(vocabulary) == 127 and model.config.bidirectional
    more = settings(tmp_path / "more", options=None, start_from=run, steps=1)
    assert train(more).model.config == first.model.config


def test_an_exported_model_keeps_the_options_of_its_training(tmp_path):
    folder = tmp_path / "run[1]"
    train(settings(folder))
    export_language_model(folder / "model", tmp_path / "copy")
    for name in ("options.json", "vocabulary.txt"):
        assert (tmp_path / "copy" / name).read_text() == (folder / "model" / name).read_text()
    settings(folder, options=None, start_from=folder / "model").check_files()


def test_a_name_comes_before_a_folder(tmp_path, monkeypatch):
    tiny_model().export_hdf5(tmp_path / "small", vocabulary())
    monkeypatch.chdir(tmp_path)
    model, taken = tiny_model(), []
    monkeypatch.setattr(type(model), "load_hdf5", lambda self, source: taken.append(source))
    start_from(model, "small", vocabulary())
    assert taken == ["small"]


def test_the_order_of_the_vocabulary_matters_only_from_scratch(tmp_path):
    """A model to start from has the order of the corpus that it was trained on."""
    words = Vocabulary([*vocabulary().words[:3], *reversed(vocabulary().words[3:])])
    words.write(tmp_path / "words.txt")
    changes = {"vocabulary": tmp_path / "words.txt", "steps": 1, "held_out": ()}
    with pytest.warns(UserWarning, match="not sorted by descending count in this corpus"):
        train(settings(tmp_path / "run", **changes))
    start = {"options": None, "start_from": tmp_path / "run"}
    assert train(settings(tmp_path / "more", **start, **changes)).history


def test_start_from_a_registered_model_without_a_softmax(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "keras_elmo")
    elmo = ElmoLayer(None, config=CONFIG)
    elmo.export_hdf5(tmp_path / "elmo")
    names = {"options_file": "my_options.json", "weights_file": "my_weights.hdf5"}
    for before, after in zip(("options.json", "weights.hdf5"), names.values()):
        (tmp_path / "elmo" / before).rename(tmp_path / "elmo" / after)
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    register_model("mine", tmp_path / "elmo", **names)
    run = {"options": None, "steps": 1, "learning_rate": 1e-9, "held_out": ()}
    result = train(settings(tmp_path / "run", start_from="mine", **run))
    assert "Started from mine, with a fresh softmax" in caplog.text
    for one, other in zip(result.model.bilm.get_weights(), elmo.bilm.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)

"""The commands vocab, train, evaluate and export."""

import csv
import dataclasses
import importlib
import json
import os
import shutil

import numpy as np
import pytest

from helpers import tensorflow_only
from keras_elmo import Vocabulary, load_language_model
from keras_elmo.text.vocabulary import VOCABULARY_LIMITS
from keras_elmo.training.checkpoint import save_checkpoint
from many_languages import MANY_LANGUAGES
from training_models import DATA, ONE_LAYER, WORDS, tiny_model, write_tf1_checkpoint

TRAIN, HELD_OUT, VOCAB = (str(DATA / name) for name in ("train.txt", "heldout.txt", "vocab.txt"))


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "options.json"
    ONE_LAYER.to_json(path)
    return path


@pytest.fixture
def train(run, options):
    def command(folder, *more):
        return run(
            "train", TRAIN, "--vocab", VOCAB, "--options", options, "--output", folder,
            "--batch-size", 4, "--unroll-steps", 8, "--negatives", 40, "--steps", 8,
            "--checkpoint-every", 6, "--held-out", HELD_OUT, "--patience", 0, *more,
        )  # fmt: skip

    return command


def test_vocab(run, tmp_path):
    path = tmp_path / "vocab.txt"
    code, out, _ = run("vocab", TRAIN, "--output", path, "--size", 20)
    assert code == 0
    assert "Corpus: 1 file, 60 sentences, 819 tokens" in out
    assert "Wrote 20 of 127 words" in out and "rarest word occurs" in out
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.words[3] == "the" and len(vocabulary) == 20
    code, _, err = run("vocab", tmp_path / "none*", "--output", tmp_path / "new.txt")
    assert code == 1 and "No text file matches" in err


@pytest.mark.parametrize("limits", [{}, {"min_count": 1}, {"size": 30}])
def test_vocab_writes_the_vocabulary_that_train_makes(run, options, tmp_path, monkeypatch, limits):
    for name, limit in limits.items():
        monkeypatch.setitem(VOCABULARY_LIMITS, name, limit)
    assert run("vocab", TRAIN, "--output", tmp_path / "vocab.txt")[0] == 0
    sizes = "--batch-size", 4, "--unroll-steps", 8, "--negatives", 0, "--steps", 1, "--set-aside", 0
    code, *_ = run("train", TRAIN, "--options", options, "--output", tmp_path / "run", *sizes)
    assert code == 0
    found = (tmp_path / "run" / "vocabulary.txt").read_text()
    assert (tmp_path / "vocab.txt").read_text() == found
    assert len(found.splitlines()) == {"min_count": 127, "size": 30}.get(*limits or [""], 123)


def test_train_evaluate_and_export(run, train, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("keras_elmo.training.train.perplexity", interrupted)
        code, out, err = train(folder)
    assert code == 130 and "the same command resumes after step 8\n" in err
    with monkeypatch.context() as patch:
        patch.setattr("keras_elmo.training.train.CorpusIndex.build", interrupted)
        code, _, err = train(tmp_path / "first")
    assert code == 130 and "the same command starts again: no checkpoint was written\n" in err
    assert "8 of 4 x 8 words" in out and "40 of 127 words sampled per step" in out
    assert "step 6, perplexity" in out and "step 8, perplexity" in out and "held-out" in out
    code, out, err = train(folder)
    assert code == 0 and "already ended after step 8" in out, err
    final = next(line for line in out.splitlines() if line.startswith("Perplexity:"))
    with open(folder / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["6", "8"]
    assert float(rows[1]["val_perplexity"]) == pytest.approx(float(final.split()[1]), rel=1e-3)
    code, _, err = train(folder, "--dropout", 0.5)
    assert code == 1 and "other settings: dropout was 0.4, now 0.5" in err

    scores, words = tmp_path / "scores.jsonl", folder / "model" / "vocabulary.txt"
    command = ["evaluate", folder / "model", HELD_OUT, "--per-sentence"]
    code, out, _ = run(*command, scores, "--batch-size", 5)
    assert code == 0 and final in out and "0.00% of them not in the vocabulary" in out
    rows = [json.loads(line) for line in scores.read_text().splitlines()]
    assert len(rows) == 12
    for row in rows:
        assert len(row["forward"]) == len(row["tokens"]) + 1 == len(row["backward"])
    code, _, err = run(*command, scores)
    assert code == 1 and "scores.jsonl exists already" in err
    code, _, err = run(*command, words, "--overwrite")
    assert code == 1 and "vocabulary.txt is an input and would be overwritten" in err

    code, out, _ = run("export", folder, "--output", tmp_path / "exported")
    assert code == 0
    names = ["README.md", "options.json", "softmax.hdf5", "vocabulary.txt", "weights.hdf5"]
    assert sorted(path.name for path in (tmp_path / "exported").iterdir()) == names
    assert_same_models((folder / "model",), (tmp_path / "exported",))


@pytest.mark.needs("spacy", "syntok")
def test_raw_text(run, options, tmp_path):
    text, words, folder = (tmp_path / name for name in ("raw.txt", "words.txt", "run"))
    text.write_text("The bank didn't raise rates. Why not?\n\nWe don't know.\n" * 9)
    code, out, _ = run("vocab", text, "--tokenize", "--output", words, "--size", 9)
    assert code == 0 and "27 sentences, 135 tokens" in out
    assert words.read_text().split()[3:] == [".", "n't", "?", "The", "We", "Why"]
    size = ["--batch-size", 2, "--unroll-steps", 5, "--negatives", 4, "--steps", 2, "--patience", 0]
    train = ["train", text, "--options", options, "--output", folder, "--held-out", text, *size]
    code, out, err = run(*train, "--tokenize")
    assert code == 0 and "27 sentences, 135 tokens" in out, err
    perplexity = next(line for line in out.splitlines() if line.startswith("Perplexity:"))
    checkpoint = folder / "checkpoints" / "step-00000002.ckpt"
    for model in (folder, folder / "model", checkpoint):  # which know how the text was tokenized
        code, out, _ = run("evaluate", model, text)
        assert code == 0 and perplexity in out and "0.00% of them not in the vocabulary" in out
    code, _, err = run(*train, "--language", "de")
    assert code == 1 and "tokenize was 'en', now 'de'" in err
    code, out, _ = run(*train)
    assert code == 0 and perplexity in out
    code, _, err = run("evaluate", folder, text, "--language", "qq")
    assert code == 1 and "qq" in err


@pytest.mark.parametrize(
    "reader",
    [
        "gone",  # as with `| head`
        pytest.param(
            "full", marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="none")
        ),
    ],
)
def test_training_goes_on_when_its_log_cannot_be_printed(train, tmp_path, monkeypatch, reader):
    if reader == "full":
        output = open("/dev/full", "w")  # noqa: SIM115
    else:
        read, write = os.pipe()
        os.close(read)
        output = os.fdopen(write, "w")
    with monkeypatch.context() as patch, output:
        patch.setattr("sys.stdout", output)
        code, _, err = train(tmp_path / "run")
    assert (tmp_path / "run" / "exported").exists()
    full = "keras-elmo: error: Standard output cannot be written to: No space left on device\n"
    assert (code, err) == ((1, full) if reader == "full" else (0, ""))


@pytest.mark.parametrize("command", [["evaluate"], ["export", "--output", "out"]])
def test_a_run_that_saves_a_checkpoint_meanwhile(run, tmp_path, monkeypatch, command):
    """While Keras is loaded, a checkpoint that was found is removed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keras_elmo.export.hdf5.verified", lambda *_: {})  # which takes seconds
    model, checkpoints = tiny_model(), tmp_path / "run" / "checkpoints"
    model.compile("sgd")
    checkpoints.mkdir(parents=True)
    shutil.copy(VOCAB, tmp_path / "run" / "vocabulary.txt")
    save_checkpoint(checkpoints / "step-00000001.ckpt", model, {"step": 1})

    def trains(**_):
        os.rename(checkpoints / "step-00000001.ckpt", checkpoints / "step-00000002.ckpt")

    monkeypatch.setattr(importlib.import_module("keras_elmo.cli.main"), "import_keras", trains)
    name, *more = command
    code, _, err = run(name, "run", *([HELD_OUT] if name == "evaluate" else more))
    assert code == 0, err


def assert_same_models(one, other):
    models, vocabularies = zip(load_language_model(*one), load_language_model(*other))
    assert vocabularies[0] == vocabularies[1]
    for ours, theirs in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@tensorflow_only
def test_bilm_tf_checkpoint_is_evaluated_and_exported(run, tmp_path):
    checkpoint = DATA.parent / "train_tiny_ckpt"
    as_bilm_tf = [HELD_OUT, "--bilm-tf", "--batch-size", 1]
    code, _, err = run("evaluate", checkpoint, *as_bilm_tf)
    assert code == 1 and "does not exist: pass the model's with --vocab FILE" in err
    code, out, _ = run("evaluate", checkpoint, *as_bilm_tf, "--vocab", VOCAB)
    assert code == 0 and float(out.split()[2]) == pytest.approx(93.2289, rel=1e-5)
    assert "mean of 199 steps of 1 row)" in out
    prefix, folder = checkpoint / "model.ckpt-30", tmp_path / "model"
    code, out, err = run("export", prefix, "--vocab", VOCAB, "--output", folder)
    assert code == 0, err
    assert_same_models((prefix, VOCAB), (folder,))


@tensorflow_only
def test_bilm_tf_checkpoint_of_one_direction(run, tmp_path):
    config = dataclasses.replace(WORDS, bidirectional=False)
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "model"
    checkpoint.mkdir()
    write_tf1_checkpoint(tiny_model(config), checkpoint / "model.ckpt-7", steps=7)
    config.to_json(checkpoint / "options.json")
    shutil.copy(VOCAB, checkpoint / "vocabulary.txt")
    code, out, err = run("evaluate", checkpoint, HELD_OUT)
    assert code == 0 and "(forward " in out and "backward" not in out, err
    code, _, err = run("export", checkpoint, "--output", folder)
    assert code == 0, err
    assert_same_models((checkpoint,), (folder,))


def test_wrong_use_is_explained(run, tmp_path, options):
    bad = tmp_path / "held_out" / "bad.gz"
    bad.parent.mkdir()
    bad.write_bytes(b"\x1f\x8b")
    output = ["--options", options, "--output", tmp_path / "run"]
    train, evaluate = ["train", TRAIN, *output], ["evaluate", bad.parent, HELD_OUT]
    lexicon = MANY_LANGUAGES / "word_char"
    not_trained = "A model with a lexicon, such as an ELMoForManyLangs model, cannot be trained"
    for command, message in (
        ([*train, "--batch-size", 10_000], "843 words to predict"),
        ([*train, "--devices", 3, "--batch-size", 4], "needs JAX: set KERAS_BACKEND=jax"),
        (evaluate, "must hold options.json"),
        (["evaluate", "small", HELD_OUT], "The model small does not include a softmax"),
        (["evaluate", "none", HELD_OUT], "none is neither a known model nor an existing folder"),
        (["evaluate", lexicon, HELD_OUT], not_trained),
        (["train", TRAIN, "--output", tmp_path / "new", "--start-from", lexicon], not_trained),
        ([*train, "--held-out", tmp_path / "none.txt"], "No text file matches"),
        (["train", bad.parent / "*", *output], "/held_out/bad.gz is damaged"),
        ([*train, "--dropout", 1], "dropout must be a number of at least 0 and below 1; got"),
        ([*train, "--negatives=-1"], "negatives must be an integer of at least 0; got -1"),
        ([*train, "--epochs", 1, "--steps", 1], "Pass epochs or steps, not both"),
        (
            [*train, "--schedule", "constant", "--warmup-steps", 5],
            "--warmup-steps needs --schedule 'cosine' or 'trapezoid'",
        ),
        ([*train, "--hosts", "a:1"], "hosts needs process"),
        ([*train, "--start-from", tmp_path], "--start-from has the architecture of its model"),
    ):
        code, _, err = run(*command)
        assert code == 1 and message in err
    assert not (tmp_path / "new").exists()
    for command, message in (
        ([*train, "--epochs", "x"], "--epochs: invalid float value: 'x'"),
        ([*evaluate, "--bilm-tf", "--per-sentence", "x"], "leave out --per-sentence"),
    ):
        code, _, err = run(*command)
        assert code == 2 and message in err

"""The commands vocab, train, evaluate and export."""

import csv
import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from helpers import tensorflow_only
from keras_elmo import ElmoLayer, Vocabulary, cli, register_model
from keras_elmo.pretrained import registry
from training_models import CONFIG, DATA, WORDS, tiny_model, write_tf1_checkpoint

TRAIN, HELD_OUT, VOCAB = (str(DATA / name) for name in ("train.txt", "heldout.txt", "vocab.txt"))


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "options.json"
    CONFIG.to_json(path)
    return path


def train(capsys, folder, options, *more, steps=12):
    return run(
        capsys, "train", TRAIN, "--vocab", VOCAB, "--options", options, "--output", folder,
        "--batch-size", 4, "--unroll-steps", 8, "--negatives", 40, "--steps", steps,
        "--checkpoint-every", 6, "--held-out", HELD_OUT, *more,
    )  # fmt: skip


def test_vocab(capsys, tmp_path):
    path = tmp_path / "vocab.txt"
    code, out, _ = run(capsys, "vocab", TRAIN, "--output", path, "--size", 20)
    assert code == 0
    assert "Corpus: 1 file, 60 sentences, 819 tokens" in out
    assert "Wrote 20 of 127 words" in out and "rarest word occurs" in out
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.words[3] == "the" and len(vocabulary) == 20
    code, _, err = run(capsys, "vocab", tmp_path / "none*", "--output", tmp_path / "new.txt")
    assert code == 1 and "No text file matches" in err


def test_an_interrupted_training_says_where_it_resumes(capsys, tmp_path, options, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("keras_elmo.training.train.perplexity", interrupted)
        code, _, err = train(capsys, tmp_path / "run", options)
    assert code == 130 and re.search(r"the same command resumes after step \d+\n", err)


def test_train_again_evaluate_and_export(capsys, tmp_path, options):
    folder = tmp_path / "run"
    code, out, err = train(capsys, folder, options, steps=14)
    assert code == 0, err
    assert "14 of 4 x 8 words" in out and "40 of 127 words drawn a step" in out
    assert "step 6, perplexity" in out and "step 14, perplexity" in out and "held-out" in out
    final = next(line for line in out.splitlines() if line.startswith("Perplexity:"))
    with open(folder / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["6", "12", "14"]
    assert float(rows[2]["val_perplexity"]) == pytest.approx(float(final.split()[1]), rel=1e-3)
    # The same command once more has nothing to do and ends as before.
    code, out, _ = train(capsys, folder, options, steps=14)
    assert code == 0 and "already ended after step 14" in out and final in out
    code, _, err = train(capsys, folder, options, "--dropout", 0.5, steps=14)
    assert code == 1 and "other settings: dropout was 0.1, now 0.5" in err
    code, _, err = train(capsys, folder, options, "--schedule", "cosine", steps=18)
    assert code == 1 and "schedule was 'constant', now 'cosine'" in err

    code, out, _ = run(capsys, "evaluate", folder, HELD_OUT)
    assert code == 0 and final in out and "0.00% of them not in the vocabulary" in out
    scores = tmp_path / "scores.jsonl"
    code, out, _ = run(
        capsys, "evaluate", folder / "model", HELD_OUT, "--per-sentence", scores, "--batch-size", 5
    )
    assert code == 0 and final in out
    code, _, err = run(capsys, "evaluate", folder, HELD_OUT, "--per-sentence", scores)
    assert code == 1 and "scores.jsonl exists already" in err
    words = folder / "model" / "vocabulary.txt"
    code, _, err = run(
        capsys, "evaluate", folder, HELD_OUT, "--per-sentence", words, "--overwrite"
    )  # fmt: skip
    assert code == 1 and "vocabulary.txt is an input and would be overwritten" in err
    rows = [json.loads(line) for line in scores.read_text().splitlines()]
    assert len(rows) == 12
    assert all(
        len(row["forward"]) == len(row["tokens"]) + 1 == len(row["backward"]) for row in rows
    )
    code, out, _ = run(capsys, "evaluate", folder, HELD_OUT, "--bilm-tf", "--batch-size", 2)
    assert code == 0 and "mean of 98 steps of 2 rows" in out

    code, out, _ = run(capsys, "export", folder, "--output", tmp_path / "exported")
    assert code == 0
    names = ["options.json", "softmax.hdf5", "vocabulary.txt", "weights.hdf5"]
    assert sorted(path.name for path in (tmp_path / "exported").iterdir()) == names
    weights = [ElmoLayer(f).get_weights() for f in (folder / "model", tmp_path / "exported")]
    for one, other in zip(*weights):
        np.testing.assert_array_equal(one, other)

    # Nothing but the number of steps may change, while the learning rate does not depend on it.
    code, out, _ = train(capsys, folder, options, steps=18)
    assert code == 0 and "Resumed after step 14" in out and "step 18, perplexity" in out


@pytest.mark.slow
def test_start_from_a_model_with_another_vocabulary(capsys, tmp_path, options, monkeypatch):
    train(capsys, tmp_path / "first", options, steps=6)
    vocab = tmp_path / "new.txt"
    Vocabulary([*Vocabulary.from_file(VOCAB).words[:90], "never-seen"]).write(vocab)
    more = ["--output", tmp_path / "second", "--batch-size", 4, "--unroll-steps", 8, "--steps", 3]
    start = ["--vocab", vocab, "--start-from", tmp_path / "first"]
    code, out, err = run(capsys, "train", TRAIN, *start, *more)
    assert code == 0, err
    assert "90 of 91 words were in its vocabulary" in out
    # From only the weights, with a new softmax.
    folder = tmp_path / "first" / "model"
    (folder / "softmax.hdf5").unlink()
    more[1] = tmp_path / "third"
    code, out, _ = run(capsys, "train", TRAIN, "--start-from", folder, "--vocab", vocab, *more)
    assert code == 0 and "with a new softmax" in out
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    register_model("started-from", folder)
    start[3], more[1] = "started-from", tmp_path / "fourth"
    code, out, err = run(capsys, "train", TRAIN, *start, *more)
    assert code == 0, err
    assert "Started from started-from, with a new softmax" in out
    code, _, err = run(capsys, "evaluate", folder, HELD_OUT)
    assert code == 1 and "has no softmax.hdf5" in err


@pytest.mark.slow
@tensorflow_only
def test_start_from_bilm_tf(capsys, tmp_path):
    checkpoint = DATA.parent / "train_tiny_ckpt"
    arguments = ["train", TRAIN, "--vocab", VOCAB, "--start-from", checkpoint, "--steps", 1]
    arguments += ["--learning-rate", 1e-6, "--output", tmp_path / "run", "--held-out", HELD_OUT]
    code, _, err = run(capsys, *arguments)
    assert code == 1 and "or --start-vocab FILE" in err
    code, out, _ = run(capsys, *arguments, "--start-vocab", VOCAB)
    assert code == 0 and "127 of 127 words" in out
    code, out, _ = run(capsys, "evaluate", tmp_path / "run", HELD_OUT, "--bilm-tf",
                       "--batch-size", 1)  # fmt: skip
    # bilm-tf's own figure for its checkpoint, after a step that hardly moves.
    assert float(out.split()[2]) == pytest.approx(93.2289, rel=1e-3)


@tensorflow_only
def test_bilm_tf_checkpoint_is_evaluated_and_exported(capsys, tmp_path):
    checkpoint = DATA.parent / "train_tiny_ckpt"
    as_bilm_tf = [HELD_OUT, "--bilm-tf", "--batch-size", 1]
    code, _, err = run(capsys, "evaluate", checkpoint, *as_bilm_tf)
    assert code == 1 and "does not exist: pass the model's with --vocab FILE" in err
    code, out, _ = run(capsys, "evaluate", checkpoint, *as_bilm_tf, "--vocab", VOCAB)
    assert code == 0 and float(out.split()[2]) == pytest.approx(93.2289, rel=1e-5)
    prefix, folder = checkpoint / "model.ckpt-30", tmp_path / "model"
    code, out, err = run(capsys, "export", prefix, "--vocab", VOCAB, "--output", folder)
    assert code == 0, err
    code, out, _ = run(capsys, "evaluate", folder, *as_bilm_tf)
    assert code == 0 and float(out.split()[2]) == pytest.approx(93.2289, rel=1e-5)


@tensorflow_only
def test_bilm_tf_checkpoint_of_one_direction(capsys, tmp_path):
    config = dataclasses.replace(WORDS, bidirectional=False)
    checkpoint, folder = tmp_path / "checkpoint", tmp_path / "model"
    checkpoint.mkdir()
    write_tf1_checkpoint(tiny_model(config), checkpoint / "model.ckpt-7", steps=7)
    config.to_json(checkpoint / "options.json")
    shutil.copy(VOCAB, checkpoint / "vocabulary.txt")
    code, expected, err = run(capsys, "evaluate", checkpoint, HELD_OUT)
    assert code == 0 and "(forward " in expected and "backward" not in expected, err
    code, _, err = run(capsys, "export", checkpoint, "--output", folder)
    assert code == 0, err
    assert run(capsys, "evaluate", folder, HELD_OUT)[1] == expected
    code, out, err = run(
        capsys, "train", TRAIN, "--vocab", VOCAB, "--start-from", checkpoint,
        "--output", tmp_path / "run", "--batch-size", 4, "--unroll-steps", 8, "--steps", 1,
        "--learning-rate", 1e-9,
    )  # fmt: skip
    assert code == 0 and "127 of 127 words were in its vocabulary" in out, err
    code, found, _ = run(capsys, "evaluate", tmp_path / "run", HELD_OUT)
    assert code == 0 and found.splitlines()[0] == expected.splitlines()[0]


@pytest.mark.slow
def test_own_vocabulary_and_full_softmax(capsys, tmp_path, options):
    code, out, err = run(
        capsys, "train", TRAIN, "--options", options, "--output", tmp_path, "--steps", 2,
        "--batch-size", 4, "--negatives", 0, "--optimizer", "adam", "--schedule", "cosine",
        "--warmup-steps", 1,
    )  # fmt: skip
    assert code == 0, err
    assert "all 127 words" in out and "adam, learning rate 0.001" in out
    assert len(Vocabulary.from_file(tmp_path / "vocabulary.txt")) == 127


def test_wrong_use_is_explained(capsys, tmp_path, options):
    common = ["train", TRAIN, "--options", options, "--output", tmp_path / "run"]
    code, _, err = run(capsys, *common, "--batch-size", 10_000)
    assert code == 1 and "879 words to predict" in err
    code, _, err = run(capsys, *common[:-1], tmp_path / "new", "--devices", 3, "--batch-size", 4)
    assert code == 1 and "cannot be split into 3" in err and not (tmp_path / "new").exists()
    code, _, err = run(capsys, "evaluate", tmp_path / "run", HELD_OUT)
    assert code == 1 and "must hold options.json" in err
    code, _, err = run(capsys, "evaluate", "small", HELD_OUT)
    assert code == 1 and "The model small does not include a softmax" in err
    code, _, err = run(capsys, "evaluate", tmp_path / "none", HELD_OUT)
    assert code == 1 and "expected a training folder, a checkpoint, or" in err
    code, _, err = run(capsys, *common, "--held-out", tmp_path / "none.txt")
    assert code == 1 and "No text file matches" in err
    (tmp_path / "held_out").mkdir()
    (tmp_path / "held_out" / "bad.gz").write_bytes(b"\x1f\x8b")
    code, _, err = run(capsys, "train", tmp_path / "held_out/*", *common[2:])
    assert code == 1 and "/held_out/bad.gz is damaged" in err
    for arguments, message in (
        (["--dropout", "1"], "dropout must be from 0 to below 1, got 1.0"),
        (["--negatives=-1"], "negatives must be 0 or a positive integer, got -1"),
        (["--epochs", "1", "--steps", "1"], "Pass epochs or steps, not both"),
        (["--warmup-steps", "5"], "--warmup-steps needs --schedule cosine or 'trapezoid'"),
        (["--hosts", "a:1"], "hosts needs process"),
        (["--start-from", tmp_path], "--start-from has the architecture of its model"),
    ):
        code, _, err = run(capsys, *common, *arguments)
        assert code == 1 and message in err
    with pytest.raises(SystemExit):
        run(capsys, *common, "--epochs", "x")
    assert "--epochs: invalid float value: 'x'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(capsys, "evaluate", tmp_path, HELD_OUT, "--bilm-tf", "--per-sentence", "x.jsonl")

"""What holds for each of the six tasks, on tiny files."""

import importlib
import json
from pathlib import Path

import keras
import numpy as np
import pytest

import harness
from example_programs import (
    DOCUMENTS,
    PAIRS,
    ROLES,
    TEXTS,
    experiment_of,
    run_program,
    settings_of,
    trains_a_model,
)
from helpers import assert_close, to_numpy

# A number that is added to all scores alike has no effect on their softmax.
WITHOUT_EFFECT = {"squad": "similarity_1/first", "sst5": "biattentive_classifier/dense_1/bias"}


ANSWER = {"text": "Paris", "answer_start": 6}
QUESTIONS = [{"id": x, "question": "Who ?", "answers": [ANSWER]} for x in "abcd"]
PARAGRAPH = {"context": "He is Paris .", "qas": QUESTIONS}
SHORT_SQUAD = json.dumps({"data": [{"paragraphs": [PARAGRAPH]}]})


@pytest.mark.parametrize("task", TEXTS)
def test_a_step_trains_every_weight(task, eager, monkeypatch):
    monkeypatch.setitem(TEXTS, "squad", SHORT_SQUAD)
    experiment = experiment_of(task, *(("--kept", "2") if task == "coref" else ()))
    features = "none" if task == "ner" else "glove+elmo"
    rows = [0, 1] if task == "coref" else [0, 1, 2, 3]
    inputs, model = experiment.make_model(features, rows=rows)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    batches = experiment.batches(model, inputs, "train", labels=experiment.labels, rows=rows)
    settings = experiment.settings
    assert harness.train(model, batches, lambda: 50.0, settings, experiment.loss) == (50.0, 1)
    for variable, old in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all()
        may_stay = WITHOUT_EFFECT.get(task, "none") in variable.path
        assert (to_numpy(variable) != old).any() or may_stay, variable.path


@pytest.mark.slow  # most of all on JAX, which compiles each shape
@pytest.mark.parametrize("task", [task for task in TEXTS if task != "coref"])
def test_padding_changes_nothing(task):
    experiment = experiment_of(task, "--no-cache")
    _, model = experiment.make_model("glove+elmo")
    data = experiment.data["train"]
    sizes = model.batches_of(data).sizes
    rows = [int(sizes.argmin()), int(sizes.argmax())]
    together, alone = (model.batches_of(data, rows=rows, batch_size=n) for n in (2, 1))
    outputs = keras.tree.flatten(model.predict_on_batch(together[0][0]))
    for i in range(2):
        (row,) = alone.batches[i]
        length = alone.lengths[data.items[row][-1]]
        expected = keras.tree.flatten(model.predict_on_batch(alone[i][0]))
        place = together.batches[0].tolist().index(row)
        for x, y in zip(outputs, expected):
            assert_close(x[place, :length], y[0, :length], tolerance=1e-4)


@pytest.mark.parametrize("task", ["sst5", "entailment"])
def test_elmo_joins_where_it_is_asked_to(task):
    for placement, mixes in (("input", (1, 0)), ("output", (0, 1)), ("both", (1, 1))):
        _, model = experiment_of(task, "--placement", placement, "--no-cache").make_model(
            "glove+elmo"
        )
        assert (model.input_mix is not None, model.output_mix is not None) == mixes


def test_models_need_something_to_read():
    model = importlib.import_module("sst5").BiattentiveClassifier
    for options in ({}, {"elmo": keras.layers.Identity(), "placement": "output"}):
        with pytest.raises(ValueError, match="needs word vectors or ELMo at its input"):
            model(**options)


SLOWLY = ("--halve-after", "60", "--patience", "60")  # so that no run ends before it has learned
LEARNING = {
    "ner": ("--epochs", "40", "--batch-size", "2", "--units", "16", "--learning-rate", "0.02"),
    "entailment": ("--epochs", "60", "--learning-rate", "0.02"),
    "srl": ("--epochs", "1", "--num-layers", "2", "--learning-rate", "0.02"),
    "coref": ("--epochs", "30", "--kept", "2", "--learning-rate", "0.003"),
    "squad": ("--epochs", "60", "--units", "24", "--batch-size", "20", "--learning-rate", "0.01"),
    "sst5": ("--epochs", "60", "--placement", "both", "--learning-rate", "0.01"),
}
USES = {  # the option that uses the model, its arguments, what is printed
    "ner": ("--tag", ("Paris is far .",), "Paris/B-LOC is/O far/O ./O\n"),
    "entailment": ("--classify", PAIRS[0][:2], "entailment\n"),
    "srl": (
        "--label",
        (ROLES[0][0], ROLES[3][0]),
        "[ARG1: The cat] [V: sat] [ARG2: on the mat] .\n[ARG0: Dogs] [V: bark] .\n",
    ),
    "coref": ("--chains", [x for x, _ in DOCUMENTS[1]], "The old man (1) = He (2)\n"),
    "squad": None,
    "sst5": ("--classify", ("bad bad",), "very negative: bad bad\n"),
}
FILES = {
    "ner": "glove+elmo-1.txt",
    "entailment": "glove+elmo-confusion.png",
    "srl": "roles.png",
    "coref": "scores.png",
    "squad": "glove+elmo-1-predictions.json",
    "sst5": "glove+elmo-confusion.png",
}


@pytest.mark.slow
@trains_a_model
@pytest.mark.parametrize("task", TEXTS)
def test_learns_its_text_by_heart(task, monkeypatch):
    """From the text to a saved model that another process uses."""
    # Without dropout it takes far fewer steps; test_a_step_trains_every_weight has dropout.
    monkeypatch.setattr(keras.layers.Dropout, "call", lambda layer, x, training=False: x)
    # The epoch of `srl` that is kept knows all roles, and has to know the predicates, too.
    monkeypatch.setattr(harness, "MIN_STEPS", {"srl": 400, "coref": 20}.get(task, 5))
    program = importlib.import_module(task)
    settings = settings_of(task, *SLOWLY, *LEARNING[task])
    (row,) = summary = program.run(settings)
    assert row["dev"] == row["test"] == 100 and len(row["input weights"]) == 3
    assert_close(np.sum(row["input weights"]), np.array(1.0))
    assert json.loads(Path("out/results.json").read_text()) == summary
    assert Path("out/results.md").read_text().startswith("| features | seeds | dev |")
    assert Path("out/runs.csv").read_text().count("\n") == 2
    assert Path("out", FILES[task]).stat().st_size > 50

    if task == "squad":
        data = program.read_questions("text")
        (name, *_), (answer, *_) = data.ids, data.answers
        predictions = json.loads(Path("out", FILES[task]).read_text())
        assert predictions[name] == answer[0]
        question, context = (data.texts[i] for i in data.items[0])
        use = ("--answer", (context, question), f"{answer[0]}\n")
    else:
        use = USES[task]
    option, arguments, printed = use
    assert (
        run_program(f"{task}.py", "--model", "out/glove+elmo.keras", option, *arguments) == printed
    )

    # Once more: the vectors are there, and so is the run.
    monkeypatch.setattr("features.Embedder", None)
    assert program.run(settings) == summary


@pytest.mark.slow
@trains_a_model
def test_trains_end_to_end_without_cache():
    (row,) = importlib.import_module("ner").run(
        settings_of("ner", "--features", "elmo", "--no-cache", "--last-layer")
    )
    assert row["input weights"][-1] == 1 and not Path("elmo_cache").exists()

"""What holds for each of the six tasks, on tiny files."""

import importlib
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import training
import word_vectors
from example_programs import (
    DOCUMENTS,
    EXAMPLES,
    PAIRS,
    ROLES,
    TEXTS,
    run_of,
    run_program,
    settings_of,
    trains_a_model,
)
from helpers import TINY, assert_close, to_numpy

# A number that is added to all scores alike has no effect on their softmax.
WITHOUT_EFFECT = {"squad": "/first", "sst5": "poolings/dense/bias"}


ANSWER = {"text": "Paris", "answer_start": 6}
QUESTIONS = [{"id": x, "question": "Who ?", "answers": [ANSWER]} for x in "abcd"]
PARAGRAPH = {"context": "He is Paris .", "qas": QUESTIONS}
SHORT_SQUAD = json.dumps({"data": [{"paragraphs": [PARAGRAPH]}]})
FEATURES = ("none", "glove", "elmo-tokens", "elmo", "glove+elmo")


@pytest.fixture
def train(monkeypatch):
    """Trains a program for an epoch: the scores, the model to save, the trained one, its inputs."""
    monkeypatch.setitem(TEXTS, "squad", SHORT_SQUAD)

    def train(task, *options, features="glove+elmo"):
        program, seen = importlib.import_module(task), {}

        def end_to_end(model, elmo):
            seen["model"] = model
            return word_vectors.end_to_end(model, elmo)

        compile = keras.Model.compile

        def note_weights(model, *arguments, **own):
            seen["before"] = [to_numpy(x) for x in model.trainable_variables]
            compile(model, *arguments, **own)

        monkeypatch.setattr(program, "end_to_end", end_to_end)
        monkeypatch.setattr(keras.Model, "compile", note_weights)
        Path("out").mkdir(exist_ok=True)
        scores, saved = program.train(run_of(task, *options, features=features))
        return scores, saved, seen["model"], seen["before"]

    return train


@pytest.mark.parametrize(
    "task, features",
    [*((task, "glove+elmo") for task in TEXTS if task != "ner"), *(("ner", x) for x in FEATURES)],
)
def test_a_step_trains_every_weight(task, features, eager, train):
    options = ("--kept", "2") if task == "coref" else ()
    scores, _, model, before = train(task, *options, features=features)
    assert scores["best epoch"] == 1 and 0 <= scores["test"] <= 100
    for variable, old in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all()
        may_stay = WITHOUT_EFFECT.get(task, "none") in variable.path
        assert (to_numpy(variable) != old).any() or may_stay, variable.path
    assert (scores["input weights"] is not None) == ("elmo" in features)


def items_of(task, saved, sentences):
    """What a saved model reads of sentences."""
    program, items = importlib.import_module(task), word_vectors.encode(saved, sentences)
    if task == "ner":
        program.add_characters(items, sentences)
    if task == "srl":
        return [program.with_predicate(x, 0, len(y)) for x, y in zip(items, sentences)]
    return program.pairs_of(items) if task == "entailment" else items


SENTENCES = [
    "Ann Lee went to Paris .",
    "bad",
    "It is fun and the plot of the film is , too .",
    "X .",
]


@pytest.mark.slow  # most of all on JAX, which compiles each shape
@pytest.mark.parametrize("features", ["elmo", "glove+elmo"])
@pytest.mark.parametrize("task", ["ner", "sst5", "srl", "entailment"])
def test_padding_changes_nothing(task, features, eager, train, tmp_path):
    """Neither before nor after saving; and ELMo in the model is the ELMo it was trained with."""
    _, saved, model, _ = train(task, features=features)
    saved.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    sentences = [x.split() for x in SENTENCES]
    items = items_of(task, again, sentences)
    together = training.predict(again, items)
    layers = word_vectors.elmo_layers(run_of(task).elmo, sentences)
    prefixes = [x.removesuffix("elmo") for x in items[0] if x.endswith("elmo")]
    for i, (item, found) in enumerate(zip(items, together)):
        (alone,) = training.predict(again, [item])
        read = {x: y for x, y in item.items() if not x.endswith("elmo")}
        read |= {
            f"{prefix}layers": one for prefix, one in zip(prefixes, layers[i * len(prefixes) :])
        }
        (trained,) = training.predict(model, [read])
        length = len(next(iter(item.values())))
        for x, y, z in zip(*map(keras.tree.flatten, (found, alone, trained))):
            x, y, z = (array[:length] if task in ("ner", "srl") else array for array in (x, y, z))
            assert_close(x, y, tolerance=1e-4)
            assert_close(y, z, tolerance=2e-2)  # of float16


@pytest.mark.parametrize("task", ["sst5", "entailment"])
def test_elmo_joins_where_it_is_asked_to(task):
    words, elmo = word_vectors.WordVectors(["a"], 4), word_vectors.load_elmo(TINY)
    for placement, mixes in (("input", (1, 0)), ("output", (0, 1)), ("both", (1, 1))):
        settings = run_of(task, "--placement", placement)
        model = importlib.import_module(task).make_classifier(words, elmo, settings)
        names = ("input_mix", "output_mix")
        assert [word_vectors.mix_weights(model, x) is not None for x in names] == list(mixes)
    with pytest.raises(ValueError, match="--placement output needs GloVe at the input"):
        word_vectors.prepare(run_of(task, "--placement", "output", features="elmo"), {"train": []})


SLOWLY = ("--halve-after", "60", "--patience", "60")  # so that no run ends before it has learned
LEARNING = {
    "ner": ("--epochs", "40", "--batch-size", "2", "--units", "16", "--learning-rate", "0.02"),
    "entailment": ("--epochs", "60", "--learning-rate", "0.02"),
    "srl": ("--epochs", "1", "--num-layers", "2", "--learning-rate", "0.02"),
    "coref": ("--epochs", "30", "--kept", "2", "--units", "16", "--learning-rate", "0.01"),
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
    monkeypatch.setattr(training, "MIN_STEPS", {"srl": 400, "coref": 20}.get(task, 5))
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
        question = json.loads(TEXTS["squad"])["data"][0]["paragraphs"][0]
        context, first = question["context"], question["qas"][0]
        answer = first["answers"][0]["text"]
        predictions = json.loads(Path("out", FILES[task]).read_text())
        assert predictions[first["id"]] == answer
        use = ("--answer", (context, first["question"]), f"{answer}\n")
    else:
        use = USES[task]
    option, arguments, printed = use
    assert (
        run_program(f"{task}.py", "--model", "out/glove+elmo.keras", option, *arguments) == printed
    )

    # Once more: the vectors are there, and so is the run.
    monkeypatch.setattr("word_vectors.Embedder", None)
    assert program.run(settings) == summary


@pytest.mark.parametrize(
    "task, expected", [("ner", r"^\d+ \d+ (PER|LOC) "), ("sst5", "negative|neutral|positive")]
)
def test_the_page_shows_how_a_saved_model_is_used(task, expected, eager, train, capsys):
    """Its block of ten lines reads raw text."""
    _, saved, *_ = train(task)
    saved.save("out/glove+elmo.keras")
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    (block,) = (x for x in re.findall(r"```python\n(.*?)```", page, re.S) if f"import {task}" in x)
    capsys.readouterr()
    exec(block.replace(f"{task}_output", "out"), {})
    lines = capsys.readouterr().out.splitlines()
    assert all(re.search(expected, line) for line in lines)
    assert lines or task == "ner"


def test_the_tagger_needs_no_characters_and_no_names(eager, train, monkeypatch):
    monkeypatch.setitem(TEXTS, "ner", "The O\ncat O\n\nThe O\n")
    scores, saved, *_ = train("ner", "--character-filters", "0", features="glove")
    assert scores["test"] == 0
    assert importlib.import_module("ner").tag(saved, [["The", "cat"]]) == [["O", "O"]]


def test_learned_vectors_are_those_of_the_seed(eager, train):
    first, second = (train("ner", features="none")[2].get_weights() for _ in range(2))
    for one, other in zip(first, second):
        assert_close(one, other, tolerance=1e-4)

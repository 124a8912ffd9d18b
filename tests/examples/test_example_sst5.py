"""The classifier of the examples, and the ablations that are run with it."""

import json

import numpy as np
import pytest

import ablations
import sst5
from example_programs import ELMO, run_program, trains_a_model, write_glove
from helpers import assert_close, to_numpy

TREES = """(3 (2 It) (4 (2 's) (4 fun)))
(1 (2 (2 The) (2 plot)) (0 (1 -LRB-) (0 (0 bad) (1 -RRB-))))
(4 (2 fun) (2 \\/))
(0 (0 bad) (0 bad))
"""


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "train.txt").write_text(TREES)
    write_glove(tmp_path / "glove.txt", ["the", "it", "fun", "bad"])
    return lambda *options: sst5.parse(
        [
            *[x for part in ("train", "dev", "test") for x in (f"--{part}", "train.txt")],
            *("--glove", "glove.txt", "--elmo", str(ELMO), "--units", "4", "--epochs", "2"),
            *("--least-steps", "1", "--output", "out", *options),
        ]
    )


def test_trees(tmp_path):
    (tmp_path / "trees.txt").write_text(TREES)
    sentences, labels = sst5.read_trees(tmp_path / "trees.txt")
    assert sentences[:3] == [["It", "'s", "fun"], ["The", "plot", "(", "bad", ")"], ["fun", "/"]]
    assert labels == [3, 1, 4, 0]
    sentences, labels = sst5.read_trees(tmp_path / "trees.txt", phrases=True)
    parts = dict(zip(map(" ".join, sentences), labels))
    assert parts["'s fun"] == 4 and parts["bad )"] == 0 and parts["The plot"] == 2
    assert len(sentences) == len(parts) and parts["It 's fun"] == 3


@pytest.mark.parametrize(
    "line", ["no tree", "(3 (2 It) (4 works)", "(3 It) 4)", "3\tIt works", "(5 It)", "(3x It)"]
)
def test_lines_that_are_no_trees(tmp_path, line):
    (tmp_path / "trees.txt").write_text(f"(2 Fine)\n\n{line}\n")
    with pytest.raises(ValueError, match="trees.txt, line 3: .* is not a tree such as"):
        sst5.read_trees(tmp_path / "trees.txt")
    (tmp_path / "trees.txt").write_text("(2 Fine)\n\n")
    assert sst5.read_trees(tmp_path / "trees.txt") == ([["Fine"]], [2])


def test_impossible_options(settings, capsys):
    for options, message in (
        (("--placement", "output", "--features", "glove", "elmo"), "nothing to read at the input"),
        (("--classify", "Fine ."), "--model missing"),
        (("--fraction", "5"), "'5' is not a number above 0, up to 1"),
        (("--halve-after", "0"), "'0' is not a whole number of at least 1"),
    ):
        with pytest.raises(SystemExit):
            settings(*options)
        assert message in capsys.readouterr().err


def model_of(experiment, features, inputs):
    options = {"placement": experiment.settings.placement}
    return sst5.BiattentiveClassifier.of(features, inputs, experiment.settings, **options)


def test_trains_on_every_backend(settings):
    settings = settings("--epochs", "1", "--batch-size", "8")
    experiment = sst5.Experiment(settings)
    inputs = experiment.prepare("none").trained_on(range(4))
    model = model_of(experiment, "none", inputs)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    batches = inputs.batches("train", labels=experiment.labels["train"], batch_size=8)
    loss = sst5.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert sst5.harness.train(model, batches, lambda: 50.0, settings, loss) == (50.0, 1)
    values = [to_numpy(variable) for variable in model.trainable_variables]
    assert all(np.isfinite(value).all() for value in values)
    assert sum((value != old).any() for value, old in zip(values, before)) > len(values) - 3


@pytest.mark.slow
@trains_a_model
def test_from_training_to_classifying(settings, tmp_path):
    options = ("--placement", "both", "--epochs", "1")
    (row,) = summary = sst5.run(settings("--features", "glove+elmo", *options))
    assert len(row["input weights"]) == len(row["output weights"]) == 3
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == summary
    assert (tmp_path / "out" / "glove+elmo-confusion.png").stat().st_size > 5000

    model = tmp_path / "out" / "glove+elmo.keras"
    sentences = ["It 's a lot of fun", "Bad"]
    printed = run_program("sst5.py", "--model", model, "--classify", *sentences)
    classes = sst5.keras.models.load_model(model).classify(sentences)
    assert printed.splitlines() == [f"{sst5.CLASSES[i]}: {x}" for i, x in zip(classes, sentences)]
    with pytest.raises(ValueError, match="Sentence 2 of 2 has no words"):
        sst5.keras.models.load_model(model).classify(["Bad", " "])


def test_padding_changes_nothing(settings):
    settings = settings("--placement", "both", "--no-cache")
    experiment = sst5.Experiment(settings)
    inputs = experiment.prepare("glove+elmo")
    model = model_of(experiment, "glove+elmo", inputs)
    sentences = [["It", "is", "fun"], ["The", "plot"] * 6]
    together = model.batches_of(sentences, batch_size=2)
    alone = model.batches_of(sentences, batch_size=1)
    expected = np.concatenate([to_numpy(model(alone[i][0])) for i in range(2)])
    assert_close(to_numpy(model(together[0][0])), expected, tolerance=1e-5)


@pytest.mark.parametrize("placement", ["input", "output"])
def test_elmo_is_dropped_where_it_joins(settings, placement):
    experiment = sst5.Experiment(settings("--placement", placement, "--no-cache"))
    inputs = experiment.prepare("glove+elmo")
    model = model_of(experiment, "glove+elmo", inputs)
    for dropout in (model.projection_dropout, *model.maxout_dropouts):
        dropout.rate = 0
    batch, _ = inputs.batches("test")[0]
    first, second = (to_numpy(model(batch, training=True)) for _ in range(2))
    assert (first != second).any()
    assert_close(to_numpy(model(batch)), to_numpy(model(batch)), tolerance=1e-6)
    widths = []
    model.drop.call = lambda x, training: widths.append((x.shape[-1], training)) or x
    model(batch, training=True)
    words, elmo = model.word_dim, model.elmo.config.output_dim
    expected = {"input": [words + elmo], "output": [words, elmo]}
    assert widths == [(width, True) for width in expected[placement]]


def test_output_alone_needs_words():
    elmo = sst5.keras.layers.Identity()
    with pytest.raises(ValueError, match="Expected word vectors at the input, got none"):
        sst5.BiattentiveClassifier(elmo=elmo, placement="output")


@pytest.fixture
def counted(monkeypatch):
    """Programs that count how often they are run, and train nothing."""
    runs = []

    def run(settings):
        runs.append(settings)
        weights = {"input weights": [0.2, 0.3, 0.5] if "glove+elmo" in settings.features else None}
        score = 40 + 10 * settings.fraction
        row = {"features": settings.features[0], "seeds": 1, "dev": score, "test": score}
        rows = [{**row, "dev deviation": None, "test deviation": None, **weights}]
        ablations.write_table(ablations.Path(settings.output) / "results", rows)
        return rows

    for task in ("sst5", "ner"):
        monkeypatch.setattr(ablations.importlib.import_module(task), "run", run)
    return runs


@pytest.mark.parametrize("task, num_runs", [("sst5", 13), ("ner", 11)])
def test_ablations(tmp_path, counted, task, num_runs):
    command = [task, "--output", str(tmp_path / "out")]
    for part in ("train", "dev", "test"):
        (tmp_path / part).write_text(part)
        command += [f"--{part}", str(tmp_path / part)]
    found = ablations.run(*ablations.parse(command))
    # Rows that stand in several tables are run once, and none is run again.
    assert len(counted) == len({run.output for run in counted}) == num_runs
    assert ablations.run(*ablations.parse(command)) == found and len(counted) == num_runs
    # More seeds go to the runs that are there.
    ablations.run(*ablations.parse([*command, "--only", "layers", "--seeds", "2"]))
    assert len({run.output for run in counted}) == num_runs < len(counted)
    assert ("placement" in found) == (task == "sst5")
    refused = [["--features", "glove"], ["--l2=1"], ["--frac", "0.5"], ["--last-layer"]]
    refused.append(["--placement", "both"] if task == "sst5" else ["--only", "placement"])
    for options in refused:
        with pytest.raises(SystemExit):
            ablations.parse([*command, *options])
    assert ablations.parse([*command, "--only", "layers", "--fraction", "0.5"])[2][-1] == "0.5"
    row = found["layers"][1]
    assert row["paper, SQuAD"] == 84.7 and row["options"] == "--features glove+elmo --last-layer"
    text = (tmp_path / "out" / f"{task}-layers.md").read_text()
    assert "| paper, SQuAD | paper, SNLI | paper, SRL |" in text
    assert [row["test"] for row in found["amount"]] == [40.1, 41.0, 50.0] * 2
    for name in ("amount", "weights"):
        assert (tmp_path / "out" / f"{task}-{name}.png").stat().st_size > 5000

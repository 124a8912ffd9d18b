"""Options, training and tables of the examples."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

import draw_results
import features
import harness
from example_programs import settings_of
from helpers import assert_close, to_numpy
from reading import Data


@pytest.mark.parametrize(
    "options, message",
    [
        (("--tag", "Fine ."), "--model missing"),
        (("--test", ""), "--test missing"),
        (("--halve-after", "0"), "'0' is not a positive integer"),
    ],
)
def test_options_that_cannot_be(capsys, options, message):
    with pytest.raises(SystemExit):
        settings_of("ner", *options)
    assert message in capsys.readouterr().err


def test_runs_are_kept_in_their_folder():
    done = []

    def experiment(features, seed):
        done.append((features, seed))
        score = 40.0 + seed + 10 * len(features)
        result = {"dev": score, "test": score / 2, "input weights": None}
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(seed)])
        return result, model

    def run(*options):
        done.clear()
        return harness.run_seeds(experiment, settings_of("ner", "--fraction", "0.4", *options))

    (row,) = run("--features", "glove+elmo")
    assert row["seeds"] == 1 and row["test deviation"] is None
    # With one more seed: the first is not run again, and the best model of the two is kept.
    (row,) = run("--features", "glove+elmo", "--seeds", "2")
    assert done == [("glove+elmo", 2)] and row["seeds"] == 2
    assert row["test deviation"] == pytest.approx(0.35, abs=0.01)
    kept = keras.models.load_model("out/glove+elmo.keras")
    assert kept.output_shape == (None, 2)
    # With other features: all are in the table.
    base, row = run("--features", "glove", "--seeds", "2")
    assert (base["features"], base["seeds"], row["features"]) == ("glove", 2, "glove+elmo")
    assert row["gain over glove"] == pytest.approx(row["test"] - base["test"], abs=0.01)
    assert Path("out/runs.csv").read_text().count("\n") == 5
    with pytest.raises(ValueError, match="out contains runs with different options, see"):
        run("--fraction", "0.5")
    settings = settings_of("ner", "--fraction", "0.4")
    Path(settings.dev).write_text("a different text")
    with pytest.raises(ValueError, match="out contains runs with different options, see"):
        harness.run_seeds(experiment, settings)
    assert not done


def test_batches_have_every_sentence_once():
    sentences = [["w"] * n for n in (3, 9, 1, 12, 2)]
    labels = [np.full(len(x), i) for i, x in enumerate(sentences)]
    batches = features.SentenceBatches(
        Data(sentences), features.WordTable(["w"]), labels, characters=True, batch_size=2
    )
    for epoch in (batches, batches.shuffled()):
        seen = []
        for inputs, tags in epoch:
            assert inputs["words"].shape == tags.shape and tags.shape[1] % 8 == 0
            assert inputs["characters"].shape == (len(tags), tags.shape[1] + 2, 50)
            np.testing.assert_array_equal(inputs["words"] == 0, tags == -1)
            seen += tags[:, 0].tolist()
        assert sorted(seen) == [0, 1, 2, 3, 4]


def test_tables(tmp_path):
    runs = [
        {"features": "elmo", "seed": seed, "dev": 1.0, "test": score}
        for seed, score in enumerate((70.0, 71.0, 90.0), start=1)
    ]
    (row,) = harness.summarize(runs, num_seeds=2)
    assert (row["test"], row["test deviation"]) == (70.5, 0.71)
    other = {"features": "glove", "seeds": 4, "test": 69.0, "test deviation": 1.0}
    gained, base = harness.with_gains([row, other])
    assert gained["gain over glove"] == 1.5 and base["gain over glove"] is None
    assert gained["its standard error"] == round((0.71**2 / 2 + 1 / 4) ** 0.5, 2)
    assert harness.with_gains([row]) == [row] and harness.with_gains([other]) == [other]
    harness.write_table(tmp_path / "table", [row, {"features": "b", "paper": 2}])
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| elmo | 2 | 1.00 ± 0.00 | 70.50 ± 0.71 |  |",
        "| b |  |  |  | 2 |",
    ]
    assert (tmp_path / "table.csv").read_text().splitlines()[1] == "elmo,2,1.0,0.0,70.5,0.71,,,"
    assert json.loads((tmp_path / "table.json").read_text())[0] == row
    assert harness.fraction_of(10, 0.3, seed=1) != harness.fraction_of(10, 0.3, seed=2)
    assert len(harness.fraction_of(10, 0.3, seed=1)) == 3


class Scripted(harness.keras.Model):
    """A model of one weight, which grows by the learning rate in every step."""

    def __init__(self):
        super().__init__()
        self.weight = self.add_weight(shape=(), initializer="zeros")

    def call(self, inputs):
        return inputs["words"] * 0 - self.weight


def test_training_ends_with_the_best_epoch(monkeypatch):
    monkeypatch.setattr(harness, "MIN_STEPS", 5)
    scores = [0.0, 0.0, 0.0, 4.0, 5.0, 4.0, 4.0, 6.0, 1.0, 1.0, 1.0]
    data, table = Data([["w"]] * 3, np.zeros(3)), features.WordTable(["w"])
    batches = features.SentenceBatches(data, table, data.answers, batch_size=2)
    model, seen = Scripted(), []

    def score():
        seen.append(float(to_numpy(model.weight)))
        return scores[len(seen) - 1]

    options = ("--epochs", "20", "--patience", "3", "--learning-rate", "0.5")
    best, epoch = harness.train(
        model, batches, score, settings_of("ner", *options), loss=lambda y, x: x
    )
    # Adam moves by the rate where the gradient stays the same; 6 steps are 3 times the 2 batches.
    assert (best, epoch, len(seen)) == (6.0, 8, 11)
    moves = np.diff([0.0, *seen]) / 6
    assert_close(moves, np.array([0.5] * 7 + [0.25] * 3 + [0.125]), tolerance=1e-3)
    assert float(to_numpy(model.weight)) == seen[7]


def test_pictures_of_results_are_those_of_the_scores(tmp_path):
    draw_results.main(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in draw_results.RESULTS.glob("*.png")}
    # the table of examples/README.md
    runs = draw_results.ablation("wnut17", "glove+elmo")
    assert draw_results.mix(runs, "input").round(2).tolist() == [0.21, 0.31, 0.48]

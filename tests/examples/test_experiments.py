"""Options, runs and tables of the examples."""

import json
from pathlib import Path

import keras
import pytest

import draw_results
import experiments
from example_programs import run_of, settings_of


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

    def train(settings):
        done.append((settings.features, settings.seed))
        score = 40.0 + settings.seed + 10 * len(settings.features)
        result = {"dev": score, "test": score / 2, "input weights": None}
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(settings.seed)])
        return result, model

    def run(*options):
        done.clear()
        return experiments.run_seeds(train, settings_of("ner", "--fraction", "0.4", *options))

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
        experiments.run_seeds(train, settings)
    assert not done


def test_two_processes_share_a_folder():
    def train(settings):
        if settings.features == "glove":  # in the middle of it, the other process finishes its run
            experiments.run_seeds(train, settings_of("ner", "--features", "elmo"))
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        return {"dev": 1.0, "test": 1.0}, model

    rows = experiments.run_seeds(train, settings_of("ner", "--features", "glove"))
    assert [row["features"] for row in rows] == ["glove", "elmo"]
    assert len(experiments.read_runs("out")) == 2


def test_a_fraction_of_the_training_text():
    def read(settings):
        return experiments.read_parts(settings, lambda path: list(range(10)))

    data = read(run_of("ner", "--fraction", "0.3"))
    assert len(data["train"]) == 3 and data["dev"] == data["test"] == list(range(10))
    settings = run_of("ner", "--fraction", "0.3")
    settings.seed = 2
    assert read(settings)["train"] != data["train"] == sorted(data["train"])
    assert read(run_of("ner"))["train"] == list(range(10))


def test_tables(tmp_path):
    runs = [
        {"features": "elmo", "seed": seed, "dev": 1.0, "test": score}
        for seed, score in enumerate((70.0, 71.0, 90.0), start=1)
    ]
    (row,) = experiments.summarize(runs, num_seeds=2)
    assert (row["test"], row["test deviation"]) == (70.5, 0.71)
    other = {"features": "glove", "seeds": 4, "test": 69.0, "test deviation": 1.0}
    gained, base = experiments.with_gains([row, other])
    assert gained["gain over glove"] == 1.5 and base["gain over glove"] is None
    assert gained["its standard error"] == round((0.71**2 / 2 + 1 / 4) ** 0.5, 2)
    assert experiments.with_gains([row]) == [row] and experiments.with_gains([other]) == [other]
    experiments.write_table(tmp_path / "table", [row, {"features": "b", "paper": 2}])
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| elmo | 2 | 1.00 ± 0.00 | 70.50 ± 0.71 |  |",
        "| b |  |  |  | 2 |",
    ]
    assert (tmp_path / "table.csv").read_text().splitlines()[1] == "elmo,2,1.0,0.0,70.5,0.71,,,"
    assert json.loads((tmp_path / "table.json").read_text())[0] == row


def test_pictures_of_results_are_those_of_the_scores(tmp_path):
    draw_results.main(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in draw_results.RESULTS.glob("*.png")}
    # the table of examples/README.md
    runs = draw_results.ablation("wnut17", "glove+elmo")
    assert draw_results.mix(runs, "input").round(2).tolist() == [0.21, 0.31, 0.48]

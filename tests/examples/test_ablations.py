"""The ablations, with programs that train nothing."""

import pytest

import ablations


@pytest.fixture
def counted(monkeypatch):
    """Programs that count how often they are run, and train nothing."""
    runs = []

    def run(settings):
        runs.append(settings)
        weights = {"input weights": [0.2, 0.3, 0.5] if "glove+elmo" in settings.features else None}
        score = 40 + 10 * settings.fraction
        row = {"features": settings.features[0], "seed": 1, "seeds": 1, "dev": score, "test": score}
        rows = [{**row, "dev deviation": None, "test deviation": None, **weights}]
        ablations.write_table(ablations.Path(settings.output) / "runs", rows)
        return rows

    for task in ("sst5", "ner"):
        monkeypatch.setattr(ablations.importlib.import_module(task), "run", run)
    return runs


@pytest.mark.parametrize("task, num_runs", [("sst5", 13), ("ner", 11)])
def test_ablations(tmp_path, counted, task, num_runs):
    command, text = [task, "--output", str(tmp_path / "out")], tmp_path / "text"
    text.write_text("a text")
    command += [x for part in ("train", "dev", "test") for x in (f"--{part}", str(text))]
    found = ablations.run(*ablations.parse(command))
    # Rows that stand in several tables are run once, and none is run again.
    assert len(counted) == len({run.output for run in counted}) == num_runs
    again = ablations.run(*ablations.parse([*command, "--only", "layers"]))
    assert again == {"layers": found["layers"]} and len(counted) == num_runs
    # More seeds go to the runs that are there.
    ablations.run(*ablations.parse([*command, "--only", "layers", "--seeds", "2"]))
    assert len({run.output for run in counted}) == num_runs < len(counted)
    assert ("placement" in found) == (task == "sst5")
    if task == "ner":
        with pytest.raises(SystemExit):
            ablations.parse([*command, "--only", "placement"])
    assert ablations.parse([*command, "--only", "layers", "--fraction", "0.5"])[2][-1] == "0.5"
    row = found["layers"][1]
    assert row["paper, SQuAD"] == 84.7 and row["options"] == "--features glove+elmo --last-layer"
    text = (tmp_path / "out" / f"{task}-layers.md").read_text()
    assert "| paper, SQuAD | paper, SNLI | paper, SRL |" in text
    assert [row["test"] for row in found["amount"]] == [40.1, 41.0, 50.0] * 2
    for name in ("amount", "layers-weights"):
        assert (tmp_path / "out" / f"{task}-{name}.png").stat().st_size > 5000

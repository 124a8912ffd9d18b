"""Draws the pictures of results/ from the scores beside them: python examples/draw_results.py"""

import csv
import json
from pathlib import Path

import numpy as np

from keras_elmo.analysis import layer_names
from pictures import draw_scores, draw_shares

RESULTS = Path(__file__).parent / "results"
PENALTIES = {
    "only the last layer": "glove+elmo --last-layer",
    "all, lambda = 1": "glove+elmo --l2 1",
    "all, lambda = 0.001": "glove+elmo --l2 0.001",
    "all, lambda = 0": "glove+elmo",
}
SHARES = {"1 %": " --fraction 0.01", "10 %": " --fraction 0.1", "100 %": ""}
PLACES = {
    "input only": ("", "input"),
    "input and output: at the input": (" --placement both", "input"),
    "input and output: at the output": (" --placement both", "output"),
    "output only": (" --placement output", "output"),
}


def read(name):
    """The rows of a file of scores."""
    with open(RESULTS / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ablation(data, options):
    """The three runs with these options; those with default options are in the task's own file."""
    rows = [
        x for x in read("ablations") if (x["data"], x["features and options"]) == (data, options)
    ]
    return rows or [row for row in read(data) if row["features"] == options][:3]


def mix(runs, place):
    """The mean weight of each layer."""
    texts = [run[f"{place} weights"] for run in runs]
    return np.mean([json.loads(x) if "[" in x else list(map(float, x.split())) for x in texts], 0)


def draw_mixes(mixes, title, path):
    columns = layer_names(len(next(iter(mixes.values()))))
    draw_shares(np.array([*mixes.values()]), list(mixes), columns, title, path)


def main(output=RESULTS):
    """Draws the pictures into a folder."""
    chains, amounts, roles = {}, {}, {}
    for x in ("glove", "glove+elmo"):
        rows = [row for row in read("srl-roles") if row["features"] == x]
        roles[x] = {name: [float(row[name]) for row in rows] for name in list(rows[0])[2:]}
        rows = [row for row in read("litbank") if row["features"] == x]
        chains[x] = {name: [float(row[name]) for row in rows] for name in ("MUC", "B3", "CEAF")}
        runs = {share: ablation("wnut17", x + option) for share, option in SHARES.items()}
        amounts[x] = {share: [float(run["test"]) for run in runs[share]] for share in runs}
    title = "The most frequent roles on UD English EWT, three seeds"
    draw_scores(roles, title, output / "srl-roles.png")
    title = "Coreference on LitBank, three seeds"
    draw_scores(chains, title, output / "litbank-scores.png", xlabel="metric")
    title = "Named entities on WNUT-17, three seeds"
    path = output / "ner-amount.png"
    draw_scores(amounts, title, path, xlabel="share of the training text")
    mixes = {name: mix(ablation("wnut17", x), "input") for name, x in PENALTIES.items()}
    draw_mixes(mixes, "Weight of each layer on WNUT-17, %", output / "ner-weights.png")
    mixes = {
        name: mix(ablation("sst5", f"glove+elmo{option} --learning-rate 0.001"), place)
        for name, (option, place) in PLACES.items()
    }
    draw_mixes(mixes, "Weight of each layer on SST-5, %", output / "sst5-weights.png")
    for name, data in (("sst5", "SST-5"), ("snli", "SNLI")):
        rows = read(f"{name}-confusion")
        shares, classes = np.array([list(map(float, row.values())) for row in rows]), list(rows[0])
        title = f"Predictions on {data} with GloVe and ELMo, % of each true class"
        path, axes_titles = output / f"{name}-confusion.png", ("true class", "predicted class")
        draw_shares(shares / 100, classes, classes, title, path, axes_titles)


if __name__ == "__main__":
    main()

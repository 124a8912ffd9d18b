"""Pictures of scores, for the programs to import."""

import csv
import math
import statistics
import textwrap
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from keras_elmo.analysis import COLORS

TITLES = {
    "none": "learned vectors",
    "glove": "GloVe",
    "elmo-tokens": "ELMo's token vectors",
    "elmo": "ELMo",
    "glove+elmo": "GloVe and ELMo",
}


def draw_confusions(settings, classes):
    """Draws a confusion matrix of each feature set's predictions, in percent, over all seeds."""
    for features in settings.features:
        counts = np.zeros([len(classes)] * 2, int)
        for seed in range(1, settings.seeds + 1):
            path = Path(settings.output) / f"{features}-{seed}.csv"
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    counts[int(row["true"]), int(row["predicted"])] += 1
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        title = f"Predictions with {TITLES[features]}, % of each true class"
        path = Path(settings.output) / f"{features}-confusion.png"
        draw_shares(shares, classes, classes, title, path, ("true class", "predicted class"))
        names, csv_path = ",".join(classes), path.with_suffix(".csv")
        np.savetxt(csv_path, 100 * shares, "%.1f", ",", header=names, comments="")


@matplotlib.rc_context({"font.size": 12})
def draw_shares(shares, rows, columns, title, path, axes_titles=("", "")):
    """Draws a matrix of shares, in percent of each row."""
    longest = max(map(len, rows))
    size = (1.5 + 0.1 * longest + 1.25 * len(columns), 2 + 0.6 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share > 0.6 else "black"
        axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=color)
    axes.set_xticks(
        range(len(columns)), [textwrap.fill(name, 8, break_long_words=False) for name in columns]
    )
    axes.set_yticks(range(len(rows)), rows)
    axes.set(ylabel=axes_titles[0], xlabel=axes_titles[1])
    figure.suptitle(title, fontsize=13, wrap=True)
    figure.savefig(path, dpi=150)


@matplotlib.rc_context({"font.size": 12})
def draw_scores(scores, title, path, unit="F1 in %", xlabel=""):
    """Draws scores as groups of bars, with the mean of the runs and their deviation.

    Args:
        scores: For each color a dict: for each group the scores of the runs, in percent.
        title: The title.
        path: The picture's file.
        unit: Name and unit of the scores.
        xlabel: Name of the groups.
    """
    groups = list(next(iter(scores.values())))
    figure = Figure(figsize=(2.5 + 0.55 * len(groups) * (1 + len(scores)), 4.5))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    width = 0.9 / len(scores)
    for i, (name, own) in enumerate(scores.items()):
        places = np.arange(len(groups)) + (i - (len(scores) - 1) / 2) * width
        # A single score has no deviation.
        errors = [statistics.stdev(own[x]) if len(own[x]) > 1 else math.nan for x in groups]
        heights = [statistics.mean(own[x]) for x in groups]
        label = TITLES.get(name, name)
        bars = axes.bar(
            places, heights, width, yerr=errors, capsize=3, color=COLORS[i], label=label
        )
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=11)
    axes.set_xticks(range(len(groups)), groups)
    if max(map(len, groups)) > 10:
        axes.tick_params(axis="x", labelrotation=30)
    axes.set(ylabel=f"{unit}, mean \N{PLUS-MINUS SIGN} deviation", xlabel=xlabel, title=title)
    axes.margins(y=0.12)
    figure.legend(loc="outside lower center", ncols=len(scores))
    figure.savefig(path, dpi=150)

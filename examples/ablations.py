"""The ablations of Peters et al. 2018 with `ner.py` or `sst5.py`, all with one command.

    python examples/ablations.py ner --train train.bio --dev dev.bio --test test.bio --seeds 3
    python examples/ablations.py sst5 --train train.txt --dev dev.txt --test test.txt --only layers

Options that this program does not know are passed to `ner.py` or `sst5.py`. The folder `--output`
gets a table for each ablation, with the options of each row and the paper's figures next to ours,
and pictures of the learned layer weights and of the scores by amount of training text. The paper's
figures are for other tasks and a far larger biLM: compare the differences between rows. Rows that
are already in the output folder are not run again, so the command can be stopped and resumed.

With the bundled model, ELMo adds 5.8, 9.2 and 5.6 points of F1 with 1, 10 and 100 % of WNUT-17's
training text; README.md in this folder has all the tables.
"""

import argparse
import functools
import hashlib
import importlib
import json
from pathlib import Path

import matplotlib
import numpy as np

from harness import identity, markdown, write_table

matplotlib.use("agg")  # pictures go to files
from matplotlib import pyplot

ELMO = ("--features", "glove+elmo")
GLOVE = ("--features", "glove")

PAPER_TASKS = ("SQuAD", "SNLI", "SRL")  # F1, accuracy, F1, on the development sets

# Each ablation: rows of a name, the options and the paper's figures, where it has some.
TABLES = {
    # Table 2: all layers or the last only, and the weight of the penalty on the layer weights.
    "layers": [
        ("no ELMo", GLOVE, (80.8, 88.1, 81.6)),
        ("last layer only", (*ELMO, "--last-layer"), (84.7, 89.1, 84.1)),
        ("all, lambda 1", (*ELMO, "--l2", "1"), (85.0, 89.3, 84.6)),
        ("all, lambda 0.001", (*ELMO, "--l2", "0.001"), (85.2, 89.5, 84.8)),
        ("all, lambda 0", ELMO, ()),
    ],
    # Table 3: where ELMo is added. The tagger has it at the input only.
    "placement": [
        ("input only", ELMO, (85.1, 88.9, 84.7)),
        ("input and output", (*ELMO, "--placement", "both"), (85.6, 89.5, 84.3)),
        ("output only", (*ELMO, "--placement", "output"), (84.8, 88.7, 80.8)),
    ],
    # Table 7: is it the context, or only the vectors of words from their characters? Of the middle
    # rows, these are the two figures that the paper's text names.
    "vectors": [
        ("GloVe", GLOVE, (80.8, 88.1, 81.6)),
        ("ELMo's tokens", ("--features", "elmo-tokens"), (81.4, None, None)),
        ("ELMo", ("--features", "elmo"), (None, None, 84.5)),
        ("GloVe and ELMo", ELMO, (85.6, 89.5, 84.7)),
    ],
    # Figure 1: how much training text it takes.
    "amount": [
        (f"{name}, {share} %", (*options, *fraction), ())
        for name, options in (("GloVe", GLOVE), ("GloVe and ELMo", ELMO))
        for share, fraction in ((1, ("--fraction", "0.01")), (10, ("--fraction", "0.1")), (100, ()))
    ],
}


@functools.cache
def run_row(task, options, arguments, output):
    """Runs the program with the options of a row, except for runs that are finished already.

    Returns:
        The row of its table.
    """
    print(f"{task}.py {' '.join(options)}", flush=True)
    program = importlib.import_module(task)
    settings = program.parse([*arguments, *options])
    key = hashlib.sha256(json.dumps(identity(settings), sort_keys=True).encode()).hexdigest()[:8]
    name = "_".join(option.strip("-") for option in options)
    settings.output = str(output / "runs" / f"{task}-{name}-{key}")
    (row,) = program.run(settings)
    return row


def run_table(table, task, arguments, output):
    """Runs the rows of an ablation; returns them as a list of dicts, the paper's figures last."""
    rows = []
    for setting, options, paper in TABLES[table]:
        result = dict(run_row(task, options, tuple(arguments), output))
        del result["features"]
        figures = {f"paper, {name}": figure for name, figure in zip(PAPER_TASKS, paper)}
        rows.append({"setting": setting, **result, **figures, "options": " ".join(options)})
    return rows


def draw_weights(rows, path):
    """Draws the share of each layer in the learned mixes, as the paper's figure 2."""
    places = ("input weights", "output weights")
    bars = {
        f"{row['setting']}, {place.split()[0]}": row[place]
        for row in rows
        for place in places
        if row.get(place) is not None
    }
    shares = np.array(list(bars.values()))
    figure, axes = pyplot.subplots(figsize=(5, 1 + 0.4 * len(bars)), layout="constrained")
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share > 0.6 else "black"
        axes.text(column, row, f"{share:.2f}", ha="center", va="center", color=color)
    num_layers = shares.shape[1]
    axes.set_xticks(range(num_layers), ["tokens", *(f"LSTM {i}" for i in range(1, num_layers))])
    axes.set_yticks(range(len(bars)), bars)
    axes.set_title("Share of each layer in the mix")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def draw_amount(rows, path):
    """Draws the score over the share of the training text, as the paper's figure 1."""
    figure, axes = pyplot.subplots(figsize=(5, 3.5), layout="constrained")
    lines = {}
    for row in rows:
        name, share = row["setting"].removesuffix(" %").split(", ")
        lines.setdefault(name, []).append((float(share), row["test"], row["test deviation"] or 0))
    for name, points in lines.items():
        shares, scores, deviations = zip(*points)
        axes.errorbar(shares, scores, deviations, label=name, marker="o", capsize=3)
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    axes.set(xlabel="training text, %", ylabel="test score")
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def run(task, tables, arguments, output):
    """Runs ablations and writes their tables and pictures into a folder."""
    found = {}
    for table in tables:
        rows = found[table] = run_table(table, task, arguments, output)
        write_table(output / f"{task}-{table}", rows)
        print(markdown(rows), flush=True)
    if "amount" in found:
        draw_amount(found["amount"], output / f"{task}-amount.png")
    mixes = [row for table in ("layers", "placement") for row in found.get(table, [])]
    if mixes:
        draw_weights(mixes, output / f"{task}-weights.png")
    return found


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("task", choices=("ner", "sst5"))
    parser.add_argument("--only", nargs="+", choices=TABLES, help="some of the ablations")
    parser.add_argument("--output", default="ablations_output", help="folder for the tables")
    settings, rest = parser.parse_known_args(arguments)
    known = [name for name in TABLES if settings.task == "sst5" or name != "placement"]
    if not set(settings.only or known) <= set(known):
        parser.error("ner.py has ELMo at the input only: --only placement is for sst5")
    tables = settings.only or known
    own = {x for table in tables for _, options, _ in TABLES[table] for x in options if x[0] == "-"}
    for option in sorted(own):
        if any(x.startswith("--") and option.startswith(x.split("=")[0]) for x in rest):
            parser.error(f"the rows have their own {option}")
    return settings.task, tables, rest, Path(settings.output)


if __name__ == "__main__":
    run(*parse())

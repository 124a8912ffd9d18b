"""The ablations of Peters et al. 2018 with `ner.py` or `sst5.py`, all with one command.

    python examples/ablations.py ner --train train.bio --dev dev.bio --test test.bio --seeds 3
    python examples/ablations.py sst5 --train train.txt --dev dev.txt --test test.txt --only layers

Options that this program does not know are passed to `ner.py` or `sst5.py`. The folder `--output`
gets a table for each ablation, with the options of each row and the paper's figures next to ours,
and pictures of the learned layer weights and of the scores by amount of training text. The paper's
figures are for other tasks and a far larger biLM: compare the differences between rows. Rows that
are already in the output folder are not run again, so the command can be stopped and resumed.
README.md in this folder has the tables with the bundled model.
"""

import argparse
import functools
import hashlib
import importlib
import json
from pathlib import Path

import numpy as np

from experiments import markdown, options_of, read_runs, write_table
from keras_elmo.analysis import layer_names
from pictures import draw_scores, draw_shares

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
        The row of its table, and the test scores of the runs.
    """
    print(f"{task}.py {' '.join(options)}", flush=True)
    program = importlib.import_module(task)
    settings = program.parse([*arguments, *options])
    key = hashlib.sha256(json.dumps(options_of(settings), sort_keys=True).encode()).hexdigest()[:8]
    name = "_".join(option.strip("-") for option in options)
    settings.output = str(output / "runs" / f"{task}-{name}-{key}")
    (row,) = program.run(settings)
    tests = [run["test"] for run in read_runs(settings.output) if run["seed"] <= settings.seeds]
    return row, tests


def run_table(table, task, arguments, output):
    """Runs the rows of an ablation, and writes its table and pictures into a folder.

    Returns:
        The rows, a list of dicts, the paper's figures last.
    """
    rows, tests = [], {}
    for setting, options, paper in TABLES[table]:
        row, tests[setting] = run_row(task, options, tuple(arguments), output)
        result = {name: value for name, value in row.items() if name != "features"}
        figures = {f"paper, {name}": figure for name, figure in zip(PAPER_TASKS, paper)}
        rows.append({"setting": setting, **result, **figures, "options": " ".join(options)})
    write_table(output / f"{task}-{table}", rows)
    print(markdown(rows), flush=True)
    unit = "F1 in %" if task == "ner" else "accuracy in %"
    draw_scores({"test set": tests}, f"{task}: {table}", output / f"{task}-{table}.png", unit)
    mixes = {
        f"{row['setting']}, {place}": row[f"{place} weights"]
        for row in rows
        for place in ("input", "output")
        if row.get(f"{place} weights") and len(row[f"{place} weights"]) > 1
    }
    layers = layer_names(len(next(iter(mixes.values()))))
    path = output / f"{task}-{table}-weights.png"
    draw_shares(np.array([*mixes.values()]), list(mixes), layers, "Weight of each layer, %", path)
    return rows


def run(task, tables, arguments, output):
    """Runs ablations; returns the rows of each."""
    return {table: run_table(table, task, arguments, output) for table in tables}


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
    return settings.task, tables, rest, Path(settings.output)


if __name__ == "__main__":
    run(*parse())

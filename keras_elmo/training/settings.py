"""The settings of a training. Imports no Keras: the command line shows them."""

import dataclasses
import math
import os
from collections.abc import Sequence

import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.registry import get_model

PRESETS: dict[str, ElmoConfig] = {
    "tiny": ElmoConfig(
        filters=((1, 16), (2, 32), (3, 64), (4, 96), (5, 128)),
        num_highway=1,
        lstm_dim=512,
        projection_dim=128,
    ),
    **{name: get_model(name).config for name in ("small", "medium", "original")},
}
"""`tiny` is the bundled model's architecture, the others are those of the published models."""

LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}
"""Optimizers by name, with their usual learning rate."""

EXTENDABLE_SCHEDULES = ("constant", "trapezoid")
"""Schedules with which a training can be made longer: at most its end depends on its length."""

Files = str | os.PathLike | Sequence[str | os.PathLike]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training: the options of `keras-elmo train`.

    What `options` or the model of `start_from` says of a setting is its default in place of the one
    below.

    Args:
        files: Text of one tokenized sentence a line (plain, .gz or .xz): paths or glob patterns.
        output: The folder for everything that is written.
        vocabulary: The vocabulary file (default: made of the 50,000 most frequent words).
        preset: Architecture by name: `"tiny"`, `"small"`, `"medium"` or `"original"`.
        options: Architecture and settings from bilm-tf's options.json, in place of `preset`.
        start_from: Begin with the weights and the architecture of another model: a published
            model's name, a training's folder or checkpoint, a folder with options.json and
            weights.hdf5, or a TensorFlow 1 checkpoint of bilm-tf.
        start_vocabulary: The vocabulary file of that model, if it is not in its folder.
        devices: Split each batch over so many devices, with TensorFlow or JAX.
        process: With JAX: `"I/N"`, this is the I-th (from 0) of N processes that train together.
        hosts: With `process`: `"HOST:PORT,..."`, the address of each process, the same for all.
        held_out: Text to evaluate on.
        epochs: Epochs to train, not necessarily whole (default: 1).
        steps: Steps to train, in place of `epochs`.
        batch_size: Rows of a batch (default: 128).
        unroll_steps: Words of a window (default: 20).
        dropout: Fraction to drop (default: 0.1).
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
            zero. May change, with `steps`, when a training is resumed, until the fall has begun.
        uniform_bias: Start the softmax with all words alike, as bilm-tf does, not by frequency.
        seed: Seed of everything random.
        evaluate_every: Steps between two reports, each with an evaluation on `held_out`.
        evaluate_sentences: Sentences of `held_out` to evaluate on then; the end takes all.
        checkpoint_seconds: Seconds between two checkpoints.
        keep: Checkpoints to keep.
        dtype: A Keras dtype policy such as `"mixed_bfloat16"`.
        tensorboard: Log for TensorBoard too.

    Raises:
        ValueError: if a setting is bad, or does not go with another one.
    """

    files: Files
    output: str | os.PathLike
    vocabulary: str | os.PathLike | None = None
    preset: str = "tiny"
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
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
        for name, kind in NUMBERS.items():
            is_good, expected = _KINDS[kind]
            value = getattr(self, name)
            if value is not None and not is_good(value):
                raise ValueError(f"{name} must be {expected}, got {value!r}.")
        if self.epochs and self.steps:
            raise ValueError("give epochs or steps, not both")
        if self.warmup_steps and self.schedule == "constant":
            raise ValueError("warmup_steps needs the schedule cosine or trapezoid")
        if self.cooldown_steps and self.schedule != "trapezoid":
            raise ValueError("cooldown_steps needs the schedule trapezoid")
        if self.hosts and not self.process:
            raise ValueError("hosts needs process")
        if self.start_from and self.options:
            raise ValueError("start_from has the architecture of its model: leave out options")


CHOICES = {
    "preset": tuple(PRESETS),
    "optimizer": tuple(LEARNING_RATES),
    "schedule": ("constant", "cosine", "trapezoid"),
}
NUMBERS = {
    **dict.fromkeys(("devices", "steps", "batch_size", "unroll_steps", "keep"), "positive"),
    **dict.fromkeys(("evaluate_every", "evaluate_sentences"), "positive"),
    **dict.fromkeys(("negatives", "warmup_steps", "cooldown_steps"), "count"),
    **dict.fromkeys(("epochs", "learning_rate", "checkpoint_seconds"), "positive_float"),
    "clip_norm": "not_negative_float",
    "dropout": "fraction",
}
"""The kind of number of a setting, by its name in `keras_elmo.cli.numbers`."""


def _is_whole(least):
    return lambda value: isinstance(value, (int, np.integer)) and value >= least


_KINDS = {
    "positive": (_is_whole(1), "a positive integer"),
    "count": (_is_whole(0), "0 or a positive integer"),
    "positive_float": (lambda value: 0 < value < math.inf, "a positive number"),
    "not_negative_float": (lambda value: 0 <= value < math.inf, "0 or a positive number"),
    "fraction": (lambda value: 0 <= value < 1, "from 0 to below 1"),
}

NOT_RECORDED = (
    *("files", "output", "vocabulary", "preset", "options", "start_vocabulary", "hosts"),
    *("held_out", "evaluate_sentences", "checkpoint_seconds", "keep", "tensorboard"),
)
"""Settings that may change when a training is resumed, or that are recorded in another form."""

"""The settings of a training. Imports no Keras: the command line shows their defaults."""

import dataclasses
import math
import os
from collections.abc import Sequence

import numpy as np

from keras_elmo.training.presets import PRESETS

LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}
"""Optimizers by name, with their usual learning rate."""

SCHEDULES = ("constant", "cosine", "trapezoid")

EXTENDABLE_SCHEDULES = ("constant", "trapezoid")
"""Schedules that do not depend on the number of steps, or only at the end: a training can be made
longer."""

Files = str | os.PathLike | Sequence[str | os.PathLike]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training: the options of `keras-elmo train`.

    Args:
        files: Text of one tokenized sentence a line (plain, .gz or .xz): a path, a glob pattern, or
            a list of such.
        output: The folder for everything that is written.
        vocabulary: The vocabulary file; `None` to make one of the 50,000 most frequent words.
        preset: Architecture by name: `"tiny"`, `"small"`, `"medium"` or `"original"`.
        options: bilm-tf's options.json with architecture and settings, in place of `preset`.
        start_from: Begin with the weights of another model, and its architecture: a published
            model's name, a training's folder or checkpoint, a folder with options.json and
            weights.hdf5, or a TensorFlow 1 checkpoint of bilm-tf.
        start_vocabulary: The vocabulary file of that model, if it is not in its folder.
        devices: Split each batch over so many devices (TensorFlow, JAX).
        process: With JAX: `"I/N"`, this is the I-th (from 0) of N processes that train together.
        hosts: With `process`: `"HOST:PORT,..."`, the address of each process.
        held_out: Text to evaluate on, or `None`.
        epochs: Epochs to train, not necessarily whole; 1 unless `steps` is given.
        steps: Steps to train, in place of `epochs`.
        batch_size: Rows of a batch. This and the following five: `None` for the value in the
            options of `options` or `start_from`, or else 128.
        unroll_steps: Words of a window; else 20.
        dropout: Fraction to drop; else 0.1.
        negatives: Words drawn for the sampled softmax, 0 for the full softmax; else 8192.
        clip_norm: Bound on the global norm of the gradient of loss times `unroll_steps`, 0 for
            none; else 10.
        share_embedding_softmax: Whether a model that reads whole words has one table for input and
            softmax; else `False`.
        optimizer: `"adagrad"`, as bilm-tf, or `"adam"`.
        learning_rate: `None` for that in the options, or else 0.2 for Adagrad, 0.001 for Adam.
        schedule: `"constant"`; `"cosine"`, which falls to zero all the way to the end; or
            `"trapezoid"`, which holds the learning rate until the last `cooldown_steps`.
        warmup_steps: With `"cosine"` and `"trapezoid"`: steps over which the learning rate rises
            from zero.
        cooldown_steps: With `"trapezoid"`: steps at the end over which the learning rate falls to
            zero. May change, with `steps`, when a training is resumed, until the fall has begun.
        uniform_bias: Start the softmax with all words alike, as bilm-tf does, not by frequency.
        seed: Seed of everything random.
        evaluate_every: Steps between two reports, each with an evaluation on `held_out`.
        evaluate_sentences: Sentences of `held_out` to evaluate on then; the end takes all.
        checkpoint_seconds: Seconds between two checkpoints.
        keep: Checkpoints to keep.
        dtype: A Keras dtype policy such as `"mixed_bfloat16"`, or `None`.
        tensorboard: Whether to log for TensorBoard too.

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
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}."
                )
        for names, is_good, expected in _NUMBERS:
            for name in names:
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


def _is_whole(least):
    return lambda value: isinstance(value, (int, np.integer)) and value >= least


_CHOICES = {"preset": tuple(PRESETS), "optimizer": tuple(LEARNING_RATES), "schedule": SCHEDULES}
_POSITIVE_INTEGERS = (
    *("devices", "steps", "batch_size", "unroll_steps"),
    *("evaluate_every", "evaluate_sentences", "keep"),
)
_POSITIVE = ("epochs", "learning_rate", "checkpoint_seconds")
_NUMBERS = (
    (_POSITIVE_INTEGERS, _is_whole(1), "a positive integer"),
    (("negatives", "warmup_steps", "cooldown_steps"), _is_whole(0), "0 or a positive integer"),
    (_POSITIVE, lambda value: 0 < value < math.inf, "a positive number"),
    (("clip_norm",), lambda value: 0 <= value < math.inf, "0 or a positive number"),
    (("dropout",), lambda value: 0 <= value < 1, "from 0 to below 1"),
)

NOT_RECORDED = (
    *("files", "output", "vocabulary", "preset", "options", "start_vocabulary", "hosts"),
    *("held_out", "evaluate_sentences", "checkpoint_seconds", "keep", "tensorboard"),
)
"""Settings that may change when a training is resumed, or that are recorded in another form."""

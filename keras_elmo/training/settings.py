"""The settings of a training run. Imports no Keras: the command line shows them."""

import dataclasses
import math
import numbers
import os
import re
import textwrap
from typing import Any, NamedTuple

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.registry import get_model
from keras_elmo.text.reader import Files, find_files

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
"""`tiny` trains in a few hours on a CPU; the others are the published architectures."""

LEARNING_RATES = {"adagrad": 0.2, "adam": 0.001}
"""Optimizers by name, with their usual learning rate."""


class _Number(NamedTuple):
    """A kind of number: its type, what must hold, and that in words."""

    kind: type
    is_good: Any
    expected: str

    def checked(self, value, label):
        """The value as a number of Python, which JSON knows; raises ValueError if it is bad."""
        if not (isinstance(value, self.kind) and self.is_good(value)):
            raise ValueError(f"{label} must be {self.expected}, got {value!r}.")
        return int(value) if isinstance(value, numbers.Integral) else float(value)


_POSITIVE = _Number(numbers.Integral, lambda x: x >= 1, "a positive integer")
_COUNT = _Number(numbers.Integral, lambda x: x >= 0, "0 or a positive integer")
_SEED = _Number(numbers.Integral, lambda x: 0 <= x < 1 << 32, "an integer from 0 to 2**32 - 1")
_RATE = _Number(numbers.Real, lambda x: 0 < x < math.inf, "a positive number")
_BOUND = _Number(numbers.Real, lambda x: 0 <= x < math.inf, "0 or a positive number")
_FRACTION = _Number(numbers.Real, lambda x: 0 <= x < 1, "from 0 to below 1")


def _setting(text: str, default: Any = None, **metadata: Any) -> Any:
    """A field of `TrainingSettings`.

    Args:
        text: Its description.
        default: Its value if it is not given.
        **metadata: `number` or `choices`, its valid values; `option`, its name in bilm-tf's
            options.json, from which it is taken if it is `None`; `otherwise`, its value if it is
            not there either; `may_change`, whether it may be different when a run is resumed.
    """
    return dataclasses.field(default=default, metadata={"text": text, **metadata})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training run: the options of `keras-elmo train`.

    Where `options` or the options of `start_from`'s model name a setting, their value replaces the
    default below.

    Raises:
        ValueError: if a setting is invalid, or contradicts another setting.
    """

    files: Files = _setting(
        "Text of one tokenized sentence per line, or FASTA (.fasta, .fa, .faa), plain, .gz or .xz: "
        "paths or glob patterns.",
        dataclasses.MISSING,
        may_change=True,  # the text that they hold may not
    )
    output: str | os.PathLike = _setting(
        "The folder for everything that is written.", dataclasses.MISSING, may_change=True
    )
    tokenize: str | None = _setting(
        "For raw text: the code of its language, such as en, to split each line of `files` and "
        "`held_out` into sentences and tokens by `keras_elmo.tokenize`."
    )
    vocabulary: str | os.PathLike | None = _setting(
        "The vocabulary file (default: made of the 49,997 most frequent words and `<S>`, "
        "`</S>` and `<UNK>`).",
        may_change=True,
    )
    preset: str | None = _setting(
        "Architecture by name: tiny, the default, small, medium or original.",
        choices=tuple(PRESETS),
        may_change=True,
    )
    options: str | os.PathLike | dict | None = _setting(
        "Architecture and settings from bilm-tf's options.json, in place of `preset`.",
        may_change=True,
    )
    start_from: str | os.PathLike | None = _setting(
        "A model to begin with the weights and architecture of: a published model's name, a "
        "training folder or checkpoint, a folder with options.json and weights.hdf5, or a "
        "TensorFlow 1 checkpoint of bilm-tf."
    )
    start_vocabulary: str | os.PathLike | None = _setting(
        "The vocabulary file of that model, if it is not in its folder.", may_change=True
    )
    devices: int = _setting(
        "How many devices to split each batch over, with JAX.", 1, number=_POSITIVE
    )
    process: str | None = _setting(
        "With JAX: I/N, this is the I-th (from 0) of N processes that train together, with one "
        "`output` folder for all.",
        may_change=True,
    )
    hosts: str | None = _setting(
        "With `process`: HOST:PORT,..., the address of each process, the same for all.",
        may_change=True,
    )
    held_out: Files | None = _setting("Text to evaluate on.", may_change=True)
    epochs: float | None = _setting(
        "Passes over the text, such as 2.5 (default: 1).",
        number=_RATE,
        option="n_epochs",
        may_change=True,
    )
    steps: int | None = _setting(
        "Steps to train, in place of `epochs`.", number=_POSITIVE, may_change=True
    )
    batch_size: int | None = _setting(
        "Rows of a batch (default: 128).", number=_POSITIVE, option="batch_size", otherwise=128
    )
    unroll_steps: int | None = _setting(
        "Words of a window (default: 20).", number=_POSITIVE, option="unroll_steps", otherwise=20
    )
    dropout: float | None = _setting(
        "Fraction of the units to drop (default: 0.1).",
        number=_FRACTION,
        option="dropout",
        otherwise=0.1,
    )
    negatives: int | None = _setting(
        "Words drawn for the sampled softmax, 0 for the full softmax (default: 8192).",
        number=_COUNT,
        option="n_negative_samples_batch",
        otherwise=8192,
    )
    clip_norm: float | None = _setting(
        "Bound on the global norm of the gradient of loss times `unroll_steps`, 0 for none "
        "(default: 10).",
        number=_BOUND,
        option="all_clip_norm_val",
        otherwise=10.0,
    )
    share_embedding_softmax: bool | None = _setting(
        "Whether a model that reads whole words has one table for input and softmax (default: no).",
        option="share_embedding_softmax",
        otherwise=False,
    )
    optimizer: str = _setting(
        "adagrad, as bilm-tf, or adam.", "adagrad", choices=tuple(LEARNING_RATES)
    )
    learning_rate: float | None = _setting(
        "The highest learning rate (default: 0.2 for adagrad, 0.001 for adam).",
        number=_RATE,
        option="learning_rate",
    )
    schedule: str = _setting(
        "How the learning rate changes: constant; cosine, which falls to zero all the way to the "
        "end; or trapezoid, which holds it until the last `cooldown_steps`.",
        "constant",
        choices=("constant", "cosine", "trapezoid"),
    )
    warmup_steps: int = _setting(
        "Steps over which the learning rate rises from zero, unless it is constant.",
        0,
        number=_COUNT,
    )
    cooldown_steps: int = _setting(
        "With trapezoid: steps at the end over which the learning rate falls to zero. It and the "
        "length may change when a run is resumed, until the learning rate has started to fall.",
        0,
        number=_COUNT,
        may_change=True,
    )
    zero_softmax_bias: bool = _setting(
        "Start the softmax with all words alike, as bilm-tf does, not by frequency.", False
    )
    seed: int = _setting("Seed of everything random.", 0, number=_SEED)
    checkpoint_every: int = _setting(
        "Steps between two checkpoints, each with a report and an evaluation on `held_out`. A run "
        "that is stopped loses the steps since the last one.",
        500,
        number=_POSITIVE,
    )
    evaluate_sentences: int = _setting(
        "Sentences of `held_out` to evaluate on then; at the end all are taken.",
        1000,
        number=_POSITIVE,
        may_change=True,
    )
    keep: int = _setting("Checkpoints to keep.", 3, number=_POSITIVE, may_change=True)
    dtype: str | None = _setting(
        "Keras dtype policy (default: Keras' own, float32 unless set).",
        choices=("float32", "mixed_bfloat16", "bfloat16", "mixed_float16"),
    )
    tensorboard: bool = _setting("Also log for TensorBoard.", False, may_change=True)

    def __post_init__(self):
        for field in SETTINGS.values():
            value, choices = getattr(self, field.name), field.metadata.get("choices")
            if value is None or value == field.default:
                continue
            if number := field.metadata.get("number"):
                object.__setattr__(self, field.name, number.checked(value, field.name))
            if choices and value not in choices:
                names = ", ".join(choices)
                raise ValueError(f"{field.name} must be one of {names}, got {value!r}.")
        for one, other in (("epochs", "steps"), ("preset", "options")):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"Pass {one} or {other}, not both.")
        if self.start_from and (self.preset or self.options):
            raise ValueError(
                "start_from has the architecture of its model: leave out preset and options."
            )
        needed = {"hosts": "process", "process": "hosts", "start_vocabulary": "start_from"}
        for one, other in needed.items():
            if getattr(self, one) and not getattr(self, other):
                raise ValueError(f"{one} needs {other}.")
        if self.warmup_steps and self.schedule == "constant":
            raise ValueError("warmup_steps needs schedule='cosine' or 'trapezoid'.")
        if self.cooldown_steps and self.schedule != "trapezoid":
            raise ValueError("cooldown_steps needs schedule='trapezoid'.")
        if self.process:
            found = re.fullmatch(r"(\d+)/(\d+)", self.process)
            if not found or int(found[1]) >= int(found[2]):
                raise ValueError(f"process must be I/N, such as 0/2 or 1/2, got {self.process!r}.")

    def check_files(self) -> None:
        """Raises FileNotFoundError if an input file does not exist."""
        find_files(self.files)
        if self.held_out:
            find_files(self.held_out)
        options = None if isinstance(self.options, dict) else self.options
        for name in (self.vocabulary, options, self.start_vocabulary):
            if name and not os.path.isfile(name):
                raise FileNotFoundError(f"The file {os.fspath(name)} does not exist.")

    def resolved(self, config: ElmoConfig) -> "TrainingSettings":
        """The settings with missing values filled in from the config's options or the defaults."""
        names = [name for name, field in SETTINGS.items() if "option" in field.metadata]
        values = from_options(config, **{name: getattr(self, name) for name in names})
        if self.steps:
            values["epochs"] = None
        values["learning_rate"] = values["learning_rate"] or LEARNING_RATES[self.optimizer]
        return dataclasses.replace(self, **values)

    def fixed(self) -> dict[str, Any]:
        """The settings that may not change when a run is resumed, JSON-serializable."""
        names = [name for name, field in SETTINGS.items() if "may_change" not in field.metadata]
        values = {name: getattr(self, name) for name in names}
        if self.start_from is not None:
            values["start_from"] = os.fspath(self.start_from)
        if self.process is not None:
            values["process"] = self.process.partition("/")[2]
        return values


SETTINGS = {field.name: field for field in dataclasses.fields(TrainingSettings)}
"""The fields of `TrainingSettings` by name."""


def from_options(config: ElmoConfig, **given: Any) -> dict[str, Any]:
    """Settings by name: the given value, else the one in bilm-tf's options, else the default.

    The options are the config's `training_options`. A setting that is not given is `None`.
    """
    options = dict(config.training_options)
    if not options.get("sample_softmax", True):
        options["n_negative_samples_batch"] = 0
    values = {}
    for name, value in given.items():
        metadata, label = SETTINGS[name].metadata, name
        if value is None:
            value, label = options.get(metadata["option"]), f"{metadata['option']} in the options"
        if value is None:
            value = metadata.get("otherwise")
        elif number := metadata.get("number"):
            value = number.checked(value, label)
        values[name] = value
    return values


def _documentation():
    """The docstring of the settings, with the descriptions of the fields."""
    lines = (f"{name}: {field.metadata['text']}" for name, field in SETTINGS.items())
    wrap = textwrap.TextWrapper(100, initial_indent=" " * 8, subsequent_indent=" " * 12)
    arguments = "\n".join(map(wrap.fill, lines))
    head, raises, tail = (TrainingSettings.__doc__ or "").partition("    Raises:")
    return f"{head}    Args:\n{arguments}\n\n{raises}{tail}"


TrainingSettings.__doc__ = _documentation()

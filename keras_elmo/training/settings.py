"""The settings of a training run and their defaults.

Imports no Keras, because the command line lists them.
"""

import dataclasses
import functools
import json
import math
import os
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_elmo.arguments import check_boolean, check_integer, check_number
from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write, check_new_folder, read_json
from keras_elmo.pretrained.folder import CHECKPOINTS, LOG, TRAINING, latest_checkpoint
from keras_elmo.pretrained.formats import VOCABULARY
from keras_elmo.pretrained.registry import get_model
from keras_elmo.text.reader import Files, find_files, pluralize
from keras_elmo.text.tokenize import Tokenize, tokenizer_name
from keras_elmo.text.vocabulary import VOCABULARY_LIMITS

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

BILM_TF: dict[str, Any] = {
    "preset": "original",
    "min_count": 1,
    "epochs": 10.0,
    "batch_size": 128,
    "unroll_steps": 20,
    "dropout": 0.1,
    "negatives": 8192,
    "clip_norm": 10.0,
    "share_embedding_softmax": False,
    "optimizer": "adagrad",
    "learning_rate": LEARNING_RATES["adagrad"],
    "schedule": "constant",
    "warmup_steps": 0,
    "cooldown_steps": 0,
    "zero_softmax_bias": True,
    "seed": 0,
    "checkpoint_every": 500,
    "evaluate_sentences": 1000,
    "patience": 0,
    "keep": 3,
    "devices": 1,
    "tensorboard": False,
}
"""The settings of bilm-tf, and defaults for those that only this package has."""


_FITTING: tuple[tuple[float, dict[str, Any], dict[str, Any]], ...] = (
    (
        1e6,
        {"epochs": 8.0, "batch_size": 32, "learning_rate": 0.003, "dropout": 0.4},
        {"epochs": 3.0, "batch_size": 32, "learning_rate": 0.0005, "dropout": 0.1},
    ),
    (
        1e7,
        {"epochs": 4.0, "batch_size": 64, "learning_rate": 0.003, "dropout": 0.2},
        {"epochs": 2.0, "batch_size": 64, "learning_rate": 0.0005, "dropout": 0.1},
    ),
    (
        1e8,
        {"epochs": 2.0, "batch_size": 128, "learning_rate": 0.002, "dropout": 0.1},
        {"epochs": 1.0, "batch_size": 128, "learning_rate": 0.0005, "dropout": 0.0},
    ),
    (
        math.inf,
        {"epochs": 1.0, "batch_size": 256, "learning_rate": 0.002, "dropout": 0.0},
        {"epochs": 1.0, "batch_size": 256, "learning_rate": 0.0005, "dropout": 0.0},
    ),
)
"""The settings that fit a text with at most so many words to predict: of a new model, and of one
that starts with the weights of an existing model."""

_FOR_ALL = {
    "preset": "tiny",
    "optimizer": "adam",
    "schedule": "cosine",
    "negatives": 2048,
    "zero_softmax_bias": False,
    "patience": 5,
}


def fitting(words: int, *, starts_from_model: bool = False) -> dict[str, Any]:
    """The defaults that replace bilm-tf's for a text with so many words to predict."""
    _, new, started = next(row for row in _FITTING if words <= row[0])
    values = started if starts_from_model else new
    # A pass over a tiny text still has 100 steps of 20 words.
    batch_size = min(values["batch_size"], max(1, words // (100 * 20)))
    min_count = VOCABULARY_LIMITS["min_count"]
    return {**_FOR_ALL, **values, "batch_size": batch_size, "min_count": min_count}


def fitting_steps(steps: int) -> dict[str, Any]:
    """The defaults that replace bilm-tf's for a training run of so many steps."""
    return {"warmup_steps": min(500, steps // 20), "checkpoint_every": min(2000, -(-steps // 20))}


_DEFAULTS = {
    **BILM_TF,
    **fitting(1 << 40),
    **dict.fromkeys((*_FITTING[0][1], *fitting_steps(1)), "what fits the text"),
}


_positive = functools.partial(check_integer, least=1)
_count = functools.partial(check_integer, least=0)
_seed = functools.partial(check_integer, least=0, most=2**32 - 1)
_rate = functools.partial(check_number, above=0)
_bound = functools.partial(check_number, least=0)
_fraction = functools.partial(check_number, least=0, below=1)


def _setting(text: str, default: Any = None, **metadata: Any) -> Any:
    """A field of `TrainingSettings`.

    Args:
        text: Its description.
        default: `None`, which means that it is not given.
        **metadata: `check`, a function of a label and a value that returns the value as JSON has
            it, or raises ValueError; `choices`, its valid values; `option`, its name in bilm-tf's
            options.json; `may_change`, whether it may be different when a run is resumed; `is_path`
            if it depends on the place of files, so that training.json does not have it.
    """
    return dataclasses.field(default=default, metadata={"text": text, **metadata})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training run: the options of `keras-elmo train`.

    `None` means not given. A run that is resumed takes such a setting from its training.json. A new
    run takes it from `options`, or else from the defaults below, some of which depend on the size
    of the text; `recipe` replaces these by bilm-tf's.

    Raises:
        ValueError: if a setting is invalid, or contradicts another setting.
    """

    files: Files = _setting(
        "Text of one tokenized sentence per line, or JSON (.jsonl, .json), CoNLL-U (.conllu) or "
        "FASTA (.fasta), plain, .gz or .xz: paths or glob patterns.",
        dataclasses.MISSING,
        is_path=True,
    )
    output: str | os.PathLike = _setting(
        "The folder for everything that is written.", dataclasses.MISSING, is_path=True
    )
    tokenize: Tokenize = _setting(
        "For raw text: the code of its language, such as en, to split each line of `files` and "
        "`held_out` into sentences and tokens by `keras_elmo.tokenize`; or a function that does so."
    )
    field: str | None = _setting(
        "The field of JSON that holds the text (default: text); with it, every text is read as "
        "JSON, whatever its name."
    )
    vocabulary: str | os.PathLike | None = _setting(
        "The vocabulary file (default: made of the 49,997 most frequent words and `<S>`, "
        "`</S>` and `<UNK>`).",
        is_path=True,
    )
    min_count: int | None = _setting(
        "For a vocabulary that is made of the text: leave out words that occur less often. They "
        "train `<UNK>`.",
        check=_positive,
    )
    recipe: str | None = _setting(
        "bilm-tf, to train as the original does, whatever the size of the text.",
        choices=("bilm-tf",),
    )
    preset: str | None = _setting(
        "Architecture by name: tiny, small, medium or original.",
        choices=tuple(PRESETS),
        is_path=True,  # training.json has the architecture
    )
    options: str | os.PathLike | dict | None = _setting(
        "Architecture and settings from bilm-tf's options.json, in place of `preset`.",
        is_path=True,
    )
    start_from: str | os.PathLike | None = _setting(
        "A model to start with the weights and architecture of: a published model's name, a "
        "training folder or checkpoint, a folder with options.json and weights.hdf5, or a "
        "TensorFlow 1 checkpoint of bilm-tf."
    )
    start_vocabulary: str | os.PathLike | None = _setting(
        "The vocabulary file of that model, if it is not in its folder.", is_path=True
    )
    devices: int | None = _setting(
        "How many devices to split each batch over, with JAX.", check=_positive
    )
    process: str | None = _setting(
        "With JAX: I/N, this is the I-th (from 0) of N processes that train together, with one "
        "`output` folder for all.",
        is_path=True,
    )
    hosts: str | None = _setting(
        "With `process`: HOST:PORT,..., the address of each process, the same for all.",
        is_path=True,
    )
    held_out: Files | None = _setting(
        "Text to evaluate on (default: the last sentences of the text).", is_path=True
    )
    set_aside: int | None = _setting(
        "Without `held_out`: how many sentences at the end of the text to evaluate on, and not to "
        "train on (default: a twentieth of the text, at most 1,000).",
        check=_count,
    )
    epochs: float | None = _setting(
        "Passes over the text, such as 2.5.", check=_rate, option="n_epochs", may_change=True
    )
    steps: int | None = _setting(
        "Steps to train, in place of `epochs`.", check=_positive, may_change=True
    )
    batch_size: int | None = _setting("Rows of a batch.", check=_positive, option="batch_size")
    unroll_steps: int | None = _setting(
        "Words of a window.", check=_positive, option="unroll_steps"
    )
    dropout: float | None = _setting(
        "Fraction of the units to drop.", check=_fraction, option="dropout"
    )
    negatives: int | None = _setting(
        "Words sampled per step for the softmax, 0 for the full softmax.",
        check=_count,
        option="n_negative_samples_batch",
    )
    clip_norm: float | None = _setting(
        "Bound on the global norm of the gradient of loss times `unroll_steps`, 0 for none.",
        check=_bound,
        option="all_clip_norm_val",
    )
    share_embedding_softmax: bool | None = _setting(
        "Whether a model that reads whole words has one table for input and softmax.",
        check=check_boolean,
        option="share_embedding_softmax",
    )
    optimizer: str | None = _setting("adagrad, as bilm-tf, or adam.", choices=tuple(LEARNING_RATES))
    learning_rate: float | None = _setting(
        "The highest learning rate.",
        check=_rate,
        option="learning_rate",
    )
    schedule: str | None = _setting(
        "How the learning rate changes: constant; cosine, which decays to zero over the whole run; "
        "or trapezoid, which holds it until the last `cooldown_steps`.",
        choices=("constant", "cosine", "trapezoid"),
    )
    warmup_steps: int | None = _setting(
        "Steps over which the learning rate rises from zero, unless it is constant.", check=_count
    )
    cooldown_steps: int | None = _setting(
        "With trapezoid: steps at the end over which the learning rate falls to zero. It and the "
        "length may change when a run is resumed, until the learning rate has started to fall.",
        check=_count,
        may_change=True,
    )
    zero_softmax_bias: bool | None = _setting(
        "Start the softmax with equal probabilities for all words, as bilm-tf does, not with their "
        "frequencies.",
        check=check_boolean,
    )
    seed: int | None = _setting("Seed of everything random.", check=_seed)
    checkpoint_every: int | None = _setting(
        "Steps between two checkpoints, each with a report and an evaluation on `held_out`. A run "
        "that is stopped loses the steps since the last one.",
        check=_positive,
    )
    evaluate_sentences: int | None = _setting(
        "Sentences of `held_out` to evaluate on then; at the end all are taken.",
        check=_positive,
        may_change=True,
    )
    patience: int | None = _setting(
        "Training ends after so many reports without a lower held-out perplexity, and the "
        "checkpoint with the lowest becomes the model. 0 trains to the last step, whose weights "
        "become the model.",
        check=_count,
        may_change=True,
    )
    keep: int | None = _setting(
        "Checkpoints to keep, besides the best.", check=_positive, may_change=True
    )
    compute_dtype: str | None = _setting(
        "Keras dtype policy (default: Keras' own, float32 unless set).",
        choices=("float32", "mixed_bfloat16", "bfloat16", "mixed_float16"),
    )
    tensorboard: bool | None = _setting(
        "Also log for TensorBoard.", check=check_boolean, may_change=True
    )

    def __post_init__(self):
        for name, value in self.given().items():
            object.__setattr__(self, name, checked(name, value))
        for one, other in (("epochs", "steps"), ("preset", "options")):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"Pass {one} or {other}, not both.")
        if self.held_out and self.set_aside:
            raise ValueError(
                f"set_aside={self.set_aside} evaluates on the end of the text: leave out held_out, "
                "or pass a different output to begin a new training run with it."
            )
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
        if self.cooldown_steps and self.schedule in ("constant", "cosine"):
            raise ValueError("cooldown_steps needs schedule='trapezoid'.")
        if self.process:
            found = re.fullmatch(r"(\d+)/(\d+)", self.process)
            if not found or int(found[1]) >= int(found[2]):
                raise ValueError(f"process must be I/N, such as 0/2 or 1/2, got {self.process!r}.")

    def given(self) -> dict[str, Any]:
        """The settings that are given, by name."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in values.items() if value is not None}

    def check_files(self) -> None:
        """Checks files before anything is read or written.

        Raises:
            OSError: if the output is not a folder, or cannot be written to.
            FileExistsError: if the output holds files that a run would replace, but no run.
            FileNotFoundError: if an input file does not exist.
        """
        find_files(self.files)
        if self.held_out:
            find_files(self.held_out)
        options = None if isinstance(self.options, dict) else self.options
        paths = [self.vocabulary, options]
        if self.start_from and not read_record(self.output):
            paths.append(self.start_vocabulary)
        for path in paths:
            if path and not os.path.isfile(path):
                raise FileNotFoundError(f"The file {os.fspath(path)} does not exist.")
        self._check_output()

    def _check_output(self):
        folder = Path(self.output)
        check_new_folder(folder)
        if (folder / TRAINING).is_file():
            return
        for name in (VOCABULARY, LOG, CHECKPOINTS, "model"):
            path, own = folder / name, self.vocabulary
            if path.exists() and not (own and os.path.samefile(path, own)):
                raise FileExistsError(
                    f"{path} would be replaced, although {folder} holds no training run: move it, "
                    "or choose a different output."
                )

    def resumed(self, record: Mapping[str, Any]) -> "TrainingSettings":
        """The settings of a run that is resumed: those that are not given come from its record.

        Raises:
            ValueError: if a given setting is different there and may not change.
        """
        given = self.record()
        if config := self.architecture():
            given = _layered(from_options(config.training_options), given)
            given["config"] = dataclasses.replace(config, training_options={}).to_dict()
        if callable(self.tokenize):
            del given["tokenize"]  # the hash of the text tells whether it is the same
        changed = [
            f"{name} was {record.get(name)!r:.80}, now {value!r:.80}"
            if name != "config"
            else "the architecture"
            for name, value in given.items()
            if value != record.get(name) and name not in _MAY_CHANGE
        ]
        if changed:
            raise ValueError(
                f"{self.output} holds a training run with other settings: {', '.join(changed)}. "
                "Pass the same settings to resume it, or choose a different output."
            )
        recorded = {name: value for name, value in record.items() if name in SETTINGS}
        if os.path.isfile(vocabulary := Path(self.output) / VOCABULARY):
            recorded["vocabulary"] = vocabulary
        if self.tokenize is None:
            recorded["tokenize"] = recorded_tokenizer(record)
        values = _layered(recorded, self.given())
        return TrainingSettings(**{**values, "options": None, "preset": None})

    def resolved(self, options: Mapping[str, Any], words: int) -> Any:
        """The `TrainingSettings` with a value for each, the given one or a default.

        Args:
            options: bilm-tf's options: the `training_options` of an `ElmoConfig`.
            words: How many words there are to predict in a pass over the text.

        Raises:
            ValueError: if the text has fewer words than a step, or settings contradict each other.
        """
        import keras

        keras_defaults = {"compute_dtype": keras.config.dtype_policy().name}
        fitted = {}
        if not self.recipe:
            fitted = fitting(words, starts_from_model=bool(self.start_from))
        given = _layered(from_options(options), self.given())
        values = _layered(keras_defaults, BILM_TF, fitted, given)
        values.setdefault("learning_rate", LEARNING_RATES[values["optimizer"]])
        batch_size, unroll_steps = values["batch_size"], values["unroll_steps"]
        steps_per_pass = words // (batch_size * unroll_steps)
        if not steps_per_pass:
            raise ValueError(
                f"The text has {pluralize(words, 'word')} to predict, fewer than one step of "
                f"batch_size={batch_size} rows of unroll_steps={unroll_steps} words: pass more "
                "text, or a smaller batch_size or unroll_steps."
            )
        if (epochs := values.pop("epochs", None)) is not None:
            values["steps"] = max(1, round(epochs * steps_per_pass))
        if not self.recipe:
            lengths = fitting_steps(values["steps"])
            if values["schedule"] == "constant":
                del lengths["warmup_steps"]
            values.update((name, x) for name, x in lengths.items() if name not in given)
        if self.options or self.start_from:
            del values["preset"]
        return TrainingSettings(**values)

    def with_set_aside(self, sentences: int) -> "TrainingSettings":
        """The settings with a number for `set_aside`, for a text of so many sentences.

        Raises:
            ValueError: if no sentence is left to train on.
        """
        number = self.set_aside
        if number is None:
            number = 0 if self.held_out or self.recipe else min(1000, sentences // 20)
        if number >= sentences:
            raise ValueError(
                f"set_aside must be smaller than the {pluralize(sentences, 'sentence')} of the "
                f"text, got {number}."
            )
        return dataclasses.replace(self, set_aside=number)

    def architecture(self) -> ElmoConfig | None:
        """The architecture that `options` or `preset` gives, if one of them is given."""
        if self.options:
            return ElmoConfig.from_json(self.options)
        return PRESETS[self.preset] if self.preset else None

    def record(self) -> dict[str, Any]:
        """The given settings, without paths and architecture, as training.json has them."""
        values = {name: value for name, value in self.given().items() if name not in _UNRECORDED}
        if "start_from" in values:
            values["start_from"] = os.fspath(values["start_from"])
        if callable(tokenize := values.get("tokenize")):
            values["tokenize"] = f"{getattr(tokenize, '__qualname__', 'a function')}()"
        elif tokenize:
            values["tokenize"] = tokenizer_name(tokenize)
        return values


SETTINGS = {field.name: field for field in dataclasses.fields(TrainingSettings)}
"""The fields of `TrainingSettings` by name."""

_MAY_CHANGE = {name for name, field in SETTINGS.items() if field.metadata.get("may_change")}
_UNRECORDED = {name for name, field in SETTINGS.items() if field.metadata.get("is_path")}


def checked(name: str, value: Any, label: str | None = None) -> Any:
    """A value of a setting, as JSON has it; raises ValueError with the label if it is invalid."""
    metadata, label = SETTINGS[name].metadata, label or name
    if (choices := metadata.get("choices")) and value not in choices:
        raise ValueError(f"{label} must be one of {', '.join(choices)}, got {value!r}.")
    return metadata["check"](label, value) if "check" in metadata else value


def _layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The last value of each setting. Those that mean the same, or depend on it, are dropped."""
    values: dict[str, Any] = {}
    for layer in layers:
        if "steps" in layer or "epochs" in layer:
            values = {name: x for name, x in values.items() if name not in ("steps", "epochs")}
        if layer.get("optimizer", values.get("optimizer")) != values.get("optimizer"):
            values.pop("learning_rate", None)
        values.update(layer)
    return values


def from_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in bilm-tf's options, by name. Raises ValueError if one is invalid."""
    values = {}
    for name, field in SETTINGS.items():
        option = field.metadata.get("option")
        if option and options.get(option) is not None:
            values[name] = checked(name, options[option], f"{option} in the options")
    if "learning_rate" in values:
        values["optimizer"] = "adagrad"  # bilm-tf has no other
    is_sampled = options.get("sample_softmax")
    if is_sampled is not None and not check_boolean("sample_softmax in the options", is_sampled):
        values["negatives"] = 0
    return values


def with_defaults(options: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """The given settings by name, or those in bilm-tf's options, or bilm-tf's own."""
    given_values = {name: checked(name, x) for name, x in given.items() if x is not None}
    values = {**BILM_TF, **from_options(options), **given_values}
    return {name: values[name] for name in given}


def to_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name as bilm-tf's options, which `from_options` reads."""
    options = {SETTINGS[name].metadata["option"]: value for name, value in settings.items()}
    if "negatives" in settings:
        options["sample_softmax"] = settings["negatives"] > 0
    return options


def read_record(folder: str | os.PathLike) -> dict[str, Any]:
    """The training.json of the run in a folder; empty unless it has a checkpoint to resume from."""
    path = Path(folder) / TRAINING
    is_trained = latest_checkpoint(path.parent / CHECKPOINTS)[1] is not None
    return read_training(path) if is_trained and path.exists() else {}


def read_training(path: str | os.PathLike) -> dict[str, Any]:
    """The settings in a training.json. Raises ValueError if it is damaged."""
    record = read_json(path)
    if missing := {"config", "batch_size", "unroll_steps"} - record.keys():
        raise ValueError(
            f"{os.fspath(path)} is damaged: it has no {', '.join(sorted(missing))}. Move it "
            "elsewhere, or choose a different output."
        )
    return record


def write_record(folder: str | os.PathLike, settings: TrainingSettings, config: ElmoConfig) -> None:
    """Writes the training.json of a run: its architecture and its resolved settings."""
    record = {"config": config.to_dict(), **settings.record()}
    with atomic_write(Path(folder) / TRAINING) as partial:
        Path(partial).write_text(json.dumps(record, indent=1), encoding="utf-8")


def recorded_tokenizer(record: Mapping[str, Any]) -> str | None:
    """How the text of a run was tokenized. Raises ValueError if a function did so."""
    name = record.get("tokenize")
    if name and name.endswith("()"):
        raise ValueError(f"The text of the run was tokenized by {name}: pass it as tokenize.")
    return name


def description(name: str) -> str:
    """What a setting is, with its default."""
    text, default = SETTINGS[name].metadata["text"], _DEFAULTS.get(name)
    if default is None or default is False or "default:" in text:
        return text
    default = f"{default:g}" if isinstance(default, float) else default
    return f"{text.removesuffix('.')} (default: {default})."


def _documentation():
    """The docstring of the settings, with the descriptions of the fields."""
    lines = (f"{name}: {description(name)}" for name in SETTINGS)
    wrap = textwrap.TextWrapper(100, initial_indent=" " * 8, subsequent_indent=" " * 12)
    arguments = "\n".join(map(wrap.fill, lines))
    head, raises, tail = (TrainingSettings.__doc__ or "").partition("    Raises:")
    return f"{head}    Args:\n{arguments}\n\n{raises}{tail}"


TrainingSettings.__doc__ = _documentation()

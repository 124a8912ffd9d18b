"""The command `keras-elmo train`."""

import dataclasses
import inspect
import re
import sys
import typing
from pathlib import Path

from keras_elmo.cli.common import printed_log
from keras_elmo.cli.evaluate import print_report
from keras_elmo.training.settings import CHOICES, TrainingSettings

_METAVARS = {
    "output": "FOLDER",
    "vocabulary": "FILE",
    "options": "FILE",
    "start_from": "MODEL",
    "start_vocabulary": "FILE",
    "process": "I/N",
    "hosts": "HOST:PORT,...",
    "held_out": "FILES",
}
_FIELDS = {field.name: field for field in dataclasses.fields(TrainingSettings)}


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`, with an option for each setting."""
    command = commands.add_parser(
        "train",
        parents=[common],
        help="train a language model, or resume a training run",
        description="Trains a biLM on text files. The same command started again resumes a "
        "training that was stopped. Where --options or the options of --start-from's model name a "
        "setting, their value replaces the default below.",
    )
    architecture = command.add_mutually_exclusive_group()
    texts = _help_texts()
    for name, field in _FIELDS.items():
        if name != "share_embedding_softmax":
            parser = architecture if name in ("preset", "options") else command
            _add_argument(parser, field, texts.get(name))
    command.set_defaults(check=_check, run=_train, share_embedding_softmax=None)


def _add_argument(parser, field, text):
    name, default = field.name, field.default
    if name == "files":
        parser.add_argument(name, nargs="+", metavar="FILES", help=text)
        return
    if field.type is bool:
        parser.add_argument(_option(name), action="store_true", help=text)
        return
    required = default is dataclasses.MISSING
    if text and not required and default is not None:
        text += " (default: %(default)s)"
    kinds = typing.get_args(field.type) or (field.type,)
    parser.add_argument(
        _option(name),
        dest=name,
        required=required,
        default=None if required else default,
        type=next((kind for kind in (int, float) if kind in kinds), str),
        choices=CHOICES.get(name),
        nargs="+" if name == "held_out" else None,
        metavar=None if name in CHOICES else _METAVARS.get(name, "N"),
        help=text,
    )


def _option(name):
    return "--" + name.replace("vocabulary", "vocab").replace("_", "-")


def _with_options(error, names):
    """The message of an error with options in the place of the settings `names`."""
    pattern = rf"(?<![\w./\\-])({'|'.join(names)})(?![\w/\\-]|\.\w)"  # not in paths
    return re.sub(pattern, lambda match: _option(match[1]), str(error))


def _help_texts():
    """What the docstring of `TrainingSettings` says of each, with options for the names there."""
    docstring = inspect.getdoc(TrainingSettings) or ""  # python -OO has none
    entries = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    texts = {}
    for name, text in re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)\.$", entries, re.MULTILINE):
        text = re.sub(r'`(?:"(.+?)"|(\w+))`', lambda m: m[1] or _option(m[2]), text)
        text = " ".join(text.split())
        texts[name] = text[0].lower() + text[1:]
    return texts


def _check(arguments, parser):
    try:
        settings = {name: getattr(arguments, name) for name in _FIELDS}
        arguments.settings = TrainingSettings(**settings)
    except ValueError as error:
        parser.error(_with_options(error, _FIELDS))
    arguments.settings.check_files()


def _train(arguments):
    from keras_elmo.training.checkpoint import latest_step
    from keras_elmo.training.run import train

    try:
        with printed_log():
            result = train(arguments.settings, show_progress=None)
    except KeyboardInterrupt:
        step = latest_step(Path(arguments.settings.output) / "checkpoints")
        print(f"keras-elmo: the same command resumes after step {step:,}", file=sys.stderr)
        raise
    except ValueError as error:
        # A plain word such as "steps" means itself.
        names = (name if "_" in name else f"{name}(?==)" for name in _FIELDS)
        raise ValueError(_with_options(error, names)) from error
    if result.report is not None:
        print_report(result.report)
    folder = str(result.folder)
    print(f"Wrote the model to {folder}: ElmoLayer({folder!r})")

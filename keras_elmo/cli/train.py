"""The command `keras-elmo train`."""

import argparse
import dataclasses
import re
import shlex
import sys
import typing
from pathlib import Path

from keras_elmo.cli.common import add_field, add_tokenize
from keras_elmo.cli.evaluate import print_report
from keras_elmo.pretrained.language_models import find_language_model
from keras_elmo.training.settings import SETTINGS, TrainingSettings, description, read_record

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


def add_command(commands, common):
    """Adds the command to the parser of `keras-elmo`, with an option for each setting."""
    command = commands.add_parser(
        "train",
        parents=[common],
        help="train a language model, or resume a training run",
        description="Trains a biLM on text files. The same command started again resumes a "
        "training run that was stopped; options that are left out are then taken from its "
        "training.json.",
    )
    architecture = command.add_mutually_exclusive_group()
    for name, field in SETTINGS.items():
        if name == "tokenize":
            add_tokenize(command)
        elif name == "field":
            add_field(command)
        else:
            _add_argument(architecture if name in ("preset", "options") else command, field)
    renamed = {name: _option(name) for name in SETTINGS}
    command.set_defaults(check=_check, run=_train, prints_log=True, renamed=renamed)


def _add_argument(parser, field):
    name, text = field.name, description(field.name).removesuffix(".")
    text = re.sub(r"`(\w+)`", lambda match: _option(match[1]), text)
    text = text[0].lower() + text[1:]
    if name == "files":
        parser.add_argument(name, nargs="+", metavar="FILES", help=text)
        return
    kinds = typing.get_args(field.type) or (field.type,)
    options = {"dest": name, "help": text}
    if bool in kinds:
        parser.add_argument(_option(name), action=argparse.BooleanOptionalAction, **options)
        return
    choices = field.metadata.get("choices")
    parser.add_argument(
        _option(name),
        required=field.default is dataclasses.MISSING,
        type=next((kind for kind in (int, float) if kind in kinds), str),
        choices=choices,
        nargs="+" if name == "held_out" else None,
        metavar=None if choices else _METAVARS.get(name, "N"),
        **options,
    )


def _option(name):
    return "--" + name.replace("vocabulary", "vocab").replace("_", "-")


def _check(arguments, parser):
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    arguments.settings = TrainingSettings(**settings)
    arguments.settings.check_files()
    if arguments.start_from and not read_record(arguments.output):
        find_language_model(arguments.start_from)  # before Keras is loaded


def _train(arguments):
    from keras_elmo.pretrained.folder import CHECKPOINTS, latest_checkpoint
    from keras_elmo.training.train import train

    try:
        result = train(arguments.settings, show_progress=None)
    except KeyboardInterrupt:
        step, _ = latest_checkpoint(Path(arguments.settings.output) / CHECKPOINTS)
        then = f"resumes after step {step:,}" if step else "starts again: no checkpoint was written"
        print(f"keras-elmo: the same command {then}", file=sys.stderr)
        raise
    if result.report is not None:
        print_report(result.report)
        print(f"Word counts alone have a perplexity of {result.unigram_perplexity:.2f}")
    folder = str(result.folder)
    print(f"Wrote the model to {folder}: ElmoLayer({folder!r}), or")
    print(f'keras-elmo embed --model {shlex.quote(folder)} "A sentence in tokens ."')

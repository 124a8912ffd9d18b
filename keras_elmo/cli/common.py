"""Shared code of the commands: options, the help for a model, tables, the log, early checks."""

import argparse
import contextlib
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    from rich.columns import Columns
    from rich.table import Table

A_MODEL = (
    "a name from `keras-elmo models`, a folder, zip or tar.gz of a model, or hf://user/repo of the "
    "Hugging Face Hub"
)
MODEL_HELP = f"{A_MODEL} (default: %(default)s)"
EMBEDDER_HELP = (
    f"{A_MODEL}, or the .keras file of a Keras model with an ElmoLayer (default: %(default)s)"
)


def positive(text: str) -> int:
    """A `type` for argparse: a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def add_number(group, name: str, default: int | None, help: str) -> None:
    """Adds an option for a whole number of at least 1."""
    if default is not None:
        help += " (default: %(default)s)"
    group.add_argument(name, type=positive, default=default, metavar="N", help=help)


def to_cli_names(message: str, options: Mapping[str, str]) -> str:
    """The library's message with options in place of its arguments.

    `overwrite=True` becomes `--overwrite`, `dtype='float16'` becomes `--dtype 'float16'`, and
    `batch_size` becomes `--batch-size`. A plain word without a value, such as "output", stays, and
    so does what is quoted or the name of a file: it is the user's.

    Args:
        message: The message.
        options: The options by the names of arguments.
    """

    def option(match):
        name, value = match.groups()  # of no name if it is quoted
        if name not in options or not (value or "_" in name):
            return match[0]
        return options[name] + (" " if value == "=" else "")

    quoted = r"(?<!\w)(?:'[^']*'|\"[^\"]*\")"
    return re.sub(rf"{quoted}|(?<![\w./\\-])(\w+)\b(?![/\\-]|\.\w)(=True\b|=)?", option, message)


def print_table(table: "Table | Columns") -> None:
    """Prints a table or columns of rich on standard output."""
    from rich.console import Console

    # Words are shown unchanged, including [b] and :smile:.
    Console(markup=False, emoji=False, highlight=False).print(table)


@contextlib.contextmanager
def log_to_console(options: Mapping[str, str], *, complete: bool) -> Iterator[None]:
    """Prints the log of the library in the block, with options in place of arguments.

    The complete log on standard output, or only its warnings on standard error.
    """

    class Printer(logging.StreamHandler):
        def emit(self, record):
            self.stream = sys.stdout if complete else sys.stderr
            with tqdm.external_write_mode():  # above progress bars
                super().emit(record)

        def format(self, record):
            return to_cli_names(super().format(record), options)

    log, handler = logging.getLogger("keras_elmo"), Printer()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO if complete else logging.WARNING)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def add_field(command) -> None:
    """Adds the option for the field of JSON."""
    text = (
        "the field of JSON that holds the text (default: text); with it, every text is read as "
        "JSON, whatever its name"
    )
    command.add_argument("--field", metavar="NAME", help=text)


def add_tokenize(command) -> None:
    """Adds the options for raw text, of which `main` makes the library's argument `tokenize`."""
    text = "split raw text into sentences and tokens"
    command.add_argument("--tokenize", action="store_const", const="en", help=text)
    text = "like --tokenize, for a language other than English, such as de"
    command.add_argument("--language", help=text)


def add_overwrite(command, what: str) -> None:
    """Adds the option without which no existing output is replaced."""
    command.add_argument("--overwrite", action="store_true", help=f"replace {what}")

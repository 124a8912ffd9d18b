"""Shared code of the commands: options, the help for a model, tables, the log, early checks."""

import argparse
import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tqdm import tqdm

from keras_elmo.files import check_folder, check_free, check_is_file, check_is_no_input
from keras_elmo.pretrained.locate import HUB, locate
from keras_elmo.pretrained.registry import list_models

if TYPE_CHECKING:
    from rich.columns import Columns
    from rich.table import Table

A_MODEL = (
    "a name from `keras-elmo models`, a folder, zip or tar.gz of a model, or hf://user/repo of the "
    "Hugging Face Hub"
)
BYTES_PER_PARAMETER = 4
MODEL_HELP = f"{A_MODEL} (default: %(default)s)"


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


def with_options(message: str, options: Mapping[str, str]) -> str:
    """The library's message with options in the place of its arguments.

    `overwrite=True` becomes `--overwrite`, `dtype='float16'` becomes `--dtype float16`, and
    `batch_size` becomes `--batch-size`. A plain word without a value, such as "output", stays.

    Args:
        message: The text of an error, for example.
        options: The options by the names of the arguments.
    """
    names = "|".join(sorted(options, key=len, reverse=True))
    # Not in the names of files and folders.
    before, after = r"(?<![\w./\\-])", r"(?![\w/\\-]|\.\w)"
    value = r"""'[^']*'|"[^"]*"|[\w.,]*\w"""

    def option(match):
        name, value = match[1], match[2]
        if value is None and "_" not in name:
            return match[0]
        shown = "" if value in (None, "True") else " " + value.strip("'\"")
        return options[name] + shown

    return re.sub(f"{before}({names})(?:=({value}))?{after}", option, message)


def print_table(table: "Table | Columns") -> None:
    """Prints a table or columns of rich on standard output."""
    from rich.console import Console

    class Printer(Console):
        def on_broken_pipe(self):
            raise  # rich would end the process with 1

    # Words are shown unchanged, including [b] and :smile:.
    Printer(markup=False, emoji=False, highlight=False).print(table)


def print_differences(output: str, original: str, differences: dict[str, float]) -> None:
    """Prints by how much each output of a written model differs from the original's."""
    print(f"Wrote {output}. Read back, its largest differences from {original} are")
    for name, difference in differences.items():
        print(f"  {name:<15}{difference:.1e}")


def discard_output() -> None:
    """Discards further output, after its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def printed_log() -> Iterator[None]:
    """Prints the log of the library in the block."""

    class Printer(logging.StreamHandler):
        def emit(self, record):
            self.stream = sys.stdout
            with tqdm.external_write_mode():  # above progress bars
                super().emit(record)

        def handleError(self, record):
            if isinstance(sys.exc_info()[1], BrokenPipeError):
                discard_output()  # the reader has closed the pipe; the work continues
            else:
                super().handleError(record)

    log, handler = logging.getLogger("keras_elmo"), Printer(sys.stdout)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def check_model(model: str) -> None:
    """Raises an error if the name or the files of a model are invalid; downloads nothing."""
    if model not in list_models() and not model.startswith(HUB):
        with locate(model):
            pass


def add_overwrite(command, what: str) -> None:
    """Adds the option without which no existing output is replaced."""
    command.add_argument("--overwrite", action="store_true", help=f"replace {what}")


def check_output(path: str, sources: Iterable[str | os.PathLike], overwrite: bool) -> None:
    """Raises an error if an output cannot be written: its folder, an input, an existing file."""
    check_is_file(path)
    check_folder(path)
    check_is_no_input(path, sources)
    check_free(path, overwrite)

"""Whole numbers as options of the command line."""

import argparse


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

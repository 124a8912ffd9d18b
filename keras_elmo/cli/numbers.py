"""Numbers as options of the command line: each kind a `type` for argparse."""

import argparse
import contextlib
import math


def add_number(group, name: str, default: int | None, help: str) -> None:
    """Adds an option for a whole number of at least 1."""
    if default is not None:
        help += " (default: %(default)s)"
    group.add_argument(name, type=positive, default=default, metavar="N", help=help)


def _whole_number(least):
    def read(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read


def _number(is_good, expected):
    def read(text):
        with contextlib.suppress(ValueError):
            if is_good(value := float(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not a number {expected}")

    return read


count = _whole_number(0)
positive = _whole_number(1)
positive_float = _number(lambda value: 0 < value < math.inf, "above 0")
not_negative_float = _number(lambda value: 0 <= value < math.inf, "of at least 0")
fraction = _number(lambda value: 0 <= value < 1, "from 0 to below 1")

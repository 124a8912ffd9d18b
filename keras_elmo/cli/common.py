"""What several commands share: the help for a model, and tables on the terminal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

A_MODEL = (
    "a name from `keras-elmo models`, or a folder or zip file with options.json and weights.hdf5"
)
BYTES_PER_PARAMETER = 4
MODEL_HELP = f"{A_MODEL} (default: %(default)s)"


def print_table(table: "Table") -> None:
    """Prints a table of rich on standard output."""
    from rich.console import Console

    # Words are shown as they are, [b] and :smile: too.
    Console(markup=False, emoji=False, highlight=False).print(table)

"""Progress on the terminal: the one way of showing it."""

import contextlib
import sys
from collections.abc import Iterator


class ProgressBar:
    """What a block of `progress_bar` reports to; does nothing where no bar is shown."""

    def __init__(self, progress=None, task=None):
        self._progress = progress
        self._task = task

    @property
    def is_shown(self) -> bool:
        """Whether there is a bar: where not, a text for it need not be made."""
        return self._progress is not None

    def advance(self, count: int = 1) -> None:
        """Adds to what is completed."""
        if self.is_shown:
            self._progress.advance(self._task, count)

    def update(self, completed: int, text: str | None = None) -> None:
        """Sets what is completed.

        Args:
            completed: How much, in the unit of the total.
            text: What is shown behind the bar, such as a rate; `None` leaves it as it is.
        """
        if self.is_shown:
            fields = {} if text is None else {"text": text}
            self._progress.update(self._task, completed=completed, **fields)


@contextlib.contextmanager
def progress_bar(
    description: str,
    total: int | None = None,
    *,
    unit: str = "",
    completed: int = 0,
    shown: bool | None = None,
) -> Iterator[ProgressBar]:
    """Shows a progress bar on standard error while the block runs.

    The remaining time is shown if the total is known, the elapsed time otherwise.

    Args:
        description: What is done, such as `"embedding"`.
        total: How much there is to do, if known.
        unit: What is counted, such as `"sentences"`: the count is shown then.
        completed: How much was done before.
        shown: Whether to show the bar; `None` shows it if standard error is a terminal.

    Yields:
        A `ProgressBar`.

    Example:

    >>> with progress_bar("embedding", total=3, unit="sentences") as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """
    if shown is None:
        shown = _is_terminal(sys.stderr)
    if not shown:
        yield ProgressBar()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    count = "{task.completed:,}" + (" of {task.total:,}" if total is not None else "")
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *([TextColumn(f"{count} {unit}", markup=False)] if unit else []),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn() if total is None else TimeRemainingColumn(),
    ]
    # Rich prints what is written meanwhile above the bar: on standard error, so not for a file.
    redirect = _is_terminal(sys.stdout)
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=redirect) as progress:
        task = progress.add_task(description, total=total, completed=completed, text="")
        yield ProgressBar(progress, task)


def _is_terminal(stream):
    return stream is not None and stream.isatty()

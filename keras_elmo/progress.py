"""Progress bars on the terminal."""

import contextlib
import sys
import threading
from collections.abc import Iterator


class ProgressBar:
    """What `progress_bar` yields, to report progress to; does nothing if no bar is shown."""

    def __init__(self, progress=None, task=None):
        self._progress = progress
        self._task = task

    @property
    def is_shown(self) -> bool:
        """Whether there is a bar; if not, it needs no text."""
        return self._progress is not None

    def advance(self, count: int = 1) -> None:
        """Adds to what is completed."""
        if self.is_shown:
            self._progress.advance(self._task, count)

    def update(self, completed: int, text: str | None = None) -> None:
        """Sets what is completed and, unless it is `None`, the text behind the bar."""
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

    Args:
        description: What is done, such as `"embedding"`.
        total: How much there is to do; if given, the remaining time is shown.
        unit: What is counted, such as `"sentences"`; if given, the count is shown.
        completed: How much was done before.
        shown: Whether to show the bar; `None` shows it in the main thread, if standard error is a
            terminal.
    """
    if shown is None:
        shown = _is_terminal(sys.stderr) and threading.current_thread() is threading.main_thread()
    if not shown:
        yield ProgressBar()
        return
    from rich import progress
    from rich.console import Console

    count = "{task.completed:,}" + (" of {task.total:,}" if total is not None else "")
    columns = [
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        *([progress.TextColumn(f"{count} {unit}", markup=False)] if unit else []),
        progress.TextColumn("{task.fields[text]}", markup=False),
        progress.TimeElapsedColumn() if total is None else progress.TimeRemainingColumn(),
    ]
    # Rich moves output above the bar, to standard error: only for a terminal, not for a file.
    redirect = _is_terminal(sys.stdout)
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, redirect_stdout=redirect) as shown_bar:
        task = shown_bar.add_task(description, total=total, completed=completed, text="")
        yield ProgressBar(shown_bar, task)


def _is_terminal(stream):
    return stream is not None and stream.isatty()

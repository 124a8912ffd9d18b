"""Progress bars on the terminal, by tqdm."""

import contextlib
from collections.abc import Iterator

from tqdm import tqdm


class ProgressBar:
    """Yielded by `progress_bar` to report progress; does nothing if no bar is shown."""

    def __init__(self, bar: tqdm):
        self._bar = bar

    @property
    def is_shown(self) -> bool:
        """Whether the bar is visible; if not, it needs no text."""
        return not self._bar.disable

    def advance(self, count: int = 1) -> None:
        """Adds to the completed amount."""
        self._bar.update(count)

    def update(self, completed: int, text: str | None = None) -> None:
        """Sets the completed amount and, unless it is `None`, the text after the bar."""
        if text is not None:
            self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(completed - self._bar.n)


@contextlib.contextmanager
def progress_bar(
    description: str,
    total: int | None = None,
    *,
    unit: str = "",
    shown: bool | None = None,
) -> Iterator[ProgressBar]:
    """Shows a progress bar on standard error while the block runs.

    Args:
        description: The name of the task, such as `"embedding"`.
        total: How much there is to do; if given, the remaining time is shown.
        unit: The unit of `total`, such as `"sentences"`.
        shown: Whether to show the bar; `None` shows it if standard error is a terminal.
    """
    disable = None if shown is None else not shown
    with tqdm(
        desc=description,
        total=total,
        unit=f" {unit}" if unit else "it",
        unit_scale=unit == "bytes",
        disable=disable,
    ) as bar:
        yield ProgressBar(bar)

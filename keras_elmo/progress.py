"""Progress bars on the terminal, by tqdm."""

from tqdm import tqdm


def progress_bar(
    description: str, total: int | None = None, *, unit: str, shown: bool | None = None
) -> tqdm:
    """A progress bar on standard error, to be used in a `with` statement.

    Args:
        description: The name of the task, such as `"embedding"`.
        total: How much there is to do; if given, the remaining time is shown.
        unit: The unit of `total`, such as `"sentences"`.
        shown: Whether to show the bar; `None` shows it if standard error is a terminal.
    """
    return tqdm(
        desc=description,
        total=total,
        unit=f" {unit}",
        unit_scale=unit == "bytes",
        disable=None if shown is None else not shown,
    )

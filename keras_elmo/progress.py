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


def duration(seconds: float) -> str:
    """A time in words, such as `"40 s"`, `"9 min"` or `"2 h 5 min"`."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"

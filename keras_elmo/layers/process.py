"""Backend threads do not survive a fork, so a forked process would deadlock."""

import os
from collections.abc import Callable
from typing import Any

_process = None  # in which the first layer was made


def check_process() -> None:
    """Raises RuntimeError in a process that was forked after it was called."""
    global _process
    if _process is None:
        _process = os.getpid()
    if _process != os.getpid():
        raise RuntimeError(
            "Forked processes cannot use ELMo layers: they would wait forever for the backend's "
            "threads, which a fork leaves behind. Spawn workers instead, with "
            'multiprocessing.set_start_method("spawn"), or load the model only in the child, '
            "before its parent uses Keras."
        )


def unpickled(owner: Any, make: Callable[..., Any], arguments: tuple) -> Any:
    """Makes an object of a pickle; in a forked process one without content.

    A worker of a pool would end by an error while it unpickles, and the pool wait for it forever.
    The uses of the object call `check_process` first.
    """
    if _process not in (None, os.getpid()):
        return owner.__new__(owner)
    return make(*arguments)

"""Forked processes: the backends' threads do not exist there, and wait for each other forever."""

import os

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

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
            "This process was forked from one that has an ElmoLayer: it would wait forever for "
            "the backend's threads, which a fork leaves behind. Start processes with "
            'multiprocessing.set_start_method("spawn"), or load the model in the child alone, '
            "before its parent uses Keras."
        )

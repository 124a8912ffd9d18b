"""Loading Keras for a command, without its backend's start-up messages."""

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Iterator


def import_keras(show_messages: bool = False) -> None:
    """Imports Keras and its backend, which takes seconds; shows their messages on request."""
    if "keras" in sys.modules:
        return
    # TensorFlow leaves it off on processors without AVX-512 VNNI, where it is faster as well.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    if not show_messages:
        # Errors too: oneDNN logs as one what it does by other means. Real ones are raised.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
    with contextlib.nullcontext() if show_messages else _no_stderr():
        keras = importlib.import_module("keras")
        if keras.backend.backend() == "tensorflow":
            # Looks for GPUs, and reports when there is none.
            importlib.import_module("tensorflow").config.list_physical_devices()


@contextlib.contextmanager
def _no_stderr() -> Iterator[None]:
    """Discards what native code writes to standard error: TensorFlow's first lines heed no level.

    An import that fails raises its error all the same.
    """
    if sys.stderr is None:
        yield
        return
    with open(os.devnull, "wb") as null, open(os.dup(2), "wb") as stderr:
        sys.stderr.flush()
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr.fileno(), 2)

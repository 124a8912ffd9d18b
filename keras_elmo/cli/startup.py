"""Loading Keras for a command: quickly, and without its backend's start-up messages."""

import contextlib
import importlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator

_START_UP_NOISE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog|"
    rb"[IW]\d{4} \d\d:\d\d:\d\d|[IW]0000 00:00:\d|\d{4}-\d\d-\d\d .*: [IW] |"
    rb"To enable the following instructions: |"
    # No GPU is no error, and neither are CUDA's plug-ins that TensorFlow registers twice.
    rb"E0000 .*(cuInit|Unable to register cu\w+ factory)"
)
_OPTIONAL_PACKAGES = ("jax", "matplotlib", "pandas", "sklearn")


def import_keras(show_messages: bool = False) -> None:
    """Imports Keras and its backend, which takes seconds.

    Args:
        show_messages: Whether to show what the backend reports of itself at its start. Its errors,
            and all that is logged later than the start and is more than information, are shown
            anyway.
    """
    if "keras" in sys.modules:
        return
    if show_messages:
        _import_keras_alone()
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    with _filtered_stderr():
        _import_keras_alone()


def _import_keras_alone():
    """Imports Keras without the optional packages it would load for uses that are not ours."""
    absent = [name for name in _OPTIONAL_PACKAGES if name not in (*sys.modules, _backend())]
    sys.modules.update(dict.fromkeys(absent))  # an import of None raises ModuleNotFoundError
    try:
        keras = importlib.import_module("keras")
        if keras.backend.backend() == "tensorflow":
            # Looks for GPUs, and reports when there is none.
            importlib.import_module("tensorflow").config.list_physical_devices()
    finally:
        for name in absent:
            del sys.modules[name]


def _backend():
    """The backend that Keras will take."""
    if backend := os.environ.get("KERAS_BACKEND"):
        return backend
    folder = os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")
    try:
        with open(os.path.join(folder, "keras.json"), encoding="utf-8") as file:
            return json.load(file)["backend"]
    except (OSError, ValueError, KeyError):
        return "tensorflow"


@contextlib.contextmanager
def _filtered_stderr() -> Iterator[None]:
    """Drops the lines of start-up noise that native code writes to standard error.

    A process of its own filters them, so that the last words of one that crashes are still seen.
    """
    if sys.stderr is None or not hasattr(os, "fork"):
        yield
        return
    sys.stderr.flush()
    source, sink = os.pipe()
    stderr = os.dup(2)
    child = os.fork()
    if child == 0:
        os.close(sink)
        _copy_lines(source, stderr)
    os.close(source)
    os.dup2(sink, 2)
    os.close(sink)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        os.waitpid(child, 0)


def _copy_lines(source, target):
    """The filter's process: copies lines until nobody can write any more."""
    try:
        with os.fdopen(source, "rb") as lines:
            for line in lines:
                if not _START_UP_NOISE.match(line):
                    os.write(target, line)
    finally:
        os._exit(0)

"""ELMo for Keras 3: contextual word vectors from a bidirectional language model.

Importing the package is quick: each public name is imported when it is first used (PEP 562). The
names are listed in `__init__.pyi`, which type checkers read too.
"""

import ast
import importlib
import sys
from pathlib import Path

from keras_elmo.version import __version__ as __version__

_SUBMODULES = ("analysis", "compat", "plot")
_MODULES = {
    alias.name: node.module
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_bytes()).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
    if alias.name not in _SUBMODULES
}

__all__ = list(_MODULES)


def _register_layers() -> None:
    """Imports the classes of saved models if Keras is imported: it finds only registered ones."""
    if "keras" in sys.modules:
        importlib.import_module("keras_elmo.compat")
        importlib.import_module("keras_elmo.training.language_model")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    _register_layers()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_register_layers()

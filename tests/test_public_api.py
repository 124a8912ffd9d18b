"""The public names, their signatures and type hints.

After a change that is meant: python tests/test_public_api.py
"""

import inspect
import sys
from pathlib import Path

import keras_elmo

PINNED = Path(__file__).parent / "golden" / "public_api.txt"


def test_names_and_signatures_are_the_pinned_ones():
    assert described() == PINNED.read_text(encoding="utf-8")


def test_every_signature_has_type_hints():
    missing = []
    for name, value in members():
        signature = inspect.signature(value)
        hints = {key: p.annotation for key, p in signature.parameters.items()}
        hints = {key: hint for key, hint in hints.items() if key not in ("self", "cls")}
        if not inspect.isclass(value):
            hints["return"] = signature.return_annotation
        missing += [f"{name}: {key}" for key, hint in hints.items() if hint is inspect._empty]
    assert not missing


def described():
    """The public API as text: a line for each name."""
    lines = []
    for name, value in members():
        kind = "class" if inspect.isclass(value) else "def"
        signature = inspect.signature(value)
        parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        plain = signature.replace(parameters=parameters, return_annotation=signature.empty)
        lines.append(f"{kind} {name}{plain}\n")
    return "".join(lines)


def members():
    """Public functions, classes, and the methods that the classes define or override."""
    for name in sorted(keras_elmo.__all__):
        value = getattr(keras_elmo, name)
        if callable(value):
            yield name, value
        if not inspect.isclass(value):
            continue
        for key, method in sorted(vars(value).items()):
            method = getattr(method, "__func__", method)
            if inspect.isfunction(method) and not key.startswith("_") and _is_own(value, key):
                yield f"{name}.{key}", method


def _is_own(owner, name):
    """Whether a method is not one that Keras documents and calls."""
    return not any(hasattr(base, name) for base in owner.__mro__[1:])


if __name__ == "__main__":
    PINNED.write_text(described(), encoding="utf-8")
    sys.stdout.write(PINNED.read_text(encoding="utf-8"))

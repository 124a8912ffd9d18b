"""The tests of the examples are skipped where the packages that these need are missing."""

import runpy
import sys
from importlib.util import find_spec

import keras
import pytest

from example_programs import EXAMPLES

PACKAGES = ("matplotlib", "pyarrow", "scorch", "seqeval")


class SkippedModule(pytest.Module):
    def collect(self):
        pytest.skip("the examples need more packages: pip install 'keras-elmo[examples]'")


def pytest_pycollect_makemodule(module_path, parent):
    kind = pytest.Module if all(map(find_spec, PACKAGES)) else SkippedModule
    module = kind.from_parent(parent, path=module_path)
    module.add_marker(pytest.mark.needs(*PACKAGES))
    return module


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    """Programs run in an empty folder, and with short epochs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("training.MIN_STEPS", 1)


@pytest.fixture
def eager(monkeypatch):
    """On TensorFlow, no model compiles its steps: that takes far longer than a few of them."""
    if keras.backend.backend() == "tensorflow":
        always = property(lambda model: True, lambda model, value: None)
        monkeypatch.setattr(keras.Model, "run_eagerly", always)


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Runs a program in this process, which has loaded Keras, and returns its output."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run

"""What must be there at once: text and the catalog need no deep-learning library."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "keras_elmo"
PROGRAM = """
import importlib, sys, types
for name in ("keras", "tensorflow", "jax", "torch", "h5py"):
    sys.modules[name] = None
# The package itself, without what its __init__ may import.
sys.modules["keras_elmo"] = package = types.ModuleType("keras_elmo")
package.__path__ = [sys.argv[1]]
importlib.import_module(sys.argv[2])
"""


@pytest.mark.parametrize(
    "module", ["text.characters", "text.vocabulary", "text.reader", "pretrained.registry"]
)
def test_imports_no_deep_learning_library(module):
    arguments = [sys.executable, "-c", PROGRAM, str(PACKAGE), f"keras_elmo.{module}"]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr

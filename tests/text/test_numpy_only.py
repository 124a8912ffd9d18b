"""What must be there at once: text and the catalog need no deep-learning library."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "keras_elmo"
PROGRAM = """
import importlib, sys, types
for name in ("keras", "tensorflow", "jax", "torch", "h5py"):
    sys.modules[name] = None
# The package itself, without what its __init__ may import.
sys.modules["keras_elmo"] = package = types.ModuleType("keras_elmo")
package.__path__ = [sys.argv[1]]
for name in ("text.characters", "text.vocabulary", "text.reader", "pretrained.registry"):
    importlib.import_module(f"keras_elmo.{name}")
"""


def test_imports_no_deep_learning_library():
    arguments = [sys.executable, "-c", PROGRAM, str(PACKAGE)]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr

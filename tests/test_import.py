"""What importing the package costs and needs. Each test has a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest

import keras_elmo
from training_models import CONFIG, tiny_model

ROOT = Path(__file__).parents[1]
HEAVY = ("keras", "tensorflow", "jax", "torch", "h5py")
SHOW_HEAVY = f"\nprint('loaded', [name for name in {HEAVY} if name in sys.modules])"

# Stands for an installation without TensorFlow.
NO_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None\n"


def run_python(code, backend):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("jax", "torch")]
)
def test_works_without_tensorflow(backend):
    code = """
import keras, keras_elmo
ids = keras_elmo.encode_sentences([["The", "cat", "sat"], ["Hi"]])
elmo = keras_elmo.ElmoLayer()
print(elmo(ids).shape[1:] == (3, 512), elmo(["The cat sat"]).shape[1:] == (3, 512))
inputs = keras.Input((None, 50), dtype="int32")
model = keras.Model(inputs, keras.layers.LSTM(2)(elmo(inputs)))
print(model.predict(ids, verbose=0).shape)
"""
    assert run_python(NO_TENSORFLOW + code, backend).split("\n")[:2] == ["True True", "(2, 2)"]


@pytest.mark.needs()  # again with all backends
def test_importing_the_package_loads_no_backend():
    code = "import sys, keras_elmo, keras_elmo.progress"
    assert "loaded []" in run_python(code + SHOW_HEAVY, "tensorflow")


@pytest.mark.needs()  # again with all backends
def test_quick_commands_load_no_backend():
    code = """
import sys
import zipfile
from keras_elmo.cli import main
for arguments in (
    ["--help"], ["--version"], ["models"], ["info"], ["info", "small"], ["info", "nothing"],
    ["models", "--language", "tr"], ["info", "many-languages/it"], ["info", "nlpl/ru-195"],
    ["embed", "--help"], ["train", "--help"], ["evaluate", "--help"], ["export", "--help"],
    ["embed", "--resume", "a sentence"], ["train"], ["vocab", "none.txt", "--output", "none"],
    ["train", "none.txt", "--output", "none"], ["evaluate", "none", "none.txt"],
    ["evaluate", "docs", "none.txt"], ["export", "none", "--output", "none"],
    ["train", "README.md", "--output", "none", "--start-from", "none"],
):
    try:
        main(arguments)
    except SystemExit:
        pass
"""
    assert "loaded []" in run_python(code + SHOW_HEAVY, "tensorflow")


def test_public_names_are_found_and_others_are_not():
    assert set(keras_elmo.__all__) <= set(dir(keras_elmo))
    assert all(hasattr(keras_elmo, name) for name in keras_elmo.__all__)
    with pytest.raises(AttributeError, match="module 'keras_elmo' has no attribute 'ElmoLayr'"):
        keras_elmo.ElmoLayr  # noqa: B018


KERAS_FIRST = """
import builtins, keras, h5py
opened = []
real_open, real_file = builtins.open, h5py.File
builtins.open = lambda path, *a, **k: (opened.append(str(path)), real_open(path, *a, **k))[1]
h5py.File = lambda path, *a, **k: opened.append(str(path))
import keras_elmo
registered = dict(keras.saving.get_custom_objects())
from keras_elmo import *
builtins.open, h5py.File = real_open, real_file
assert registered == keras.saving.get_custom_objects()
assert all(path.endswith((".py", ".pyc")) for path in opened), opened
"""
IMPORTS = (
    KERAS_FIRST,
    "import keras_elmo; from keras_elmo import Highway; import keras",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model around a layer, and a language model."""
    folder = tmp_path_factory.mktemp("saved")
    inputs = keras.Input((None, CONFIG.row_width), dtype="int32")
    outputs = keras_elmo.ElmoLayer(None, config=CONFIG)(inputs)
    keras.Model(inputs, outputs).save(folder / "elmo_layer.keras")
    language_model = tiny_model()
    language_model.compile()
    language_model.save(folder / "language_model.keras")
    return folder


SAVED = """
print(*keras.saving.get_custom_objects())
for name in ("elmo_layer", "language_model"):
    model = keras.models.load_model(f"{folder}/{name}.keras")
print(keras.saving.get_registered_name(type(model)))
@keras.saving.register_keras_serializable("mine")
class Gate(keras_elmo.Highway):
    pass
print(type(keras.layers.deserialize(keras.layers.serialize(Gate()))) is Gate)
"""


@pytest.mark.parametrize("imports", IMPORTS, ids=["keras first", "name first"])
def test_saved_models_load_after_the_import(imports, saved):
    """All their classes are registered, and those that a user derives from them can be.

    The import itself opens no file of a model.
    """
    marked = re.compile(
        r'^@keras.saving.register_keras_serializable\("keras_elmo"\)\nclass (\w+)', re.M
    )
    expected = {
        f"keras_elmo>{name}"
        for path in (ROOT / "keras_elmo").rglob("*.py")
        for name in marked.findall(path.read_text(encoding="utf-8"))
    }
    code = f"{imports}\nfolder = {str(saved)!r}\n{SAVED}"
    registered, *found = run_python(code, os.environ["KERAS_BACKEND"]).splitlines()
    assert len(expected) > 10
    assert expected <= set(registered.split())
    assert found == ["keras_elmo>BidirectionalLanguageModel", "True"]


@pytest.mark.slow
def test_start_up_messages_are_shown_only_on_request():
    def standard_error(*options):
        command = [sys.executable, "-m", "keras_elmo", *options, "embed", "Hello world"]
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
        finished = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stderr

    assert standard_error() == ""
    assert "oneDNN" in standard_error("--debug")


def test_a_failed_start_is_not_silent():
    code = """
import importlib, os
from keras_elmo import startup
def fail(name):
    os.write(2, b"compiled to use AVX\\n")
    raise ImportError("no such backend")
importlib.import_module = fail
startup.import_keras()
"""
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode != 0
    assert "AVX" not in finished.stderr and "no such backend" in finished.stderr

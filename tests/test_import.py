"""What importing the package costs and needs. Each test has a process of its own."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import keras
import pytest

import keras_elmo
from keras_elmo.registration import CLASSES
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
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_works_without_tensorflow(backend):
    pytest.importorskip(backend)
    code = """
import keras, keras_elmo
ids = keras_elmo.encode_sentences([["The", "cat", "sat"], ["Hi"]])
elmo = keras_elmo.ElmoLayer()
print(elmo(ids).shape[1:] == (3, 256), elmo(["The cat sat"]).shape[1:] == (3, 256))
inputs = keras.Input((None, 50), dtype="int32")
model = keras.Model(inputs, keras.layers.LSTM(2)(elmo(inputs)))
print(model.predict(ids, verbose=0).shape)
"""
    assert run_python(NO_TENSORFLOW + code, backend).split("\n")[:2] == ["True True", "(2, 2)"]


def test_reads_no_model_and_opens_no_hdf5_file():
    code = """
import builtins, sys
import keras, h5py
opened = []
real_open, real_file = builtins.open, h5py.File
builtins.open = lambda path, *a, **k: (opened.append(str(path)), real_open(path, *a, **k))[1]
h5py.File = lambda path, *a, **k: opened.append(str(path))
from keras_elmo import *
print([path for path in opened if not path.endswith((".py", ".pyc"))])
"""
    assert run_python(code, os.environ["KERAS_BACKEND"]).strip() == "[]"


def test_importing_the_package_loads_no_backend():
    code = "import sys, keras_elmo, keras_elmo.progress"
    assert "loaded []" in run_python(code + SHOW_HEAVY, "tensorflow")


def test_other_modules_from_the_archive_of_keras_are_imported(tmp_path):
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as file:  # all have one loader
        file.writestr("keras.py", "class saving:\n    get_custom_objects = dict\n")
        file.writestr("other.py", "answer = 42")
    code = f"""
import sys, keras_elmo
sys.path.insert(0, {str(tmp_path / "modules.zip")!r})
import keras, other
print(keras.__file__, other.answer)
"""
    assert run_python(code, "tensorflow").strip().endswith("keras.py 42")


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
    ["export", "--model", "small", "--output", "docs"],
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


def test_every_registered_class_is_known_before_it_is_loaded():
    marked = re.compile(
        r'^@keras.saving.register_keras_serializable\("keras_elmo"\)\nclass (\w+)', re.M
    )
    found = {
        name: ".".join(path.relative_to(ROOT / "keras_elmo").with_suffix("").parts)
        for path in (ROOT / "keras_elmo").rglob("*.py")
        for name in marked.findall(path.read_text(encoding="utf-8"))
    }
    assert found == CLASSES


@pytest.mark.slow
@pytest.mark.parametrize(
    "imports",
    [
        "import keras_elmo, keras",
        "import keras, keras_elmo",
        "import keras_elmo; from keras_elmo import Highway; import keras",
        "from keras_elmo.layers.highway import Highway; import keras, keras_elmo",
    ],
)
def test_saved_models_load_after_the_import(imports, tmp_path):
    elmo = keras_elmo.ElmoLayer(None, config=CONFIG)
    inputs = keras.Input((None, CONFIG.row_width), dtype="int32")
    keras.Model(inputs, elmo(inputs)).save(tmp_path / "elmo_layer.keras")
    inputs = keras.Input((None, 6))
    outputs = keras_elmo.WeightedLayerSum()(keras_elmo.BiLMStack(8, 6)(inputs))
    keras.Model(inputs, outputs).save(tmp_path / "single_layers.keras")
    language_model = tiny_model()
    language_model.compile()
    language_model.save(tmp_path / "language_model.keras")
    code = f"""
import sys
import zipfile
{imports}
assert not any(type(finder).__module__.startswith("keras_elmo") for finder in sys.meta_path)
print("keras_elmo.training.language_model" in sys.modules)
folder = {str(tmp_path)!r}
for name in ("elmo_layer", "single_layers", "language_model"):
    model = keras.models.load_model(f"{{folder}}/{{name}}.keras")
print(keras.saving.get_registered_name(type(model)))
layer = keras.layers.deserialize(keras.layers.serialize(keras_elmo.Highway()))
print(type(layer) is keras_elmo.Highway)
"""
    written = run_python(code, os.environ["KERAS_BACKEND"]).split("\n")
    assert written[0] == "False"
    assert written[1] == "keras_elmo>BidirectionalLanguageModel"
    assert written[2] == "True"


@pytest.mark.slow
def test_a_subclass_of_the_user_loads():
    code = """
import keras_elmo, keras
@keras.saving.register_keras_serializable("mine")
class Gate(keras_elmo.Highway):
    pass
print(type(keras.layers.deserialize(keras.layers.serialize(Gate()))) is Gate)
"""
    assert run_python(code, os.environ["KERAS_BACKEND"]).strip() == "True"


@pytest.mark.slow
def test_a_failed_import_of_keras_can_be_repeated():
    code = """
import os, keras_elmo
os.environ["KERAS_BACKEND"] = "no such backend"
try:
    import keras
except ValueError:
    print("failed")
os.environ["KERAS_BACKEND"] = "BACKEND"
import sys
import zipfile
for name in [name for name in sys.modules if name.split(".")[0] == "keras"]:
    del sys.modules[name]
import keras
print("keras_elmo>Highway" in keras.saving.get_custom_objects())
"""
    backend = os.environ["KERAS_BACKEND"]
    assert run_python(
        code.replace('BACKEND"\nimport sys', f'{backend}"\nimport sys'), backend
    ).split() == ["failed", "True"]


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


@pytest.mark.parametrize("fails", [False, True])
def test_the_garbage_collector_is_as_before_after_a_start(fails):
    code = f"""
import contextlib, gc, importlib, types
from keras_elmo import startup
def stand_in(name):
    if {fails}:
        raise ImportError("no such backend")
    print("during", gc.isenabled())
    return types.SimpleNamespace(backend=types.SimpleNamespace(backend=lambda: "jax"))
importlib.import_module = stand_in
for switch in (gc.disable, gc.enable):
    switch()
    with contextlib.suppress(ImportError):
        startup.import_keras()
    print("after", gc.isenabled())
"""
    after = ["after False", "after True"]
    expected = after if fails else [line for end in after for line in ("during False", end)]
    assert run_python(code, "tensorflow").splitlines() == expected


@pytest.mark.parametrize("failure", ["raise ImportError('no such backend')", "os.abort()"])
def test_a_failed_start_is_not_silent(failure):
    code = f"""
import importlib, os
from keras_elmo import startup
def fail(name):
    os.write(2, b"compiled to use AVX\\n")
    {failure}
importlib.import_module = fail
startup.import_keras()
"""
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode != 0
    if "raise" in failure:
        assert "compiled to use AVX" in finished.stderr
        assert "no such backend" in finished.stderr
    else:
        assert "Fatal Python error: Aborted" in finished.stderr

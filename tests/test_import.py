"""What importing the package costs and needs. Each test has a process of its own."""

import os
import subprocess
import sys

import pytest

# Stands for an installation without TensorFlow.
NO_TENSORFLOW = "import sys; sys.modules['tensorflow'] = None\n"


def run_python(code, backend):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


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
import keras_elmo
print([path for path in opened if not path.endswith((".py", ".pyc"))])
"""
    assert run_python(code, os.environ["KERAS_BACKEND"]).strip() == "[]"

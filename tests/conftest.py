"""Settings of every test: one backend a run, nothing left over from the test before."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def fresh_keras():
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
    keras.utils.clear_session(free_memory=False)


@pytest.fixture
def rng():
    return np.random.default_rng(0)

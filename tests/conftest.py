"""Settings of every test: one backend a run, nothing left over from the test before."""

import os
import tempfile
from importlib.util import find_spec

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "PYTEST_XDIST_WORKER" in os.environ:
    # Several threads in each of the parallel processes would wait for each other most of the time.
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, "1")
if os.environ["KERAS_BACKEND"] == "jax" and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # What a test has compiled, later ones load, in all processes: half of the time of training.
    compiled = tempfile.TemporaryDirectory(prefix="jax-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def fresh_keras():
    import keras  # not for the process that only distributes the tests

    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
    keras.utils.clear_session(free_memory=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Parallel processes take ranges of tests, which share fixtures, and steal when they end."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        for package in mark.args:
            if find_spec(package) is None:
                pytest.skip(f"{package} is not installed")


@pytest.fixture
def rng():
    return np.random.default_rng(0)

"""Training on several devices or processes, with JAX: `keras.distribution` splits each batch."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np


def join_processes(process: str | None, hosts: str | None) -> tuple[int, int]:
    """Connects the processes that train together; returns this one's index and their number.

    The arguments are settings of `TrainingSettings`.
    """
    if process is None:
        return 0, 1
    _check_backend()
    index, count = map(int, process.split("/"))
    keras.distribution.initialize(hosts, count, index)
    return index, count


def check_devices(devices: int, num_processes: int) -> None:
    """Raises ValueError unless batches can be split over so many devices or processes."""
    if max(devices, num_processes) > 1:
        _check_backend()
    if num_processes == 1 and devices > 1:
        found = len(keras.distribution.list_devices())
        if found < devices:
            raise ValueError(f"devices={devices}, but this machine has {found}.")


@contextlib.contextmanager
def split_batches(batch_size: int, devices: int, num_processes: int) -> Iterator[None]:
    """Splits batches over devices or processes, while the block trains."""
    num_parts = max(num_processes, devices)
    if batch_size % num_parts:
        raise ValueError(f"batch_size={batch_size} cannot be split into {num_parts} equal parts.")
    if num_parts == 1:
        yield
        return
    found = keras.distribution.list_devices()
    found = found[:devices] if num_processes == 1 else found
    with distributed(keras.distribution.DataParallel(devices=found, auto_shard_dataset=False)):
        yield


def _check_backend():
    if keras.backend.backend() != "jax":
        raise ValueError(
            "Training on several devices or processes needs JAX: set KERAS_BACKEND=jax."
        )


@contextlib.contextmanager
def distributed(distribution: keras.distribution.DataParallel | None) -> Iterator[None]:
    """Sets the distribution of Keras within the block; `None` for none."""
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(distribution)
    try:
        yield
    finally:
        keras.distribution.set_distribution(before)


def is_first_process() -> bool:
    """Whether this process writes the files: the only one, or the first of several."""
    if keras.backend.backend() != "jax":
        return True
    import jax

    return jax.process_index() == 0


def num_processes() -> int:
    """How many processes train together."""
    if keras.backend.backend() != "jax":
        return 1
    import jax

    return jax.process_count()


def assert_same_on_all_processes(number: int, message: str) -> None:
    """Raises ValueError unless the number is the same in all processes that train together."""
    if num_processes() > 1:
        from jax.experimental import multihost_utils

        if (multihost_utils.process_allgather(np.array(number)) != number).any():
            raise ValueError(message)

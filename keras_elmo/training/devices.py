"""Training on several devices or processes, with JAX: `keras.distribution` splits each batch."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np

from keras_elmo.training.settings import TrainingSettings


@contextlib.contextmanager
def split_batches(settings: TrainingSettings) -> Iterator[tuple[int, int]]:
    """Splits batches over devices or processes, while the block trains.

    Yields this process's index and the number of processes.
    """
    batch_size: int = settings.batch_size  # type: ignore[assignment]  # it is resolved
    devices, process = settings.devices, settings.process
    index, count = map(int, (process or "0/1").split("/"))
    num_parts = max(count, devices)
    if batch_size % num_parts:
        raise ValueError(f"batch_size={batch_size} cannot be split into {num_parts} equal parts.")
    if (num_parts > 1 or process) and keras.backend.backend() != "jax":
        raise ValueError(
            "Training on several devices or processes needs JAX: set KERAS_BACKEND=jax."
        )
    if process is not None:
        keras.distribution.initialize(settings.hosts, count, index)
    if num_parts == 1:
        yield index, count
        return
    found = keras.distribution.list_devices()
    if process is None:
        if len(found) < devices:
            raise ValueError(f"devices={devices}, but this machine has {len(found)}.")
        found = found[:devices]
    with distributed(keras.distribution.DataParallel(devices=found, auto_shard_dataset=False)):
        yield index, count


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

"""A batch split over devices and processes.

On TensorFlow by the replicas of a `tf.distribute` strategy. On JAX `keras.distribution` splits it
behind the model's back: there is one replica.
"""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np


@contextlib.contextmanager
def split_batches(
    batch_size: int, devices: int = 1, process: str | None = None, hosts: str | None = None
) -> Iterator[tuple[tuple[int, int], contextlib.AbstractContextManager]]:
    """Splits batches over devices or processes, while the block trains.

    Arguments are those of `TrainingSettings`. Yields this process's index and their number, and a
    context to make the model and its optimizer in.
    """
    backend = keras.backend.backend()
    index, count = map(int, (process or "0/1").split("/"))
    num_parts = max(count, devices)
    if batch_size % num_parts:
        raise ValueError(f"batch_size={batch_size} cannot be split into {num_parts} equal parts.")
    if process is not None:
        if backend != "jax":
            raise ValueError("Several processes need the JAX backend: set KERAS_BACKEND=jax.")
        keras.distribution.initialize(hosts, count, index)
    if num_parts == 1:
        yield (index, count), contextlib.nullcontext()
    elif backend == "jax":
        found = keras.distribution.list_devices()
        found = found if process is not None else _first(found, devices)
        parallel = keras.distribution.DataParallel(devices=found, auto_shard_dataset=False)
        with distributed(parallel):
            yield (index, count), contextlib.nullcontext()
    elif backend == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_logical_devices("GPU")
        found = _first(gpus or tf.config.list_logical_devices("CPU"), devices)
        strategy = tf.distribute.MirroredStrategy([device.name for device in found])
        yield (index, count), strategy.scope()
    else:
        raise ValueError(f"devices={devices} needs TensorFlow or JAX: set KERAS_BACKEND.")


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


def is_only_process() -> bool:
    """Whether no other process trains together with this one."""
    if keras.backend.backend() != "jax":
        return True
    import jax

    return jax.process_count() == 1


def check_same_everywhere(number: int, message: str) -> None:
    """Raises ValueError unless the number is the same in all processes that train together."""
    if not is_only_process():
        from jax.experimental import multihost_utils

        found = multihost_utils.process_allgather(np.array(number))
        if (found != number).any():
            raise ValueError(message)


def _first(devices, count):
    if len(devices) < count:
        raise ValueError(f"devices={count}, but there are {len(devices)} here.")
    return devices[:count]


def _context():
    """The current replica where there are several, else `None`."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    several = context is not None and context.num_replicas_in_sync > 1
    return context if several else None


def own_rows(x: keras.KerasTensor) -> keras.KerasTensor:
    """This replica's rows of a whole batch."""
    context = _context()
    if context is None:
        return x
    rows = x.shape[0] // context.num_replicas_in_sync
    return x[context.replica_id_in_sync_group * rows :][:rows]


def all_rows(x: keras.KerasTensor) -> keras.KerasTensor:
    """The rows of all replicas, from this replica's."""
    context = _context()
    return x if context is None else context.all_gather(x, axis=0)


def share(loss: keras.KerasTensor) -> keras.KerasTensor:
    """This replica's part of a mean over the whole batch; gradients are summed over replicas."""
    context = _context()
    return loss if context is None else loss / context.num_replicas_in_sync


def jointly_clipped(gradients: list, norm: float | None) -> list:
    """This replica's share of the gradient of all, clipped as a whole by its global norm."""
    context = _context()
    if context is None or norm is None:
        return gradients
    import tensorflow as tf

    gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
    gradients, _ = tf.clip_by_global_norm(gradients, norm)
    return [gradient / context.num_replicas_in_sync for gradient in gradients]

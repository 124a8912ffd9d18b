"""A batch split over devices and processes.

On TensorFlow by the replicas of a `tf.distribute` strategy. On JAX `keras.distribution` splits it
behind the model's back: there is one replica.
"""

import contextlib
import re
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def split_batches(
    batch_size: int, devices: int = 1, process: str | None = None, hosts: str | None = None
) -> Iterator[tuple[int, int]]:
    """Splits batches over devices or processes; make model and optimizer inside.

    Arguments are those of `TrainingSettings`. Yields this process's index, and their number.
    """
    backend = keras.backend.backend()
    index, count = 0, 1
    if process is not None:
        if not re.fullmatch(r"\d+/\d+", process):
            raise ValueError(f"process {process!r}: expected I/N, such as 0/2.")
        index, count = map(int, process.split("/"))
        if backend != "jax" or not hosts:
            raise ValueError("process needs the JAX backend (KERAS_BACKEND=jax), and hosts.")
        keras.distribution.initialize(hosts, count, index)
    num_parts = max(count, devices)
    if batch_size % num_parts:
        raise ValueError(f"batch_size {batch_size} cannot be split into {num_parts} equal parts.")
    if num_parts == 1:
        yield index, count
    elif backend == "jax":
        found = keras.distribution.list_devices()
        found = found if process is not None else _first(found, devices)
        parallel = keras.distribution.DataParallel(devices=found, auto_shard_dataset=False)
        with parallel.scope():
            keras.distribution.set_distribution(parallel)
            yield index, count
    elif backend == "tensorflow":
        import tensorflow as tf

        gpus = tf.config.list_logical_devices("GPU")
        found = _first(gpus or tf.config.list_logical_devices("CPU"), devices)
        with tf.distribute.MirroredStrategy([device.name for device in found]).scope():
            yield index, count
    else:
        raise ValueError("devices above 1 need the TensorFlow or the JAX backend.")


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
    """This replica's rows of a tensor that has the rows of the whole batch."""
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

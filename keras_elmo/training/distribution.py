"""A batch split over the replicas of a `tf.distribute` strategy.

Elsewhere there is one replica: on JAX `keras.distribution` splits batches behind the model's back.
"""

import keras


def _context():
    """The replica that is running now, where there are several, else `None`."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    several = context is not None and context.num_replicas_in_sync > 1
    return context if several else None


def own_rows(x):
    """This replica's rows of a tensor that has those of the whole batch."""
    context = _context()
    if context is None:
        return x
    rows = x.shape[0] // context.num_replicas_in_sync
    return x[context.replica_id_in_sync_group * rows :][:rows]


def all_rows(x):
    """The rows of all replicas, from this replica's."""
    context = _context()
    return x if context is None else context.all_gather(x, axis=0)


def share(loss):
    """This replica's part of a mean over the whole batch; gradients are summed over replicas."""
    context = _context()
    return loss if context is None else loss / context.num_replicas_in_sync


def jointly_clipped(gradients, norm):
    """This replica's share of the gradient of all, clipped as a whole by its global norm."""
    context = _context()
    if context is None or norm is None:
        return gradients
    import tensorflow as tf

    gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, list(gradients))
    gradients, _ = tf.clip_by_global_norm(gradients, norm)
    return [gradient / context.num_replicas_in_sync for gradient in gradients]

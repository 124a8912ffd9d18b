"""Attention between the words of sentences, for `sst5.py` and `entailment.py` to import."""

from keras import ops


def attend(x, others, mask):
    """For each vector, the mean of others, weighted by the softmax of their products with it.

    Args:
        x: Floats `(B, T, D)`.
        others: Floats `(B, U, D)`.
        mask: Booleans `(B, U)`: which of the others are words, not padding.

    Returns:
        Floats `(B, T, D)`.
    """
    alike = ops.einsum("bid,bjd->bij", x, others)
    none = ops.expand_dims(1 - ops.cast(mask, x.dtype), 1) * 1e4
    return ops.einsum("bij,bjd->bid", ops.softmax(alike - none, axis=-1), others)


def joined(*parts):
    """Concatenates the vectors that are not `None`."""
    return ops.concatenate([part for part in parts if part is not None], axis=-1)

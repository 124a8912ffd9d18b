"""Attention between the words of sentences, for the programs to import."""

import keras
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
    products = ops.einsum("bid,bjd->bij", x, others)
    mask_penalty = ops.expand_dims(1 - ops.cast(mask, x.dtype), 1) * 1e4
    return ops.einsum("bij,bjd->bid", ops.softmax(products - mask_penalty, axis=-1), others)


def concatenate(*parts):
    """Concatenates the vectors that are not `None`."""
    return ops.concatenate([part for part in parts if part is not None], axis=-1)


class Similarity(keras.layers.Layer):
    """The trilinear similarity of the words of two texts, `(B, T, U)`."""

    supports_masking = True

    def build(self, first_shape, second_shape):
        self.first, self.second, self.both = (
            self.add_weight(name=name, shape=(first_shape[-1],), initializer="random_normal")
            for name in ("first", "second", "both")
        )

    def call(self, first, second):
        products = ops.einsum("btd,d,bud->btu", first, self.both, second)
        second = ops.expand_dims(ops.matmul(second, self.second), 1)
        return products + ops.expand_dims(ops.matmul(first, self.first), 2) + second

    def compute_mask(self, *inputs):
        return None

"""The kinds of vectors that an `ElmoLayer` and an `Embedder` return."""

from typing import Any

from keras import ops

from keras_elmo.config import ElmoConfig


def select_vectors(layers: Any, vectors: str | int) -> Any:
    """The vectors of a kind, unless it is "mix", from those of all layers `(B, L + 1, T, D)`.

    Floats `(B, L + 1, T, D)`, `(B, T, (L + 1) * D)` or `(B, T, D)`, as `shape_of_vectors` says.
    """
    if vectors == "layers":
        return layers
    if vectors == "average":
        return ops.mean(layers, axis=1)
    if vectors == "sum":
        return ops.sum(layers, axis=1)
    if vectors == "concat":
        return ops.concatenate(ops.unstack(layers, axis=1), axis=-1)
    return layers[:, -1 if vectors == "top" else vectors]


def shape_of_vectors(vectors: str | int, config: ElmoConfig, num_tokens: int | None) -> tuple:
    """The shape of the vectors of a sentence."""
    num_layers, dim = config.num_layers + 1, config.output_dim
    if vectors == "layers":
        return (num_layers, num_tokens, dim)
    return (num_tokens, num_layers * dim if vectors == "concat" else dim)

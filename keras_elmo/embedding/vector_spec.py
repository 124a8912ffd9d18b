"""What an `Embedder` returns for a sentence."""

import dataclasses

_POOLINGS = (None, "mean", "max")
_DTYPES = ("float32", "float16")


@dataclasses.dataclass(frozen=True)
class VectorSpec:
    """The vectors of a sentence: arguments of `Embedder.embed`, which describes them.

    Raises:
        ValueError: if one is invalid, or contradicts another.
    """

    vectors: str | int
    pooling: str | None
    boundaries: bool
    dtype: str

    def __post_init__(self) -> None:
        if self.pooling not in _POOLINGS:
            raise ValueError(f"pooling must be None, 'mean' or 'max'; got {self.pooling!r}.")
        if self.boundaries and self.pooling is not None:
            raise ValueError(
                "boundaries and pooling cannot be combined: pooling never includes boundaries."
            )
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype must be 'float32' or 'float16'; got {self.dtype!r}.")

"""Analyses of word vectors: cosines, planes and neighbors. NumPy only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_elmo.arguments import check_mix_weights
from keras_elmo.text.tokens import check_batch, tokens_of

Sentence = str | bytes | Sequence[str | bytes]
"""A list of tokens, or a string to be split at white space; bytes are UTF-8."""


COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000")
"""The colors of groups in pictures: Okabe and Ito's, for all kinds of color vision."""


class Plane(NamedTuple):
    """Vectors projected to the plane in which they differ most."""

    points: np.ndarray
    """Their coordinates, float32 `(N, 2)`."""
    explained_variance: np.ndarray
    """The fraction of the variance along each axis, float32 `(2,)`."""

    def axis_titles(self) -> tuple[str, str]:
        """What pictures write at the two axes."""
        if not self.explained_variance.any():
            return "all vectors are equal", ""
        x, y = (f"{fraction:.0%} of the variance" for fraction in self.explained_variance)
        return x, y


class Occurrence(NamedTuple):
    """A place where a word is used."""

    sentence: int
    position: int


class FilterWindow(NamedTuple):
    """The characters of a word at which a filter has its maximum."""

    filter: int
    width: int
    start: int
    activation: float


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The cosine of each vector in `first` with each vector in `second`, layer by layer.

    Args:
        first: Vectors `(..., T, D)`.
        second: Vectors `(..., U, D)`, with the same number of layers.

    Returns:
        float32 array `(..., T, U)`. The cosine with a vector of zeros is 0.

    Raises:
        ValueError: if layers or sizes of vectors differ.

    Example:

    >>> cosines(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    array([[1., 0., 0.]], dtype=float32)
    """
    first, second = np.asarray(first), np.asarray(second)
    is_same = first.shape[:-2] == second.shape[:-2] and first.shape[-1:] == second.shape[-1:]
    if not is_same or second.ndim < 2:
        raise ValueError(
            "cosines expects arrays (..., T, D) and (..., U, D) of the same layers and sizes; got "
            f"{first.shape} and {second.shape}."
        )
    return _normalized(first) @ np.swapaxes(_normalized(second), -1, -2)


def mixed(
    layers: np.ndarray, weights: Sequence[float] | np.ndarray, gamma: float = 1.0
) -> np.ndarray:
    """The weighted sum of the layers, as `WeightedLayerSum` computes it without layer norm.

    Args:
        layers: Vectors `(L + 1, T, D)`, as `Embedder.embed(..., vectors="layers")` returns.
        weights: The share of each layer: `L + 1` numbers of at least 0 with the sum 1, as
            `ElmoLayer(mix_weights=...)`. They are the weights after the softmax.
        gamma: The factor of the sum.

    Returns:
        float32 array `(T, D)`.

    Raises:
        ValueError: if the weights are not such numbers.

    Example:

    >>> mixed(np.array([[[0.0]], [[2.0]]]), weights=[0.5, 0.5], gamma=3.0)
    array([[3.]], dtype=float32)

    Reference: Peters et al. 2018, equation 1.
    """
    shares = check_mix_weights("weights", weights, len(layers))
    return np.asarray(gamma * np.tensordot(shares, layers, 1), np.float32)


def layer_cosines(
    first: np.ndarray, second: np.ndarray, mixes: Iterable[Sequence[float] | np.ndarray] = ()
) -> list[tuple[str, np.ndarray]]:
    """The cosines between the words of two sentences, in each layer and in mixes of the layers.

    Args:
        first: Vectors `(L + 1, T, D)`, as `Embedder.embed(..., vectors="layers")` returns.
        second: Vectors `(L + 1, U, D)`.
        mixes: The weights of each mix, as for `mixed`.

    Returns:
        Pairs of a name and a float32 array `(T, U)`. A mix is named after its weights.

    Raises:
        ValueError: if layers or sizes of vectors differ, or weights are invalid.

    Example:

    >>> layers = np.array([[[1.0, 0.0]], [[0.0, 2.0]]])
    >>> [name for name, _ in layer_cosines(layers, layers, mixes=[(0.25, 0.75)])]
    ['token vectors', 'LSTM 1', 'weighted sum (0.25, 0.75)']
    """
    found = list(zip(layer_names(len(first)), cosines(first, second)))
    for weights in mixes:
        values = cosines(mixed(first, weights), mixed(second, weights))
        shares = ", ".join(f"{share:.2f}" for share in weights)
        found.append((f"weighted sum ({shares})", values))
    return found


def softmax(weights: Sequence[float]) -> np.ndarray:
    """The shares of raw layer weights in a mix: positive, with the sum 1, float64 `(N,)`.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    powers = np.exp(np.asarray(weights, np.float64) - np.max(weights))
    return powers / powers.sum()


def occurrences(word: str, sentences: Sequence[Sentence]) -> list[Occurrence]:
    """The places where a word is used, ignoring case.

    Args:
        word: The word.
        sentences: Lists of tokens, or strings to be split at white space.

    Raises:
        ValueError: if the word is empty, contains white space, or does not occur in the sentences.

    Example:

    >>> occurrences("bank", ["The bank pays .", "Bank on it ."])
    [Occurrence(sentence=0, position=1), Occurrence(sentence=1, position=0)]
    """
    if len(word.split()) != 1:
        raise ValueError(f"Expected one word without white space, got {word!r}.")
    check_batch(sentences)
    found = [
        Occurrence(i, j)
        for i, sentence in enumerate(sentences)
        for j, token in enumerate(tokens(sentence))
        if token.casefold() == word.casefold()
    ]
    if not found:
        raise ValueError(
            f"The word {word!r} does not occur in the {len(sentences):,} sentences. It must be a "
            'whole token: "bank." and "banks" are not "bank".'
        )
    return found


def occurrence_vectors(
    found: Sequence[Occurrence], layers: Sequence[np.ndarray] | Mapping[int, np.ndarray]
) -> np.ndarray:
    """The vectors of the occurrences of a word, `(L + 1, N, D)`.

    Args:
        found: The N `occurrences`.
        layers: The vectors of each sentence, `(L + 1, T, D)`, as
            `Embedder.embed(..., vectors="layers")` returns; or a dict of those that are used, by
            the index of the sentence.

    Example:

    >>> layers = [np.zeros((3, 2, 8)), np.ones((3, 4, 8))]
    >>> occurrence_vectors([Occurrence(0, 1), Occurrence(1, 3)], layers).shape
    (3, 2, 8)
    """
    return np.stack([layers[use.sentence][:, use.position] for use in found], axis=1)


def plane(vectors: np.ndarray) -> Plane:
    """The two principal components of vectors.

    Args:
        vectors: float `(N, D)`.

    Returns:
        A `Plane`. Axes along which nothing varies are 0. The first large coordinate of each axis
        is positive, so that a rounding error does not mirror a picture.

    Raises:
        ValueError: if `vectors` is empty.

    Example:

    >>> plane(np.array([[0.0, 0.0], [3.0, 4.0]])).explained_variance
    array([1., 0.], dtype=float32)
    """
    vectors = np.asarray(vectors, np.float64)
    if vectors.ndim != 2 or not len(vectors):
        raise ValueError(f"plane expects vectors (N, D) with N > 0, got shape {vectors.shape}.")
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    # Vectors of one word without its context differ only by the rounding of float32.
    sizes[sizes <= np.finfo(np.float32).eps * np.linalg.norm(vectors)] = 0
    points = np.pad(left * sizes, ((0, 0), (0, 2)))[:, :2]
    lengths = np.abs(points)
    first_large = (lengths >= lengths.max(axis=0) / 2).argmax(axis=0)
    points *= np.sign(points[first_large, [0, 1]])
    variances = sizes**2
    shares = np.pad(variances, (0, 2))[:2] / max(variances.sum(), np.finfo(np.float64).tiny)
    return Plane(points.astype(np.float32), shares.astype(np.float32))


def nearest(vectors: np.ndarray, count: int = 3) -> list[list[tuple[int, float]]]:
    """For each vector, the `count` other vectors with the greatest cosine.

    Args:
        vectors: float `(N, D)`.
        count: Maximum number of neighbors of each vector.

    Returns:
        For each vector, the pairs (index of the other vector, cosine), greatest cosine first.

    Example:

    >>> nearest(np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]), count=1)[0]
    [(2, 1.0)]
    """
    units, found = _normalized(vectors), []
    for start in range(0, len(units), 512):  # all at once would need N x N numbers
        similarity = units[start : start + 512] @ units.T
        rows = np.arange(len(similarity))
        similarity[rows, start + rows] = -np.inf
        order = np.argsort(-similarity, axis=1, kind="stable")[:, : min(count, len(units) - 1)]
        found += [[(int(j), float(similarity[i, j])) for j in row] for i, row in enumerate(order)]
    return found


def whiten(vectors: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """Whitens vectors, so that they vary equally in all directions.

    Args:
        vectors: float `(N, D)`.
        reference: float `(M, D)`, the vectors from which mean and directions are estimated; by
            default `vectors`. Whiten a query with the vectors to be searched as the reference.

    Returns:
        float32 array `(N, D)`. The variance in each direction is 1 only where there is much of it:
        a tenth of the mean variance is added to each, since few vectors say little about the rest.

    Raises:
        ValueError: if the sizes of the vectors differ, or there are fewer than two of reference.

    Example:

    >>> whiten(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0], [4.0, 1.0]])).round(1)
    array([[-0.8, -0.6],
           [ 0.8, -0.6],
           [-0.8,  0.6],
           [ 0.8,  0.6]], dtype=float32)
    """
    vectors = np.asarray(vectors, np.float64)
    reference = vectors if reference is None else np.asarray(reference, np.float64)
    if reference.ndim != 2 or len(reference) < 2 or vectors.shape[1:] != reference.shape[1:]:
        raise ValueError(
            "whiten expects vectors (N, D), and at least two of reference (M, D); got shapes "
            f"{vectors.shape} and {reference.shape}."
        )
    mean = reference.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(reference, rowvar=False).reshape(2 * mean.shape))
    smallest = max(0.1 * variances.mean(), np.finfo(np.float64).tiny)
    scales = np.sqrt(np.maximum(variances, 0) + smallest)
    return ((vectors - mean) @ (directions / scales) @ directions.T).astype(np.float32)


def strongest_filters(
    activations: np.ndarray, starts: np.ndarray, filters: Sequence[tuple[int, int]]
) -> list[list[FilterWindow]]:
    """The filter of each width with the greatest activation, for each word.

    Args:
        activations: float `(N, F)`, as `CharCNNEmbedding.filter_activations` returns.
        starts: int `(N, F)`, as `CharCNNEmbedding.filter_starts` returns.
        filters: `(width, number)` pairs with F filters in total, as `CharCNNEmbedding.filters`.

    Returns:
        For each word a `FilterWindow` for each pair, in their order.

    Example:

    >>> activations, starts = np.array([[0.0, 0.5, 0.25]]), np.array([[4, 2, 1]])
    >>> strongest_filters(activations, starts, filters=[(1, 2), (3, 1)])[0]
    [FilterWindow(filter=1, width=1, start=2, activation=0.5), \
FilterWindow(filter=2, width=3, start=1, activation=0.25)]
    """
    ends = np.cumsum([number for _, number in filters])
    return [
        [
            FilterWindow(i, width, int(begins[i]), float(values[i]))
            for (width, number), end in zip(filters, ends)
            for i in [int(end - number + np.argmax(values[end - number : end]))]
        ]
        for values, begins in zip(activations, starts)
    ]


def tokens(sentence: Sentence) -> list[str]:
    """The tokens of a sentence: the items of a list, or a string split at ASCII white space."""
    return [x.decode("utf-8", "ignore") if isinstance(x, bytes) else x for x in tokens_of(sentence)]


def layer_names(count: int) -> list[str]:
    """The names of the layers in pictures and tables, lowest layer first."""
    return ["token vectors", *(f"LSTM {i}" for i in range(1, count))]


def _normalized(vectors):
    vectors = np.asarray(vectors, np.float32)  # squares of float16 would be infinite
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)

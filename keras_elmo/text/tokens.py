"""Sentences as users have them to lists of tokens."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")
_PACKAGES = ("keras_elmo", "keras")


def plain_batch(batch: Any) -> Any:
    """A batch of sentences or ids, as lists, arrays or dense tensors.

    Series of pandas or Polars become lists, ragged tensors padded ones, and TensorFlow's eager
    strings NumPy arrays.

    Raises:
        ValueError: as for `check_batch`.
    """
    check_batch(batch)
    if hasattr(batch, "to_tensor"):
        batch = batch.to_tensor()
    elif hasattr(batch, "to_numpy"):
        return list(batch)
    return batch.numpy() if is_string_tensor(batch) and hasattr(batch, "numpy") else batch


def is_string_tensor(inputs: Any) -> bool:
    """Whether something is a tensor of strings, also one of a model that is being made."""
    dtype = getattr(inputs, "dtype", None)
    return getattr(dtype, "name", dtype) == "string"


def is_strings(batch: Any) -> bool:
    """Whether a `plain_batch` holds strings, so that `token_lists` reads it."""
    if isinstance(batch, np.ndarray):
        if batch.dtype.kind != "O":
            return batch.dtype.kind in "SUT"
        batch = batch.tolist()
    if isinstance(batch, (list, tuple)):
        return not batch or any(is_strings(x) or is_string_tensor(x) for x in batch)
    return isinstance(batch, (str, bytes)) or hasattr(batch, "text")  # spaCy's


def token_lists(sentences: Iterable[Any]) -> tuple[list[list[str | bytes]], int]:
    """The tokens of a batch, and the width of its rows.

    Args:
        sentences: Strings, split at ASCII white space; or rows of tokens, in which `""` at the
            right end is padding. Lists or a NumPy array.

    Returns:
        A list of tokens for each sentence, without padding, and the number of tokens of the longest
        one, padding included.

    Raises:
        ValueError: if the batch is empty or neither of the two.

    Warns:
        UserWarning: if rows of tokens look like sentences.
    """
    sentences = list(sentences)
    if not sentences:
        raise ValueError("Expected at least one sentence, got an empty list.")
    are_strings = [isinstance(sentence, (str, bytes)) for sentence in sentences]
    if len(set(are_strings)) > 1:
        odd = sentences[are_strings.index(not are_strings[0])]
        raise ValueError(
            "Expected either sentences, a list of strings, or tokens, a list of lists of strings; "
            f"got {sentences[0]!r:.60} and {odd!r:.60}. Replace missing values by ''."
        )
    rows = list(map(tokens_of, sentences))
    return list(map(without_padding, rows)), max(map(len, rows))


def tokens_of(sentence: Any) -> list[Any]:
    """The tokens of a sentence: a string, split at ASCII white space, or an iterable of tokens.

    TensorFlow's eager tensors, NumPy arrays of strings and pyarrow's values are accepted as well.
    """
    if hasattr(sentence, "numpy"):
        sentence = sentence.numpy()
    elif hasattr(sentence, "as_py"):
        sentence = sentence.as_py()
    if isinstance(sentence, (str, bytes)):
        return split_tokens(sentence)
    is_array = isinstance(sentence, np.ndarray)
    tokens = checked_tokens(sentence.tolist() if is_array else sentence)
    # A longer list of tokens was made on purpose.
    if (is_array or len(tokens) == 1) and any(len(token_bytes(x).split()) > 1 for x in tokens):
        _warn("The strings contain white space")
    return tokens


def split_tokens(sentence: str | bytes) -> list[str] | list[bytes]:
    """Splits a sentence at ASCII white space; other white space stays inside its token.

    What is not valid UTF-8 is dropped first, so that no token consists of it.
    """
    # Unlike bytes.split, str.split would split at any Unicode space.
    tokens = token_bytes(sentence).split()
    return tokens if isinstance(sentence, bytes) else [token.decode() for token in tokens]


def without_padding(tokens: list[Any]) -> list[Any]:
    """The tokens of a row up to the last one that is not empty: `""` at the right is padding."""
    length = len(tokens)
    while length and not tokens[length - 1]:
        length -= 1
    return tokens[:length]


def token_bytes(token: str | bytes) -> bytes:
    """The valid UTF-8 of a token: lone surrogates and malformed bytes are dropped."""
    if isinstance(token, bytes):
        token = token.decode("utf-8", "ignore")
    return token.encode("utf-8", "ignore")


def checked_tokens(sentence: Iterable[str | bytes]) -> list[str | bytes]:
    """A sentence's tokens as a list. Raises ValueError unless each is `str` or `bytes`."""
    if isinstance(sentence, (str, bytes)):
        raise ValueError(
            f"Expected each sentence to be a list of tokens, found the string {sentence[:60]!r}. "
            "Split it into tokens first, for example with sentence.split()."
        )
    if not isinstance(sentence, Iterable):
        raise ValueError(
            f"Expected each sentence to be a list of tokens, found {sentence!r}. Replace missing "
            "values by ''."
        )
    if isinstance(sentence, (Mapping, Set)):
        raise ValueError(
            f"Expected each sentence to be a list of tokens, found a {type(sentence).__name__}. "
            'Pass the field that holds it, such as [row["text"] for row in rows].'
        )
    sentence = list(sentence)
    if all(issubclass(kind, (str, bytes)) for kind in set(map(type, sentence))):
        return sentence
    sentence = [getattr(token, "text", token) for token in sentence]  # spaCy's tokens
    if all(isinstance(token, (str, bytes)) for token in sentence):
        return sentence
    wrong = next(token for token in sentence if not isinstance(token, (str, bytes)))
    raise ValueError(
        f"Expected tokens to be strings, found {wrong!r} of type {type(wrong).__name__} in the "
        f"sentence {sentence[:5]!r}."
    )


def check_batch(sentences: Any) -> None:
    """Raises ValueError for what iterates over something other than sentences."""
    shape = getattr(sentences, "shape", None)
    if isinstance(sentences, (str, bytes)) or (shape is not None and len(shape) == 0):
        raise ValueError(
            f"Expected a batch of strings, got the single string {sentences!r:.60}. Put it into a "
            "list: [sentence]."
        )
    if isinstance(sentences, Mapping) or hasattr(sentences, "columns"):
        raise ValueError(
            f"Expected a batch of sentences, got a {type(sentences).__name__}. Pass the column "
            'that holds the sentences, such as data["text"].'
        )


def warn_if_column(shape: tuple) -> None:
    """Warns if strings of a shape whose values are not known seem to be sentences in a column."""
    if len(shape) == 2 and shape[1] == 1:
        _warn(f"The strings have the shape {tuple(shape)}")


def _warn(observation):
    warnings.warn(
        f"{observation}, but in a batch of shape (B, T) each string is one token. If they are "
        "sentences, pass them with shape (B,), x[:, 0] or tf.squeeze(x, 1), or split them into "
        "tokens.",
        UserWarning,
        stacklevel=_callers_level(),
    )


def _callers_level():
    """The `stacklevel` of the line that called this package, directly or through Keras."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _PACKAGES:
        frame, level = frame.f_back, level + 1
    return level


def num_positions(text: list[list[Any]], boundaries: bool = True) -> int:
    """The tokens of a text, a list of sentences, and their boundaries, unless these do not count.

    A text without sentences counts as one empty sentence.
    """
    return sum(len(sentence) + 2 * boundaries for sentence in text or [[]])


def in_blocks(
    items: Iterable[Item], size_of: Callable[[Item], int], limit: int
) -> Iterator[list[Item]]:
    """Lists of items, each up to the item with which their sizes reach the limit."""
    block, size = [], 0
    for item in items:
        block.append(item)
        size += size_of(item)
        if size >= limit:
            yield block
            block, size = [], 0
    if block:
        yield block

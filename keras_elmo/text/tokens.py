"""Sentences as users have them to lists of tokens."""

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeVar

import numpy as np

from keras_elmo.arguments import check_boolean, check_integer
from keras_elmo.warn import warn

Item = TypeVar("Item")
_STRING_KINDS = frozenset("OSUT")  # of NumPy's dtypes


class Sentences(NamedTuple):
    """The tokens of each sentence of a batch, without padding, and the number of its columns."""

    tokens: list[list[str | bytes]]
    width: int  # tokens of the longest row, padding included


def as_batch(batch: Any) -> Any:
    """Decides what the input of a layer is: sentences, ids, or strings that are not known yet.

    Integers are ids. Everything else that can be iterated over is sentences: strings, split at
    ASCII white space, or rows of tokens, in which `""` at the right end is padding. These are
    lists, tuples, generators, arrays and Series of NumPy, pandas, Polars and pyarrow, and eager or
    ragged tensors of strings.

    Returns:
        `Sentences`; or an array or tensor of ids, or of another dtype, which the layer must refuse;
        or a tensor of strings in a graph, whose values are not known.

    Raises:
        ValueError: if the input is no batch, or a sentence has something other than strings.

    Warns:
        UserWarning: if rows of tokens look like sentences.
    """
    batch = dense(batch)
    if is_string_tensor(batch):
        if not hasattr(batch, "numpy"):
            return batch
        batch = batch.numpy()
    check_batch(batch)
    shape, dtype = getattr(batch, "shape", ()), getattr(batch, "dtype", None)
    is_column = hasattr(batch, "to_numpy")  # of pandas, Polars or pyarrow
    if dtype is not None and not is_column and getattr(dtype, "kind", None) not in _STRING_KINDS:
        return batch
    rows = list(batch)
    if _are_integers(rows):
        return _as_array(rows)
    rows = list(map(tokens_of, rows))
    # An array without rows has columns as well.
    width = max([*map(len, rows), *shape[1:2]], default=0)
    return Sentences(list(map(without_padding, rows)), width)


def dense(batch: Any) -> Any:
    """The batch; a ragged tensor padded."""
    return batch.to_tensor() if hasattr(batch, "bounding_shape") else batch


def is_string_tensor(inputs: Any) -> bool:
    """Whether something is a tensor of strings, also one of a model that is being made."""
    dtype = getattr(inputs, "dtype", None)
    # pandas has a dtype of this name as well.
    return getattr(dtype, "name", dtype) == "string" and not hasattr(inputs, "to_numpy")


def _are_integers(x):
    """Whether the first item of nested lists is an integer; `None` if they have no items."""
    if isinstance(x, (list, tuple)):
        return next((found for found in map(_are_integers, x) if found is not None), None)
    dtype = getattr(x, "dtype", None)
    return isinstance(x, numbers.Integral) if dtype is None else "int" in str(dtype)


def _as_array(rows):
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError(
            "The ids of a batch must be rectangular, got sentences of different lengths: pad them "
            "with keras.utils.pad_sequences(..., padding='post')."
        ) from None


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
    """Raises ValueError for what is not a batch of sentences or iterates over something else."""
    if is_string_tensor(sentences) and not hasattr(sentences, "numpy"):
        raise ValueError(
            "Expected sentences, got a symbolic tensor of strings, whose values are not known yet. "
            "In a model or in tf.data use the layer keras_elmo.UnicodeCharEncoder(), for example "
            "dataset.batch(32).map(UnicodeCharEncoder())."
        )
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
    if isinstance(sentences, (set, frozenset)):
        raise ValueError(
            "Expected a batch of sentences, got a set, which has no order: pass a list."
        )
    is_iterable = isinstance(sentences, Iterable) or hasattr(sentences, "__getitem__")
    if shape is None and not is_iterable:
        raise ValueError(
            f"Expected a batch of sentences, such as a list of strings; got {sentences!r:.60}."
        )


def warn_if_column(shape: tuple) -> None:
    """Warns if strings of a shape whose values are not known seem to be sentences in a column."""
    if len(shape) == 2 and shape[1] == 1:
        _warn(f"The strings have the shape {tuple(shape)}")


def _warn(observation):
    warn(
        f"{observation}, but in a batch of shape (B, T) each string is one token. If they are "
        "sentences, pass them with shape (B,), x[:, 0] or tf.squeeze(x, 1), or split them into "
        "tokens."
    )


def num_positions(text: list[list[Any]], boundaries: bool = True) -> int:
    """The tokens of a text, a list of sentences, and their boundaries, unless these do not count.

    A text without sentences counts as one empty sentence.
    """
    return sum(len(sentence) + 2 * boundaries for sentence in text or [[]])


def padded_length(lengths: Sequence[int], pad_to: int | None, truncate: bool) -> int:
    """The number of tokens of each row: `pad_to`, or the length of the longest sentence.

    Raises:
        ValueError: if a sentence is longer and is not to be truncated, or an argument is invalid.
    """
    longest = max(lengths, default=0)
    if check_boolean("truncate", truncate) and pad_to is None:
        raise ValueError("truncate=True needs a number of tokens, pad_to.")
    if pad_to is None:
        return longest
    pad_to = check_integer("pad_to", pad_to, 1)
    if longest > pad_to and not truncate:
        raise ValueError(
            f"sentences[{lengths.index(longest)}] has {longest:,} tokens, more than "
            f"pad_to={pad_to}: pass a larger one, or truncate=True."
        )
    return pad_to


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

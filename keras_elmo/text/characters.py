"""Tokens to character ids in NumPy: bilm-tf's byte rules (BILM_TF.md, 'Characters')."""

import abc
import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_elmo.arguments import check_integer
from keras_elmo.config import MIN_CHARACTERS_PER_TOKEN
from keras_elmo.text.tokens import Sentences, check_batch, padded_length, token_bytes, tokens_of

# Ids as the model sees them. 0 pads a sentence; bytes are shifted by one to leave it free.
BYTE_OFFSET = 1
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
WORD_PADDING = 261


class DistinctWords(NamedTuple):
    """A batch of sentences; `rows[index]` is what `encode_sentences` returns."""

    rows: Any  # int32 `(U + 3, C)`: the special rows, then the rows of U distinct words
    index: Any  # int32 `(B, T + 2)`


class TokenEncoder(abc.ABC):
    """How a model turns a token into a row of ids."""

    width: int  # ids of a row
    padding: int  # id that pads the characters of a token; 0 where none are read

    @abc.abstractmethod
    def encode_words(self, words: Iterable[str | bytes]) -> np.ndarray:
        """The rows of words, without a sentence around them, int32 `(N, width)`."""

    @abc.abstractmethod
    def key(self, word: bytes) -> bytes:
        """A prefix of a word's UTF-8 that determines its row."""

    @abc.abstractmethod
    def special_rows(self) -> np.ndarray:
        """The rows of padding, and of the begin and end of a sentence, int32 `(3, width)`."""

    def encode_distinct(self, sentences: list[list[Any]]) -> "DistinctWords":
        """Encodes sentences as `encode_sentences` does, but each distinct word once."""
        words, index = distinct(itertools.chain.from_iterable(sentences))
        rows = self.encode_words(words)
        special = self.special_rows()
        index = add_boundaries(list(map(len, sentences)), index + len(special), begin=1, end=2)
        return DistinctWords(np.concatenate([special, rows]), index)

    def encode_batch(self, batch: Sentences) -> "DistinctWords":
        """Encodes the sentences of a batch, which keeps its number of columns."""
        rows, index = self.encode_distinct(batch.tokens)
        return DistinctWords(rows, np.pad(index, ((0, 0), (0, batch.width + 2 - index.shape[1]))))

    def encode_sentences(
        self,
        sentences: Iterable[str | bytes | Iterable[str | bytes]],
        *,
        pad_to: int | None = None,
        truncate: bool = False,
    ) -> np.ndarray:
        """The rows of sentences, int32 `(B, T + 2, width)`; arguments as of `encode_sentences`."""
        check_batch(sentences)
        lists = list(map(tokens_of, sentences))
        num_tokens = padded_length(list(map(len, lists)), pad_to, truncate)
        lists = [tokens[:num_tokens] for tokens in lists]
        rows, index = self.encode_batch(Sentences(lists, num_tokens))
        return rows[index]


class ByteRules(TokenEncoder):
    """The rules of bilm-tf: UTF-8 bytes; see `encode_sentences`."""

    padding = WORD_PADDING

    def __init__(self, max_characters_per_token: int = 50) -> None:
        self.width = check_integer(
            "max_characters_per_token", max_characters_per_token, MIN_CHARACTERS_PER_TOKEN
        )

    def encode_words(self, words: Iterable[str | bytes]) -> np.ndarray:
        texts = [token_bytes(word)[: self.width - 2] for word in words]
        ids = np.frombuffer(b"".join(texts), np.uint8).astype(np.int32) + BYTE_OFFSET
        lengths = list(map(len, texts))
        return add_boundaries(lengths, ids, BEGIN_WORD, END_WORD, WORD_PADDING, self.width)

    def key(self, word: bytes) -> bytes:
        # A row has two bytes less than its width; a character that is cut loses up to three.
        return word if len(word) <= self.width else token_bytes(word[: self.width + 1])

    def special_rows(self) -> np.ndarray:
        begin, end = (boundary_row(mark, self.width) for mark in (BEGIN_SENTENCE, END_SENTENCE))
        return np.stack([np.zeros_like(begin), begin, end])


def encode_sentences(
    sentences: Iterable[str | bytes | Iterable[str | bytes]],
    max_characters_per_token: int = 50,
    *,
    pad_to: int | None = None,
    truncate: bool = False,
) -> np.ndarray:
    """Encodes tokenized sentences as the character ids that ELMo reads.

    A token is its UTF-8 bytes, truncated to fit, between a begin and an end mark. Lone surrogates,
    which UTF-8 cannot encode, are dropped. A token `"<S>"` is ordinary text: boundaries depend only
    on position. A token `""` is a word without characters, as in bilm-tf; `ElmoLayer`,
    `UnicodeCharEncoder` and `Embedder` treat empty tokens at the end of a sentence as padding.

    Args:
        sentences: List of sentences: lists of tokens (`str`, or UTF-8 `bytes`), or strings to be
            split at white space.
        max_characters_per_token: Characters of a token, the two marks included; at least 3.
        pad_to: The number of tokens T of each row; `None` for that of the longest sentence. JAX
            compiles a model for each T: few different ones save time.
        truncate: Whether to encode only the first `pad_to` tokens of longer sentences.

    Returns:
        int32 array `(B, T + 2, C)`, where shorter sentences are padded. Ids: 1-256 bytes,
        257 and 258 begin and end of sentence, 259 and 260 begin and end of word, 261 padding inside
        a word, 0 padding after a sentence.

    Raises:
        ValueError: if a sentence has more than `pad_to` tokens, without `truncate`; a token is
            neither `str` nor `bytes`, or `max_characters_per_token` is below 3.

    Example:

    >>> encode_sentences([["ELMo", "reads", "bytes"], ["Hi"]]).shape
    (2, 5, 50)
    >>> encode_sentences([["ELMo", "reads", "bytes"], ["Hi"]], pad_to=32).shape
    (2, 34, 50)

    Reference: BILM_TF.md, "Characters"; bilm-tf `UnicodeCharsVocabulary` and `Batcher`.
    """
    rules = ByteRules(max_characters_per_token)
    return rules.encode_sentences(sentences, pad_to=pad_to, truncate=truncate)


def distinct(items: Iterable[Hashable]) -> tuple[list, np.ndarray]:
    """The distinct items in the order of their first occurrence, and each item's index in them."""
    indices: dict[Hashable, int] = {}
    index = [indices.setdefault(item, len(indices)) for item in items]
    return list(indices), np.array(index, np.int32)


def add_boundaries(
    lengths: Sequence[int],
    values: np.ndarray,
    begin: int,
    end: int,
    padding: int = 0,
    width: int | None = None,
) -> np.ndarray:
    """Rows of a begin mark, a sequence, an end mark and padding; the sequences are given joined.

    >>> add_boundaries([2, 1], np.array([7, 8, 9]), begin=1, end=2)
    array([[1, 7, 8, 2],
           [1, 9, 2, 0]], dtype=int32)
    """
    lengths = np.array(lengths, np.int64)
    width = lengths.max(initial=0) + 2 if width is None else width
    rows = np.full((len(lengths), width), padding, np.int32)
    rows[:, 0] = begin
    rows[:, 1:-1][np.arange(width - 2) < lengths[:, None]] = values
    rows[np.arange(len(lengths)), lengths + 1] = end
    return rows


def trim_characters(
    ids: np.ndarray, widest_filter: int | None, padding: int = WORD_PADDING
) -> np.ndarray:
    """Truncates the padding after the longest word as far as no output of the encoder changes.

    The encoder takes the maximum over windows, so one window of only padding is enough. The new C
    is a multiple of 8, if there are as many, since compiled models are recompiled for each C. An
    encoder without convolutions, `None`, gets all columns.
    """
    if widest_filter is None:
        return ids
    inside = (ids != padding) & (ids != 0)
    longest = np.flatnonzero(inside.any(axis=tuple(range(ids.ndim - 1))))
    needed = (longest[-1] + 1 if len(longest) else 0) + widest_filter
    return ids[..., : -(-needed // 8) * 8]


def pad_words(rows: np.ndarray, num_positions: int) -> np.ndarray:
    """Pads the rows `(U, C)` of distinct words, since compiled models are recompiled for each U.

    Adds at most 15 rows, or 1/32 of the positions.
    """
    step = max(16, -(-num_positions // 32))
    return np.pad(rows, ((0, -len(rows) % step), (0, 0)))


def boundary_row(mark: int, max_characters_per_token: int) -> np.ndarray:
    """The character ids `(C,)` of a sentence's beginning or end, int32."""
    ids = np.array([mark])
    return add_boundaries([1], ids, BEGIN_WORD, END_WORD, WORD_PADDING, max_characters_per_token)[0]

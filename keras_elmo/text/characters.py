"""Tokens to character ids in NumPy: bilm-tf's byte rules (BILM_TF.md, 'Characters')."""

import numpy as np

from keras_elmo.config import MIN_CHARACTERS_PER_TOKEN

# Ids as the model sees them. 0 pads a sentence; bytes are shifted by one to leave it free.
BYTE_OFFSET = 1
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
WORD_PADDING = 261


def encode_sentences(sentences, max_characters_per_token=50):
    """Turns tokenized sentences into the character ids that ELMo reads.

    A token is its UTF-8 bytes between a begin and an end mark; what does not fit is cut, at a byte.
    Every sentence gets a row for its beginning and one for its end. Lone surrogates, which UTF-8
    cannot hold, are dropped. A token `"<S>"` is ordinary text: boundaries come from position alone.

    Args:
        sentences: List of sentences, each a list of tokens (`str`, or UTF-8 `bytes`). A sentence
            may be empty, and so may a token.
        max_characters_per_token: Characters of a token, the two marks included. At least 3.

    Returns:
        int32 array `(B, T + 2, C)`, with T the tokens of the longest sentence. Ids: 1-256 bytes,
        257 and 258 begin and end of sentence, 259 and 260 begin and end of word, 261 padding inside
        a word, 0 padding after a sentence.

    Raises:
        ValueError: if a sentence is a plain string, or a token is neither `str` nor `bytes`.

    Example:

    >>> encode_sentences([["ELMo", "reads", "bytes"], ["Hi"]]).shape
    (2, 5, 50)

    Reference: BILM_TF.md, "Characters"; bilm-tf `UnicodeCharsVocabulary` and `Batcher`.
    """
    width = _checked_width(max_characters_per_token)
    sentences = [checked_tokens(sentence) for sentence in sentences]
    longest = max(map(len, sentences), default=0)
    ids = np.zeros((len(sentences), longest + 2, width), np.int32)
    begin = boundary_row(BEGIN_SENTENCE, width)
    end = boundary_row(END_SENTENCE, width)
    rows = {}
    for row, sentence in zip(ids, sentences):
        row[0] = begin
        row[len(sentence) + 1] = end
        for position, token in enumerate(sentence, start=1):
            if token not in rows:
                rows[token] = _token_row(token, width)
            row[position] = rows[token]
    return ids


def trim_characters(ids, widest_filter, multiple=8):
    """Cuts the padding behind the longest word, as far as no result of the encoder changes.

    Windows of padding alone are all alike and the encoder takes the maximum: one is enough.

    Args:
        ids: Integer character ids `(..., C)` of `encode_sentences`.
        widest_filter: Width of the widest convolution over characters.
        multiple: What the new C is a multiple of, unless all C are needed. Compiled models are
            compiled anew for each C.

    Returns:
        The ids `(..., C')` with C' at most C.

    Example:

    >>> trim_characters(encode_sentences([["Hello"]]), widest_filter=5).shape
    (1, 3, 16)
    """
    inside = (ids != WORD_PADDING) & (ids != 0)
    longest = np.flatnonzero(inside.any(axis=tuple(range(ids.ndim - 1))))
    needed = (longest[-1] + 1 if len(longest) else 0) + widest_filter
    return ids[..., : -(-needed // multiple) * multiple]


def boundary_row(mark, max_characters_per_token):
    """The character ids `(C,)` of a sentence's beginning or end, as a NumPy int32 array."""
    row = np.full(max_characters_per_token, WORD_PADDING, np.int32)
    row[:3] = BEGIN_WORD, mark, END_WORD
    return row


def split_tokens(sentence):
    """Splits a sentence at ASCII white space, as tokenized corpora are written.

    Other white space, such as the no-break space, stays inside its token.

    Args:
        sentence: `str` or UTF-8 `bytes`.

    Returns:
        List of tokens, `str` or `bytes` as the sentence is.

    Example:

    >>> split_tokens("The cat\\tsat  .")
    ['The', 'cat', 'sat', '.']
    """
    if isinstance(sentence, bytes):
        return sentence.split()
    # bytes.split() knows ASCII white space only; str.split() would cut at any Unicode space.
    tokens = sentence.encode("utf-8", "surrogatepass").split()
    return [token.decode("utf-8", "surrogatepass") for token in tokens]


def token_bytes(token):
    """The valid UTF-8 of a token: lone surrogates and malformed bytes are dropped."""
    if isinstance(token, bytes):
        token = token.decode("utf-8", "ignore")
    return token.encode("utf-8", "ignore")


def checked_tokens(sentence):
    """A sentence's tokens as a list.

    Raises:
        ValueError: if it is a plain string, or a token is neither `str` nor `bytes`.
    """
    if isinstance(sentence, (str, bytes)):
        raise ValueError(
            f"Expected each sentence to be a list of tokens, found the string {sentence[:60]!r}. "
            "Split it into tokens first, for example with sentence.split()."
        )
    sentence = list(sentence)
    for token in sentence:
        if not isinstance(token, (str, bytes)):
            raise ValueError(
                f"Expected tokens to be strings, found {token!r} of type {type(token).__name__} in "
                f"the sentence {sentence[:5]!r}."
            )
    return sentence


def _token_row(token, width):
    text = token_bytes(token)[: width - 2]
    row = np.full(width, WORD_PADDING, np.int32)
    row[0] = BEGIN_WORD
    row[1 : len(text) + 1] = np.frombuffer(text, np.uint8)
    row[1 : len(text) + 1] += BYTE_OFFSET
    row[len(text) + 1] = END_WORD
    return row


def _checked_width(max_characters_per_token):
    if max_characters_per_token < MIN_CHARACTERS_PER_TOKEN:
        raise ValueError(
            f"max_characters_per_token = {max_characters_per_token} is too small: a token needs at "
            f"least {MIN_CHARACTERS_PER_TOKEN} characters, its begin and end marks included."
        )
    return max_characters_per_token

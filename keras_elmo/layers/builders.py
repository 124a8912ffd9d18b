"""Makes the parts of a biLM from its architecture, for `ElmoLayer` and the language model."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from keras_elmo.config import NUM_CHARACTERS, ElmoConfig
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.configured import argument_names
from keras_elmo.layers.lexicon_embedding import LexiconEmbedding
from keras_elmo.layers.lexicon_encoder import LexiconEncoder
from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder
from keras_elmo.layers.word_embedding import WordEmbedding
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.text.lexicon import Lexicon

_MOST_NUMBERS = 1 << 32


def make_char_encoder(config: ElmoConfig, lexicon: Lexicon | None) -> UnicodeCharEncoder:
    """The layer from strings to the ids of `config`.

    Raises ValueError if there is no lexicon where the config has one, or it is of another size.
    """
    if not config.has_lexicon:
        return UnicodeCharEncoder(config.max_characters_per_token)
    if lexicon is None:
        raise ValueError("A config with a lexicon needs it: pass lexicon=, a keras_elmo.Lexicon.")
    num_words = config.vocabulary_size if config.word_dim else None
    expected = (num_words, config.num_characters, config.max_characters_per_token)
    sizes = [None if x is None else len(x) for x in (lexicon.words, lexicon.characters)]
    if (found := (*sizes, lexicon.max_characters_per_token)) != expected:
        raise ValueError(
            f"The lexicon is of another model: the options have (words, characters, characters per "
            f"token) {expected}, it has {found}."
        )
    return LexiconEncoder(lexicon)


def make_token_encoder(
    config: ElmoConfig, dtype: Any
) -> CharCNNEmbedding | LexiconEmbedding | WordEmbedding:
    """The layer from the ids of characters, words or both to token vectors."""
    common = {"dtype": dtype, "name": "token_encoder"}
    if config.word_dim:
        return _make(LexiconEmbedding, config, **common)
    if not config.reads_characters:
        return _make(WordEmbedding, config, **common)
    num_characters = config.num_characters or NUM_CHARACTERS
    return _make(CharCNNEmbedding, config, num_characters=num_characters, **common)


def make_bilm(config: ElmoConfig, dtype: Any, dropout: float = 0.0) -> BiLMStack:
    """The LSTMs over token vectors.

    Raises ValueError if the biLM would be of an absurd size: each option may be fine by itself.
    """
    check_size("A biLM of these options", count_parameters(config))
    return _make(BiLMStack, config, dropout=dropout, dtype=dtype, name="bilm")


def check_size(what: str, count: int) -> None:
    """Raises ValueError if that many numbers are an absurd lot: a config can name any sizes."""
    if count > _MOST_NUMBERS:
        raise ValueError(f"{what} would have {count:,} numbers, more than {_MOST_NUMBERS:,}.")


def add_state(
    layer: keras.layers.Layer,
    bilm: BiLMStack,
    num_rows: int,
    names: Sequence[str],
    **options: Any,
) -> list[keras.Variable]:
    """Adds weights for the state (h, c) that LSTMs carry from batch to batch, zeros at first.

    Their shapes are `(num_rows, D, L, P)` and `(num_rows, D, L, lstm_dim)`.
    """
    shapes = [(num_rows, *shape) for shape in bilm.state_shapes]
    check_size(f"A state of {num_rows:,} rows", sum(map(math.prod, shapes)))
    options = {"trainable": False, "autocast": False, **options}
    return [
        layer.add_weight(shape, "zeros", bilm.state_dtype, name=name, **options)
        for name, shape in zip(names, shapes)
    ]


def reset_state(variables: Iterable[keras.Variable] | None) -> None:
    """Sets a state of `add_state` to zero, if there is one."""
    for variable in variables or ():
        variable.assign(ops.zeros(variable.shape, variable.dtype))


def _make(layer, config, **others):
    """A layer whose arguments are the config's fields of the same names, and others."""
    names = [name for name in argument_names(layer) if hasattr(config, name)]
    return layer(**{**{name: getattr(config, name) for name in names}, **others})

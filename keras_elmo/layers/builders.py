"""Makes the parts of a biLM from its architecture, for `ElmoLayer` and the language model."""

from typing import Any

from keras_elmo.config import NUM_CHARACTERS, ElmoConfig
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.lexicon_embedding import LexiconEmbedding
from keras_elmo.layers.lexicon_encoder import LexiconEncoder
from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder
from keras_elmo.layers.word_embedding import WordEmbedding
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.text.lexicon import Lexicon

_CHAR_CNN = ("filters", "char_embedding_dim", "activation", "num_highway", "projection_dim")
_WORDS = ("vocabulary_size", "projection_dim")
_LEXICON = ("vocabulary_size", "word_dim", "num_characters", *_CHAR_CNN)
_LSTMS = ("lstm_dim", "projection_dim", "num_layers", "cell_clip", "proj_clip")
_BILM = (*_LSTMS, "use_skip_connections", "bidirectional", "always_project")
_MOST_PARAMETERS = 1 << 32


def make_char_encoder(config: ElmoConfig, lexicon: Lexicon | None) -> UnicodeCharEncoder:
    """The layer from strings to the ids of `config`.

    Raises ValueError if there is no lexicon where the config has one, or it is of another size.
    """
    if not config.has_lexicon:
        return UnicodeCharEncoder(config.max_characters_per_token)
    if lexicon is None:
        raise ValueError("A config with a lexicon needs it: pass lexicon=, a keras_elmo.Lexicon.")
    expected = (
        config.vocabulary_size if config.word_dim else None,
        config.num_characters,
        config.max_characters_per_token,
    )
    sizes = [None if x is None else len(x) for x in (lexicon.words, lexicon.characters)]
    if (*sizes, lexicon.max_characters_per_token) != expected:
        raise ValueError(
            f"The lexicon is of another model: the options have (words, characters, characters per "
            f"token) {expected}, it has {(*sizes, lexicon.max_characters_per_token)}."
        )
    return LexiconEncoder(lexicon)


def make_token_encoder(
    config: ElmoConfig, dtype: Any
) -> CharCNNEmbedding | LexiconEmbedding | WordEmbedding:
    """The layer from the ids of characters, words or both to token vectors."""
    common = {"dtype": dtype, "name": "token_encoder"}
    if config.word_dim:
        return LexiconEmbedding(**_fields(config, _LEXICON), **common)
    if not config.reads_characters:
        return WordEmbedding(**_fields(config, _WORDS), **common)
    return CharCNNEmbedding(
        **_fields(config, _CHAR_CNN),
        num_characters=config.num_characters or NUM_CHARACTERS,
        always_project=config.always_project,
        **common,
    )


def make_bilm(config: ElmoConfig, dtype: Any, dropout: float = 0.0) -> BiLMStack:
    """The LSTMs over token vectors.

    Raises ValueError if the biLM would be of an absurd size: each option may be fine by itself.
    """
    if (num_parameters := count_parameters(config)) > _MOST_PARAMETERS:
        raise ValueError(
            f"A biLM of these options would have {num_parameters:,} parameters; expected at most "
            f"{_MOST_PARAMETERS:,}."
        )
    return BiLMStack(**_fields(config, _BILM), dropout=dropout, dtype=dtype, name="bilm")


def _fields(config, names):
    return {name: getattr(config, name) for name in names}

"""Makes the parts of a biLM from its architecture, for `ElmoLayer` and the language model."""

from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.word_embedding import WordEmbedding
from keras_elmo.pretrained.weight_table import count_parameters

_CHAR_CNN = ("filters", "char_embedding_dim", "activation", "num_highway", "projection_dim")
_WORDS = ("vocabulary_size", "projection_dim")
_LSTMS = ("lstm_dim", "projection_dim", "num_layers", "cell_clip", "proj_clip")
_BILM = (*_LSTMS, "use_skip_connections", "bidirectional")
_MOST_PARAMETERS = 1 << 32


def make_token_encoder(config: ElmoConfig, dtype: Any) -> CharCNNEmbedding | WordEmbedding:
    """The layer from the ids of characters, or of whole words, to token vectors."""
    if config.reads_characters:
        return CharCNNEmbedding(**_fields(config, _CHAR_CNN), dtype=dtype, name="token_encoder")
    return WordEmbedding(**_fields(config, _WORDS), dtype=dtype, name="token_encoder")


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

"""Makes the parts of a biLM from its architecture, for `ElmoLayer` and the language model."""

from typing import Any

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.word_embedding import WordEmbedding


def make_token_encoder(config: ElmoConfig, dtype: Any) -> CharCNNEmbedding | WordEmbedding:
    """The layer from the ids of characters, or of whole words, to token vectors."""
    if not config.reads_characters:
        size, dim = config.vocabulary_size, config.projection_dim
        return WordEmbedding(size, dim, dtype=dtype, name="token_encoder")
    return CharCNNEmbedding(
        filters=config.filters,
        char_embedding_dim=config.char_embedding_dim,
        activation=config.activation,
        num_highway=config.num_highway,
        projection_dim=config.projection_dim,
        dtype=dtype,
        name="token_encoder",
    )


def make_bilm(config: ElmoConfig, dtype: Any, dropout: float = 0.0) -> BiLMStack:
    """The LSTMs over token vectors."""
    return BiLMStack(
        lstm_dim=config.lstm_dim,
        projection_dim=config.projection_dim,
        num_layers=config.num_layers,
        cell_clip=config.cell_clip,
        proj_clip=config.proj_clip,
        use_skip_connections=config.use_skip_connections,
        bidirectional=config.bidirectional,
        dropout=dropout,
        dtype=dtype,
        name="bilm",
    )

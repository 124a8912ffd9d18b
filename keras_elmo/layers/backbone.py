"""The biLM: token encoder and LSTMs, which `ElmoLayer` and the language model share."""

from typing import Any

import keras

from keras_elmo.config import ElmoConfig
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.configured import argument_names
from keras_elmo.layers.lexicon_embedding import LexiconEmbedding
from keras_elmo.layers.recurrent import Recurrent
from keras_elmo.layers.word_embedding import WordEmbedding
from keras_elmo.pretrained.weight_table import check_size, count_parameters


@keras.saving.register_keras_serializable("keras_elmo")
class Backbone(Recurrent, keras.layers.Layer):
    """A biLM: ids of characters or words to the vectors of every layer.

    All its weights are stored in bilm-tf's weights file.

    Args:
        config: The architecture, an `ElmoConfig` or a dict of bilm-tf's options.
        dropout: Fraction of the numbers to drop in training, from the input of every LSTM and from
            the top layer.

    Call arguments:
        inputs: Ids with sentence boundaries, from `encode_sentences`, a `Lexicon` or
            `encode_token_ids`.
        mask: Booleans `(B, T)`, `True` on the sentence and its boundaries; by default where the ids
            are not 0. Masked positions of the output are exactly 0.
        initial_state, return_state, training: As for `BiLMStack`.

    Input shape:
        Integers `(B, T, C)`, or `(B, T)` for a model that reads whole words.

    Output shape:
        Floats `(B, L + 1, T, D * P)`; with `return_state` a tuple of that and `(h, c)`.

    Attributes:
        token_encoder: The layer from ids to token vectors `(B, T, P)`: a `CharCNNEmbedding`,
            `LexiconEmbedding` or `WordEmbedding`.
        bilm: The `BiLMStack`.

    Raises:
        ValueError: if an argument is invalid, or the model would have more than 2**29 parameters.

    Example:

    >>> backbone = Backbone(ElmoConfig(lstm_dim=16, projection_dim=4))
    >>> backbone(encode_sentences([["Hello", "world"]])).shape
    (1, 3, 4, 8)

    Reference: Peters et al. 2018, section 3; BILM_TF.md.
    """

    def __init__(
        self, config: ElmoConfig | dict[str, Any], dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.config = ElmoConfig.from_dict(config)
        self.dropout = dropout
        check_size("A biLM of this config", count_parameters(self.config))
        self.supports_masking = True
        self.autocast = False
        common = {"dtype": self.dtype_policy, "name": "token_encoder"}
        self.token_encoder = _token_encoder(self.config, common)
        common = {"dtype": self.dtype_policy, "name": "bilm"}
        self.bilm = _made_from(BiLMStack, self.config, dropout=dropout, **common)

    def build(self, input_shape: tuple | None = None) -> None:
        self.token_encoder.build((None, None, self.config.row_width))
        self.bilm.build((None, None, self.config.projection_dim))

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        initial_state: tuple | None = None,
        return_state: bool = False,
        training: bool | None = None,
        inputs_mask: Any = None,
    ) -> Any:
        mask = inputs_mask if mask is None else mask
        mask = self.token_encoder.compute_mask(inputs, mask)
        return self.bilm(
            self.token_encoder(inputs),
            mask=mask,
            initial_state=initial_state,
            return_state=return_state,
            training=training,
        )

    @property
    def state_shapes(self) -> tuple:
        return self.bilm.state_shapes

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self.bilm.compute_mask(None, self.token_encoder.compute_mask(inputs, mask))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return self.bilm.compute_output_shape(self.token_encoder.compute_output_shape(input_shape))

    def get_config(self) -> dict[str, Any]:
        own = {"config": self.config.to_dict(), "dropout": self.dropout}
        return {**super().get_config(), **own}


def _token_encoder(config, common):
    if config.word_dim:
        return _made_from(LexiconEmbedding, config, **common)
    if not config.reads_characters:
        return _made_from(WordEmbedding, config, **common)
    common["num_characters"] = config.num_character_ids
    return _made_from(CharCNNEmbedding, config, **common)


def _made_from(layer, config, **others):
    """A layer whose arguments are the config's fields of the same names, and others."""
    names = [name for name in argument_names(layer) if hasattr(config, name)]
    return layer(**{**{name: getattr(config, name) for name in names}, **others})

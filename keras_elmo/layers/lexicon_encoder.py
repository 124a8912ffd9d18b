"""Strings to ids of words and code points inside a TensorFlow graph or a tf.data pipeline."""

import functools
import threading
from typing import Any

import keras
import numpy as np

from keras_elmo.layers.token_mask import valid_utf8
from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder, delimited
from keras_elmo.text.lexicon import BEGIN, BEGIN_WORD, END, END_WORD, UNKNOWN, Lexicon

_TABLE_LOCK = threading.Lock()


@keras.saving.register_keras_serializable("keras_elmo")
class LexiconEncoder(UnicodeCharEncoder):
    """Encodes strings as the ids that a model of ELMoForManyLangs reads.

    The rows are identical to those from the lexicon's `encode_sentences`; otherwise it works like
    `UnicodeCharEncoder`.

    Args:
        lexicon: The `Lexicon`, or the dict that its `to_dict` makes.

    Call arguments:
        inputs: As for `UnicodeCharEncoder`.

    Input shape:
        Strings `(B,)`, one sentence each, or `(B, T)`, one token each.

    Output shape:
        int32 `(B, T + 2, W)`, W the width of the lexicon's rows.

    Raises:
        ValueError: as for `UnicodeCharEncoder`, or if the dict is not a lexicon's.

    Example:

    >>> lexicon = Lexicon(["<oov>", "<bos>", "<eos>", "<pad>", "chat", "noir"])
    >>> LexiconEncoder(lexicon)(tf.constant(["chat noir", "chat"])).shape
    TensorShape([2, 4, 1])

    Reference: ELMoForManyLangs (Che et al. 2018); docs/LANGUAGES.md.
    """

    def __init__(self, lexicon: Lexicon | dict[str, Any], **kwargs: Any):
        lexicon = lexicon if isinstance(lexicon, Lexicon) else Lexicon.from_dict(lexicon)
        super().__init__(lexicon.max_characters_per_token, **kwargs)
        self.lexicon = self.rules = lexicon
        self._word_table = None  # made when it is first needed

    def _word_rows(self, words):
        import tensorflow as tf

        max_characters = self.max_characters_per_token - 2
        text = tf.strings.substr(valid_utf8(words), 0, max_characters, unit="UTF8_CHAR")
        columns = []
        if self.lexicon.words is not None:
            columns.append(self.word_table().lookup(text)[:, None])
        if self.lexicon.characters is not None:
            columns.append(self._character_rows(text))
        rows = tf.concat(columns, axis=1)
        # A boundary is one character, however many its text has.
        for mark, row in zip((BEGIN, END), self.lexicon.special_rows()[1:]):
            rows = tf.where((text == mark)[:, None], row, rows)
        return rows

    def _character_rows(self, text):
        import tensorflow as tf

        lexicon, table = self.lexicon, self._code_points
        codes = tf.strings.unicode_decode(text, "UTF-8").to_tensor(
            default_value=-1, shape=(None, self.max_characters_per_token - 2)
        )
        ids = tf.gather(table, tf.minimum(tf.maximum(codes, 0), len(table) - 1))
        begin, end = (lexicon.character_ids[mark] + 1 for mark in (BEGIN_WORD, END_WORD))
        lengths = tf.reduce_sum(tf.cast(codes >= 0, tf.int32), axis=1)
        return delimited(ids, lengths, begin, end, lexicon.padding)

    @functools.cached_property
    def _code_points(self):
        """The id of each code point up to the last one known, and in the last row of all others."""
        ids = self.lexicon.character_ids
        single = {ord(entry): i for entry, i in ids.items() if len(entry) == 1}
        table = np.full(max(single, default=0) + 2, ids[UNKNOWN] + 1, np.int32)
        table[list(single)] = np.array(list(single.values()), np.int32) + 1
        return table

    def word_table(self):
        import tensorflow as tf

        if self.lexicon.words is None:
            return None
        with _TABLE_LOCK, tf.init_scope():  # the table outlives the graph that first needs it
            if self._word_table is None:
                ids = {word: i + 1 for word, i in self.lexicon.word_ids.items()}
                entries = tf.lookup.KeyValueTensorInitializer(
                    [*ids], [*ids.values()], value_dtype=tf.int32
                )
                self._word_table = tf.lookup.StaticHashTable(entries, ids[UNKNOWN])
        return self._word_table

    @classmethod
    def from_config(cls, config):
        return cls(**config)  # Keras would put the whole lexicon into the message of an error

    def get_config(self):
        config = super().get_config()
        del config["max_characters_per_token"]
        return {**config, "lexicon": self.lexicon.to_dict()}

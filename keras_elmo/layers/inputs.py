"""The check of ids."""

import warnings
from typing import Any

import numpy as np

from keras_elmo.config import NUM_CHARACTERS, ElmoConfig
from keras_elmo.text.characters import BEGIN_SENTENCE, boundary_row


def check_ids(ids: Any, config: ElmoConfig) -> None:
    """Checks the ids of a batch, an array or tensor; the values only of an array.

    Raises:
        ValueError: if a model of this config cannot read them.

    Warns:
        UserWarning: if character ids have no rows for the boundaries of sentences.
    """
    row = (config.row_width,) if config.reads_text else ()
    shape, dtype = tuple(getattr(ids, "shape", ())), getattr(ids, "dtype", None)
    dtype = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    is_ids = "int" in dtype and len(shape) == 2 + len(row) and shape[2:] == row
    if not is_ids or shape[1] in (0, 1):
        raise ValueError(
            f"ElmoLayer expects {_expected(config)}; got {type(ids).__name__} of dtype {dtype} and "
            f"shape {shape}."
        )
    is_bytes = config.reads_text and not config.has_lexicon
    sizes = config.num_characters or 0, config.vocabulary_size or 0
    max_id = NUM_CHARACTERS if is_bytes else max(sizes)
    if np.iinfo(dtype).max < max_id:
        raise ValueError(
            f"ElmoLayer expects ids from 0 to {max_id:,}, which {dtype} cannot hold: use int32."
        )
    if not isinstance(ids, np.ndarray):
        return  # its values may not be known yet
    if ids.min(initial=0) < 0 or ids.max(initial=0) > max_id:
        raise ValueError(
            f"ElmoLayer expects ids from 0 to {max_id:,}; got {ids.min():,} to {ids.max():,}."
        )
    used: Any = ids.any(axis=-1) if row else ids != 0
    if (used[:, 1:] & ~used[:, :-1]).any():
        raise ValueError(
            "ElmoLayer expects padding, ids 0, only at the right: use "
            "keras.utils.pad_sequences(..., padding='post')."
        )
    if is_bytes:
        begin = boundary_row(BEGIN_SENTENCE, config.row_width)
        if not (ids[:, 0] == begin).all(axis=-1).any() and ids.any():
            warnings.warn(
                "These character ids have no rows for the boundaries of sentences, and the first "
                "and last token of each sentence are taken for them. Add them to AllenNLP's ids "
                "with keras_elmo.compat.add_sentence_boundaries.",
                stacklevel=4,
            )


def _expected(config):
    if not config.reads_text:
        return (
            "integer token ids (B, T + 2), from keras_elmo.encode_token_ids, in a Sequential model "
            "after keras.Input((None,), dtype='int32')"
        )
    encoder = "its lexicon" if config.has_lexicon else "keras_elmo"
    return (
        "strings (B,) or (B, T), in fit and predict by tf.constant; or integer character ids "
        f"(B, T + 2, {config.row_width}) from {encoder}.encode_sentences, in a Sequential model "
        f"after keras.Input((None, {config.row_width}), dtype='int32')"
    )

"""The inputs of layers: batches of ids or strings, from a user, in a graph or of a new model."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.text.characters import BEGIN_SENTENCE, boundary_row
from keras_elmo.text.tokens import Sentences, as_batch, is_string_tensor, warn_if_column
from keras_elmo.warn import warn


def read_batch(inputs: Any) -> Any:
    """The result of `as_batch`, with Keras' build placeholders of rank 1 and 2 cast to strings.

    Raises ValueError as `as_batch` does, and for a tensor of a model of Keras 2.
    """
    batch = as_batch(inputs)
    if type(batch).__module__.startswith("tf_keras"):
        raise ValueError(
            "This is a tensor of tf_keras, which is Keras 2; the layers of keras_elmo need a "
            "tensor of Keras 3. Make the model with keras.Input and the layers of `import keras`, "
            "without TF_USE_LEGACY_KERAS."
        )
    is_tensorflow = keras.backend.backend() == "tensorflow"
    if is_tensorflow and _is_placeholder(batch) and len(batch.shape) < 3:
        import tensorflow as tf

        return tf.strings.as_string(batch)
    return batch


def check_strings(strings: Any, name: str) -> None:
    """Raises ValueError unless the layer `name` can read a tensor, as strings of rank 1 or 2."""
    shape = tuple(getattr(strings, "shape", ()))
    if not is_string_tensor(strings) or len(shape) not in (1, 2):
        raise ValueError(
            f"{name} expects strings of shape (B,), a sentence each, or (B, T), a token each; got "
            f"{type(strings).__name__} of dtype {getattr(strings, 'dtype', None)} and shape "
            f"{shape}. A keras.Input of strings needs dtype='string'."
        )
    if isinstance(strings, keras.KerasTensor) and keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"{name} cannot take strings inside a model on the {keras.backend.backend()} backend. "
            "Pass character ids, keras.Input((None, 50), dtype='int32'), made with "
            "keras_elmo.encode_sentences or, in tf.data, with UnicodeCharEncoder."
        )
    warn_if_column(shape)


def as_ids(ids: Any, max_id: int, expected: str) -> Any:
    """Ids of any shape as an int32 tensor; Keras' build placeholders are cast.

    Raises ValueError, with the `expected` ids, if the dtype cannot hold ids up to `max_id`.
    """
    if not _is_placeholder(ids) and (problem := _wrong_dtype(ids, max_id)):
        raise ValueError(_message(problem, expected, ids))
    return ops.cast(ids, "int32")


def check_ids(ids: Any, config: ElmoConfig) -> None:
    """Raises ValueError unless a model of this config can read a batch of ids.

    The values of NumPy arrays are checked, those of tensors are not. Warns if character ids have no
    boundaries of sentences.
    """
    if _is_placeholder(ids):
        return
    if isinstance(ids, Sentences):
        raise ValueError(f"This model cannot read strings: ElmoLayer expects {_expected(config)}.")
    row = (config.row_width,) if config.reads_text else ()
    shape, max_ids = tuple(getattr(ids, "shape", ())), _max_ids(config)
    if problem := _wrong_dtype(ids, max_ids.max()) or _wrong_shape(ids, shape, row):
        raise ValueError(_message(problem, f"ElmoLayer expects {_expected(config)}", ids))
    if not isinstance(ids, np.ndarray):
        return  # its values may not be known yet
    if (ids < 0).any() or (ids > max_ids).any():
        raise ValueError(
            f"ElmoLayer expects ids from 0 to {max_ids.max():,}; got {ids.min():,} to "
            f"{ids.max():,}."
        )
    used: Any = ids.any(axis=-1) if row else ids != 0
    if (used[:, 1:] & ~used[:, :-1]).any():
        raise ValueError(
            "ElmoLayer expects padding, ids 0, only at the right: use "
            "keras.utils.pad_sequences(..., padding='post')."
        )
    if config.reads_text and not config.has_lexicon and used.any():
        begin = boundary_row(BEGIN_SENTENCE, config.row_width)
        if not (ids[:, 0] == begin).all(axis=-1).any():
            warn(
                "These character ids have no rows for the boundaries of sentences, and the first "
                "and last token of each sentence are taken for them. Add them to AllenNLP's ids "
                "with keras_elmo.compat.add_sentence_boundaries."
            )


def _is_placeholder(inputs):
    """Whether inputs are floats with which Keras builds a subclassed model, whatever it reads."""
    dtype = getattr(inputs, "dtype", None)
    if dtype is None or not keras.backend.is_float_dtype(_name(dtype)):
        return False
    with keras.SymbolicScope() as scope:
        return scope.original_scope is not None  # Keras is building within one


def _name(dtype):
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _max_ids(config):
    """The largest id in each place of a token's row."""
    if not config.reads_text:
        return np.array(config.vocabulary_size)
    most = np.full(config.row_width, config.num_character_ids)
    if config.word_dim:
        most[0] = config.vocabulary_size
    return most


def _wrong_dtype(ids, max_id):
    name = _name(getattr(ids, "dtype", None))
    if "int" in name:
        if np.iinfo(name).max >= max_id:
            return None
        return f"ids go up to {max_id:,}, which {name} cannot hold: use int32"
    problem = f"ids are integers, but these are of dtype {name}"
    if not isinstance(ids, keras.KerasTensor):
        return problem
    kind = "int32' for ids" if len(ids.shape) == 3 else "string' for strings or 'int32' for ids"
    return f"{problem}: pass dtype='{kind} to keras.Input, or to the Lambda layer that makes them"


def _wrong_shape(ids, shape, row):
    rank = 2 + len(row)
    if len(shape) != rank:
        if row and isinstance(ids, keras.KerasTensor) and len(shape) < 3:
            return (
                "these are integers: after StringLookup(invert=True), whose output Keras takes for "
                "int64, use Lambda(lambda i: tf.gather(words, i), dtype='string') in its place; "
                f"a batch of ids has {rank} axes"
            )
        hint = ": pass a single sentence as ids[None]" if len(shape) == rank - 1 else ""
        return f"a batch of ids has {rank} axes, but this has {len(shape)}{hint}"
    if shape[2:] != row:
        return (
            f"a token of this model has {row[0]} ids, but here it has {shape[2]}: pass "
            f"{row[0]} as max_characters_per_token to encode_sentences or UnicodeCharEncoder"
        )
    if shape[1] in (0, 1):
        return f"a sentence has at least its two boundaries, but here it has {shape[1]} rows of ids"
    return None


def _message(problem, expected, ids):
    shape, name = tuple(getattr(ids, "shape", ())), _name(getattr(ids, "dtype", None))
    return (
        f"{problem[0].upper()}{problem[1:]}. {expected}; got {type(ids).__name__} of dtype {name} "
        f"and shape {shape}."
    )


def _expected(config):
    if not config.reads_text:
        return (
            "integer token ids (B, T + 2), from keras_elmo.encode_token_ids, in a Sequential "
            "model after keras.Input((None,), dtype='int32')"
        )
    encoder = "its lexicon" if config.has_lexicon else "keras_elmo"
    return (
        "strings (B,) or (B, T), in fit and predict by tf.constant; or integer character ids "
        f"(B, T + 2, {config.row_width}) from {encoder}.encode_sentences, in a Sequential model "
        f"after keras.Input((None, {config.row_width}), dtype='int32')"
    )

"""The one table of a biLM's arrays: where each is in a file and in the layers."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from keras_elmo.config import ElmoConfig

if TYPE_CHECKING:
    import numpy as np  # not needed to count parameters, which quick commands do


_MOST_NUMBERS = 1 << 29


@dataclasses.dataclass(frozen=True)
class WeightEntry:
    """One array of a weights file.

    Args:
        name, shape: Name and shape of the array in the file.
        variables: Paths of the layers' variables that hold it, from the `Backbone`.
        split: Makes the values of these variables, to be reshaped, from the array.
        join: Makes the array, to be reshaped, from the values.
    """

    name: str
    shape: tuple[int, ...]
    variables: tuple[str, ...]
    split: Callable[[np.ndarray], list[np.ndarray]] = lambda array: [array]
    join: Callable[..., np.ndarray] = lambda value: value

    @property
    def size(self) -> int:
        """Number of elements of the array."""
        return math.prod(self.shape)


TRANSPOSED = (lambda array: [array.T]), (lambda value: value.T)
"""`split` and `join` of an array that is the transpose of its variable. Tables are compared, so all
have these two functions."""


def weight_table(config: ElmoConfig) -> list[WeightEntry]:
    """Every array of a biLM, in the order of the network; see BILM_TF.md, "Files"."""
    if config.word_dim:
        encoder = _lexicon_entries(config)
    elif config.reads_characters:
        encoder = _character_entries(config, "token_encoder")
    else:
        encoder = [_word_entry(config)]
    return encoder + _lstm_entries(config)


def count_parameters(config: ElmoConfig) -> int:
    """Number of parameters of a biLM, without the softmax, which is not stored with it."""
    return sum(entry.size for entry in weight_table(config))


def check_size(what: str, count: int) -> None:
    """Raises ValueError if a config asks for more than 2**29 numbers: it may be untrusted.

    Each of its options may be plausible by itself. The paper's model has 2**26.5, and a softmax of
    the 1 Billion Word Benchmark 2**28.6.
    """
    if count > _MOST_NUMBERS:
        raise ValueError(
            f"{what} would have {count:,} numbers; at most {_MOST_NUMBERS:,} are allowed."
        )


def check_declared_bytes(path: str | os.PathLike, declared: int) -> None:
    """Raises ValueError if a weights file is far too small for the arrays that it declares."""
    if declared > max_unpacked_bytes(path):
        raise ValueError(
            f"{path} has {os.path.getsize(path):,} bytes, too few for the arrays of {declared:,} "
            "bytes that it or its options declare. The file is corrupt or malicious."
        )


def max_unpacked_bytes(path: str | os.PathLike) -> int:
    """Size that a file's content may have decompressed. Weights hardly compress, attacks do."""
    return max(1 << 26, 100 * os.path.getsize(path))


def _character_entries(config, encoder):
    dim, num_filters = config.char_embedding_dim, config.num_filters
    shape = (config.num_character_ids, dim)
    entries = [WeightEntry("char_embed", shape, (f"{encoder}.char_embedding",))]
    for i, (width, number) in enumerate(config.filters):
        layer = f"{encoder}.convolutions.{i}"
        entries += [
            WeightEntry(f"CNN/W_cnn_{i}", (1, width, dim, number), (f"{layer}.kernel",)),
            WeightEntry(f"CNN/b_cnn_{i}", (number,), (f"{layer}.bias",)),
        ]
    for i in range(config.num_highway):
        for part, attribute in (("carry", "gate"), ("transform", "transform")):
            layer = f"{encoder}.highways.{i}.{attribute}"
            entries += _dense_entries(f"CNN_high_{i}", part, (num_filters, num_filters), layer)
    if config.projects_characters:
        shape = (num_filters, config.projection_dim)
        entries += _dense_entries("CNN_proj", "proj", shape, f"{encoder}.projection")
    return entries


def _lexicon_entries(config):
    """Arrays of words, and of characters if they are read. The names are this package's own."""
    shape, layer = (config.vocabulary_size, config.word_dim), "token_encoder.word_projection"
    words = [WeightEntry("word_embed", shape, ("token_encoder.words.embedding",))]
    projection = _dense_entries("word_proj", "proj", (shape[1], config.projection_dim), layer)
    if not config.reads_characters:
        return words + projection
    # The projection of the characters has the bias.
    return words + projection[:1] + _character_entries(config, "token_encoder.characters")


def _dense_entries(group, part, shape, layer):
    return [
        WeightEntry(f"{group}/W_{part}", shape, (f"{layer}.kernel",)),
        WeightEntry(f"{group}/b_{part}", shape[1:], (f"{layer}.bias",)),
    ]


def _word_entry(config):
    if config.vocabulary_size is None:
        raise ValueError(
            "The options have no n_tokens_vocab, the vocabulary size, which a model that reads "
            "whole words needs."
        )
    shape = (config.vocabulary_size, config.projection_dim)
    return WeightEntry("embedding", shape, ("token_encoder.embedding",))


def _split_kernels(array):
    """The kernels of input and h, which the file joins; gates are in the same order, i j f o."""
    dim = len(array) // 2
    return [array[:dim].T.copy(), array[dim:].T.copy()]  # a view would keep the array in memory


def _join_kernels(kernel, recurrent_kernel):
    import numpy as np

    return np.concatenate([kernel.T, recurrent_kernel.T])


def _lstm_entries(config):
    units, dim = config.lstm_dim, config.projection_dim
    entries = []
    for d, direction in enumerate(("forward", "backward")[: config.num_directions]):
        for i in range(config.num_layers):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            lstm = f"bilm.{direction}_lstms.{i}"
            both = (f"{lstm}.kernel", f"{lstm}.recurrent_kernel")
            entries += [
                WeightEntry(
                    f"{cell}/W_0", (2 * dim, 4 * units), both, _split_kernels, _join_kernels
                ),
                WeightEntry(f"{cell}/B", (4 * units,), (f"{lstm}.bias",)),
            ]
            if config.projects_cells:
                projection = (f"{lstm}.projection_kernel",)
                entries.append(WeightEntry(f"{cell}/W_P_0", (units, dim), projection, *TRANSPOSED))
    return entries

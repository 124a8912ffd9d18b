"""WordEmbedding: rows of a table by id, zero for padding."""

import keras
import numpy as np
import pytest
from keras import ops

from helpers import to_numpy
from keras_elmo import WordEmbedding
from keras_elmo.layers import word_embedding
from keras_elmo.ops.gather import gather
from layer_checks import check_layer

IDS = np.array([[1, 2, 3, 4, 5, 2], [1, 2, 0, 0, 0, 0]], "int32")


def test_layer():
    check_layer(
        lambda **kwargs: WordEmbedding(vocabulary_size=5, projection_dim=3, **kwargs),
        IDS,
        weights=1,
        output_mask=IDS != 0,
    )


def test_numbers(rng):
    table = rng.normal(size=(5, 3)).astype("float32")
    layer = WordEmbedding(5, 3)
    layer.build()
    layer.embedding.assign(table)
    expected = np.vstack([np.zeros((1, 3), "float32"), table])[IDS]
    for dtype in ("int32", "uint8", "uint16"):
        np.testing.assert_array_equal(to_numpy(layer(IDS.astype(dtype))), expected)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="integer token ids .* of dtype float32"):
        WordEmbedding(5, 3)(IDS.astype("float32"))


def test_padding_gets_no_gradient():
    layer = WordEmbedding(5, 3)
    inputs = keras.Input((6,), dtype="int32")
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(1.0), "mse")
    ids = np.array([[0, 0, 0, 0, 0, 4]], "int32")
    before = to_numpy(layer.embedding).copy()
    model.train_on_batch(ids, np.ones((1, 6, 3), "float32"))
    changed = (to_numpy(layer.embedding) != before).any(1)
    assert changed.tolist() == [False, False, False, True, False]


def test_the_table_is_not_cast(monkeypatch):
    """A batch needs few of its rows."""
    seen = []

    def watched(table, ids):
        seen.append(keras.backend.standardize_dtype(ops.convert_to_tensor(table).dtype))
        return gather(table, ids)

    monkeypatch.setattr(word_embedding, "gather", watched)
    layer = WordEmbedding(5, 3, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(layer(IDS).dtype) == "bfloat16"
    assert seen == ["float32"]

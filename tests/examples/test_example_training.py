"""Batches, learning rate and predictions of the examples."""

import keras
import numpy as np
import pytest

import training
from helpers import assert_close, to_numpy
from training import Batches, HalveOnPlateau, predict

LENGTHS = (3, 9, 1, 12, 2)


def items_of(lengths=LENGTHS):
    return [
        {
            "words": np.full(n, i + 1),
            "elmo": np.full((n + 2, 5), i + 1),
            "layers": np.full((3, n, 4), i + 1.0),
        }
        for i, n in enumerate(lengths)
    ]


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_have_every_item_once(seed):
    labels = [np.full(n, i) for i, n in enumerate(LENGTHS)]
    batches = Batches(items_of(), labels, batch_size=2, seed=seed)
    for _ in range(2):
        seen = []
        for inputs, tags in map(batches.__getitem__, range(len(batches))):
            size, width = tags.shape
            assert width % 8 == 0
            assert inputs["words"].shape == (size, width)
            assert inputs["elmo"].shape == (size, width + 2, 5)
            assert inputs["layers"].shape == (size, 3, width, 4)
            np.testing.assert_array_equal(inputs["words"] == 0, tags == -1)
            np.testing.assert_array_equal(inputs["layers"][:, 0, :, 0], inputs["words"])
            seen += tags[:, 0].tolist()
        assert sorted(seen) == [0, 1, 2, 3, 4]
        batches.on_epoch_begin()


def test_labels_of_any_kind():
    _, labels = Batches(items_of(), range(5))[0]
    assert sorted(labels.tolist()) == [0, 1, 2, 3, 4]
    both = [{"class": i, "tags": np.full(n, i)} for i, n in enumerate(LENGTHS)]
    _, labels = Batches(items_of(), both)[0]
    assert labels["class"].shape == (5,) and labels["tags"].shape == (5, 24)
    _, labels = Batches(items_of(), both, batch_size=3)[1]
    assert labels["tags"].shape == (2, 16)
    assert Batches(items_of())[0][1] is None


def test_a_small_text_is_repeated(monkeypatch):
    monkeypatch.setattr(training, "MIN_STEPS", 7)
    batches = Batches(items_of(), range(5), batch_size=2, seed=0)
    assert len(batches) == 9  # three passes of three batches
    batches.on_epoch_begin()
    rows = np.concatenate(batches.batches)
    assert np.bincount(rows).tolist() == [3] * 5
    assert len(Batches(items_of(), range(5), batch_size=2)) == 3


@pytest.mark.parametrize("lengths", [(8, 8, 8, 30, 2), (8, 16, 24), (24, 8, 16), (3, 3, 3), (1,)])
def test_texts_of_any_lengths_can_be_trained_on(lengths, monkeypatch):
    """Keras takes sizes from the first two batches: the lengths of two texts in any combination."""
    monkeypatch.setattr(training, "MIN_STEPS", 2)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("one", "other")}
    pooled = [
        keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(9, 2, mask_zero=True)(x))
        for x in inputs.values()
    ]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(pooled)))
    items = [
        {"one": np.ones(n, int), "other": np.ones(m, int)}
        for n, m in zip(lengths, reversed(lengths))
    ]
    model.compile(loss="mse", jit_compile=training.COMPILE_WITH_XLA)
    labels = [1.0] * len(items)
    batches = Batches(items, labels, batch_size=1, seed=0)
    history = model.fit(batches, validation_data=Batches(items, labels, 1), epochs=3, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_predictions_are_in_the_order_of_the_items():
    inputs = {"words": keras.Input((None,), dtype="int32", name="words")}
    outputs = {"words": inputs["words"] + 0, "most": keras.ops.max(inputs["words"], axis=1)}
    lengths = LENGTHS * 8  # more than a batch
    items = [{"words": x["words"]} for x in items_of(lengths)]
    found = predict(keras.Model(inputs, outputs), items)
    assert [x["most"] for x in found] == list(range(1, 41))
    for x, length in zip(found, lengths):
        assert (x["words"][:length] == x["most"]).all() and not x["words"][length:].any()


def fit(scores, **options):
    """Trains for as many epochs as the callbacks let it; learning rates and weights of each."""
    scores = iter(scores)
    rates, weights = [], []

    def begin(epoch, logs):
        rates.append(float(to_numpy(model.optimizer.learning_rate)))

    def end(epoch, logs):
        logs["score"] = next(scores)
        weights.append(to_numpy(model.weights[0]))

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.5), "mse")
    best = keras.callbacks.EarlyStopping("score", mode="max", patience=3, restore_best_weights=True)
    record = keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_epoch_end=end)
    x = np.ones((4, 1), "float32")
    callbacks = [record, HalveOnPlateau("score", 2), best]
    model.fit(x, x, epochs=20, callbacks=callbacks, verbose=0)
    return rates, weights, best, to_numpy(model.weights[0])


def test_the_rate_is_halved_once_the_score_has_left_0():
    rates, weights, best, kept = fit([0.0, 0.0, 0.0, 0.4, 0.5, 0.4, 0.4, 0.6, 0.1, 0.1, 0.1, 0.9])
    assert len(rates) == 11 and (best.best, best.best_epoch) == (0.6, 7)
    assert_close(np.array(rates), np.array([0.5] * 7 + [0.25] * 3 + [0.125]))
    assert_close(kept, weights[7])


def test_a_perfect_score_ends_the_training():
    rates, weights, best, kept = fit([0.5, 1.0, 0.0])
    assert len(rates) == 2 and best.best == 1
    assert_close(kept, weights[1])

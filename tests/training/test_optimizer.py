"""Adagrad in one pass, and the learning rate that holds and falls."""

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo.training.optimizer import FusedAdagrad, TrapezoidSchedule


def rates(schedule, steps):
    return [float(to_numpy(schedule(step))) for step in steps]


@pytest.mark.parametrize("compiled", [False, True])
def test_adagrad_is_that_of_keras(rng, compiled):
    x, y = rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=(8, 2)).astype("float32")
    first = [rng.normal(size=shape) for shape in ((3, 2), (2,))]
    found = []
    for make in (FusedAdagrad, keras.optimizers.Adagrad):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.set_weights(first)
        # Keras adds epsilon within the root; here there is none, as in TensorFlow 1.
        optimizer = make(0.1, epsilon=0.0, global_clipnorm=0.1)
        model.compile(optimizer, loss="mse", run_eagerly=not compiled)
        for _ in range(5):
            model.train_on_batch(x, y)
        found.append([to_numpy(v) for v in [*model.weights, *optimizer.variables]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-7)
    assert np.abs(found[0][0] - first[0]).min() > 0.005


def test_trapezoid_at_each_stage():
    schedule = TrapezoidSchedule(0.5, total_steps=20, warmup_steps=4, cooldown_steps=5)
    np.testing.assert_allclose(rates(schedule, range(4)), [0.125, 0.25, 0.375, 0.5])
    assert rates(schedule, range(4, 16)) == [0.5] * 12
    np.testing.assert_allclose(rates(schedule, range(16, 20)), [0.4, 0.3, 0.2, 0.1], rtol=1e-6)
    assert rates(schedule, (20, 25)) == [0, 0]


@pytest.mark.parametrize(
    "total, ends, expected",
    [(3, {}, [0.5] * 4), (4, {"warmup_steps": 2, "cooldown_steps": 2}, [0.25, 0.5, 0.5, 0.25, 0])],
)
def test_trapezoid_without_ends_and_without_a_middle(total, ends, expected):
    assert rates(TrapezoidSchedule(0.5, total, **ends), range(len(expected))) == expected


def test_trapezoid_round_trip():
    schedule = TrapezoidSchedule(0.5, total_steps=20, warmup_steps=4, cooldown_steps=5)
    config = keras.saving.serialize_keras_object(schedule)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == schedule.get_config()
    assert rates(again, range(22)) == rates(schedule, range(22))


def test_trapezoid_must_fit():
    with pytest.raises(ValueError, match="4 steps of warm-up and 7 of cool-down do not fit"):
        TrapezoidSchedule(0.5, total_steps=10, warmup_steps=4, cooldown_steps=7)

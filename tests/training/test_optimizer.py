"""The learning rate that holds and falls."""

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo.training.optimizer import TrapezoidSchedule


def rates(schedule, steps):
    return [float(to_numpy(schedule(step))) for step in steps]


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

"""One check of each type, with one message, wherever an argument of that type is taken."""

import numpy as np
import pytest

from keras_elmo import ElmoConfig, ElmoLayer, WeightedLayerSum
from keras_elmo.arguments import check_boolean, check_integer, check_mix_weights, check_number


def test_valid_values_become_python_numbers():
    for value in (3, np.int64(3), np.uint8(3)):
        assert type(check_integer("x", value, 1, 3)) is int
    for value in (3, 0.5, np.float32(0.5), np.int16(3)):
        assert type(check_number("x", value, above=0, below=4)) is float
    for value in (True, np.bool_(True)):
        assert check_boolean("x", value) is True


@pytest.mark.parametrize("value", [0, 5, 1.0, "2", True, None, [2]])
def test_what_is_no_integer_in_a_range(value):
    with pytest.raises(ValueError, match="^x must be an integer from 1 to 4; got "):
        check_integer("x", value, 1, 4)
    with pytest.raises(ValueError, match="^x must be an integer of at least 1,000; got "):
        check_integer("x", value, 1000)


@pytest.mark.parametrize("value", [-1, 1, float("nan"), "0.5", True, None, 1j])
def test_what_is_no_number_in_a_range(value):
    with pytest.raises(ValueError, match="^x must be a number of at least 0 and below 1; got "):
        check_number("x", value, least=0, below=1)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match="^x must be a number that is finite; got "):
        check_number("x", value)


@pytest.mark.parametrize("value", ["no", "True", 1, 0, None])
def test_what_is_no_boolean(value):
    with pytest.raises(ValueError, match="^x must be True or False; got "):
        check_boolean("x", value)


CONFIG = ElmoConfig(filters=None, lstm_dim=2, projection_dim=2, num_layers=1, vocabulary_size=3)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (ElmoConfig, {"use_skip_connections": "no", "lstm_dim": "4", "cell_clip": "3"}),
        (WeightedLayerSum, {"use_top_only": "no", "layer_norm": 1, "l2": "1", "dropout": "0.5"}),
        (
            lambda **arguments: ElmoLayer(None, config=CONFIG, **arguments),
            {
                **{"stateful": "no", "layer_norm": "no", "use_top_only": 1, "trainable_mix": "no"},
                **{"trainable_bilm": 0, "num_mixes": True, "max_batch_size": "8", "gamma": "1"},
                **{"dropout": "0.5", "l2": "0.1", "mix_weights": ("0.5", "0.5")},
            },
        ),
    ],
)
def test_text_and_numbers_are_no_booleans_and_text_is_no_number(make, wrong):
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"{name} must be (an? .*|True or False); got"):
            make(**{name: value})


@pytest.mark.parametrize("value", ["abc", {"a": 1}, None, [[1.0]], [1.0], [0.5, 0.6], [-1.0, 2.0]])
def test_what_are_no_shares_of_layers(value):
    with pytest.raises(ValueError, match="^x must be 2 numbers of at least 0 with the sum 1"):
        check_mix_weights("x", value, 2)

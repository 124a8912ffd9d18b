"""Highway against the NumPy reference."""

import numpy_reference as reference
from helpers import assert_close, to_numpy
from keras_elmo import Highway
from layer_checks import check_layer


def test_layer(rng):
    inputs = rng.normal(size=(3, 2, 5)).astype("float32")
    check_layer(lambda **kwargs: Highway(**kwargs), inputs, weights=4)


def test_numbers(rng):
    inputs = rng.normal(size=(4, 5)).astype("float32")
    layer = Highway()
    layer.build(inputs.shape)
    weights = {}
    for part, dense in (("carry", layer.gate), ("transform", layer.transform)):
        weights[f"h/W_{part}"] = rng.normal(size=(5, 5))
        weights[f"h/b_{part}"] = rng.normal(size=5)
        dense.kernel.assign(weights[f"h/W_{part}"])
        dense.bias.assign(weights[f"h/b_{part}"])
    assert_close(to_numpy(layer(inputs)), reference.highway(inputs.astype("float64"), weights, "h"))

"""The layer that the tests of exports write."""

import pytest

from export_checks import TINY
from keras_elmo import ElmoLayer


@pytest.fixture(scope="session")
def elmo():
    layer = ElmoLayer(TINY)
    layer.mixes[0].layer_weights.assign([0.5, -1.0, 2.0])
    layer.mixes[0].gamma.assign([1.5])
    return layer

"""The bidirectional LSTM of the examples."""

import numpy as np

from bilstm import BiLSTM
from helpers import assert_close, to_numpy
from layer_checks import check_layer


def test_contract(rng):
    inputs = rng.normal(size=(2, 5, 3)).astype("float32")
    check_layer(lambda **options: BiLSTM(4, **options), inputs, weights=6)


def test_reads_from_both_ends_and_no_padding(rng):
    inputs = rng.normal(size=(1, 5, 3)).astype("float32")
    layer = BiLSTM(4)
    outputs = to_numpy(layer(inputs))
    padded = np.pad(inputs, ((0, 0), (0, 3), (0, 0)), constant_values=9.0)
    assert_close(to_numpy(layer(padded, mask=np.arange(8)[None] < 5))[:, :5], outputs)
    # The half of each direction knows what it has read, and nothing of the rest.
    changed = inputs.copy()
    changed[:, 2] += 1
    same = np.isclose(to_numpy(layer(changed)), outputs, atol=1e-6)
    assert same[:, :2, :4].all() and not same[:, 2:, :4].all(-1).any()
    assert same[:, 3:, 4:].all() and not same[:, :3, 4:].all(-1).any()

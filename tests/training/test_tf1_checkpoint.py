"""Training checkpoints of bilm-tf, of every kind of model."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from helpers import to_numpy
from keras_elmo import BidirectionalLanguageModel
from keras_elmo.training.loading import load_tf1_checkpoint
from training_models import BATCH, CONFIG, WORDS, tiny_model, write_tf1_checkpoint


@pytest.mark.parametrize(  # each pair of values
    "config, shares_softmax, bidirectional, num_layers",
    [
        (CONFIG, False, True, 2),
        (CONFIG, False, False, 1),
        (WORDS, False, True, 1),
        (WORDS, False, False, 2),
        (WORDS, True, True, 2),
        (WORDS, True, False, 1),
    ],
)
def test_weights_accumulators_and_steps(
    tmp_path, config, shares_softmax, bidirectional, num_layers
):
    config = dataclasses.replace(config, bidirectional=bidirectional, num_layers=num_layers)
    saved = tiny_model(config, share_embedding_softmax=shares_softmax)
    write_tf1_checkpoint(saved, tmp_path / "model.ckpt-7", steps=7)
    model = tiny_model(config, seed=1, share_embedding_softmax=shares_softmax)
    model.compile()
    assert load_tf1_checkpoint(model, tmp_path) == 7
    variables = model.trainable_variables
    accumulators = model.optimizer.variables[-len(variables) :]
    for variable, accumulator, expected in zip(variables, accumulators, saved.trainable_variables):
        expected = to_numpy(expected)
        np.testing.assert_array_equal(to_numpy(variable), expected)
        scale = model.unroll_steps**2  # of the gradients of bilm-tf, squared
        np.testing.assert_allclose(to_numpy(accumulator) * scale, np.abs(expected) + 1, rtol=1e-6)
    assert int(model.optimizer.iterations) == 7


@pytest.mark.parametrize("bidirectional", [True, False])
def test_options_of_other_directions_are_refused(tmp_path, bidirectional):
    config = dataclasses.replace(WORDS, bidirectional=bidirectional)
    write_tf1_checkpoint(tiny_model(config), tmp_path / "model.ckpt-7", steps=7)
    other = dataclasses.replace(WORDS, bidirectional=not bidirectional)
    model = BidirectionalLanguageModel(other, 127, **BATCH)
    missing = "lm/rnn/" if bidirectional else "lm/RNN_0/rnn/"
    with pytest.raises(
        ValueError, match=f"does not match the architecture in the options: missing {missing}"
    ):
        load_tf1_checkpoint(model, tmp_path)

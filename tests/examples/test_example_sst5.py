"""The classifier of the examples."""

import pytest

import sst5
from example_programs import TREES, experiment_of
from helpers import assert_close, to_numpy


def test_trees(tmp_path):
    (tmp_path / "trees.txt").write_text(TREES)
    data = sst5.read_trees("trees.txt")
    assert data.sentences[:2] == [["It", "'s", "fun"], ["The", "plot", "(", "bad", ")"]]
    assert data.sentences[2] == ["fun", "/"] and data.answers.tolist() == [3, 1, 4, 0]


@pytest.mark.parametrize("placement", ["input", "output"])
def test_elmo_is_dropped_where_it_joins(placement):
    experiment = experiment_of("sst5", "--placement", placement, "--no-cache")
    inputs, model = experiment.make_model("glove+elmo")
    for dropout in (model.projection_dropout, *model.maxout_dropouts):
        dropout.rate = 0
    batch, _ = experiment.batches(model, inputs, "test")[0]
    first, second = (to_numpy(model(batch, training=True)) for _ in range(2))
    assert (first != second).any()
    assert_close(to_numpy(model(batch)), to_numpy(model(batch)), tolerance=1e-6)
    widths = []
    model.drop.call = lambda x, training: widths.append((x.shape[-1], training)) or x
    model(batch, training=True)
    words, elmo = model.word_dim, model.elmo.config.output_dim
    expected = {"input": [words + elmo], "output": [words, elmo]}
    assert widths == [(width, True) for width in expected[placement]]

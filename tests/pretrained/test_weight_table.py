"""The table of arrays against bilm-tf's own files."""

import pytest

from helpers import GOLDEN, VARIANTS
from keras_elmo import ElmoConfig, get_model
from keras_elmo.pretrained.hdf5 import open_arrays
from keras_elmo.pretrained.weight_table import count_parameters, weight_table


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_and_shapes_are_those_of_the_file(variant):
    config = ElmoConfig.from_json(GOLDEN / variant / "options.json")
    table = {entry.name: entry.shape for entry in weight_table(config)}
    with open_arrays(GOLDEN / variant / "weights.hdf5") as found:
        assert table == {name: array.shape for name, array in found.items()}


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("small", 13_593_296),
        ("medium", 28_027_728),
        ("original", 93_600_848),
        ("original-5.5b", 93_600_848),
        ("pubmed", 93_600_848),
    ],
)
def test_parameters_of_the_published_models(name, parameters):
    assert count_parameters(get_model(name).config) == parameters


def test_word_models_have_a_table_of_words():
    config = ElmoConfig(filters=None, vocabulary_size=9, lstm_dim=8, projection_dim=4)
    assert (weight_table(config)[0].name, weight_table(config)[0].shape) == ("embedding", (9, 4))
    with pytest.raises(ValueError, match="options have no n_tokens_vocab"):
        weight_table(ElmoConfig(filters=None))

"""Training checkpoints of bilm-tf, of every kind of model."""

import dataclasses
import os

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from helpers import to_numpy
from keras_elmo import load_language_model
from training_models import CONFIG, WORDS, tiny_model, vocabulary, write_tf1_checkpoint


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
def test_weights_and_softmax(tmp_path, config, shares_softmax, bidirectional, num_layers):
    config = dataclasses.replace(config, bidirectional=bidirectional, num_layers=num_layers)
    saved = tiny_model(config, share_embedding_softmax=shares_softmax)
    write_tf1_model(saved, tmp_path)
    model, words = load_language_model(tmp_path)
    assert words == vocabulary() and model.share_embedding_softmax == shares_softmax
    expected = saved.trainable_variables
    for variable, value in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_array_equal(to_numpy(variable), to_numpy(value))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_options_of_other_directions_are_refused(tmp_path, bidirectional):
    saved = tiny_model(dataclasses.replace(WORDS, bidirectional=bidirectional))
    write_tf1_model(saved, tmp_path)
    dataclasses.replace(saved.config, bidirectional=not bidirectional).to_json(
        tmp_path / "options.json"
    )
    what = "unknown RNN_1/RNN" if bidirectional else "missing RNN_1/RNN"
    message = f"model.ckpt-7 do not match the architecture in the options:\n  {what}"
    with pytest.raises(ValueError, match=message):
        load_language_model(tmp_path)


def test_a_model_of_another_size_is_refused(tmp_path):
    write_tf1_model(tiny_model(), tmp_path)
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\na\n")
    (tmp_path / "vocabulary.txt").unlink()
    with pytest.raises(ValueError, match="has 4 words, the model predicts 127"):
        load_language_model(tmp_path, tmp_path / "words.txt")


@pytest.mark.parametrize("name", ["model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"])
@pytest.mark.parametrize("share", [0.3, 0])
def test_a_truncated_checkpoint_is_named(tmp_path, name, share):
    write_tf1_model(tiny_model(WORDS), tmp_path)
    path = tmp_path / name
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(ValueError, match=r"model\.ckpt-7 is damaged, truncated or incomplete"):
        load_language_model(tmp_path)
    path.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match="incomplete|must hold options"):
        load_language_model(tmp_path)


def write_tf1_model(model, folder):
    """Writes what a user of bilm-tf has: a checkpoint, its options and its vocabulary."""
    write_tf1_checkpoint(model, folder / "model.ckpt-7", steps=7)
    model.config.to_json(folder / "options.json")
    vocabulary().write(folder / "vocabulary.txt")

"""ElmoLayer against the outputs of bilm-tf itself."""

import json

import h5py
import keras
import numpy as np
import pytest

from helpers import GOLDEN
from keras_elmo import ElmoLayer, encode_sentences, encode_token_ids

VARIANTS = ["default", "no_lstm_projection", "noskip", "short_words", "three_layers"]
SENTENCES = json.loads((GOLDEN / "sentences.json").read_text())
TOLERANCE = 5e-6


def outputs_of(variant):
    return np.load(GOLDEN / variant / "outputs.npz")


def assert_close(actual, expected, mask):
    """Compares over unmasked positions, relative to the largest magnitude; the rest must be 0."""
    actual = np.asarray(keras.ops.convert_to_numpy(actual), "float64")
    assert actual.shape == expected.shape
    mask = np.broadcast_to(mask, actual.shape)
    error = np.abs(actual - expected)[mask].max() / max(1.0, np.abs(expected[mask]).max())
    assert error <= TOLERANCE
    assert not actual[~mask].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_layers(variant):
    golden = outputs_of(variant)
    elmo = ElmoLayer(GOLDEN / variant, vectors="layers")
    assert_close(
        elmo(SENTENCES["batch"]), golden["lm_embeddings"], golden["mask"][:, None, :, None]
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_token_vectors(variant):
    elmo = ElmoLayer(GOLDEN / variant)
    ids = encode_sentences(SENTENCES["batch"], elmo.config.max_characters_per_token)
    valid = ids.any(-1)[..., None]
    vectors = keras.ops.convert_to_numpy(elmo.token_encoder(ids))
    assert_close(vectors * valid, outputs_of(variant)["token_embeddings"] * valid, valid)


MIXES = {"init": {}, "plain": {}, "ln": {"layer_norm": True}, "top": {"use_top_only": True}}


@pytest.mark.parametrize(
    "variant, mix",
    [
        *(("default", mix) for mix in MIXES),
        *((variant, "plain") for variant in ("no_lstm_projection", "noskip", "short_words")),
    ],
)
def test_mixes(variant, mix):
    golden = outputs_of(variant)
    elmo = ElmoLayer(GOLDEN / variant, **MIXES[mix])
    if mix != "init":
        elmo.mixes[0].gamma.assign(golden["mix_gamma"])
    if mix in ("plain", "ln"):
        elmo.mixes[0].layer_weights.assign(golden["mix_W"])
    assert_close(elmo(SENTENCES["batch"]), golden[f"mix_{mix}"], golden["mask"][..., None])


@pytest.mark.parametrize("variant", VARIANTS)
def test_state_carried_over_batches(variant):
    golden = outputs_of(variant)
    elmo = ElmoLayer(GOLDEN / variant, vectors="layers", stateful=True)
    for _ in range(2):
        for i, batch in enumerate(SENTENCES["carry"]):
            assert_close(elmo(batch), golden[f"stateful_{i}"], mask_of(batch))
        elmo.reset_states()


def test_token_ids_and_stored_token_vectors():
    folder = GOLDEN / "default"
    golden = np.load(folder / "token_input_outputs.npz")
    elmo = ElmoLayer(folder, vectors="layers", token_embeddings=folder / "token_embeddings.hdf5")
    ids = encode_token_ids(SENTENCES["batch"][:9], GOLDEN / "vocab.txt")
    assert_close(elmo(ids), golden["lm_embeddings"], golden["mask"][:, None, :, None])


def test_a_file_of_sentences_with_state_carried_from_line_to_line():
    elmo = ElmoLayer(GOLDEN / "default", vectors="layers", stateful=True)
    lines = (GOLDEN / "dataset.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(GOLDEN / "default" / "bilm_embeddings.hdf5") as golden:
        assert len(golden) == len(lines)
        for i, line in enumerate(lines):
            assert_close(elmo([line])[0], golden[str(i)][()], True)


def mask_of(batch):
    longest = max(map(len, batch))
    return np.array([[t < len(s) for t in range(longest)] for s in batch])[:, None, :, None]

"""The NumPy reference against bilm-tf's outputs: what judges the layers is judged itself."""

import json

import h5py
import numpy as np
import pytest

import numpy_reference as reference
from helpers import GOLDEN, assert_close


@pytest.mark.parametrize("variant", ["default", "no_lstm_projection", "noskip", "three_layers"])
def test_layers_and_mixes(variant):
    options = json.loads((GOLDEN / variant / "options.json").read_text())
    golden = np.load(GOLDEN / variant / "outputs.npz")
    weights = {}
    with h5py.File(GOLDEN / variant / "weights.hdf5") as file:
        file.visititems(
            lambda name, item: (
                weights.update({name: item[()].astype("float64")})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    ids = golden["char_ids"].astype(int)
    tokens = reference.encode_tokens(ids, weights, options)
    valid = ids.any(-1)
    assert_close(tokens * valid[..., None], golden["token_embeddings"] * valid[..., None])
    layers, _ = reference.run_bilm(tokens, valid.sum(1), weights, options)
    layers, mask = layers[:, :, 1:-1], golden["mask"]
    layers = layers * mask[:, None, :, None]
    assert_close(layers, golden["lm_embeddings"] * mask[:, None, :, None], 5e-6)
    if variant == "three_layers":
        return
    weighted = (golden["mix_W"].astype("float64"), golden["mix_gamma"].astype("float64"))
    for name, (w, gamma), arguments in (
        ("init", (np.zeros(3), 1.0), {}),
        ("plain", weighted, {}),
        ("ln", weighted, {"layer_norm": True}),
        ("top", weighted, {"use_top_only": True}),
    ):
        expected = golden[f"mix_{name}"] * mask[..., None]
        assert_close(reference.mix(layers, mask, w, gamma, **arguments), expected, 5e-6)

"""Training against bilm-tf itself: losses, gradients and every variable after its steps."""

import functools
import json
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from helpers import tensorflow_only, to_numpy
from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoConfig,
    ElmoLayer,
    encode_sentences,
    export_hdf5,
    load_language_model,
)
from keras_elmo.pretrained.weight_table import weight_table
from keras_elmo.pretrained.weights import variable_at
from keras_elmo.training import evaluation

GOLDEN = Path(__file__).parents[1] / "golden" / "training"
CHECKPOINT = GOLDEN / "train_tiny_ckpt" / "model.ckpt-30"
VOCABULARY = GOLDEN / "train_tiny_data" / "vocab.txt"
TOLERANCE = 1e-5
PARTS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


def tf1_name(name):
    if not name.startswith("RNN"):
        return f"lm/{name}"
    direction, _, _, cell, _, part = name.split("/")
    return f"lm/{direction}/rnn/multi_rnn_cell/cell_{cell[4:]}/lstm_cell/{PARTS[part]}"


def model_of(run, **arguments):
    golden = np.load(GOLDEN / f"train_tiny{run}.npz")
    options = json.loads(golden["options"].item())
    model = BidirectionalLanguageModel(
        options,
        options["n_tokens_vocab"],
        batch_size=options["batch_size"],
        unroll_steps=options["unroll_steps"],
        dropout=options["dropout"],
        num_negative_samples=64 if options["sample_softmax"] else 0,
        **arguments,
    )
    set_variables(model, {name[5:]: golden[name] for name in golden if name.startswith("init/")})
    return model, golden


def grouped_variables(model):
    """Names of TF1 with the variables that hold each array, and whether they are transposed."""
    groups = {
        tf1_name(entry.name): (
            [variable_at(model.backbone, path) for path in entry.variables],
            "/LSTMCell/W_" in entry.name,
        )
        for entry in weight_table(model.config)
    }
    return {
        **groups,
        "lm/softmax/W": ([model.softmax.kernel], False),
        "lm/softmax/b": ([model.softmax.bias], False),
    }


def set_variables(model, arrays):
    for name, (variables, is_transposed) in grouped_variables(model).items():
        parts = [arrays[name]]
        if len(variables) > 1:
            # One array holds the kernels of input and of h, of the same size here.
            parts = np.split(arrays[name], len(variables))
        for variable, part in zip(variables, parts):
            variable.assign((part.T if is_transposed else part).reshape(variable.shape))


def assert_variables(model, golden, prefix, value_of, scale=1.0):
    for name, (variables, is_transposed) in grouped_variables(model).items():
        expected = golden[f"{prefix}/{name}"]
        values = [value_of(variable) for variable in variables]
        found = np.concatenate([v.T if is_transposed else v for v in values]) * scale
        found = found.reshape(expected.shape).astype("float64")
        error = np.abs(found - expected).max() / max(1e-3, np.abs(expected).max())
        assert error <= TOLERANCE, (name, error)


def batches_of(golden):
    names = [name for name in golden if name.startswith("batch/")]
    for step in range(len(golden["loss"])):
        batch = {name[6:]: golden[name][step].astype("int32") for name in names}
        # bilm-tf trains without the shift by one of its inference ids.
        yield {
            name: array + 1 if name.startswith("tokens_characters") else array
            for name, array in batch.items()
        }


def train(model, golden):
    for step, batch in enumerate(batches_of(golden)):
        model.reset_metrics()
        logs = model.train_on_batch(batch, return_dict=True)
        for name, expected in (
            ("loss", golden["loss"][step]),
            ("perplexity_forward", np.exp(golden["loss_forward"][step])),
            ("perplexity_backward", np.exp(golden["loss_backward"][step])),
        ):
            np.testing.assert_allclose(logs[name], expected, rtol=TOLERANCE)


def accumulators(model):
    variables = model.optimizer.variables[-len(model.trainable_variables) :]
    return {v.path: a for v, a in zip(model.trainable_variables, variables)}


def check_end(model, golden):
    assert_variables(model, golden, "final", lambda v: to_numpy(v.value))
    slots = accumulators(model)
    scale = model.unroll_steps**2
    assert_variables(
        model, golden, "final_accumulator", lambda v: to_numpy(slots[v.path].value), scale
    )


@pytest.mark.parametrize("run", ["", "_nocarry", "_words"])
def test_training(run):
    model, golden = model_of(run, carry_state=run != "_nocarry")
    model.compile()
    train(model, golden)
    check_end(model, golden)
    if run == "":
        check_state(model, golden)


def check_state(model, golden):
    for part, variable in zip("hc", model.training_state.variables):
        state = to_numpy(variable.value)
        for d, direction in enumerate(("fw", "bw")):
            for layer in range(2):
                expected = golden[f"state/final_state_{direction}_{layer}_{part}"][-1]
                np.testing.assert_allclose(state[:, d, layer], expected, atol=TOLERANCE)


@pytest.mark.slow
def test_training_with_xla():
    model, golden = model_of("")
    model.compile(jit_compile=keras.backend.backend() != "torch")
    train(model, golden)
    check_end(model, golden)


def test_sampled_training_with_the_recorded_negatives(monkeypatch):
    model, golden = model_of("_sampled")
    model.compile(run_eagerly=True)
    calls = iter((i, d) for i in range(len(golden["loss"])) for d in ("fw", "bw"))

    def draw(targets):
        step, direction = next(calls)
        arrays = (
            golden[f"sampled/ids_{direction}"][step].astype("int32"),
            golden[f"sampled/true_expected_{direction}"][step, :, 0],
            golden[f"sampled/sampled_expected_{direction}"][step],
        )
        return tuple(map(ops.convert_to_tensor, arrays))

    monkeypatch.setattr(model.softmax, "draw", draw)
    train(model, golden)
    assert next(calls, None) is None
    check_end(model, golden)


def test_training_with_the_recorded_dropout(monkeypatch):
    model, golden = model_of("_dropout")
    model.compile(run_eagerly=True)
    names = list(golden["mask_names"])

    def recorded(step):
        """Masks (B, T, P) as the model asks for them: LSTM inputs, then the top, per direction."""
        for d in range(2):
            for layer in range(2):
                steps = [
                    golden[f"mask/{names.index(time_name(d, layer, t)):03d}"][step]
                    for t in range(8)
                ]
                yield d, np.stack(steps, axis=1)
            top = names.index(f"lm/dropout{'_1' * d}/GreaterEqual")
            yield d, golden[f"mask/{top:03d}"][step].reshape(4, 8, 16)

    queue = [item for step in range(len(golden["loss"])) for item in recorded(step)]

    def drop(x, training):
        direction, mask = queue.pop(0)
        # The backward stream is run from its last place to its first.
        mask = mask[:, ::-1] if direction else mask
        return x * ops.convert_to_tensor(mask.astype("float32") / np.float32(0.9))

    monkeypatch.setattr(model.backbone.bilm, "_drop", drop)
    train(model, golden)
    assert not queue
    check_end(model, golden)


def time_name(direction, layer, time):
    ending = f"_{time}" * (time > 0)
    return f"lm/RNN_{direction}/rnn/rnn/multi_rnn_cell/cell_{layer}{ending}/dropout/GreaterEqual"


@pytest.mark.parametrize("run", ["", "_nocarry", "_words"])
def test_first_gradients(run):
    model, golden = model_of(run, carry_state=run != "_nocarry")
    # So large a step that nothing is left of the weights in the difference.
    rate = 2.0**20
    model.compile(keras.optimizers.SGD(rate), run_eagerly=True)
    before = {v.path: to_numpy(v.value) for v in model.trainable_variables}
    model.train_on_batch(next(batches_of(golden)))
    assert_variables(
        model,
        golden,
        "grad1",
        lambda v: before[v.path] - to_numpy(v.value),
        scale=model.unroll_steps / rate,
    )


@tensorflow_only
def test_a_checkpoint_of_bilm_tf_gives_its_perplexities(monkeypatch):
    # Compiled once for each batch size.
    monkeypatch.setattr(evaluation, "Scorer", functools.cache(evaluation.Scorer))
    model, vocabulary = load_language_model(CHECKPOINT, VOCABULARY)
    recorded = json.loads((GOLDEN / "train_tiny_perplexity.json").read_text())
    assert len(recorded) == 6
    for key, expected in recorded.items():
        name, batch = key.split("/")
        found, steps = evaluation.bilm_tf_perplexity(
            model,
            GOLDEN / "train_tiny_data" / name,
            vocabulary,
            batch_size=int(batch.removeprefix("batch")),
        )
        assert steps == expected["n_batches"]
        np.testing.assert_allclose(found, expected["perplexity"], rtol=TOLERANCE)


@tensorflow_only
def test_a_checkpoint_of_bilm_tf_has_the_weights_at_the_end_of_its_training():
    _, golden = model_of("")
    model, _ = load_language_model(CHECKPOINT.parent, VOCABULARY)
    assert_variables(model, golden, "final", lambda v: to_numpy(v.value))


@tensorflow_only
def test_export_of_a_checkpoint_is_bilm_tfs_own_dump(tmp_path):
    import h5py

    tmp_path /= "exported"
    assert set(export_hdf5(CHECKPOINT, tmp_path, vocabulary=VOCABULARY).values()) == {0}
    with h5py.File(GOLDEN / "train_tiny_weights.hdf5") as expected:
        table = weight_table(ElmoConfig.from_json(tmp_path / "options.json"))
        with h5py.File(tmp_path / "weights.hdf5") as found:
            for entry in table:
                np.testing.assert_array_equal(found[entry.name][()], expected[entry.name][()])
    ids = encode_sentences([["The", "lamp"], ["café"]], 20)
    mine = ElmoLayer(tmp_path, vectors="layers")(ids)
    theirs = ElmoLayer(
        (GOLDEN / "train_tiny_infer_options.json", GOLDEN / "train_tiny_weights.hdf5"),
        vectors="layers",
    )(ids)
    np.testing.assert_array_equal(to_numpy(mine), to_numpy(theirs))

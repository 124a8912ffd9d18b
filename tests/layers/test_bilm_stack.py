"""BiLMStack, and with it ProjectedLSTM, against the NumPy reference."""

import keras
import numpy as np
import pytest

import numpy_reference as reference
from helpers import assert_close, to_numpy
from keras_elmo import BiLMStack, ProjectedLSTM
from layer_checks import check_layer

LENGTHS = np.array([5, 2, 4])
MASK = np.arange(5) < LENGTHS[:, None]


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(3, 5, 4)).astype("float32")


def options_of(num_layers=2, units=6, use_skip_connections=True, clip=3.0):
    return {
        "lstm": {
            "dim": units,
            "projection_dim": 4,
            "n_layers": num_layers,
            "cell_clip": clip,
            "proj_clip": clip,
            "use_skip_connections": use_skip_connections,
        }
    }


def make(options, weights, bidirectional=True):
    options = options["lstm"]
    stack = BiLMStack(
        lstm_dim=options["dim"],
        projection_dim=options["projection_dim"],
        num_layers=options["n_layers"],
        cell_clip=options["cell_clip"],
        proj_clip=options["proj_clip"],
        use_skip_connections=options["use_skip_connections"],
        bidirectional=bidirectional,
    )
    stack.build((None, None, 4))
    for d, lstms in enumerate(stack.directions):
        for i, lstm in enumerate(lstms):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            kernel, recurrent_kernel = np.split(weights[f"{cell}/W_0"], 2)
            lstm.kernel.assign(kernel.T)
            lstm.recurrent_kernel.assign(recurrent_kernel.T)
            lstm.bias.assign(weights[f"{cell}/B"])
            if lstm.projection_kernel is not None:
                lstm.projection_kernel.assign(weights[f"{cell}/W_P_0"].T)
    return stack


def test_layer(inputs):
    check_layer(
        lambda **kwargs: BiLMStack(lstm_dim=6, projection_dim=4, **kwargs), inputs, weights=16
    )


@pytest.mark.parametrize(
    "mask, has_state, bidirectional",
    [(MASK, True, True), (MASK, False, False), (None, True, False), (None, False, True)],
)
@pytest.mark.parametrize(
    "num_layers, units, use_skip_connections, clip",
    [(1, 6, True, None), (2, 6, True, 0.3), (2, 6, False, None), (3, 4, True, 0.3)],
)
def test_numbers(
    rng, inputs, num_layers, units, use_skip_connections, clip, mask, has_state, bidirectional
):
    options = options_of(num_layers, units, use_skip_connections, clip)
    d = 2 if bidirectional else 1
    weights = reference.random_weights(options, rng, scale=2.0, directions=d)
    state = states = None
    if has_state:
        state = tuple(rng.normal(size=(3, d, num_layers, n)).astype("float32") for n in (4, units))
        states = [[list(zip(*part)) for part in zip(*row)] for row in zip(*state)]
    lengths = [5] * 3 if mask is None else LENGTHS
    stack = make(options, weights, bidirectional)
    assert (stack.forward_lstms[0].projection_kernel is None) == (units == 4)
    outputs, ends = stack(inputs, mask=mask, initial_state=state, return_state=True)
    expected, after = reference.run_bilm(
        inputs.astype("float64"), lengths, weights, options, states=states, directions=d
    )
    assert_close(to_numpy(outputs), expected)
    for part, values in enumerate(ends):
        expected = [[[layer[part] for layer in layers] for layers in row] for row in after]
        assert_close(to_numpy(values), np.array(expected))
    assert clip is None or (np.abs(to_numpy(ends[1])) == np.float32(clip)).any(), "must clip"
    assert mask is None or not to_numpy(outputs).swapaxes(1, 2)[~mask].any()


def test_garbage_behind_a_sentence_stays_there(rng, inputs):
    stack = make(options_of(), reference.random_weights(options_of(), rng))
    clean = to_numpy(stack(inputs, mask=MASK))
    inputs[~MASK] = np.nan
    np.testing.assert_array_equal(to_numpy(stack(inputs, mask=MASK)), clean)


def test_state_in_a_model(inputs):
    stack = BiLMStack(lstm_dim=6, projection_dim=4)
    symbolic = keras.Input((5, 4)), (keras.Input((2, 2, 4)), keras.Input((2, 2, 6)))
    outputs, (h, c) = stack(symbolic[0], initial_state=symbolic[1], return_state=True)
    assert (outputs.shape, h.shape, c.shape) == ((None, 3, 5, 8), (None, 2, 2, 4), (None, 2, 2, 6))
    model = keras.Model([symbolic[0], *symbolic[1]], [outputs, h, c])
    state = np.ones((3, 2, 2, 4), "float32"), np.ones((3, 2, 2, 6), "float32")
    eager, after = stack(inputs, initial_state=state, return_state=True)
    for one, other in zip(model([inputs, *state]), (eager, *after)):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=1e-6)


def test_bad_input_is_named():
    stack = BiLMStack(lstm_dim=6, projection_dim=4)
    with pytest.raises(ValueError, match="axis -1 of input shape to have value 4"):
        stack(np.zeros((2, 3, 5), "float32"))
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        stack(np.zeros((2, 4), "float32"))
    tokens = np.zeros((2, 3, 4), "float32")
    for directions, layers, units in ((1, 2, 6), (2, 1, 6), (2, 3, 6), (3, 2, 6), (2, 2, 5)):
        state = [np.zeros((2, directions, layers, dim), "float32") for dim in (4, units)]
        with pytest.raises(ValueError, match=r"\(h, c\) of shapes \(B, 2, 2, 4\) and \(B, 2, 2, 6"):
            stack(tokens, initial_state=tuple(state))
    for arguments, message in (
        ({"num_layers": 0}, "num_layers must be an integer from 1 to 64; got 0"),
        ({"cell_clip": -1}, "cell_clip must be a number above 0; got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            BiLMStack(**arguments)


@pytest.mark.parametrize("make_layer", ["stack", "lstm"])
def test_an_earlier_mask_counts_beside_an_initial_state_in_a_compiled_model(rng, make_layer):
    layer = (
        BiLMStack(lstm_dim=6, projection_dim=4)
        if make_layer == "stack"
        else ProjectedLSTM(6, 4, reverse=True)
    )
    dims = (2, 2) if make_layer == "stack" else ()
    x = rng.normal(size=(3, 5, 4)).astype("float32")
    x[1, 2:] = 0
    state = tuple(rng.normal(size=(3, *dims, n)).astype("float32") for n in (4, 6))
    inputs, h, c = keras.Input((5, 4)), keras.Input((*dims, 4)), keras.Input((*dims, 6))
    outputs = layer(keras.layers.Masking()(inputs), initial_state=(h, c))
    model = keras.Model([inputs, h, c], outputs)
    expected = layer(x, mask=x.any(-1), initial_state=state)
    np.testing.assert_allclose(model.predict([x, *state], verbose=0), to_numpy(expected), atol=1e-6)
    assert np.abs(to_numpy(layer(x, initial_state=state)) - to_numpy(expected)).max() > 0.01

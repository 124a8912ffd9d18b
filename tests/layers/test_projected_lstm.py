"""ProjectedLSTM against the NumPy reference."""

import keras
import numpy as np
import pytest
from keras import ops

import numpy_reference as reference
from helpers import assert_close, to_numpy
from keras_elmo import BiLMStack, ProjectedLSTM
from layer_checks import check_layer

LENGTHS = np.array([5, 2, 4])
MASK = np.arange(5) < LENGTHS[:, None]


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(3, 5, 4)).astype("float32")


def options_of(units=7, projection_dim=4, cell_clip=None, proj_clip=None):
    return {
        "lstm": {
            "dim": units,
            "projection_dim": projection_dim,
            "cell_clip": cell_clip,
            "proj_clip": proj_clip,
            "n_layers": 1,
        }
    }


def make(options, weights, reverse=False):
    """A layer with the reference's weights of direction 0."""
    options = options["lstm"]
    layer = ProjectedLSTM(
        options["dim"],
        options["projection_dim"],
        options["cell_clip"],
        options["proj_clip"],
        reverse=reverse,
    )
    layer.build((None, None, options["projection_dim"]))
    set_weights(layer, weights, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell")
    return layer


def set_weights(lstm, weights, cell):
    kernel, recurrent_kernel = np.split(weights[f"{cell}/W_0"], 2)
    lstm.kernel.assign(kernel.T)
    lstm.recurrent_kernel.assign(recurrent_kernel.T)
    lstm.bias.assign(weights[f"{cell}/B"])
    if lstm.projection_kernel is not None:
        lstm.projection_kernel.assign(weights[f"{cell}/W_P_0"].T)


def expected_outputs(x, options, weights, lengths, states=None, reverse=False):
    """Outputs (B, T, P) and the final (h, c), a batch of each."""
    x, options = x.astype("float64"), options["lstm"]
    outputs, final = np.zeros((*x.shape[:2], options["projection_dim"])), []
    for row, n in enumerate(lengths):
        order = slice(None, None, -1 if reverse else 1)
        start = reference.zero_states(options, 1)[0] if states is None else [states[row]]
        vectors, state = reference.run_direction(x[row, :n][order], weights, options, 0, start)
        outputs[row, :n] = vectors[1][order]
        final.append(state[0])
    return outputs, tuple(map(np.stack, zip(*final)))


def test_layer(inputs):
    check_layer(
        lambda **kwargs: ProjectedLSTM(7, 3, cell_clip=3.0, proj_clip=3.0, **kwargs),
        inputs,
        weights=4,
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "units, cell_clip, proj_clip", [(7, None, None), (7, 0.2, 0.1), (4, 0.2, 0.1)]
)
def test_numbers(rng, inputs, units, cell_clip, proj_clip, reverse):
    options = options_of(units, 4, cell_clip, proj_clip)
    weights = reference.random_weights(options, rng, scale=2.0, directions=1)
    layer = make(options, weights, reverse)
    assert (layer.projection_kernel is None) == (units == 4)
    outputs, (h, c) = layer(inputs, mask=MASK, return_state=True)
    expected, (expected_h, expected_c) = expected_outputs(
        inputs, options, weights, LENGTHS, reverse=reverse
    )
    if cell_clip is not None:
        assert (np.abs(expected_c) == cell_clip).any(), "the test must clip"
    assert_close(to_numpy(outputs), expected)
    assert_close(to_numpy(h), expected_h)
    assert_close(to_numpy(c), expected_c)
    assert not to_numpy(outputs)[~MASK].any()


def test_no_mask_is_a_mask_of_ones(rng, inputs):
    options = options_of()
    layer = make(options, reference.random_weights(options, rng, directions=1))
    np.testing.assert_allclose(
        to_numpy(layer(inputs)), to_numpy(layer(inputs, mask=np.ones_like(MASK))), atol=1e-6
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_initial_state(rng, inputs, reverse):
    options = options_of()
    weights = reference.random_weights(options, rng, directions=1)
    h, c = rng.normal(size=(3, 4)), rng.normal(size=(3, 7))
    layer = make(options, weights, reverse)
    outputs = layer(inputs, mask=MASK, initial_state=(h.astype("float32"), c.astype("float32")))
    expected, _ = expected_outputs(
        inputs, options, weights, LENGTHS, states=list(zip(h, c)), reverse=reverse
    )
    assert_close(to_numpy(outputs), expected)


def test_a_mask_left_by_an_earlier_layer_counts_beside_an_initial_state(rng, inputs):
    options = options_of()
    layer = make(options, reference.random_weights(options, rng, directions=1))
    state = (np.ones((3, 4), "float32"), np.ones((3, 7), "float32"))
    inputs[~MASK] = 0
    masked = keras.layers.Masking()(inputs)
    np.testing.assert_allclose(
        to_numpy(layer(masked, initial_state=state)),
        to_numpy(layer(inputs, mask=MASK, initial_state=state)),
        atol=1e-6,
    )


def test_a_sequence_in_two_pieces_is_the_sequence(rng, inputs):
    options = options_of()
    layer = make(options, reference.random_weights(options, rng, directions=1))
    whole, state = layer(inputs, return_state=True)
    first, middle = layer(inputs[:, :2], return_state=True)
    second, end = layer(inputs[:, 2:], initial_state=middle, return_state=True)
    np.testing.assert_allclose(
        to_numpy(ops.concatenate([first, second], 1)), to_numpy(whole), atol=1e-6
    )
    for one, other in zip(end, state):
        np.testing.assert_allclose(to_numpy(one), to_numpy(other), atol=1e-6)


def test_a_state_is_not_rounded_in_mixed_precision(inputs):
    """Not at the border between two calls: a masked step leaves it unchanged."""
    state = tuple(ops.full((len(inputs), dim), 1.001, "float32") for dim in (4, 7))
    stack = BiLMStack(lstm_dim=7, projection_dim=4, num_layers=1, dtype="mixed_bfloat16")
    layer = ProjectedLSTM(7, 4, dtype="mixed_bfloat16")
    nothing = np.zeros(inputs.shape[:2], bool)
    _, after = layer(inputs, mask=nothing, initial_state=state, return_state=True)
    states = tuple(
        ops.broadcast_to(x[:, None, None], (len(inputs), 2, 1, x.shape[-1])) for x in state
    )
    outputs, of_stack = stack(inputs, mask=nothing, initial_state=states, return_state=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    for one in (*after, *of_stack):
        np.testing.assert_array_equal(to_numpy(one), np.float32(1.001))


def test_a_state_can_leave_a_model(rng, inputs):
    options = options_of()
    layer = make(options, reference.random_weights(options, rng, directions=1))
    symbolic = keras.Input((5, 4))
    outputs, (h, c) = layer(symbolic, return_state=True)
    assert (outputs.shape, h.shape, c.shape) == ((None, 5, 4), (None, 4), (None, 7))
    model = keras.Model(symbolic, [outputs, h, c])
    eager, state = layer(inputs, return_state=True)
    for one, other in zip(model.predict(inputs, verbose=0), (eager, *state)):
        np.testing.assert_allclose(one, to_numpy(other), atol=1e-6)


def test_no_time_steps_at_all(inputs):
    layer = ProjectedLSTM(7, 3)
    outputs, (h, _) = layer(inputs[:, :0], return_state=True)
    assert outputs.shape == (3, 0, 3)
    assert not to_numpy(h).any()


def test_gradient_is_zero_where_clipped(rng, inputs):
    # With a bound that every value meets, nothing but the projection clip's own sign is left.
    layer = ProjectedLSTM(7, 4, proj_clip=1e-6)
    symbolic = keras.Input((5, 4))
    model = keras.Model(symbolic, layer(symbolic))
    model.compile(keras.optimizers.SGD(1e3), "mse")
    layer.projection_kernel.assign(rng.normal(size=(4, 7)))
    before = [to_numpy(weight).copy() for weight in layer.weights]
    assert (np.abs(np.abs(to_numpy(layer(inputs))) - 1e-6) < 1e-9).all()
    model.train_on_batch(inputs, np.ones((3, 5, 4), "float32"))
    for old, weight in zip(before, layer.weights):
        np.testing.assert_array_equal(to_numpy(weight), old)


def test_initial_values():
    layer = ProjectedLSTM(64, 32)
    layer.build((None, None, 32))
    limit = (6 / (32 + 32 + 4 * 64)) ** 0.5
    for kernel in (layer.kernel, layer.recurrent_kernel):
        assert 0.98 * limit < np.abs(to_numpy(kernel)).max() <= limit
    assert not to_numpy(layer.bias).any()


def test_pytorch_refuses_to_differentiate_its_gradient_again(inputs):
    """What was saved for the gradient is cut off from the graph: it would miss terms."""
    if keras.backend.backend() != "torch":
        pytest.skip("a rule of PyTorch")
    import torch

    layer = ProjectedLSTM(7, 4)
    x = torch.tensor(inputs, requires_grad=True)
    with pytest.raises(NotImplementedError, match="leave out create_graph=True"):
        torch.autograd.grad(layer(x).sum(), x, create_graph=True)
    (gradient,) = torch.autograd.grad(layer(x).sum(), x)
    assert gradient.shape == x.shape


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"units": 0}, "lstm_dim"),
        ({"projection_dim": -1}, "projection_dim"),
        ({"cell_clip": -1.0}, "cell_clip"),
        ({"proj_clip": -3.0}, "proj_clip"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ProjectedLSTM(**{"units": 7, "projection_dim": 4, **arguments})

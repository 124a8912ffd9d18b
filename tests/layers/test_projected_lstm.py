"""ProjectedLSTM: what Keras asks of a layer; test_bilm_stack.py has its numbers."""

import keras
import numpy as np
import pytest
from keras import ops

from helpers import to_numpy
from keras_elmo import BiLMStack, ProjectedLSTM
from layer_checks import check_layer


@pytest.fixture
def inputs(rng):
    return rng.normal(size=(3, 5, 4)).astype("float32")


def test_layer(inputs):
    check_layer(
        lambda **kwargs: ProjectedLSTM(7, 3, cell_clip=3.0, proj_clip=3.0, **kwargs),
        inputs,
        weights=4,
    )


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


def test_no_time_steps_at_all(inputs):
    layer = ProjectedLSTM(7, 3)
    outputs, (h, _) = layer(inputs[:, :0], return_state=True)
    assert outputs.shape == (3, 0, 3)
    assert not to_numpy(h).any()


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

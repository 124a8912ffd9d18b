"""The softmax over words, in full and sampled, against NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from helpers import to_numpy
from keras_elmo.training import word_softmax
from keras_elmo.training.word_softmax import WordSoftmax


def make(num_words=30, num_negative_samples=None, **arguments):
    softmax = WordSoftmax(num_words, num_negative_samples, **arguments)
    softmax.build((None, 5))
    return softmax


def test_full_softmax(rng):
    softmax = make()
    softmax.bias.assign(rng.normal(size=30))
    x, targets = rng.normal(size=(7, 5)).astype("float32"), rng.integers(0, 30, 7)
    logits = x @ to_numpy(softmax.kernel.value).T.astype("float64") + to_numpy(softmax.bias.value)
    expected = np.log(np.exp(logits).sum(1)) - logits[np.arange(7), targets]
    np.testing.assert_allclose(to_numpy(softmax(x, targets=targets)), expected, rtol=1e-5)


def test_sampled_softmax(rng, monkeypatch):
    softmax = make(num_negative_samples=6)
    softmax.bias.assign(rng.normal(size=30))
    x, targets = rng.normal(size=(4, 5)).astype("float32"), np.array([3, 9, 3, 20])
    drawn = np.array([1, 3, 8, 20, 21, 29])
    expected_targets, expected_drawn = rng.uniform(0.1, 1, 4), rng.uniform(0.1, 1, 6)
    given = drawn, expected_targets.astype("float32"), expected_drawn.astype("float32")
    monkeypatch.setattr(softmax, "draw", lambda _: tuple(map(ops.convert_to_tensor, given)))
    found = to_numpy(softmax(x, targets=ops.convert_to_tensor(targets), sampled=True))
    kernel, bias = to_numpy(softmax.kernel.value), to_numpy(softmax.bias.value)
    for i, target in enumerate(targets):
        own = x[i] @ kernel[target] + bias[target] - np.log(expected_targets[i])
        others = x[i] @ kernel[drawn].T + bias[drawn] - np.log(expected_drawn)
        others = others[drawn != target]
        loss = np.log(np.exp(own) + np.exp(others).sum()) - own
        np.testing.assert_allclose(found[i], loss, rtol=1e-5)


def test_gradient_of_the_sampled_softmax(rng, monkeypatch):
    softmax = make(num_negative_samples=6)
    softmax.bias.assign(rng.normal(size=30))
    kernel, bias = (to_numpy(v.value).astype("float64") for v in softmax.weights[:2])
    x, targets = rng.normal(size=(4, 5)), np.array([3, 9, 3, 20])
    drawn = np.array([1, 3, 8, 20, 21, 29])
    given = (
        drawn,
        rng.uniform(0.1, 1, 4).astype("float32"),
        rng.uniform(0.1, 1, 6).astype("float32"),
    )
    monkeypatch.setattr(softmax, "draw", lambda _: tuple(map(ops.convert_to_tensor, given)))
    inputs, ids = keras.Input((5,)), keras.Input((), dtype="int32")
    first = keras.layers.Dense(5, use_bias=False, kernel_initializer="identity")
    model = keras.Model([inputs, ids], softmax(first(inputs), targets=ids, sampled=True))
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y, loss: ops.sum(y * loss))
    weights = np.array([1.0, 0.5, 2.0, -1.0])
    model.train_on_batch([x.astype("float32"), targets], weights.astype("float32"))
    d_x, d_kernel, d_bias = np.zeros_like(x), np.zeros_like(kernel), np.zeros_like(bias)
    for i, target in enumerate(targets):
        words = [target, *drawn[drawn != target]]
        expected = [given[1][i], *given[2][drawn != target]]
        logits = kernel[words] @ x[i] + bias[words] - np.log(expected)
        d_logits = weights[i] * np.exp(logits) / np.exp(logits).sum()
        d_logits[0] -= weights[i]
        d_x[i] = d_logits @ kernel[words]
        d_kernel[words] += np.outer(d_logits, x[i])
        d_bias[words] += d_logits
    for variable, before, gradient in (
        (softmax.kernel, kernel, d_kernel),
        (softmax.bias, bias, d_bias),
        (first.kernel, np.eye(5), x.T @ d_x),
    ):
        np.testing.assert_allclose(before - to_numpy(variable.value), gradient, atol=2e-6)


def test_draw_is_log_uniform_without_repetition():
    softmax = make(num_words=50, num_negative_samples=10)
    counts, expected, rounds = np.zeros(50), np.zeros(50), 400
    every = ops.convert_to_tensor(np.arange(50))
    for _ in range(rounds):
        drawn, of_all, of_drawn = map(to_numpy, softmax.draw(every))
        assert len(set(drawn)) == 10
        np.testing.assert_allclose(of_drawn, of_all[drawn], rtol=1e-6)
        counts[drawn] += 1
        expected += of_all
    # What is said to be expected is what comes, word by word.
    error = 4 * np.sqrt(rounds * 0.25)
    assert np.abs(counts - expected).max() < error
    assert (np.diff(expected) < 0).all() and abs(expected.sum() / rounds - 10) < 1
    # Log-uniform by rank: 1 - exp(-p t) for each word, at a time t of its own in each round.
    p = np.log1p(1 / np.arange(1, 51)) / np.log(51)
    times = -np.log1p(-of_all) / p
    np.testing.assert_allclose(times, times.mean(), rtol=1e-3)


def test_tied_kernel_and_config():
    softmax = make(has_kernel=False)
    assert len(softmax.weights) == 1
    kernel = np.zeros((30, 5), "float32")
    loss = softmax(np.ones((2, 5), "float32"), targets=np.array([0, 1]), kernel=kernel)
    np.testing.assert_allclose(to_numpy(loss), np.log(30), rtol=1e-6)
    assert WordSoftmax.from_config(softmax.get_config()).has_kernel is False


@pytest.mark.parametrize("sampled", [False, True])
def test_mixed_precision_does_not_round_the_bias(sampled, monkeypatch):
    """The contexts are zero, so only the biases make the loss; -11.03 would become -11."""
    softmax = make(num_negative_samples=29, dtype="mixed_bfloat16")
    biases = np.full(30, -11.03, "float32")
    biases[3] = -9.51
    softmax.bias.assign(biases)
    drawn = np.arange(29), np.ones(1, "float32"), np.ones(29, "float32")
    monkeypatch.setattr(softmax, "draw", lambda _: tuple(map(ops.convert_to_tensor, drawn)))
    targets = ops.convert_to_tensor(np.array([29]))
    loss = to_numpy(softmax(np.zeros((1, 5), "float32"), targets=targets, sampled=sampled))
    np.testing.assert_allclose(loss, np.log(np.exp(biases + 11.03).sum()), rtol=1e-5)


def test_bias_by_frequency():
    softmax = WordSoftmax(127)
    softmax.build((None, 8))
    softmax.initialize_bias(np.arange(127))
    p = np.exp(to_numpy(softmax.bias.value))
    np.testing.assert_allclose([p.sum(), p[1] / p[0]], [1, 2], rtol=1e-5)


def test_full_losses_in_slices(rng, monkeypatch):
    softmax = WordSoftmax(30)
    softmax.build((None, 8))
    contexts, targets = rng.normal(size=(11, 8)).astype("float32"), rng.integers(30, size=11)
    expected = to_numpy(softmax(contexts, targets))
    for at_once in (30, 100, 10):
        monkeypatch.setattr(word_softmax, "_LOGITS_AT_ONCE", at_once)
        np.testing.assert_allclose(to_numpy(softmax(contexts, targets)), expected, rtol=1e-6)

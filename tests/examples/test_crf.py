"""The CRF of the examples against all sequences of tags, written out."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from crf import CRF
from helpers import assert_close, compiled, to_numpy

LENGTHS = (5, 1, 3, 0)
N_TAGS = 3


@pytest.fixture
def logits(rng):
    return rng.normal(size=(len(LENGTHS), max(LENGTHS), N_TAGS)).astype("float32") * 2


@pytest.fixture
def mask():
    return np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]


@pytest.fixture
def crf(rng):
    crf = CRF(["O", "B", "I"])
    crf.build((None, None, N_TAGS))
    crf.set_weights([rng.normal(size=weight.shape) for weight in crf.weights])
    return crf


def scores_of_all_sequences(crf, logits):
    """`{tags: score}` for one sentence, by the definition."""
    transitions, start, end = map(to_numpy, (crf.transitions, crf.start, crf.end))
    return {
        tags: float(
            start[tags[0]]
            + sum(row[tag] for row, tag in zip(logits, tags))
            + sum(transitions[pair] for pair in itertools.pairwise(tags))
            + end[tags[-1]]
        )
        for tags in itertools.product(range(N_TAGS), repeat=len(logits))
    }


def test_best_tags_are_the_best_of_all(crf, logits, mask):
    found = to_numpy(crf(logits, mask=mask)["tags"])
    assert found.dtype == "int32" and not found[~mask].any()
    for row, length, tags in zip(logits, LENGTHS, found):
        if length:
            scores = scores_of_all_sequences(crf, row[:length])
            assert tuple(tags[:length]) == max(scores, key=scores.get)


def test_log_likelihood_is_that_among_all(crf, logits, mask, rng):
    tags = np.where(mask, rng.integers(0, N_TAGS, mask.shape), -1)
    expected = []
    for row, length, sequence in zip(logits, LENGTHS, tags):
        scores = scores_of_all_sequences(crf, row[:length]) if length else {(): 0.0}
        log_sum = np.log(np.exp(list(scores.values())).sum())
        expected.append(scores[tuple(sequence[:length])] - log_sum)
    assert_close(to_numpy(crf.log_likelihood(logits, tags, mask)), np.array(expected))


def test_padding_and_no_mask_change_nothing(crf, logits):
    sentence = logits[:1]
    padded = np.pad(sentence, ((0, 0), (0, 4), (0, 0)), constant_values=50.0)
    mask = np.arange(9)[None] < 5
    tags = to_numpy(crf(sentence)["tags"])
    np.testing.assert_array_equal(to_numpy(crf(padded, mask=mask)["tags"])[:, :5], tags)
    padded_tags = np.pad(tags, ((0, 0), (0, 4)))
    assert_close(
        to_numpy(crf.log_likelihood(padded, padded_tags, mask)),
        to_numpy(crf.log_likelihood(sentence, tags)),
    )


class Tagger(keras.Model):
    """The smallest model around a CRF."""

    def __init__(self):
        super().__init__()
        self.crf = CRF(["O", "B", "I"])
        self.crf.build((None, None, N_TAGS))

    def call(self, inputs):
        return inputs

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return -ops.mean(self.crf.log_likelihood(y_pred, y, y >= 0))


def test_training_makes_the_tags_likely(logits, mask):
    """Fits gradients on every backend; an empty and a long sentence leave them finite."""
    tags = np.where(mask, np.arange(max(LENGTHS)) % N_TAGS, -1)
    model = compiled(Tagger(), keras.optimizers.Adam(0.1))
    losses = model.fit(logits, tags, epochs=40, verbose=0).history["loss"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0] / 3
    assert all(np.isfinite(to_numpy(weight)).all() for weight in model.weights)
    np.testing.assert_array_equal(to_numpy(model.crf(logits, mask=mask)["tags"])[mask], tags[mask])


def test_the_loss_is_for_compile_behind_layers_with_masks(logits, mask):
    """Keras would multiply the loss of each sentence by a mask of its tokens."""
    tags = np.where(mask, 1, -1)
    crf, inputs = CRF(["O", "B", "I"], name="crf"), keras.Input((None, N_TAGS))
    model = keras.Model(inputs, crf(keras.layers.Masking()(inputs)))
    model.compile(loss={"scores": crf.loss}, jit_compile=False)
    found = model.evaluate(logits[:1], tags[:1], verbose=0)
    assert found == pytest.approx(
        -float(to_numpy(crf.log_likelihood(logits[:1], tags[:1]))[0]), 1e-5
    )


def test_large_scores_stay_finite(crf, logits):
    tags = crf(logits * 1e4)["tags"]
    log_likelihood = to_numpy(crf.log_likelihood(logits * 1e4, tags))
    assert_close(log_likelihood / 1e5, np.zeros(len(LENGTHS)))


def test_batches_of_other_shapes_in_one_model(crf, logits):
    inputs = keras.Input((None, N_TAGS))
    model = keras.Model(inputs, crf(inputs))
    model.compile(jit_compile=False)
    for shape in ((4, 5), (2, 3), (3, 1)):
        batch = logits[: shape[0], : shape[1]]
        found, expected = model.predict_on_batch(batch), crf(batch)
        np.testing.assert_array_equal(found["tags"], to_numpy(expected["tags"]))


def test_in_a_model_saved_and_loaded(crf, logits, tmp_path):
    inputs = keras.Input((None, N_TAGS))
    model = keras.Model(inputs, crf(inputs))
    output = model.output["tags"]
    assert output.shape == (None, None) and output.dtype == "int32"
    assert model.output["scores"].shape == (None, None, N_TAGS)
    model.save(tmp_path / "crf.keras")
    again = keras.models.load_model(tmp_path / "crf.keras")
    expected = to_numpy(crf(logits)["tags"])
    for one in (model, again):
        np.testing.assert_array_equal(one.predict(logits, verbose=0)["tags"], expected)
    assert again.layers[-1].get_config() == crf.get_config()


def test_half_precision_scores_in_float32(crf, logits):
    half = CRF(["O", "B", "I"], dtype="mixed_bfloat16")
    half.build(logits.shape)
    half.set_weights(crf.get_weights())
    tags = to_numpy(crf(logits)["tags"])
    np.testing.assert_array_equal(to_numpy(half(logits)["tags"]), tags)
    assert_close(
        to_numpy(half.log_likelihood(logits, tags)), to_numpy(crf.log_likelihood(logits, tags))
    )

"""Cosines, planes, neighbors: numbers by hand and by plain NumPy."""

import numpy as np
import pytest

from keras_elmo import analysis
from keras_elmo.analysis import Occurrence


def test_cosines_of_each_layer(rng):
    first, second = rng.normal(size=(3, 4, 8)), rng.normal(size=(3, 5, 8))
    found = analysis.cosines(first, second)
    assert found.shape == (3, 4, 5) and found.dtype == np.float32
    for layer in range(3):
        for i in range(4):
            for j in range(5):
                a, b = first[layer, i], second[layer, j]
                expected = a @ b / np.sqrt((a @ a) * (b @ b))
                np.testing.assert_allclose(found[layer, i, j], expected, atol=1e-6)
    large = np.full((1, 2, 256), 100, np.float16)  # its square is infinite
    np.testing.assert_allclose(analysis.cosines(large, -large), np.full((1, 2, 2), -1), rtol=1e-6)
    assert analysis.cosines(np.zeros((1, 2)), np.ones((1, 2))) == 0
    assert analysis.cosines(np.zeros((0, 2)), np.ones((3, 2))).shape == (0, 3)
    for second in (np.ones((2, 5)), np.ones((1, 2, 4)), np.ones(4)):
        with pytest.raises(ValueError, match=r"of the same layers and sizes; got \(2, 4\)"):
            analysis.cosines(np.ones((2, 4)), second)


def test_mixed_is_equation_1(rng):
    layers = rng.normal(size=(3, 4, 8))
    expected = 0.5 * (0.7 * layers[0] + 0.3 * layers[2])
    np.testing.assert_allclose(analysis.mixed(layers, [0.7, 0, 0.3], 0.5), expected, atol=1e-6)
    np.testing.assert_allclose(analysis.mixed(layers, (0, 0, 1)), layers[2], rtol=1e-6)
    shares = np.exp([1.0, 2.0, -1.0]) / np.exp([1.0, 2.0, -1.0]).sum()
    np.testing.assert_allclose(analysis.softmax([1, 2, -1]), shares)
    np.testing.assert_allclose(analysis.softmax([1000.0, 1000.0, -1000.0]), [0.5, 0.5, 0])


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0, 0, 2], [-0.5, 0.5, 1], [0, 0, np.nan], [[1]]])
def test_weights_are_those_after_the_softmax(weights):
    layers = np.ones((3, 4, 8))
    with pytest.raises(ValueError, match="weights must be 3 numbers of at least 0 with the sum 1"):
        analysis.mixed(layers, weights)
    with pytest.raises(ValueError, match="weights must be 3 numbers of at least 0 with the sum 1"):
        analysis.layer_cosines(layers, layers, [weights])


def test_cosines_of_layers_and_mixes_by_name(rng):
    first, second = rng.normal(size=(3, 4, 8)), rng.normal(size=(3, 5, 8))
    mixes = [(0, 0, 1), np.float32([0.5, 0.25, 0.25])]
    names, found = zip(*analysis.layer_cosines(first, second, mixes))
    assert names == (
        "token vectors",
        "LSTM 1",
        "LSTM 2",
        "weighted sum (0.00, 0.00, 1.00)",
        "weighted sum (0.50, 0.25, 0.25)",
    )
    np.testing.assert_array_equal(found[:3], analysis.cosines(first, second))
    np.testing.assert_allclose(found[3], found[2], atol=1e-6)
    mean = [np.average(layers, axis=0, weights=mixes[1]) for layers in (first, second)]
    np.testing.assert_allclose(found[4], analysis.cosines(*mean), atol=1e-6)


def test_uses_are_found_in_strings_and_lists():
    sentences = ["The Bank pays .", ["on", "the", "bank", "bank"], "none", b"bank"]
    assert analysis.occurrences("bank", sentences) == [
        Occurrence(0, 1),
        Occurrence(1, 2),
        Occurrence(1, 3),
        Occurrence(3, 0),
    ]
    for word in ("", " ", "two words"):
        with pytest.raises(ValueError, match="Expected one word without white space"):
            analysis.occurrences(word, ["two words"])
    with pytest.raises(ValueError, match="'shore' does not occur in the 2 sentences"):
        analysis.occurrences("shore", ["a bank", "shore."])


def test_vectors_of_occurrences_are_those_of_their_tokens(rng):
    layers = [rng.normal(size=(3, length, 8)) for length in (2, 4)]
    expected = np.stack([layers[1][:, 0], layers[0][:, 1], layers[1][:, 3]], axis=1)
    uses = [Occurrence(1, 0), Occurrence(0, 1), Occurrence(1, 3)]
    for given in (layers, dict(enumerate(layers))):
        np.testing.assert_array_equal(analysis.occurrence_vectors(uses, given), expected)


def test_plane_keeps_the_distances_of_points_in_a_plane(rng):
    flat = rng.normal(size=(6, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    plane = analysis.plane(flat)
    points, explained_variance = plane
    distances = np.linalg.norm(flat[:, None] - flat, axis=-1)
    np.testing.assert_allclose(
        np.linalg.norm(points[:, None] - points, axis=-1), distances, atol=1e-5
    )
    np.testing.assert_allclose(explained_variance.sum(), 1, atol=1e-6)
    assert explained_variance[0] >= explained_variance[1]
    titles = tuple(f"{x:.0%} of the variance" for x in explained_variance)
    assert plane.axis_titles() == titles


def test_rounding_does_not_turn_a_plane_around():
    vectors = np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]])
    points = [analysis.plane(vectors * (1 + x)).points for x in (0, 1e-7, -1e-7, 3e-7)]
    np.testing.assert_allclose(points, np.broadcast_to(points[0], (4, 2, 2)), atol=1e-4)
    assert points[0][0, 0] > 1


def test_what_does_not_vary_lies_at_the_origin():
    for vectors in (np.ones((1, 4)), np.ones((3, 1)), np.full((6, 4), 0.1)):
        plane = analysis.plane(vectors)
        assert not plane.points.any() and not plane.explained_variance.any()
        assert plane.axis_titles() == ("all vectors are equal", "")
    with pytest.raises(ValueError, match=r"N > 0, got shape \(0, 4\)"):
        analysis.plane(np.ones((0, 4)))


def test_nearest_are_others_in_order(rng):
    vectors = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    found = analysis.nearest(vectors, count=5)
    assert [[j for j, _ in row] for row in found] == [[1, 2], [0, 2], [1, 0]]
    np.testing.assert_allclose([cosine for _, cosine in found[0]], [0.8, 0], atol=1e-6)
    assert analysis.nearest(vectors[:1]) == [[]]
    vectors = rng.normal(size=(700, 4))  # more than are compared at once
    similarity = analysis.cosines(vectors, vectors)
    np.fill_diagonal(similarity, -1)
    found = analysis.nearest(vectors, 1)
    assert [pairs[0][0] for pairs in found] == similarity.argmax(axis=1).tolist()


def test_whitened_vectors_vary_equally_in_all_directions(rng):
    reference = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4)) + 3
    vectors = rng.standard_normal((5, 4))
    variances, directions = np.linalg.eigh(np.cov(reference.T))
    whitening = directions / np.sqrt(variances + 0.1 * variances.mean())
    expected = analysis.cosines(
        *((x - reference.mean(0)) @ whitening for x in (vectors, reference))
    )
    whitened = analysis.whiten(reference)
    found = analysis.cosines(analysis.whiten(vectors, reference), whitened)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    spread, before = (np.linalg.eigvalsh(np.cov(x.T)) for x in (whitened, reference))
    np.testing.assert_allclose(spread, before / (before + 0.1 * before.mean()), atol=1e-5)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-5)


def test_few_or_equal_vectors_are_whitened_or_named(rng):
    assert not analysis.whiten(np.ones((3, 2))).any()
    assert np.isfinite(analysis.whiten(rng.standard_normal((2, 50)))).all()
    assert analysis.whiten([[1.0], [3.0]]).shape == (2, 1)
    for vectors, reference in (([[1, 2]], None), ([1, 2], None), ([[1, 2]], [[1], [2]])):
        with pytest.raises(ValueError, match="at least two of reference"):
            analysis.whiten(vectors, reference)


def test_the_strongest_filter_of_each_width(rng):
    activations, starts = rng.random((4, 9)), rng.integers(0, 50, (4, 9))
    found = analysis.strongest_filters(activations, starts, [(1, 2), (3, 4), (7, 3)])
    for values, begins, windows in zip(activations, starts, found, strict=True):
        for (width, filters), window in zip(
            [(1, [0, 1]), (3, [2, 3, 4, 5]), (7, [6, 7, 8])], windows
        ):
            best = max(filters, key=values.__getitem__)
            assert window == (best, width, begins[best], values[best])


def test_tokens_of_strings_lists_and_bytes():
    assert analysis.tokens(" a  b\u00a0c ") == ["a", "b\u00a0c"]
    assert analysis.tokens(b"caf\xe9") == ["caf"]
    assert analysis.tokens([b"caf\xc3\xa9", "x y"]) == ["caf\u00e9", "x y"]
    with pytest.raises(ValueError, match="str"):
        analysis.tokens([1])

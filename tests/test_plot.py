"""What is drawn are the numbers of the layers."""

import importlib
import io
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import TINY, to_numpy

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

from keras_elmo import ElmoLayer, Embedder, WeightedLayerSum, analysis, encode_sentences, plot

pytestmark = pytest.mark.needs("matplotlib")
FIRST, SECOND = ["The", "bank", "paid", "."], ["He", "sat", "on", "the", "bank", "."]


@pytest.fixture(scope="module")
def embedder():
    return Embedder(TINY, progress=False)


def layers(tokens):
    return to_numpy(ElmoLayer(TINY, vectors="layers")(encode_sentences([tokens])))[0]


def test_similarity_draws_the_cosines_of_each_layer(embedder):
    figure = plot.similarity(FIRST, " ".join(SECOND), model=embedder, weights=[0.3, 0.7, 0])
    *pictures, colorbar = figure.axes
    first, second = layers(FIRST), layers(SECOND)
    mixes = [0.3 * x[0] + 0.7 * x[1] for x in (first, second)]
    expected = [*zip(first, second), mixes]
    assert [axes.get_title() for axes in pictures] == [
        "token vectors",
        "LSTM 1",
        "LSTM 2",
        "weighted sum\n(0.30, 0.70, 0.00)",
    ]
    for axes, (a, b) in zip(pictures, expected):
        norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
        np.testing.assert_allclose(axes.images[0].get_array(), a @ b.T / norms, atol=1e-5)
    assert [label.get_text() for label in pictures[0].get_xticklabels()] == SECOND
    assert [label.get_text() for label in pictures[0].get_yticklabels()] == FIRST
    assert colorbar.get_ylabel() == "cosine"


def test_annotated_cells_have_their_numbers(embedder):
    figure = plot.similarity(FIRST, SECOND, model=embedder, annotate=True)
    for axes in figure.axes[:-1]:
        values = axes.images[0].get_array()
        written = {text.get_position()[::-1]: text.get_text() for text in axes.texts}
        assert written == {cell: f"{value:.2f}" for cell, value in np.ndenumerate(values)}
    assert not plot.similarity(FIRST, SECOND, model=embedder).axes[0].texts


def panels(model, **options):
    """The titles and numbers of a picture of `similarity`."""
    figure = plot.similarity(FIRST, SECOND, model=model, **options)
    return {axes.get_title(): np.array(axes.images[0].get_array()) for axes in figure.axes[:-1]}


def test_weights_mean_the_same_in_layer_numbers_and_picture(embedder):
    """The shares of the layers, after the softmax."""
    elmo = ElmoLayer(TINY, mix_weights=(0, 0.25, 0.75))
    vectors, expected = to_numpy(elmo(encode_sentences([FIRST])))[0], layers(FIRST)
    np.testing.assert_allclose(analysis.mixed(expected, (0, 0.25, 0.75)), vectors, atol=1e-5)
    title = "weighted sum\n(0.00, 0.25, 0.75)"
    drawn = panels(elmo)[title]
    np.testing.assert_allclose(panels(embedder, weights=(0, 0.25, 0.75))[title], drawn, atol=1e-6)
    mixes = Embedder(elmo, progress=False).embed([FIRST, SECOND])
    np.testing.assert_allclose(drawn, analysis.cosines(*mixes), atol=1e-5)


def trained(num_mixes=1, **options):
    """A layer whose last mix has learned the shares 0.2, 0.2, 0.6."""
    layer = ElmoLayer(TINY, num_mixes=num_mixes, **options)
    layer.mixes[-1].layer_weights.assign(np.log([0.2, 0.2, 0.6]))
    return layer


def model_of(layer):
    """A Keras model with the layer in a model inside it."""
    inputs = keras.Input((None, 50), dtype="int32")
    return keras.Model(inputs, keras.Model(inputs, layer(inputs))(inputs))


def file_of(layer):
    """The file of such a model."""
    path = Path(tempfile.mkdtemp()) / "task.keras"
    model_of(layer).save(path)
    return path


def documents_of(layer):
    return keras.Sequential([keras.layers.TimeDistributed(layer)])


class Holder(keras.Model):
    """A model whose layers Keras does not list."""

    def __init__(self, layer):
        super().__init__()
        self.parts = {"first": [keras.layers.Dropout(0.1), layer], 2: "of another type"}


def twice_in_a_model(layer):
    """The layer beside the same one in a model."""
    inputs = keras.Input((None, 50), dtype="int32")
    return keras.Model(inputs, [layer(inputs), keras.Model(inputs, layer(inputs))(inputs)])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        Embedder,
        model_of,
        file_of,
        documents_of,
        Holder,
        lambda x: keras.Sequential([Holder(x)]),
        twice_in_a_model,
    ],
)
def test_the_learned_mix_is_drawn(wrap):
    titles = list(panels(wrap(trained())))[3:]
    assert titles == ["weighted sum\n(0.20, 0.20, 0.60)"]


def test_each_mix_is_drawn_except_of_the_batch():
    titles = list(panels(trained(num_mixes=2)))[3:]
    assert titles == ["weighted sum\n(0.33, 0.33, 0.33)", "weighted sum\n(0.20, 0.20, 0.60)"]
    assert len(panels(trained(layer_norm=True))) == 3
    assert len(panels(ElmoLayer(TINY, vectors="layers"))) == 3
    inputs = keras.Input((None, 50), dtype="int32")
    mix = WeightedLayerSum(use_top_only=True)
    model = keras.Model(inputs, mix(ElmoLayer(TINY, vectors="layers")(inputs)))
    assert list(panels(model))[3:] == ["weighted sum\n(0.00, 0.00, 1.00)"]


@pytest.mark.parametrize("labels", [None, ["money", "river"]])
def test_uses_of_a_word_lie_where_the_plane_has_them(embedder, labels):
    figure = plot.uses_of_word("Bank", [FIRST, SECOND], model=embedder, labels=labels)
    vectors = np.stack([layers(FIRST)[:, 1], layers(SECOND)[:, 4]], axis=1)
    for axes, values in zip(figure.axes, vectors, strict=True):
        drawn = np.concatenate([points.get_offsets() for points in axes.collections])
        np.testing.assert_allclose(drawn, analysis.plane(values).points, atol=1e-4)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == (labels or ["The bank paid .", "He sat on the bank ."])


def test_words_are_drawn_as_they_are(embedder):
    """Not as mathematics, between two dollars, and not hidden, after an underscore."""
    prices = ["_", "bank", "$", "5", ",", "6_%", "$"]
    figure = plot.uses_of_word("bank", [prices, FIRST], model=embedder)
    assert figure.legends[0].get_texts()[0].get_text() == " ".join(prices)
    figure.savefig(io.BytesIO())
    plot.similarity(["$_%$"], FIRST, model=embedder).savefig(io.BytesIO())


@pytest.mark.parametrize("wrap", [lambda x: x, model_of])
def test_layer_weights_are_those_of_the_layer(wrap):
    layer = ElmoLayer(TINY, num_mixes=2)
    layer.mixes[0].layer_weights.assign([0.0, 1.0, 2.0])
    layer.mixes[1].gamma.assign([0.25])
    (axes,) = plot.layer_weights(wrap(layer)).axes
    first, second = ([bar.get_height() for bar in bars] for bars in axes.containers)
    np.testing.assert_allclose(first, np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum(), atol=1e-6)
    np.testing.assert_allclose(second, 1 / 3, atol=1e-6)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [
        "mix_0, \N{GREEK SMALL LETTER GAMMA} = 1.00",
        "mix_1, \N{GREEK SMALL LETTER GAMMA} = 0.25",
    ]


def test_a_figure_is_saved_without_a_display(embedder, tmp_path):
    figure = plot.similarity(FIRST, model=embedder)
    for axes in figure.axes[:-1]:  # a sentence is compared with itself
        np.testing.assert_allclose(np.diag(axes.images[0].get_array()), 1, atol=1e-6)
    for name in ("figure.png", "figure.svg"):
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert figure._repr_png_().startswith(b"\x89PNG")  # a notebook shows it


def test_labels_follow_their_sentences(embedder):
    class Labels(dict):  # a column of pandas by the names of its rows
        def __iter__(self):
            return iter(self.values())

    labels, missing = Labels({1: "go", 0: "stay", 2: "go"}), float("nan")
    for given, names in ((labels, ["go", "stay"]), ([missing, "a", "nan"], ["nan", "a"])):
        sentences = iter([FIRST, SECOND, FIRST])
        figure = plot.uses_of_word("bank", sentences, model=embedder, labels=given)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == names
        # Sentences of one label are drawn alike.
        assert [len(one.get_offsets()) for one in figure.axes[0].collections] == [2, 1]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda e: plot.similarity("", "a", model=e), "needs a word"),
        (lambda e: plot.similarity("a", "b", model=e, weights=[1]), "weights must be 3 numbers"),
        (lambda e: plot.similarity("a", model=keras.Sequential()), "one ElmoLayer; .* has 0"),
        (lambda e: plot.uses_of_word("c", ["a", "b"], model=e), "not occur in the 2 sentences"),
        (lambda e: plot.uses_of_word("a", ["a"], model=e, labels=[]), "Expected 1 labels"),
        (lambda e: plot.uses_of_word("a", "a b a", model=e), "got the single string 'a b a'"),
        (lambda e: plot.layer_weights(WeightedLayerSum()), "a built WeightedLayerSum"),
        (lambda e: plot.layer_weights(keras.Sequential()), "or a Keras model with one of them"),
        (lambda e: plot.layer_weights(ElmoLayer(TINY, vectors="layers")), "vectors='mix'"),
        (lambda e: plot.layer_weights(ElmoLayer(TINY, use_top_only=True)), "use_top_only"),
    ],
)
def test_bad_input_is_named(embedder, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(embedder)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "keras_elmo.plot")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras-elmo\[plot\]"):
        importlib.import_module("keras_elmo.plot")

"""Pictures of a biLM's vectors, drawn by matplotlib: `pip install "keras-elmo[plot]"`."""

import io
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_elmo import analysis
from keras_elmo.analysis import Sentence, layer_names
from keras_elmo.embedding.embedder import Embedder
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.inside import layers_inside
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum
from keras_elmo.pretrained.locate import ModelSource
from keras_elmo.text.tokens import check_batch

try:
    from matplotlib.figure import Figure
except ImportError:
    raise ImportError('Pictures need matplotlib: pip install "keras-elmo[plot]"') from None

COLOR_MAP = "viridis"
"""The color scale of numbers: perceptually uniform, also in grayscale and for color blindness."""

MARKERS = "osD^vP*X<>"
"""The markers of groups, since color must not be the only difference."""


def similarity(
    first: Sentence,
    second: Sentence | None = None,
    *,
    model: ModelSource | ElmoLayer | Embedder | keras.Model = "default",
    weights: Sequence[float] | np.ndarray | None = None,
    annotate: bool = False,
) -> Figure:
    """Draws the cosines between the words of two sentences, in each layer and in the mix.

    Args:
        first, second: Lists of tokens, or strings to be split at white space. Without the second,
            the first is compared with itself.
        model: As for `Embedder`; or an `Embedder`. The mix of a trained layer or model is the
            learned one, and the mix of a new model the mean of the layers. Mixes with `layer_norm`
            are not drawn, since they depend on the batch.
        weights: The share of each layer in the mix to draw, instead of the model's: `L + 1` numbers
            of at least 0 with the sum 1, as `ElmoLayer(mix_weights=...)`, such as `(0, 0, 1)` for
            the top layer.
        annotate: Whether to write the cosines into the cells, which become larger: for short
            sentences.

    Returns:
        A matplotlib `Figure`: `figure.savefig("similarity.svg")`. The title of a mix has the share
        of each layer. Gamma does not change a cosine.

    Raises:
        ValueError: if a sentence has no word, or an argument is invalid.

    Example:

    >>> figure = similarity("The bank raised its rates .", "He sat on the bank .")

    Reference: Peters et al. 2018, section 3.
    """
    words = [analysis.tokens(sentence) for sentence in (first, first if second is None else second)]
    if not all(words):
        raise ValueError("Each sentence needs a word, got an empty sentence.")
    embedder = _embedder(model)
    rows, columns = embedder.embed(words, vectors="layers")
    found = _mixes(model if isinstance(model, keras.Model) else embedder.layer)
    learned = [mix.normalized_weights for mix in found if not mix.layer_norm]
    mixes = learned if weights is None else [weights]
    pictures = analysis.layer_cosines(rows, columns, mixes)
    cell, letter, smallest = 0.45 if annotate else 0.32, 0.09, 1.3  # inches
    names = [[_shortened(word, 24) for word in sentence] for sentence in words]
    longest = [max(map(len, sentence)) for sentence in names]
    height, width = (max(cell * len(sentence), smallest) for sentence in words)
    width = 1.2 + letter * longest[0] + (width + 0.2) * len(pictures)
    figure = _Picture(width, 0.7 + letter * longest[1] + height)
    all_axes = figure.subplots(1, len(pictures), sharey=True, squeeze=False)[0]
    for axes, (title, values) in zip(all_axes, pictures):
        image = axes.imshow(values, cmap=COLOR_MAP, vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_title(title.replace(" (", "\n("))  # panels are narrow
        axes.set_xticks(range(len(names[1])), names[1], rotation=90, parse_math=False)
        for (row, column), value in np.ndenumerate(values) if annotate else ():
            color = "black" if value > 0.5 else "white"
            style = {"color": color, "ha": "center", "va": "center", "size": 8}
            axes.text(column, row, f"{value:.2f}", **style)
    all_axes[0].set_yticks(range(len(names[0])), names[0], parse_math=False)
    figure.colorbar(image, ax=all_axes, label="cosine", extend="min", pad=0.01)
    return figure


def uses_of_word(
    word: str,
    sentences: Sequence[Sentence],
    *,
    model: ModelSource | ElmoLayer | Embedder | keras.Model = "default",
    labels: Sequence[str] | None = None,
) -> Figure:
    """Draws the uses of a word in a plane, for each layer side by side.

    Args:
        word: The word; case is ignored.
        sentences: Lists of tokens, or strings to be split at white space.
        model: As for `similarity`.
        labels: A label for each sentence, such as the word's sense, which determines color and
            marker; `None` for the sentence itself.

    Returns:
        A matplotlib `Figure`. Each axis names the fraction of the variance along it.

    Raises:
        ValueError: if the word does not occur, or the sentences do not have one label each.

    Example:

    >>> figure = uses_of_word("bank", ["The bank paid .", "He sat on the bank ."])

    Reference: Peters et al. 2018, section 5.3.
    """
    check_batch(sentences)
    tokens = list(map(analysis.tokens, sentences))
    found = analysis.occurrences(word, tokens)
    if labels is None:
        labels = [_shortened(" ".join(sentence)) for sentence in tokens]
    elif len(labels) != len(tokens):
        raise ValueError(f"Expected {len(tokens)} labels, one per sentence; got {len(labels)}.")
    labels = list(map(str, labels))
    layers = _embedder(model).embed(tokens, vectors="layers")
    vectors = analysis.occurrence_vectors(found, layers)
    names = list(dict.fromkeys(labels[use.sentence] for use in found))
    figure = _Picture(3.2 * len(vectors), 3.4 + 0.2 * len(names))
    all_axes = figure.subplots(1, len(vectors), squeeze=False)[0]
    for axes, title, values in zip(all_axes, layer_names(len(vectors)), vectors):
        plane, drawn = analysis.plane(values), []
        for i, name in enumerate(names):
            chosen = plane.points[[labels[use.sentence] == name for use in found]]
            marker = MARKERS[i % len(MARKERS)]
            color = analysis.COLORS[i % len(analysis.COLORS)]
            drawn.append(axes.scatter(*chosen.T, s=60, color=color, marker=marker))
        axes.set_title(title)
        xlabel, ylabel = plane.axis_titles()
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.tick_params(left=False, labelleft=False, bottom=False, labelbottom=False)
        axes.margins(0.15)
    legend = figure.legend(drawn, names, loc="outside lower center")
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def layer_weights(layer: ElmoLayer | WeightedLayerSum | keras.Model) -> Figure:
    """Draws the weight of each layer in the weighted sums of a trained layer or model.

    Args:
        layer: An `ElmoLayer` that mixes; a built `WeightedLayerSum`; or a Keras model with either.

    Returns:
        A matplotlib `Figure`: a group of bars for each mix, with its gamma.

    Raises:
        ValueError: if no layer mixes, or a mix is not built or uses only the top layer.

    Example:

    >>> figure = layer_weights(ElmoLayer())

    Reference: Peters et al. 2018, equation 1 and figure 2.
    """
    mixes = _mixes(layer)
    if not mixes or any(not mix.built or mix.use_top_only for mix in mixes):
        raise ValueError(
            "layer_weights expects an ElmoLayer with vectors='mix', a built WeightedLayerSum, or a "
            "Keras model with one of them, without use_top_only."
        )
    rows = [mix.normalized_weights for mix in mixes]
    figure = _Picture(1.5 + 1.3 * len(rows[0]), 3.2)
    axes = figure.subplots()
    positions, width = np.arange(len(rows[0])), 0.8 / len(rows)
    for i, (mix, row) in enumerate(zip(mixes, rows)):
        offset = (i - (len(rows) - 1) / 2) * width
        gamma = float(ops.convert_to_numpy(mix.gamma)[0])
        name = f"{mix.name}, \N{GREEK SMALL LETTER GAMMA} = {gamma:.2f}"
        color = analysis.COLORS[i % len(analysis.COLORS)]
        bars = axes.bar(positions + offset, row, width, color=color, label=name)
        axes.bar_label(bars, fmt="%.2f")
    axes.set_xticks(positions, layer_names(len(rows[0])))
    axes.set_ylabel("weight")
    axes.set_ylim(0, 1)
    axes.legend()
    return figure


def _embedder(model):
    return model if isinstance(model, Embedder) else Embedder(model, progress=False)


def _mixes(layer):
    return [part for part in layers_inside(layer) if isinstance(part, WeightedLayerSum)]


def _shortened(text, length=60):
    return text if len(text) <= length else f"{text[: length - 3]}..."


class _Picture(Figure):
    """A figure that notebooks show, and that pyplot does not keep; its size is in inches."""

    def __init__(self, width, height):
        super().__init__(figsize=(width, height), layout="constrained")

    def _repr_png_(self):
        png = io.BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()

"""The pictures of the explorer, by Altair."""

import altair as alt
import numpy as np
import pandas as pd

from keras_elmo import analysis
from keras_elmo.analysis import layer_names

_SIDE = 260
_COLORS = "cividis"  # even in gray, and for those who do not tell red from green
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# An axis lists "3 word", since a word may be there twice; what is shown is the word.
_WORD = "slice(datum.label, indexof(datum.label, ' ') + 1)"


def heat_map(words: list[list[str]], cosines: dict[str, np.ndarray]) -> alt.Chart:
    """Cosines `(T, U)` between the words of two sentences, by the name of the layer."""
    rows, columns = map(_numbered, words)
    data = pd.DataFrame(
        [
            (layer, row, column, float(values[i, j]))
            for layer, values in cosines.items()
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
        ],
        columns=["layer", "first", "second", "cosine"],
    )
    side = 24
    chart = alt.Chart(data).mark_rect()
    chart = chart.encode(
        x=_words("second", columns, "second sentence"),
        y=_words("first", rows, "first sentence"),
        color=alt.Color("cosine:Q", scale=alt.Scale(scheme=_COLORS, domain=[0, 1], clamp=True)),
        tooltip=["first", "second", alt.Tooltip("cosine:Q", format=".3f")],
    )
    chart = chart.properties(width=side * len(columns), height=side * len(rows))
    return chart.facet(column=alt.Column("layer:N", sort=list(cosines), title=None))


def planes(places: list[str], contexts: list[str], vectors: np.ndarray) -> alt.HConcatChart:
    """The uses of a word in a plane, for each layer.

    Args:
        places: What a use is called in the legend.
        contexts: What is shown where the pointer is.
        vectors: float `(L + 1, N, D)`.
    """
    pictures, order = [], list(dict.fromkeys(places))
    for name, layer in zip(layer_names(len(vectors)), vectors):
        points, explained = analysis.plane(layer)
        data = pd.DataFrame({"sentence": places, "context": contexts})
        data["x"], data["y"] = points.T
        chart = alt.Chart(data, title=name, width=_SIDE, height=_SIDE)
        chart = chart.mark_point(size=90, filled=True).encode(
            x=_axis("x", f"{explained[0]:.0%} of the variance" if explained.any() else "all equal"),
            y=_axis("y", f"{explained[1]:.0%} of the variance"),
            color=alt.Color("sentence:N", sort=order, scale=alt.Scale(scheme=_COLORS)),
            shape=alt.Shape("sentence:N", sort=order, scale=alt.Scale(range=list(_SHAPES))),
            tooltip=["context", "sentence"],
        )
        pictures.append(chart)
    return alt.hconcat(*pictures)


def filter_bars(activations: pd.DataFrame) -> alt.Chart:
    """The mean activation of the filters of each width; columns `word`, `width`, `activation`."""
    chart = (
        alt.Chart(activations)
        .mark_rect()
        .encode(
            x=alt.X("width:O", title="width in characters", axis=alt.Axis(labelAngle=0)),
            y=_words("word", activations.word, "word"),
            color=alt.Color(
                "activation:Q", title="mean activation", scale=alt.Scale(scheme=_COLORS)
            ),
            tooltip=["word", "width", alt.Tooltip("activation:Q", format=".3f")],
        )
    )
    return chart.properties(width=alt.Step(40))


def probability_bars(scores: pd.DataFrame) -> alt.Chart:
    """Bits of each word in each direction; columns `word`, `direction`, `bits`, `probability`."""
    directions = list(dict.fromkeys(scores.direction))
    chart = (
        alt.Chart(scores)
        .mark_bar()
        .encode(
            x=alt.X("bits:Q", title="surprise in bits: how unlikely the word is"),
            y=_words("word", scores.word, None),
            yOffset=alt.YOffset("direction:N", sort=directions),
            color=alt.Color(
                "direction:N", sort=directions, scale=alt.Scale(range=["#00204c", "#bcaf6f"])
            ),
            tooltip=["word", "direction", alt.Tooltip("probability:Q", format=".2%")],
        )
    )
    return chart.properties(height=alt.Step(12))


def _numbered(words):
    return [f"{i} {word}" for i, word in enumerate(words, 1)]


def _words(field, words, title):
    axis = alt.Axis(labelExpr=_WORD, labelLimit=160)
    make = alt.X if field == "second" else alt.Y
    # Without their order, words that were there before the last change would come first.
    return make(f"{field}:O", sort=list(dict.fromkeys(words)), title=title, axis=axis)


def _axis(field, title):
    make = alt.X if field == "x" else alt.Y
    return make(f"{field}:Q", title=title, scale=alt.Scale(zero=False))

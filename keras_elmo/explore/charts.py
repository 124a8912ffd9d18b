"""The pictures of the explorer, by Altair."""

import altair as alt
import numpy as np
import pandas as pd

from keras_elmo import analysis
from keras_elmo.analysis import layer_names

alt.data_transformers.disable_max_rows()  # two sentences of 60 words have 14,400 cosines

_COLORS = "cividis"  # even in gray, and for those who do not tell red from green
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# The label of "3 word" on an axis is the word.
_WORD = "slice(datum.label, indexof(datum.label, ' ') + 1)"


def heat_map(words: list[list[str]], cosines: pd.DataFrame) -> alt.Chart:
    """Cosines between the words of two sentences; columns `layer`, `first`, `second`, `cosine`."""
    rows, columns = map(numbered, words)
    layers = list(dict.fromkeys(cosines.layer))
    data = cosines.assign(
        first=np.tile(np.repeat(rows, len(columns)), len(layers)),
        second=np.tile(columns, len(rows) * len(layers)),
    )
    chart = alt.Chart(data, width=24 * len(columns), height=24 * len(rows)).mark_rect()
    chart = chart.encode(
        x=_words(alt.X, "second", columns, "second sentence"),
        y=_words(alt.Y, "first", rows, "first sentence"),
        color=alt.Color("cosine:Q", scale=alt.Scale(scheme=_COLORS, domain=[0, 1], clamp=True)),
        tooltip=["first", "second", alt.Tooltip("cosine:Q", format=".3f")],
    )
    return chart.facet(column=alt.Column("layer:N", sort=layers, title=None))


def planes(places: list[str], contexts: list[str], vectors: np.ndarray) -> alt.HConcatChart:
    """The uses of a word in a plane, for each layer.

    Args:
        places: Labels of the uses in the legend.
        contexts: Texts of the tooltips.
        vectors: float `(L + 1, N, D)`.
    """
    pictures, order, scale = [], list(dict.fromkeys(places)), alt.Scale(zero=False)
    for name, layer in zip(layer_names(len(vectors)), vectors):
        points, explained = analysis.plane(layer)
        data = pd.DataFrame({"sentence": places, "context": contexts})
        data["x"], data["y"] = points.T
        share = f"{explained[0]:.0%} of the variance" if explained.any() else "all equal"
        chart = alt.Chart(data, title=name, width=260, height=260)
        chart = chart.mark_point(size=90, filled=True).encode(
            x=alt.X("x:Q", title=share, scale=scale),
            y=alt.Y("y:Q", title=f"{explained[1]:.0%} of the variance", scale=scale),
            color=alt.Color("sentence:N", sort=order, scale=alt.Scale(scheme=_COLORS)),
            shape=alt.Shape("sentence:N", sort=order, scale=alt.Scale(range=list(_SHAPES))),
            tooltip=["context", "sentence"],
        )
        pictures.append(chart)
    return alt.hconcat(*pictures)


def filter_bars(activations: pd.DataFrame) -> alt.Chart:
    """The mean activation of the filters of each width; columns `word`, `width`, `activation`."""
    scale = alt.Scale(scheme=_COLORS)
    chart = alt.Chart(activations, width=alt.Step(40)).mark_rect()
    return chart.encode(
        x=alt.X("width:O", title="width in characters", axis=alt.Axis(labelAngle=0)),
        y=_words(alt.Y, "word", activations.word, "word"),
        color=alt.Color("activation:Q", title="mean activation", scale=scale),
        tooltip=["word", "width", alt.Tooltip("activation:Q", format=".3f")],
    )


def probability_bars(scores: pd.DataFrame) -> alt.Chart:
    """Bits of each word in each direction; columns `word`, `direction`, `bits`, `probability`."""
    directions = list(dict.fromkeys(scores.direction))
    scale = alt.Scale(range=["#00204c", "#bcaf6f"])
    chart = alt.Chart(scores, height=alt.Step(12)).mark_bar()
    return chart.encode(
        x=alt.X("bits:Q", title="surprise in bits: how unlikely the word is"),
        y=_words(alt.Y, "word", scores.word, None),
        yOffset=alt.YOffset("direction:N", sort=directions),
        color=alt.Color("direction:N", sort=directions, scale=scale),
        tooltip=["word", "direction", alt.Tooltip("probability:Q", format=".2%")],
    )


def numbered(words: list[str]) -> list[str]:
    """Words with their places, from 1 on: a word may be there twice."""
    return [f"{i} {word}" for i, word in enumerate(words, 1)]


def _words(axis, field, words, title):
    labels = alt.Axis(labelExpr=_WORD, labelLimit=160)
    # Without their order, words that were there before the last change would come first.
    return axis(f"{field}:O", sort=list(dict.fromkeys(words)), title=title, axis=labels)

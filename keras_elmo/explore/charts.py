"""The charts of the explorer, drawn with Altair. They fill the width of their column."""

import altair as alt
import numpy as np
import pandas as pd

from keras_elmo import analysis

alt.data_transformers.disable_max_rows()  # two sentences of 60 words have 3,600 cosines

# Six colors and seven shapes make 42 different marks; black would be lost on a dark page.
_COLORS = analysis.COLORS[:-1]
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
# Pixels of a heat map with its labels: from the length of a title on the left to what lets two of
# them fit on a screen below the inputs.
_HEIGHTS = (190, 265)
_STYLE = {
    "font": "Source Sans, sans-serif",
    "axis": {
        "labelFontSize": 15,
        "labelPadding": 4,
        "labelFlush": False,
        "labelSeparation": 0,
        "titleFontSize": 15,
        "titleFontWeight": "normal",
        "titlePadding": 6,
    },
    "legend": {"labelFontSize": 15, "symbolSize": 200},
    "title": {"fontSize": 17, "anchor": "start", "offset": 6},
    "view": {"stroke": None},
}
# The label of "3 word" on an axis is the word.
_WORD = "slice(datum.label, indexof(datum.label, ' ') + 1)"


def heat_map(
    data: pd.DataFrame, title: str, axes: tuple[str, str], max_value: float
) -> alt.LayerChart:
    """A heat map, with the numbers in the cells where these are wide enough.

    Args:
        data: A row for each cell, from left to right and then down; its columns are the label on
            the left, the label below, and the number.
        title: The title.
        axes: The titles of the axes, on the left and below.
        max_value: The number with the lightest color; the darkest is 0.
    """
    down, across, value = data.columns
    rows, columns = (list(dict.fromkeys(data[name])) for name in (down, across))
    # Labels below are horizontal if all of them fit, as on wide screens.
    fits = f"width > {len(columns) * 8 * max(map(len, columns))}"
    below = alt.Axis(
        title=axes[1],
        labelExpr=_WORD,
        labelLimit=90,
        labelAngle=alt.expr(f"{fits} ? 0 : -90"),
        labelAlign=alt.expr(f"{fits} ? 'center' : 'right'"),
        labelBaseline=alt.expr(f"{fits} ? 'top' : 'middle'"),
        labelOverlap="parity",
    )
    left = alt.Axis(title=axes[0], labelExpr=_WORD, labelLimit=130, labelOverlap="parity")
    scale = alt.Scale(scheme="viridis", domain=[0, max_value], clamp=True)
    height = int(np.clip(34 * len(rows) + 90, *_HEIGHTS))
    base = alt.Chart(data, title=title, height=height).encode(
        # Otherwise Vega keeps the words of the previous data first.
        x=alt.X(f"{across}:N", sort=columns, axis=below),
        y=alt.Y(f"{down}:N", sort=rows, axis=left),
        tooltip=[down, across, alt.Tooltip(f"{value}:Q", format=".3f")],
    )
    cells = base.mark_rect().encode(alt.Color(f"{value}:Q", scale=scale, legend=None))
    numbers = base.mark_text(
        fontSize=14,
        opacity=alt.expr(f"width > {36 * len(columns)} && height > {18 * len(rows)} ? 1 : 0"),
    ).encode(
        text=alt.Text(f"{value}:Q", format=".2f"),
        color=alt.condition(
            f"datum['{value}'] > {0.5 * max_value}", alt.value("black"), alt.value("white")
        ),
    )
    return _styled(cells + numbers)


def characters(cells: pd.DataFrame) -> alt.LayerChart:
    """The characters of words with their ids, and windows of filters in the same columns.

    Args:
        cells: A row for each character of a word or window: the label of its `row`, `position`,
            `character`, `id`, and the `filter` of a window, which is empty for a word.
    """
    rows, columns = list(dict.fromkeys(cells.row)), cells.position.max() + 1
    chart = alt.Chart(cells, title="Characters and their ids", height=alt.Step(38)).encode(
        x=alt.X("position:O", axis=None),
        y=alt.Y("row:N", sort=rows, title=None, axis=alt.Axis(labelExpr=_WORD, labelLimit=130)),
        tooltip=["character", "id", "filter"],
    )
    is_word = "datum.filter === ''"
    small, wide = (
        f"min(17, 0.9 * width / {columns})",
        f"width > {30 * columns} && {is_word} ? 1 : 0",
    )
    color = alt.condition(is_word, alt.value("#dbe9f6"), alt.value("#fbe3b5"))
    letters = chart.mark_text(
        fontSize=alt.expr(small), dy=alt.expr(f"{is_word} ? -7 : 0"), color="black"
    )
    numbers = chart.mark_text(fontSize=13, dy=10, color="black", opacity=alt.expr(wide))
    return _styled(
        chart.mark_rect(stroke="white", strokeWidth=2).encode(color=color)
        + letters.encode(text="character")
        + numbers.encode(text="id")
    )


def plane(title: str, vectors: np.ndarray, uses: pd.DataFrame) -> alt.Chart:
    """The uses of a word in the plane in which they differ most.

    Args:
        title: The title.
        vectors: float `(N, D)`.
        uses: A row for each use: its `sentence`, and the `label` of its mark.
    """
    projected = analysis.plane(vectors)
    data = uses.assign(x=projected.points[:, 0], y=projected.points[:, 1])
    x_title, y_title = projected.axis_titles()
    axis, scale = alt.Axis(labels=False, ticks=False), alt.Scale(zero=False, padding=24)
    chart = alt.Chart(data, title=title, height=340).encode(
        x=alt.X("x:Q", title=x_title, axis=axis, scale=scale),
        y=alt.Y("y:Q", title=y_title, axis=axis, scale=scale),
        tooltip=["sentence"],
    )
    return _styled(_marks(chart, uses))


def legend(title: str, uses: pd.DataFrame) -> alt.LayerChart:
    """The marks of the planes, each with its use and the nearest neighbor of this.

    Args:
        title: The title.
        uses: A row for each use: its `sentence`, the words around it as `context`, both also of
            its neighbor as `nearest` and `nearest_context`, and the `label` of its mark.
    """
    chart = alt.Chart(uses, title=title, height=alt.Step(56)).encode(
        y=alt.Y("label:N", sort=None, axis=None), tooltip=["sentence", "nearest"]
    )
    lines = chart.encode(x=alt.value(26))

    def text(whole, short, **style):
        """The whole sentence where it fits, else the words around the use."""
        fits = f"7.2 * length(datum.{whole}) < width - 30"
        shown = alt.expr(f"{fits} ? datum.{whole} : datum.{short}")
        limit = alt.expr("width - 30")
        return lines.mark_text(align="left", fontSize=15, limit=limit, text=shown, **style)

    return _styled(
        _marks(chart.encode(x=alt.value(10)), uses)
        + text("sentence", "context", dy=-10)
        + text("nearest", "nearest_context", dy=10, opacity=0.7)
    )


def probability_bars(scores: pd.DataFrame) -> alt.LayerChart:
    """Bits of each word in each direction; columns `word`, `direction`, `bits`, `probability`."""
    words, directions = (list(dict.fromkeys(scores[name])) for name in ("word", "direction"))
    color = alt.Color(
        "direction:N",
        sort=directions,
        scale=alt.Scale(range=list(analysis.COLORS)),
        legend=alt.Legend(orient="top", title=None),
    )
    scale = alt.Scale(domain=[0, 1.15 * scores.bits.max()])  # space for the longest bar's number
    chart = alt.Chart(scores, height=alt.Step(20)).encode(
        x=alt.X("bits:Q", title="surprise in bits", scale=scale, axis=alt.Axis(tickCount=6)),
        y=alt.Y("word:N", sort=words, title=None, axis=alt.Axis(labelExpr=_WORD, labelLimit=130)),
        yOffset=alt.YOffset("direction:N", sort=directions),
        tooltip=["word", "direction", "bits", alt.Tooltip("probability:Q", format=".2%")],
    )
    numbers = chart.mark_text(align="left", dx=4, fontSize=14)
    return _styled(
        chart.mark_bar().encode(color) + numbers.encode(text=alt.Text("bits:Q", format=".1f"))
    )


def numbered(words: list[str]) -> list[str]:
    """Words with their positions, from 1, since a word may occur twice."""
    return [f"{i} {word}" for i, word in enumerate(words, 1)]


def _marks(chart, uses):
    """A mark for each label, of its own color and shape."""
    labels = list(dict.fromkeys(uses.label))
    return chart.mark_point(size=130, filled=True, opacity=1).encode(
        alt.Color("label:N", sort=labels, scale=alt.Scale(range=list(_COLORS)), legend=None),
        alt.Shape("label:N", sort=labels, scale=alt.Scale(range=list(_SHAPES)), legend=None),
    )


def _styled(chart):
    return chart.configure(**_STYLE)

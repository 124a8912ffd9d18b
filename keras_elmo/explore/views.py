"""The views of the explorer. Streamlit calls `show` again at each change of an input."""

import itertools
import os
import re

import numpy as np
import pandas as pd
import streamlit as st
from keras import ops

from keras_elmo import analysis
from keras_elmo.analysis import layer_names
from keras_elmo.embedding.embedder import Embedder
from keras_elmo.explore import charts, examples
from keras_elmo.text.tokenize import tokenize
from keras_elmo.training.evaluation import Scorer, SentenceScore
from keras_elmo.training.index import CorpusIndex
from keras_elmo.training.loading import load_language_model

_MAX_WORDS, _MAX_USES = 60, 200
_MAX_LABELED = 12  # uses with marks of their own
_MAX_CONTEXT = 30  # words on each side of a use


@st.cache_resource(show_spinner="Loading the model ...")
def embedder(model: str) -> Embedder:
    """The model, one for all pages that are open."""
    return Embedder(model, progress=False)


@st.cache_resource(show_spinner="Loading the softmax ...")
def scorer(model: str) -> tuple:
    """The language model with its softmax and vocabulary."""
    language_model, vocabulary = load_language_model(os.path.expanduser(model))
    return Scorer(language_model, batch_size=1), vocabulary


@st.cache_data(show_spinner=False, max_entries=1000)
def layers_of(model: str, tokens: tuple[str, ...]) -> np.ndarray:
    """All layers `(L + 1, T, D)` of a sentence."""
    return embedder(model).embed([tokens], vectors="layers")[0]


def show_characters(model: str) -> None:
    """Characters, their ids, and the activations of the filters."""
    st.write(
        "Filters of several widths read the characters of each word, from a begin mark (\u25b8) "
        "to an end mark (\u25c2). Below each word: the strongest filter of each width, with its "
        "activation, at the characters where it has its maximum."
    )
    chosen, example = _example(examples.CHARACTERS)
    words = _words(_input(st.text_input, "Words", chosen, example))
    layer = embedder(model).layer
    if not layer.config.reads_characters:
        st.info("This model reads whole words: it has no characters and no filters.")
        return
    rows, encoder = layer.text_encoder.encode_words(words), layer.token_encoder
    if layer.config.word_dim:
        encoder, rows = encoder.characters, rows[:, 1:]
    if layer.config.has_lexicon:
        st.write("The id of a character is its index in the lexicon plus 1.")
        characters = list(map(list, words))
    else:
        st.write("The id of a character is its byte in UTF-8 plus 1.")
        characters = [[_byte(value) for value in word.encode()] for word in words]
    max_characters = rows.shape[1] - 2  # longer words are truncated
    ids = ops.convert_to_tensor(rows)
    activations = ops.convert_to_numpy(encoder.filter_activations(ids))
    starts = ops.convert_to_numpy(encoder.filter_starts(ids))
    strongest = analysis.strongest_filters(activations, starts, encoder.filters)
    cells = []
    for word, own, row, windows in zip(charts.numbered(words), characters, rows, strongest):
        marked = ["\u25b8", *own[:max_characters], "\u25c2"]
        cells += [(word, i, character, row[i], "") for i, character in enumerate(marked)]
        marked += [""] * (len(row) - len(marked))
        for index, width, start, activation in windows:
            label = f"{word.split()[0]}.{width} width {width}: {activation:.2f}"
            places = range(start, start + width)
            cells += [(label, i, marked[i], row[i], str(index)) for i in places]
    by_character = pd.DataFrame(cells, columns=["row", "position", "character", "id", "filter"])
    widths, counts = zip(*encoder.filters)
    parts = np.split(activations, np.cumsum(counts)[:-1], axis=1)
    means = np.stack([abs(part).mean(axis=1) for part in parts], axis=1).astype(float)
    cells = itertools.product(charts.numbered(words), map(str, widths))
    by_width = pd.DataFrame(cells, columns=["word", "width"]).assign(activation=means.ravel())
    axes, title = ("", "width in characters"), "Mean activation of the filters of each width"
    _charts([charts.characters(by_character), charts.heat_map(by_width, title, axes, means.max())])
    _table(by_width)


def show_similarity(model: str) -> None:
    """Cosines between the words of two sentences, in each layer and their weighted sum."""
    st.write(
        "The cosine between each word of one sentence and each word of the other, layer by layer: "
        "the token vectors do not depend on the context, the LSTMs do."
    )
    chosen, example = _example(examples.SIMILARITY)
    labels = ("First sentence", "Second sentence")
    texts = [
        _input(column.text_input, label, chosen, sentence)
        for column, label, sentence in zip(st.columns(2), labels, example)
    ]
    names = _layers_in(model)
    above = st.container()
    with st.expander("Weights of the sum"):
        st.latex(r"\gamma \sum_j \mathrm{softmax}(s)_j \, h_j")
        sliders = zip(st.columns(len(names)), names)
        bounds = (-5.0, 5.0, 0.0, 0.1)
        raw = [_input(column.slider, f"s of {name}", "", *bounds) for column, name in sliders]
        shares = analysis.softmax(raw)
        named = ", ".join(f"{name} {share:.2f}" for name, share in zip(names, shares))
        st.write(
            f"Shares: {named}. The factor gamma has no slider, since it scales all vectors alike "
            "and does not change their cosines."
        )
    words = list(map(_words, texts))
    first, second = (layers_of(model, tuple(tokens)) for tokens in words)
    titles, cosines = zip(*analysis.layer_cosines(first, second, [shares]))
    rows = itertools.product(titles, *map(charts.numbered, words))
    data = pd.DataFrame(rows, columns=["layer", "first", "second"])
    data["cosine"] = np.ravel(cosines).astype(float)
    with above:
        heat_maps = [
            charts.heat_map(cells.drop(columns="layer"), title, labels, 1.0)
            for title, cells in data.groupby("layer", sort=False)
        ]
        _charts(heat_maps)
        st.write("The colors of cosines go from 0 to 1; those below 0 have the color of 0.")
    _table(data)


def show_uses(model: str) -> None:
    """The uses of a word in a plane, and the nearest neighbor of each."""
    st.write(
        "One word in several sentences. Its token vector does not depend on the context; its "
        "vectors in the LSTMs do, so they can tell its senses apart."
    )
    example, text = _example(examples.USES)
    left, right = st.columns([1, 3])
    word = _input(left.text_input, "Word", example, example).strip()
    names, label = _layers_in(model), "Layer of the nearest uses"
    layer = _input(left.selectbox, label, "", names, index=len(names) - 1)
    text = _input(right.text_area, "Sentences, one per line", example, text, height=180)
    sentences = [sentence for line in text.splitlines() for sentence in tokenize(line)]
    found = analysis.occurrences(word, sentences)
    if len(found) > _MAX_USES:
        st.info(f"The first {_MAX_USES} of {len(found):,} uses are shown.")
        found = found[:_MAX_USES]
    with st.spinner("Embedding ..."):
        used = {use.sentence: sentences[use.sentence] for use in found}
        layers = {i: layers_of(model, tuple(sentence)) for i, sentence in used.items()}
    vectors = analysis.occurrence_vectors(found, layers)
    whole, short = (
        [_in_context(sentences[use.sentence], use.position, width) for use in found]
        for width in (_MAX_CONTEXT, 3)
    )
    is_labeled = len(found) <= _MAX_LABELED
    labels = [str(i) if is_labeled else "" for i in range(len(found))]
    uses = pd.DataFrame({"sentence": whole, "context": short, "label": labels})
    planes = [charts.plane(name, values, uses) for name, values in zip(names, vectors)]
    if len(found) < 2:
        _charts(planes)
        st.info("The word occurs only once: add more sentences that contain it.")
        return
    nearest = [pair for [pair] in analysis.nearest(vectors[names.index(layer)], count=1)]
    if is_labeled:
        for name, texts in (("nearest", whole), ("nearest_context", short)):
            uses[name] = [f"nearest: {texts[j]} ({cosine:.2f})" for j, cosine in nearest]
        title = f"Nearest neighbors in {layer}"
        planes.append(charts.legend(title, uses))
    _charts(planes)
    rows = [(whole[i], whole[j], cosine) for i, (j, cosine) in enumerate(nearest)]
    _table(pd.DataFrame(rows, columns=["use", "nearest use", "cosine"]))


def show_language_model(model: str) -> None:
    """How probable each word is for the language model."""
    st.write(
        "How surprising each word is: for the forward model given the words before it, for the "
        "backward model given the words after it."
    )
    chosen, example = _example(examples.LANGUAGE_MODEL)
    words = _words(_input(st.text_input, "Sentence", chosen, example))
    try:
        scoring, vocabulary = scorer(model)
    except FileNotFoundError as error:
        st.info(
            f"{_escape(str(error))} Train one with `keras-elmo train --output run ...` and see it "
            "with `keras-elmo explore --model run`."
        )
        return
    scores: list[SentenceScore] = []
    index = CorpusIndex.from_sentences([[word.encode() for word in words]])
    scoring.perplexity(index, vocabulary, on_sentence=scores.append)
    (score,) = scores
    # Forward predicts the words and the end, backward the words and the begin.
    losses = {"forward": score.forward[: len(words)]}
    if score.backward is not None:
        losses["backward"] = score.backward[-len(words) :]
    cells = itertools.product(charts.numbered(words), losses)
    data = pd.DataFrame(cells, columns=["word", "direction"])
    nats = np.stack(list(losses.values()), axis=1).ravel()
    data["bits"], data["probability"] = nats / np.log(2), np.exp(-nats)
    st.write(f"Perplexity of the sentence: **{score.perplexity:.1f}**")
    _charts([charts.probability_bars(data)], 1)
    unknown = [word for word in words if word not in vocabulary]
    if unknown:
        st.write(_escape(f"Not in the vocabulary, so predicted as <UNK>: {', '.join(unknown)}"))
    _table(data)


def _input(widget, label, scope, *values, **options):
    """An input that keeps its state, also on other pages and while an error hides it.

    The scope tells inputs of the same label apart: each example keeps what was typed over it.
    """
    return widget(label, *values, key=f"{label} {scope}", persist_state="session", **options)


def _example(choices):
    names = list(choices)
    chosen = _input(st.radio, "Example", ", ".join(names), names, horizontal=True)
    return chosen, choices[chosen]


def _layers_in(model):
    return layer_names(embedder(model).layer.config.num_layers + 1)


def _words(text):
    """The tokens of a text field."""
    words = list(itertools.chain.from_iterable(tokenize(text)))
    if not words:
        raise ValueError("Expected at least one word, got none: type a sentence.")
    if len(words) > _MAX_WORDS:
        raise ValueError(f"Expected at most {_MAX_WORDS} words, got {len(words):,}.")
    return words


def _byte(value):
    return chr(value) if 32 < value < 127 else f"{value:02x}"


def _escape(text):
    """Escapes Markdown in a text, in which an image would be downloaded."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def _in_context(tokens, position, width):
    start, stop = max(0, position - width), position + width + 1
    before, after = tokens[start:position], tokens[position + 1 : stop]
    cut_before, cut_after = start * ["..."], (len(tokens) - stop) * ["..."]
    return " ".join([*cut_before[:1], *before, f"[{tokens[position]}]", *after, *cut_after[:1]])


def _charts(found, per_row=2):
    # Streamlit's theme has a color for axes, but none for the text in charts.
    color = "white" if st.context.theme.type == "dark" else "black"
    for i, chart in enumerate(found):
        if i % per_row == 0:
            columns = st.columns(per_row)  # stacked on a phone
        columns[i % per_row].altair_chart(chart.configure_text(color=color))


def _table(data):
    with st.expander("Table"):
        st.dataframe(data, hide_index=True)


VIEWS = {
    "similarity": ("Similarity", show_similarity),
    "characters": ("Characters and filters", show_characters),
    "uses": ("Uses of a word", show_uses),
    "language-model": ("Language model", show_language_model),
}
"""The title and the function of each view, by its address, in the order of the menu."""


def show(address: str, model: str) -> None:
    """Shows a view of a model; errors in the user's input are shown as messages."""
    title, view = VIEWS[address]
    st.header(title)
    try:
        embedder(model)  # here, since Streamlit shows no message of loading from a cached function
        view(model)
        st.caption(_escape(f"Model: {model}, {embedder(model).dim} numbers per word and layer"))
    except (ConnectionError, ImportError, MemoryError, OSError, ValueError) as error:
        st.error(_escape(str(error)).replace("\n", "  \n"))

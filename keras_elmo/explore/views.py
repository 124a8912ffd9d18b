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

_MOST_TOKENS, _MOST_USES, _MOST_SHOWN = 60, 200, 12


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
    return embedder(model).embed([tokens], output="layers")[0]


def show_characters(model: str) -> None:
    """Characters, ids, and the filters that fire."""
    st.write(
        "ELMo spells each word, from a begin mark (\u25b8) to an end mark (\u25c2). Filters of "
        "several widths read the characters."
    )
    _, example = _example(examples.CHARACTERS)
    words = _checked(st.text_input("Words", example))
    layer = embedder(model).layer
    if not layer.config.reads_characters:
        st.info("This model reads whole words: it has no characters and no filters.")
        return
    rules, encoder = layer.char_encoder.rules, layer.token_encoder
    rows = rules.encode_words(words)
    if layer.config.word_dim:
        encoder, rows = encoder.characters, rows[:, 1:]
    if layer.config.has_lexicon:
        st.write("The id of a character is its place in the lexicon plus 1.")
        spelled = list(map(list, words))
    else:
        st.write("The id of a character is its byte in UTF-8 plus 1.")
        spelled = [[_byte(value) for value in word.encode()] for word in words]
    most = rows.shape[1] - 2  # longer words are cut
    cells = [
        (word, place, character, number)
        for word, letters, row in zip(charts.numbered(words), spelled, rows)
        for place, (character, number) in enumerate(zip(["\u25b8", *letters[:most], "\u25c2"], row))
    ]
    ids = pd.DataFrame(cells, columns=["word", "place", "character", "id"])
    activations = ops.convert_to_numpy(encoder.filter_activations(ops.convert_to_tensor(rows)))
    widths, numbers = zip(*encoder.filters)
    parts = np.split(activations, np.cumsum(numbers)[:-1], axis=1)
    means = np.stack([abs(part).mean(axis=1) for part in parts], axis=1).astype(float)
    places = itertools.product(charts.numbered(words), map(str, widths))
    fired = pd.DataFrame(places, columns=["word", "width"]).assign(activation=means.ravel())
    axes, title = ("", "width in characters"), "Mean activation of the filters of each width"
    _charts([charts.spelling(ids), charts.heat_map(fired, title, axes, means.max())])
    _table(fired)


def show_similarity(model: str) -> None:
    """Cosines between the words of two sentences, and the weighted sum of the layers."""
    st.write(
        "The cosine between each word of one sentence and each word of the other, layer by layer: "
        "the token vectors do not depend on the context, the LSTMs do."
    )
    _, example = _example(examples.SIMILARITY)
    labels = ("First sentence", "Second sentence")
    words = [
        _checked(column.text_input(label, sentence))
        for column, label, sentence in zip(st.columns(2), labels, example)
    ]
    first, second = (layers_of(model, tuple(tokens)) for tokens in words)
    names = layer_names(len(first))
    above = st.container()
    with st.expander("Weights of the sum"):
        st.latex(r"\gamma \sum_j \mathrm{softmax}(s)_j \, h_j")
        *columns, last = st.columns(len(names) + 1)
        sliders = zip(columns, names)
        raw = [column.slider(f"s of {name}", -5.0, 5.0, 0.0, 0.1) for column, name in sliders]
        gamma = last.slider("gamma", -2.0, 2.0, 1.0, 0.1)
        shares = zip(names, analysis.softmax(raw))
        st.write(
            f"Shares: {', '.join(f'{name} {share:.2f}' for name, share in shares)}. The factor "
            "gamma scales all vectors alike: cosines do not depend on it, only on its sign."
        )
    mixes = [analysis.mixed(layers, raw, gamma) for layers in (first, second)]
    cosines = [*analysis.cosines(first, second), analysis.cosines(*mixes)]
    rows = itertools.product([*names, "weighted sum"], *map(charts.numbered, words))
    data = pd.DataFrame(rows, columns=["layer", "first", "second"])
    data["cosine"] = np.ravel(cosines).astype(float)
    with above:
        pictures = [
            charts.heat_map(cells.drop(columns="layer"), name, labels, 1.0)
            for name, cells in data.groupby("layer", sort=False)
        ]
        _charts(pictures, 2 if len(words[1]) <= _MOST_SHOWN else 1)
        st.write("The colors of cosines go from 0 to 1; those below 0 have the color of 0.")
    _table(data)


def show_uses(model: str) -> None:
    """The uses of a word in a plane, and the nearest of each."""
    st.write(
        "One word in several sentences. Its token vector does not depend on the context; its "
        "vectors in the LSTMs do, so they can tell its senses apart."
    )
    example, text = _example(examples.USES)
    left, right = st.columns([1, 3])
    word = left.text_input("Word", example).strip()
    given = right.text_area("Sentences, one a line", text, height=180)
    sentences = [sentence for line in given.splitlines() for sentence in tokenize(line)]
    found = analysis.occurrences(word, sentences)
    if len(found) > _MOST_USES:
        st.info(f"The first {_MOST_USES} of {len(found):,} uses are shown.")
        found = found[:_MOST_USES]
    with st.spinner("Embedding ..."):
        layers = [
            layers_of(model, tuple(sentences[use.sentence]))[:, use.position] for use in found
        ]
    vectors, names = np.stack(layers, axis=1), layer_names(len(layers[0]))
    contexts = [_in_context(sentences[use.sentence], use.position) for use in found]
    few = len(found) <= _MOST_SHOWN
    labels = [str(i) if few else "" for i in range(len(found))]
    uses = pd.DataFrame({"context": contexts, "label": labels})
    pictures = [charts.plane(*of_layer, uses) for of_layer in zip(names, vectors)]
    if len(found) < 2:
        _charts(pictures)
        st.info("The word occurs only once: add more sentences that contain it.")
        return
    layer = left.selectbox("Layer of the nearest uses", names, index=len(names) - 1)
    near = [pair for [pair] in analysis.nearest(vectors[names.index(layer)], count=1)]
    if few:
        lines = [f"nearest: {contexts[j]} ({cosine:.2f})" for j, cosine in near]
        title = f"The uses and the nearest of each in {layer}"
        pictures.append(charts.key(title, uses.assign(nearest=lines)))
    _charts(pictures)
    rows = [(contexts[i], contexts[j], cosine) for i, (j, cosine) in enumerate(near)]
    _table(pd.DataFrame(rows, columns=["use", "nearest use", "cosine"]))


def show_language_model(model: str) -> None:
    """How sure the language model is of each word."""
    st.write(
        "How surprising each word is: for the forward model after the words before it, for the "
        "backward model before the words after it."
    )
    _, example = _example(examples.LANGUAGE_MODEL)
    words = _checked(st.text_input("Sentence", example))
    try:
        scoring, vocabulary = scorer(model)
    except FileNotFoundError as error:
        st.info(
            f"{_plain(str(error))} Train one with `keras-elmo train --output run ...` and see it "
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
    places = itertools.product(charts.numbered(words), losses)
    data = pd.DataFrame(places, columns=["word", "direction"])
    nats = np.stack(list(losses.values()), axis=1).ravel()
    data["bits"], data["probability"] = nats / np.log(2), np.exp(-nats)
    st.write(f"Perplexity of the sentence: **{score.perplexity:.1f}**")
    _charts([charts.probability_bars(data)], 1)
    unknown = [word for word in words if word not in vocabulary]
    if unknown:
        st.write(_plain(f"Not in the vocabulary, so predicted as <UNK>: {', '.join(unknown)}"))
    _table(data)


def _example(choices):
    chosen = st.radio("Example", list(choices), horizontal=True)
    return chosen, choices[chosen]


def _checked(text):
    """The tokens of a text that was typed in."""
    words = list(itertools.chain.from_iterable(tokenize(text)))
    if not words:
        raise ValueError("Expected at least one word, got none: type a sentence.")
    if len(words) > _MOST_TOKENS:
        raise ValueError(f"Expected at most {_MOST_TOKENS} words, got {len(words):,}.")
    return words


def _byte(value):
    return chr(value) if 32 < value < 127 else f"{value:02x}"


def _plain(text):
    """Escapes a text, so that Markdown shows it unchanged: an image in it would be downloaded."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def _in_context(tokens, position, width=3):
    start, stop = max(0, position - width), position + width + 1
    before, after = tokens[start:position], tokens[position + 1 : stop]
    cut_before, cut_after = start * ["..."], (len(tokens) - stop) * ["..."]
    return " ".join([*cut_before[:1], *before, f"[{tokens[position]}]", *after, *cut_after[:1]])


def _charts(pictures, a_row=2):
    for i, picture in enumerate(pictures):
        if i % a_row == 0:
            columns = st.columns(a_row)  # below each other on a phone
        columns[i % a_row].altair_chart(picture, theme=None)


def _table(data):
    with st.expander("Table"):
        st.dataframe(data, hide_index=True)


VIEWS = {
    "characters": ("Characters and filters", show_characters),
    "similarity": ("Similarity", show_similarity),
    "uses": ("Uses of a word", show_uses),
    "language-model": ("Language model", show_language_model),
}
"""By address: the title and the function."""


def show(address: str, model: str) -> None:
    """Shows a view of a model; errors in the user's input are shown as messages."""
    title, view = VIEWS[address]
    st.header(title)
    try:
        view(model)
        st.caption(_plain(f"Model: {model}, {embedder(model).dim} numbers a word and layer"))
    except (ConnectionError, ImportError, MemoryError, OSError, ValueError) as error:
        st.error(_plain(str(error)))

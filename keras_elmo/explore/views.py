"""The views of the explorer. Streamlit calls `show` again at each change of an input."""

import itertools
import os
import re

import numpy as np
import pandas as pd
import streamlit as st
from keras import ops
from vl_convert import vegalite_to_png, vegalite_to_svg

from keras_elmo import analysis
from keras_elmo.analysis import layer_names
from keras_elmo.embedding.embedder import Embedder
from keras_elmo.explore import charts
from keras_elmo.training.evaluation import Scorer, SentenceScore
from keras_elmo.training.index import CorpusIndex
from keras_elmo.training.loading import load_language_model

_MOST_TOKENS, _MOST_USES, _MOST_SHOWN = 60, 200, 12
# The bundled model distinguishes these uses of "left".
_FIRST, _SECOND = "He left the room early .", "Her left hand was cold ."
_USES = """They left the house early in the morning .
He left the room without a word .
We left the ship at noon .
He held a sword in his left hand .
She raised her left arm .
His left eye was closed ."""


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
    text = st.text_input("Words", "bank banks banking", help="Separated by spaces.")
    words = _checked(text)
    layer = embedder(model).layer
    if not layer.config.reads_characters:
        st.info("This model reads whole words: it has no characters and no filters.")
        return
    rules, encoder = layer.char_encoder.rules, layer.token_encoder
    rows = rules.encode_words(words)
    st.caption(
        "A word is spelled by the bytes of its UTF-8, each plus 1, between a begin mark and an end "
        "mark, and padded to the width of a row."
        if not layer.config.has_lexicon
        else "A word is spelled by its code points, each by its place in the lexicon plus 1."
    )
    spelled = {
        "word": words,
        "UTF-8": [word.encode().hex(" ") for word in words],
        "ids": [" ".join(map(str, row)) for row in rows],
    }
    _table(pd.DataFrame(spelled), "characters")
    if layer.config.word_dim:
        encoder, rows = encoder.characters, rows[:, 1:]
    activations = ops.convert_to_numpy(encoder.filter_activations(ops.convert_to_tensor(rows)))
    widths, numbers = zip(*encoder.filters)
    parts = np.split(activations, np.cumsum(numbers)[:-1], axis=1)
    means = np.stack([abs(part).mean(axis=1) for part in parts], axis=1).astype(float)
    data = pd.DataFrame(
        {
            "word": np.repeat(charts.numbered(words), len(widths)),
            "width": np.tile(widths, len(words)),
            "activation": means.ravel(),
        }
    )
    st.subheader("Which widths fire")
    _picture(charts.filter_bars(data), "filters")
    _table(data.assign(word=np.repeat(words, len(widths))), "filters")


def show_similarity(model: str) -> None:
    """Cosines between the words of two sentences, and the weighted sum of the layers."""
    left, right = st.columns(2)
    typed = left.text_input("First sentence", _FIRST), right.text_input("Second sentence", _SECOND)
    words = list(map(_checked, typed))
    first, second = (layers_of(model, tuple(tokens)) for tokens in words)
    names = layer_names(len(first))
    with st.expander("Weights of the sum", expanded=True):
        st.latex(r"\gamma \sum_j \mathrm{softmax}(s)_j \, h_j")
        *columns, last = st.columns(len(names) + 1)
        sliders = zip(columns, names)
        raw = [column.slider(f"s of {name}", -5.0, 5.0, 0.0, 0.1) for column, name in sliders]
        gamma = last.slider("gamma", -2.0, 2.0, 1.0, 0.1)
        shares = zip(names, analysis.softmax(raw))
        st.caption(
            f"Shares: {', '.join(f'{name} {share:.2f}' for name, share in shares)}. The factor "
            "gamma scales all vectors alike: cosines do not depend on it, only on its sign."
        )
    mixes = [analysis.mixed(layers, raw, gamma) for layers in (first, second)]
    cosines = [*analysis.cosines(first, second), analysis.cosines(*mixes)]
    rows = itertools.product([*names, "weighted sum"], *words)
    data = pd.DataFrame(rows, columns=["layer", "first", "second"])
    data["cosine"] = np.ravel(cosines).astype(float)
    _picture(charts.heat_map(words, data), "similarity")
    st.caption("Colors go from 0 to 1; cosines below 0 have the color of 0.")
    _table(data, "similarity")


def show_uses(model: str) -> None:
    """The uses of a word in a plane, and the nearest of each."""
    word = st.text_input("Word", "left").strip()
    given = st.text_area("Sentences, one a line", _USES, height=180)
    sentences = list(map(analysis.tokens, given.splitlines()))
    found = analysis.uses(word, sentences)
    if len(found) > _MOST_USES:
        st.info(f"The first {_MOST_USES} of {len(found):,} uses are shown.")
        found = found[:_MOST_USES]
    with st.spinner("Embedding ..."):
        layers = [
            layers_of(model, tuple(sentences[use.sentence]))[:, use.position] for use in found
        ]
    vectors = np.stack(layers, axis=1)
    contexts = [_in_context(sentences[use.sentence], use.position) for use in found]
    numbers = list(dict.fromkeys(use.sentence for use in found))
    few = len(numbers) <= _MOST_SHOWN
    places = [f"sentence {use.sentence + 1}" if few else "all sentences" for use in found]
    _picture(charts.planes(places, contexts, vectors), "uses")
    if not few:
        st.caption(f"More than {_MOST_SHOWN} sentences have one color.")
    st.subheader("Nearest uses")
    if len(found) < 2:
        st.info("The word occurs only once: add more sentences that contain it.")
        return
    names = layer_names(len(vectors))
    layer = st.selectbox("Layer", names, index=len(names) - 1)
    near = analysis.nearest(vectors[names.index(layer)], count=1)
    rows = [(contexts[i], contexts[j], cosine) for i, [(j, cosine)] in enumerate(near)]
    _table(pd.DataFrame(rows, columns=["use", "nearest use", "cosine"]), "nearest_uses")


def show_language_model(model: str) -> None:
    """How sure the language model is of each word."""
    words = _checked(st.text_input("Sentence", _FIRST))
    try:
        scoring, vocabulary = scorer(model)
    except FileNotFoundError as error:
        st.info(
            f"{_plain(str(error))} Train one with `keras-elmo train --output run ...` and see it "
            "with `keras-elmo explore --model run`."
        )
        return
    scores: list[SentenceScore] = []
    index = CorpusIndex.of_sentences([[word.encode() for word in words]])
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
    _picture(charts.probability_bars(data), "language_model")
    unknown = [word for word in words if vocabulary.count_unknown([word])]
    if unknown:
        st.caption(_plain(f"Not in the vocabulary, so predicted as <UNK>: {', '.join(unknown)}"))
    st.caption(f"Perplexity of the sentence: {score.perplexity:.1f}")
    _table(data, "probabilities")


def _checked(text):
    """The tokens of a sentence that was typed in."""
    words = analysis.tokens(text)
    if not words:
        raise ValueError("Expected at least one word, got none: type words separated by spaces.")
    if len(words) > _MOST_TOKENS:
        raise ValueError(f"Expected at most {_MOST_TOKENS} words, got {len(words):,}.")
    if glued := [word for word in words if re.fullmatch(r"[^\W\d_]+[.,;:!?]", word)]:
        st.caption(
            f"{', '.join(glued)}: tokens are separated by white space. The models were trained on "
            "text with a space before punctuation."
        )
    return words


def _plain(text):
    """Escapes a text, so that Markdown shows it unchanged: an image in it would be downloaded."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def _in_context(tokens, position, width=6):
    before, after = tokens[max(0, position - width) : position], tokens[position + 1 :][:width]
    return " ".join([*before, f"[{tokens[position]}]", *after])


def _picture(chart, name):
    st.altair_chart(chart, width="content")
    drawing = chart.to_dict()
    # Made at once: files that Streamlit makes at a press are lost when the page was just rebuilt.
    saved = {"PNG": vegalite_to_png(drawing, scale=2), "SVG": vegalite_to_svg(drawing)}
    with st.container(horizontal=True):
        for kind, content in saved.items():
            _save(kind, content, f"{name}.{kind.lower()}")


def _table(data, name):
    st.dataframe(data, hide_index=True)
    _save("CSV", data.to_csv(index=False), f"{name}.csv")


def _save(kind, content, file_name):
    label = f"Save as {kind}"
    st.download_button(label, content, file_name, key=file_name, on_click="ignore")


_VIEWS = {
    "Characters and filters": show_characters,
    "Similarity": show_similarity,
    "Uses of a word": show_uses,
    "Language model": show_language_model,
}


def show(model: str) -> None:
    """Shows a model; errors in the user's input are shown as messages."""
    view = st.radio("View", list(_VIEWS), index=1, horizontal=True)
    try:
        st.caption(_plain(f"Model: {model}, {embedder(model).dim} numbers a word and layer"))
        _VIEWS[view](model)
    except (ConnectionError, MemoryError, OSError, ValueError) as error:
        st.error(_plain(str(error)))

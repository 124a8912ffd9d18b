"""Coreference on two short documents."""

from pathlib import Path

import keras
import numpy as np
import pytest

import coref
import spans
from conll import mentions_of_brackets, read_documents
from example_programs import DOCUMENTS, TEXTS, conll, run_of, trains_a_model
from helpers import assert_close, to_numpy
from word_vectors import end_to_end, prepare

pytestmark = pytest.mark.usefixtures("eager")


def linker_of(settings, singletons=True):
    """A new linker, its ELMo, and the sentences, chains and encoded items of each document."""
    documents = read_documents(settings.train)
    words, elmo, items = prepare(
        settings, {"train": [x for sentences, _ in documents for x in sentences]}
    )
    model = coref.make_linker(words, elmo, settings, singletons)
    items = iter(items["train"])
    return model, elmo, [(*x, [next(items) for _ in x[0]]) for x in documents]


def test_documents_and_their_chains(tmp_path):
    (tmp_path / "train.conll").write_text(TEXTS["coref"])
    (sentences, chains), (_, others) = read_documents("train.conll")
    assert sentences[1] == ["She", "called", "him", "."]
    assert chains == [{(0, 0, 0), (0, 2, 2), (1, 0, 0)}, {(0, 2, 3), (1, 2, 2)}]
    assert others == [{(0, 0, 2), (1, 0, 0)}, {(1, 2, 3)}]
    pieces = list(coref.cut((sentences, chains), max_sentences=1))
    assert pieces[1] == ([sentences[1]], [{(0, 0, 0)}, {(0, 2, 2)}])
    assert list(coref.cut((sentences, chains))) == [(sentences, chains)]
    # Two mentions of one chain that begin together end from within.
    assert sorted(mentions_of_brackets(["(1|(1", "1)", "1)", "_"])) == [(1, 0, 1), (1, 0, 2)]


@pytest.mark.parametrize("begins", ["#begin document (d); part 00{}", ""])
def test_parts_of_a_document_have_chains_of_their_own(tmp_path, begins):
    parts = [f"{begins}\nd {i} 0 Ann _ (1)\n\n".format(i) for i in range(2)]
    (tmp_path / "parts.conll").write_text("".join(parts))
    assert read_documents("parts.conll") == [([["Ann"]], [{(0, 0, 0)}])] * 2


@trains_a_model
@pytest.mark.parametrize("documents, singletons", [(DOCUMENTS, True), (DOCUMENTS[:1], False)])
def test_singletons_of_the_whole_text_are_learned(monkeypatch, documents, singletons):
    # A chain that is cut does not become a singleton.
    monkeypatch.setitem(TEXTS, "coref", conll(documents))
    cut = coref.cut
    monkeypatch.setattr(coref, "cut", lambda document: cut(document, max_sentences=1))
    Path("out").mkdir()
    scores, model = coref.train(run_of("coref", features="glove"))
    assert 0 <= scores["test"] <= 100 and scores["input weights"] is None
    assert coref.scores_of_mentions(model).singletons == singletons


def test_scores_of_published_examples():
    # Pradhan et al. 2014, section 4.
    key = [[{(i, i) for i in x} for x in ((1, 2, 3), (4, 5, 6, 7))]]
    response = [[{(i, i) for i in x} for x in ((1, 2), (3, 4), (6, 7, 8, 9))]]
    found = coref.f1_scores(key, response)

    def f1(recall, precision):
        return 200 * recall * precision / (recall + precision)

    recall, precision = (4 / 3 + 1 / 3 + 1 / 4 + 4 / 4) / 7, (4 / 2 + 1 / 2 + 1 / 2 + 4 / 4) / 8
    assert found["MUC"] == pytest.approx(40)
    assert found["B3"] == pytest.approx(f1(recall, precision))
    assert found["CEAF"] == pytest.approx(f1(1.3 / 2, 1.3 / 3))
    assert found["mean"] == pytest.approx((found["MUC"] + found["B3"] + found["CEAF"]) / 3)
    assert coref.f1_scores(key, key)["mean"] == 100 and coref.f1_scores(key, [[]])["mean"] == 0
    # The same spans in another document are other mentions.
    assert coref.f1_scores([key[0], []], [[], key[0]])["mean"] == 0


def test_the_best_spans_do_not_cross():
    everything = spans.spans_of([4, 2])
    assert len(everything) == 4 + 3 + 2 + 1 + 2 + 1
    chosen = {(0, 1, 3): 5, (0, 0, 1): 4, (1, 0, 1): 3, (0, 2, 3): 2, (0, 0, 3): 1}
    scores = np.array([chosen.get(tuple(x), -9) for x in everything.tolist()])
    found = coref.best_spans(everything, scores, 4)
    assert found.tolist() == [[0, 0, 3], [0, 1, 3], [0, 2, 3], [1, 0, 1]]  # 0 to 1 crosses 1 to 3
    found = coref.best_spans(everything, scores, 100).tolist()
    assert not any(i == j and a < c <= b < d for i, a, b in found for j, c, d in found)
    assert [1, 1, 1] in found and len(found) < len(everything)
    assert spans.spans_of([spans.LONGEST + 1])[:, 2].max() == spans.LONGEST


def test_chains_of_antecedents():
    antecedents = np.full((5, 51), -1.0)
    antecedents[:, 0] = 0
    antecedents[2, 2] = antecedents[3, 1] = 3  # 2 to 0, 3 to 2
    outputs = {"antecedents": antecedents, "mentions": np.array([-2.0, 1, 1, 1, -1])}
    places = np.array([[0, i, i] for i in range(5)])
    chain = {(0, 0, 0), (0, 2, 2), (0, 3, 3)}
    assert coref.linked(places, outputs, singletons=True) == [chain, {(0, 1, 1)}]
    assert coref.linked(places, outputs, singletons=False) == [chain]


def test_scores_by_plain_numpy():
    model, _, documents = linker_of(run_of("coref"))
    sentences, chains, items = documents[1]
    inputs = coref.encode_document(model, items, sentences)
    assert inputs["layers"].shape[::2] == (8, 8) and inputs["spans"].shape == (32, 3)
    # The first two belong to one chain, the third to a second chain, the last to none.
    kept = np.array([(0, 0, 2), (1, 0, 0), (1, 2, 3), (1, 3, 3)])
    inputs["spans"] = coref.padded(kept, 8)
    labels = coref.labels_of(inputs["spans"], chains)
    assert labels.tolist() == [1, 1, 2, 0, -1, -1, -1, -1]
    found = {name: to_numpy(x) for name, x in model(inputs).items()}
    # Mentions are scored alike whichever others there are.
    alone = coref.mention_finder(model)({**inputs, "spans": kept[::-1]})
    assert_close(to_numpy(alone)[::-1], found["mentions"][:4], tolerance=1e-5)
    assert (found["mentions"][4:] == -1e4).all() and (found["antecedents"][:, 0] == 0).all()
    expected = {"mentions": [], "antecedents": []}
    for i in range(4):
        own = found["antecedents"][i, : i + 1]
        right = [k for k in range(1, i + 1) if labels[i] and labels[i - k] == labels[i]] or [0]
        shares = np.exp(own) / np.exp(own).sum()
        is_mention = 1 / (1 + np.exp(-found["mentions"][i]))
        expected["antecedents"].append(-np.log(shares[right].sum()))
        expected["mentions"].append(-np.log(is_mention if labels[i] else 1 - is_mention))
    for name, losses in expected.items():
        loss = model.get_layer(name).loss
        model.compile(loss={name: loss})  # Keras keeps the mean as it is
        found_loss = model.compute_loss(inputs, {name: labels}, model(inputs))
        assert_close(to_numpy(found_loss), np.mean(losses), tolerance=1e-4)


def test_vectors_of_spans_do_not_depend_on_the_padding(rng):
    layer = spans.SpanVectors()
    words, states = (rng.normal(size=(2, 5, n)).astype("float32") for n in (3, 4))
    places = np.array([[0, 1, 2], [1, 0, 4], [1, 4, 4]], np.int32)
    found = to_numpy(layer(words, states, places))
    head, lengths = (to_numpy(x.weights[0]) for x in (layer.head, layer.length))
    for vector, (i, first, last) in zip(found, places):
        shares = np.exp(states[i, first : last + 1] @ head)
        attended = (shares / shares.sum() * words[i, first : last + 1]).sum(0)
        ends = [states[i, first], states[i, last]]
        assert_close(vector, np.concatenate([*ends, attended, lengths[last - first]]), 1e-5)
    wide = [np.pad(x, ((0, 1), (0, 3), (0, 0))) for x in (words, states)]
    assert_close(to_numpy(layer(*wide, places)), found, 1e-5)


def test_a_document_of_one_word_has_a_loss(monkeypatch):
    text = TEXTS["coref"] + conll([[("Right", "-")]])
    monkeypatch.setitem(TEXTS, "coref", text.replace("d0 0 0 Right", "d9 0 0 Right"))
    model, _, documents = linker_of(run_of("coref", features="glove"))
    sentences, chains, items = documents[2]
    inputs = coref.encode_document(model, items, sentences)
    assert inputs["spans"][:2].tolist() == [[0, 0, 0], [-1, -1, -1]]
    labels = coref.labels_of(inputs["spans"], chains)
    for name, scores in model(inputs).items():
        assert np.isfinite(to_numpy(model.get_layer(name).loss(labels, scores)))


def test_a_saved_linker_finds_the_same_chains(tmp_path):
    model, elmo, documents = linker_of(run_of("coref", "--kept", "1"))
    # Of random antecedents some are found, in spite of the mentions' scores.
    model.get_layer("mentions").score.set_weights([np.zeros((150, 1)), np.full(1, 0.1)])
    end_to_end(model, elmo).save("linker.keras")
    loaded = keras.models.load_model("linker.keras", compile=False)
    for sentences, _, items in documents:
        expected = coref.find_chains(model, items, sentences, fewest=20)
        assert max(map(len, expected)) > 1
        assert coref.chains_of(loaded, sentences) == [sorted(chain) for chain in expected]

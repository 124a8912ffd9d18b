"""Coreference on two short documents."""

import numpy as np
import pytest

import coref
from conll import mentions_of_brackets, read_documents
from example_programs import DOCUMENTS, TEXTS, conll, experiment_of
from helpers import assert_close, to_numpy

pytestmark = pytest.mark.usefixtures("eager")


def test_documents_and_their_chains(tmp_path):
    (tmp_path / "train.conll").write_text(TEXTS["coref"])
    data = read_documents("train.conll")
    assert data.items.tolist() == [[0, 2], [2, 4]]
    assert data.sentences[1] == ["She", "called", "him", "."]
    assert data.answers[0] == [{(0, 0), (2, 2), (5, 5)}, {(2, 3), (7, 7)}]
    assert data.answers[1] == [{(0, 2), (5, 5)}, {(7, 8)}] and data.singletons
    pieces = read_documents("train.conll", max_sentences=1)
    assert pieces.items.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert pieces.answers[1] == [{(0, 0)}, {(2, 2)}]
    # A chain that is cut does not become a singleton.
    (tmp_path / "first.conll").write_text(conll(DOCUMENTS[:1]))
    assert not read_documents("first.conll", max_sentences=1).singletons
    # Two mentions of one chain that begin together end from within.
    assert sorted(mentions_of_brackets(["(1|(1", "1)", "1)", "_"])) == [(1, 0, 1), (1, 0, 2)]


@pytest.mark.parametrize("begins", ["#begin document (d); part 00{}", ""])
def test_parts_of_a_document_have_chains_of_their_own(tmp_path, begins):
    parts = [f"{begins}\nd {i} 0 Ann _ (1)\n\n".format(i) for i in range(2)]
    (tmp_path / "parts.conll").write_text("".join(parts))
    data = read_documents("parts.conll")
    assert data.answers == [[{(0, 0)}], [{(0, 0)}]] and data.singletons


def test_scores_of_published_examples():
    # Pradhan et al. 2014, section 4.
    key = [[{(i, i) for i in x} for x in ((1, 2, 3), (4, 5, 6, 7))]]
    response = [[{(i, i) for i in x} for x in ((1, 2), (3, 4), (6, 7, 8, 9))]]
    found = coref.scores(key, response)

    def f1(recall, precision):
        return 200 * recall * precision / (recall + precision)

    recall, precision = (4 / 3 + 1 / 3 + 1 / 4 + 4 / 4) / 7, (4 / 2 + 1 / 2 + 1 / 2 + 4 / 4) / 8
    assert found["MUC"] == pytest.approx(40)
    assert found["B3"] == pytest.approx(f1(recall, precision))
    assert found["CEAF"] == pytest.approx(f1(1.3 / 2, 1.3 / 3))
    assert found["mean"] == pytest.approx((found["MUC"] + found["B3"] + found["CEAF"]) / 3)
    assert coref.scores(key, key)["mean"] == 100 and coref.scores(key, [[]])["mean"] == 0
    # The same spans in another document are other mentions.
    assert coref.scores([key[0], []], [[], key[0]])["mean"] == 0


def test_the_best_spans_do_not_cross():
    scores = np.full((6, coref.LONGEST), -9.0)
    scores[1, 2] = 5  # 1 to 3
    scores[0, 1] = 4  # 0 to 1: crosses it
    scores[3, 1] = 3  # 3 to 4: in another sentence
    scores[2, 1] = 2  # 2 to 3: within
    scores[0, 3] = 1  # 0 to 3: around
    found = coref.best_spans(scores, [4, 2], 3)
    assert found.tolist() == [[0, 3], [1, 3], [2, 3]]
    everything = coref.best_spans(scores, [4, 2], 100)
    assert not any(a < c <= b < d for a, b in everything for c, d in everything)
    assert {(4, 5), (4, 4)} <= set(map(tuple, everything)) and (3, 4) not in everything.tolist()


def test_chains_of_antecedents():
    _, model = experiment_of("coref").make_model("glove")
    antecedents = np.full((5, 1 + model.num_antecedents), -1.0)
    antecedents[:, 0] = 0
    antecedents[2, 2] = antecedents[3, 1] = 3  # 2 to 0, 3 to 2
    predicted = {"antecedents": antecedents, "mentions": np.array([-2.0, 1, 1, 1, -1])}
    spans = [[i, i] for i in range(5)]
    assert model._chains(spans, predicted) == [{(0, 0), (2, 2), (3, 3)}, {(1, 1)}]
    model.singletons = False
    assert model._chains(spans, predicted) == [{(0, 0), (2, 2), (3, 3)}]


def test_scores_by_plain_numpy():
    experiment = experiment_of("coref", "--no-cache", "--kept", "0.4")
    inputs, model = experiment.make_model("glove+elmo")
    batches = experiment.batches(model, inputs, "train", labels=experiment.labels)
    (number,) = [i for i, rows in enumerate(batches.batches) if rows[0] == 1]
    document, labels = batches[number]
    # The first two belong to one chain, the third to a second chain, the last to none.
    spans = document["spans"]
    spans[:4] = [(0, 2), (5, 5), (7, 8), (8, 8)]
    labels = batches.labels_of([1], document)
    places = {tuple(span): i for i, span in enumerate(spans.tolist()) if span[0] >= 0}
    assert len(places) == 4 and labels[:4].tolist() == [1, 1, 2, 0] and not labels[4:].any()
    found = {name: to_numpy(x) for name, x in model(document).items()}
    # Mentions are scored alike whether they are kept or not.
    del document["spans"]
    everything = to_numpy(model(document))
    for (first, last), i in places.items():
        assert_close(found["mentions"][i], everything[first, last - first], tolerance=1e-5)
    assert (found["mentions"][4:] == -1e4).all() and (found["antecedents"][:, 0] == 0).all()
    loss = to_numpy(
        model.compute_loss({"spans": spans}, labels, model({**document, "spans": spans}))
    )
    expected = []
    for i in range(4):
        own = found["antecedents"][i, : i + 1]
        right = [k for k in range(1, i + 1) if labels[i] and labels[i - k] == labels[i]] or [0]
        shares = np.exp(own) / np.exp(own).sum()
        is_mention = 1 / (1 + np.exp(-found["mentions"][i]))
        expected.append(-np.log(shares[right].sum()))
        expected[-1] -= np.log(is_mention if labels[i] else 1 - is_mention)
    regularization = sum(map(float, map(to_numpy, model.losses)))
    assert_close(loss - regularization, np.mean(expected), tolerance=1e-4)


def test_a_document_of_one_word_has_a_loss(monkeypatch):
    text = TEXTS["coref"] + conll([[("Right", "-")]])
    monkeypatch.setitem(TEXTS, "coref", text.replace("d0 0 0 Right", "d9 0 0 Right"))
    experiment = experiment_of("coref")
    inputs, model = experiment.make_model("glove")
    batches = experiment.batches(model, inputs, "train", labels=experiment.labels)
    (number,) = [i for i, rows in enumerate(batches.batches) if rows[0] == 2]
    document, labels = batches[number]
    assert document["spans"][0].tolist() == [0, 0]
    assert np.isfinite(to_numpy(model.compute_loss(document, labels, model(document))))

"""Coreference on two short documents."""

import json

import keras
import numpy as np
import pytest

import coref
from conll import mentions_of_brackets
from example_programs import ELMO, trains_a_model, write_glove
from helpers import assert_close, to_numpy

DOCUMENTS = [
    [("Ann saw her brother .", "(1) - (1)|(2 2) -"), ("She called him .", "(1) - (2) -")],
    [("The old man slept .", "(7 - 7) - -"), ("He lost a boat .", "(7) - (8 8) -")],
]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def conll(documents):
    lines = []
    for i, document in enumerate(documents):
        lines.append(f"#begin document (d{i}); part 0")
        for words, chains in document:
            rows = zip(words.split(), chains.split())
            lines += [f"d{i} 0 {j} {word} _ {chain}" for j, (word, chain) in enumerate(rows)]
            lines.append("")
        lines.append("#end document")
    return "\n".join(lines) + "\n"


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "train.conll").write_text(conll(DOCUMENTS))
    write_glove(tmp_path / "glove.txt", ["the", "man", "he", "she", "Ann", "her"])
    return lambda *options: coref.parse(
        [
            *[x for part in ("train", "dev", "test") for x in (f"--{part}", "train.conll")],
            *("--glove", "glove.txt", "--elmo", str(ELMO), "--units", "8", "--epochs", "1"),
            *("--least-steps", "1", "--output", "out", *options),
        ]
    )


def model_of(experiment, features="glove+elmo"):
    inputs = experiment.prepare(features)
    options = {"singletons": True, "hidden_units": 8, "kept": 0.4}
    return inputs, coref.CoreferenceModel.of(features, inputs, experiment.settings, **options)


def test_documents_and_their_chains(settings, tmp_path):
    settings()
    data = coref.Documents("train.conll")
    assert data.ranges.tolist() == [[0, 2], [2, 4]]
    assert data.sentences[1] == ["She", "called", "him", "."]
    assert data.chains[0] == [{(0, 0), (2, 2), (5, 5)}, {(2, 3), (7, 7)}]
    assert data.chains[1] == [{(0, 2), (5, 5)}, {(7, 8)}] and data.singletons
    pieces = coref.Documents("train.conll", max_sentences=1)
    assert pieces.ranges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert pieces.chains[1] == [{(0, 0)}, {(2, 2)}]
    # A chain that is cut does not become a singleton.
    (tmp_path / "first.conll").write_text(conll(DOCUMENTS[:1]))
    assert not coref.Documents("first.conll", max_sentences=1).singletons
    # Two mentions of one chain that begin together end from within.
    assert sorted(mentions_of_brackets(["(1|(1", "1)", "1)", "_"])) == [(1, 0, 1), (1, 0, 2)]


@pytest.mark.parametrize("begins", ["#begin document (d); part 00{}", ""])
def test_parts_of_a_document_have_chains_of_their_own(tmp_path, begins):
    parts = [f"{begins}\nd {i} 0 Ann _ (1)\n\n".format(i) for i in range(2)]
    (tmp_path / "parts.conll").write_text("".join(parts))
    data = coref.Documents("parts.conll")
    assert data.chains == [[{(0, 0)}], [{(0, 0)}]] and data.singletons


@pytest.mark.parametrize("chains", ["(1 -", "- 1)", "(a) -", "1|( -"])
def test_files_of_another_form(tmp_path, chains):
    (tmp_path / "one.conll").write_text(conll([[("Ann slept", "(1) -"), ("She ate", chains)]]))
    with pytest.raises(ValueError, match="ends before line 7 is not one of CoNLL-2012"):
        coref.Documents("one.conll")
    (tmp_path / "one.conll").write_text(conll([[("Ann slept", "- -")]]))
    with pytest.raises(ValueError, match="has no chains"):
        coref.Documents("one.conll")


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


def test_chains_of_antecedents(settings):
    _, model = model_of(coref.Experiment(settings()))
    antecedents = np.full((5, 1 + model.num_antecedents), -1.0)
    antecedents[:, 0] = 0
    antecedents[2, 2] = antecedents[3, 1] = 3  # 2 to 0, 3 to 2
    predicted = {"antecedents": antecedents, "mentions": np.array([-2.0, 1, 1, 1, -1])}
    spans = [[i, i] for i in range(5)]
    assert model._chains(spans, predicted) == [{(0, 0), (2, 2), (3, 3)}, {(1, 1)}]
    model.singletons = False
    assert model._chains(spans, predicted) == [{(0, 0), (2, 2), (3, 3)}]


def test_scores_by_plain_numpy(settings):
    experiment = coref.Experiment(settings("--no-cache"))
    inputs, model = model_of(experiment)
    data = experiment.data["train"]
    batches = experiment.batches(inputs, "train", model, chains=data.chains)
    (number,) = [i for i, rows in enumerate(batches.batches) if rows[0] == 1]
    document, labels = batches[number]
    # The first two belong to one chain, the third to a second chain, the last to none.
    spans = document["spans"]
    spans[:4] = [(0, 2), (5, 5), (7, 8), (8, 8)]
    labels = batches._labels([1], document)
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


def test_a_step_trains_every_weight(settings):
    experiment = coref.Experiment(settings())
    inputs, model = model_of(experiment)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    chains = experiment.data["train"].chains
    batches = experiment.batches(inputs, "train", model, chains=chains)
    coref.harness.train(model, batches, lambda: 50.0, experiment.settings)
    for variable, old in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all()
        assert (to_numpy(variable) != old).any(), variable.path


def test_a_document_of_one_word_has_a_loss(settings, tmp_path):
    settings()
    with open(tmp_path / "train.conll", "a") as file:
        file.write(conll([[("Right", "-")]]))
    experiment = coref.Experiment(settings("--features", "glove"))
    inputs, model = model_of(experiment, "glove")
    model.kept = 0.25
    batches = experiment.batches(inputs, "train", model, chains=experiment.data["train"].chains)
    (number,) = [i for i, rows in enumerate(batches.batches) if rows[0] == 2]
    document, labels = batches[number]
    assert document["spans"][0].tolist() == [0, 0]
    assert np.isfinite(to_numpy(model.compute_loss(document, labels, model(document))))


@pytest.mark.parametrize(
    "options, message",
    [
        (("--batch-size", "2"), "documents are read one by one"),
        (("--kept", "0"), "--kept must be above 0"),
    ],
)
def test_options_that_cannot_be(settings, capsys, options, message):
    with pytest.raises(SystemExit):
        settings(*options)
    assert message in capsys.readouterr().err


@pytest.mark.slow
@trains_a_model
def test_learns_its_documents_by_heart(settings, tmp_path, capsys):
    # So few words have more spans than are usually kept.
    options = ["--kept", "2", "--epochs", "30", "--patience", "30", "--halve-after", "30"]
    options += ["--least-steps", "20"]
    (row,) = coref.run(settings(*options, "--learning-rate", "0.003", "--features", "glove+elmo"))
    assert len(row["input weights"]) == 3
    assert row["dev"] == row["test"] == 100
    lines = (tmp_path / "out" / "glove+elmo-1.jsonl").read_text().splitlines()
    assert [[0, 2], [5, 5]] in json.loads(lines[1])
    assert (tmp_path / "out" / "scores.png").exists()
    path = tmp_path / "out" / "glove+elmo.keras"
    sentences = [sentence for sentence, _ in DOCUMENTS[1]]
    capsys.readouterr()
    coref.show_chains(path, sentences)
    assert capsys.readouterr().out == "The old man (1) = He (2)\n"
    model = keras.models.load_model(path, compile=False)
    assert [(0, 0, 2), (1, 0, 0)] in model.chains(sentences)

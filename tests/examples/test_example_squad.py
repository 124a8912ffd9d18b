"""BiDAF with self-attention on a few questions, and the official scores."""

import json

import numpy as np
import pytest

import squad
from example_programs import EXAMPLES
from helpers import assert_close, to_numpy

CONTEXT = "The Heron, steered by Anna Berg (44), came in first."


def squad_file(path, question="Who steered?", answer="Anna Berg", start=22, context=CONTEXT):
    answers = [{"text": answer, "answer_start": start}] if answer else []
    paragraph = {"context": context, "qas": [{"id": "1", "question": question, "answers": answers}]}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    return path


def test_answers_are_spans_of_tokens(tmp_path):
    data = squad.read_questions(squad_file(tmp_path / "one.json"))
    tokens = data.sentences[data.items[0, 1]]
    assert " ".join(tokens) == "The Heron , steered by Anna Berg ( 44 ) , came in first ."
    assert data.sentences[data.items[0, 0]] == ["Who", "steered", "?"]
    assert data.spans.tolist() == [[5, 6]] and data.found([(5, 6)]) == ["Anna Berg"]
    # An answer within a token is that token: spans have no other ends.
    data = squad.read_questions(squad_file(tmp_path / "one.json", answer="4", start=33))
    assert data.found(data.spans) == ["44"]
    data = squad.read_questions(EXAMPLES / "tiny_squad.json")
    assert data.found(data.spans) == [first for (first,) in data.answers]


def test_tokens():
    tokens, places = squad.tokenize("He didn't pay $1,234.50, did\nhe? It's \u00e9t\u00e9.")
    assert "|".join(tokens) == "He|did|n't|pay|$|1,234.50|,|did|he|?|It|'s|été|."
    assert places[:3] == [(0, 2), (3, 6), (6, 9)]
    tokens, _ = squad.tokenize("the 1990s, 20th-century 'Big Ben' and O'Brien's 3D")
    assert "|".join(tokens) == "the|1990s|,|20th|-|century|'|Big|Ben|'|and|O|'|Brien|'s|3D"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"answer": ""}, "every question has an answer"),
        ({"start": 500}, "the answer 'Anna Berg' is not in its context"),
        ({"question": " "}, "Sentence 2 of 2 has no words"),
    ],
)
def test_files_that_are_not_of_squad(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        squad.read_questions(squad_file(tmp_path / "one.json", **arguments))
    for text, said in (
        ("[]", "not a file of SQuAD"),
        ('{"data": []}', "no questions"),
        ("x", "not a file of SQuAD"),
    ):
        (tmp_path / "two.json").write_text(text)
        with pytest.raises(ValueError, match=said):
            squad.read_questions(tmp_path / "two.json")


@pytest.mark.parametrize(
    "predicted, answers, f1, exact",
    [
        ("The Heron!", ["heron"], 100, 100),
        ("a big red boat", ["red boat", "the boat"], 80, 0),
        ("an  apple", ["Apple "], 100, 100),
        ("dog dog", ["dog"], 200 / 3, 0),
        ("cat", ["dog"], 0, 0),
        ("theory", ["the ory", "theory"], 100, 100),
    ],
)
def test_scores_by_the_official_rules(predicted, answers, f1, exact):
    np.testing.assert_allclose(squad.scores([answers], [predicted]), (f1, exact))


def test_scores_are_means_over_questions():
    found = squad.scores([["cat"], ["boat"]], ["a cat", "red boat"])
    np.testing.assert_allclose(found, (100 * (1 + 2 / 3) / 2, 50))


def test_the_best_span_begins_before_its_end_and_is_not_too_long():
    logits = np.zeros((2, 40, 2))
    logits[0, 5, 0], logits[0, 3, 1], logits[0, 7, 1] = 3, 3, 2  # a span cannot go from 5 to 3
    logits[1, 2, 0], logits[1, 2 + squad.LONGEST_ANSWER, 1] = 3, 3  # too long by one
    logits[1, 1 + squad.LONGEST_ANSWER, 1] = 2
    assert squad.best_spans(logits).tolist() == [[5, 7], [2, 1 + squad.LONGEST_ANSWER]]


def test_the_loss_is_that_of_both_ends():
    logits = np.random.default_rng(0).normal(size=(2, 6, 2)).astype("float32")
    spans = np.array([[1, 3], [0, 0]], "int32")
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = [-sum(np.log(shares[i, spans[i, j], j]) for j in (0, 1)) for i in (0, 1)]
    assert_close(to_numpy(squad.span_loss(spans, logits)), np.array(expected), tolerance=1e-5)


def test_similarity_by_plain_numpy():
    layer = squad.Similarity()
    random = np.random.default_rng(0)
    x, q = (random.normal(size=(2, n, 5)).astype("float32") for n in (3, 4))
    layer.build(x.shape, q.shape)
    w = [to_numpy(v) for v in (layer.first, layer.second, layer.both)]
    expected = (
        (x @ w[0])[:, :, None] + (q @ w[1])[:, None] + np.einsum("btd,d,bud->btu", x, w[2], q)
    )
    assert_close(to_numpy(layer(x, q)), expected, tolerance=1e-5)

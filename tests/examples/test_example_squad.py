"""BiDAF with self-attention on a few questions, and the official scores."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

import squad
from example_programs import EXAMPLES, TEXTS, run_of, trains_a_model
from helpers import assert_close, to_numpy
from training import predict
from word_vectors import encode

CONTEXT = "The Heron, steered by Anna Berg (44), came in first."


def squad_file(path, question="Who steered?", answer="Anna Berg", start=22, context=CONTEXT):
    answers = [{"text": answer, "answer_start": start}] if answer else []
    paragraph = {"context": context, "qas": [{"id": "1", "question": question, "answers": answers}]}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    return path


def test_answers_are_spans_of_tokens(tmp_path):
    (question,) = squad.read_questions(squad_file(tmp_path / "one.json"))
    assert question == ("1", "Who steered?", CONTEXT, ["Anna Berg"], (5, 6))
    tokens, _ = squad.tokenize(CONTEXT)
    assert " ".join(tokens) == "The Heron , steered by Anna Berg ( 44 ) , came in first ."
    assert squad.text_of(CONTEXT, (5, 6)) == "Anna Berg"
    # An answer within a token is that token: spans have no other ends.
    (question,) = squad.read_questions(squad_file(tmp_path / "one.json", answer="4", start=33))
    assert squad.text_of(CONTEXT, question.span) == "44"
    for question in squad.read_questions(EXAMPLES / "tiny_squad.json"):
        assert [squad.text_of(question.context, question.span)] == question.answers


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
        ({"question": " "}, "question '1' has no words"),
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
    start, end = np.zeros((2, 40))
    start[5], end[3], end[7] = 3, 3, 2  # a span cannot go from 5 to 3
    assert squad.best_span({"start": start, "end": end}) == (5, 7)
    start, end = np.zeros((2, 40))
    start[2], end[2 + squad.LONGEST_ANSWER] = 3, 3  # too long by one
    end[1 + squad.LONGEST_ANSWER] = 2
    assert squad.best_span({"start": start, "end": end}) == (2, 1 + squad.LONGEST_ANSWER)


def masks(num_words, size):
    return np.arange(size) < np.array(num_words)[:, None]


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def test_attention_to_the_words_of_the_question_by_plain_numpy():
    random = np.random.default_rng(0)
    x, q, alike = (
        random.normal(size=(2, *shape)).astype("float32") for shape in ((4, 5), (3, 5), (4, 3))
    )
    own, others = masks([4, 2], 4), masks([1, 3], 3)
    out = squad.AttentionToQuestion()(x, q, alike, context_mask=own, question_mask=others)
    for i, (t, u) in enumerate(((4, 1), (2, 3))):
        scores, context = alike[i, :t, :u], x[i, :t]
        attended = softmax(scores) @ q[i, :u]
        about = softmax(scores.max(-1)) @ context
        parts = [context, attended, context * attended, about * attended]
        assert_close(to_numpy(out)[i, :t], np.concatenate(parts, -1), tolerance=1e-5)


def test_attention_to_the_other_words_by_plain_numpy():
    random = np.random.default_rng(0)
    x, alike = (random.normal(size=(2, 4, n)).astype("float32") for n in (5, 4))
    out = squad.AttentionToItself()(x, alike, x_mask=masks([4, 2], 4))
    for i, t in enumerate((4, 2)):
        shares = softmax(alike[i, :t, :t] - 1e4 * np.eye(t))
        attended = shares @ x[i, :t]
        expected = np.concatenate([x[i, :t], attended, x[i, :t] * attended], -1)
        assert_close(to_numpy(out)[i, :t], expected, tolerance=1e-5)


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


@trains_a_model
def test_the_trained_reader_reads_text(eager, monkeypatch):
    """It gives the answers of the test, where questions of other lengths are in the batch."""
    questions = ["Who steered?", "Who steered the Heron , which came in first?"]
    answers = [{"text": "Anna Berg", "answer_start": 22}]
    texts = [CONTEXT, f"It was late. {CONTEXT} It was late again, and so was the other."]
    paragraphs = [
        {
            "context": text,
            "qas": [
                {"id": f"{i}-{j}", "question": question, "answers": answers}
                for j, question in enumerate(questions)
            ],
        }
        for i, text in enumerate(texts)
    ]
    data = json.dumps({"data": [{"paragraphs": paragraphs}]})
    monkeypatch.setitem(TEXTS, "squad", data)
    Path("out").mkdir()
    scores, reader = squad.train(run_of("squad"))
    assert 0 <= scores["exact match"] <= scores["test"] <= 100
    assert len(scores["input weights"]) == len(scores["output weights"]) == 3
    found = json.loads(Path("out/glove+elmo-1-predictions.json").read_text(encoding="utf-8"))
    reader.save("reader.keras")
    reader = keras.models.load_model("reader.keras", compile=False)
    for i, text in enumerate(texts):
        assert squad.answer(reader, text, questions) == [found[f"{i}-0"], found[f"{i}-1"]]

    # Padding changes nothing and is never an answer.
    sentences = [squad.tokenize(text)[0] for text in (*questions, *texts)]
    *asked, short, long = encode(reader, sentences)
    items = [squad.pair_of(question, context) for question in asked for context in (short, long)]
    for item, found in zip(items, predict(reader, items)):
        (alone,) = predict(reader, [item])
        length = len(item["context_words"])
        for name in ("start", "end"):
            assert_close(found[name][:length], alone[name][:length], tolerance=1e-4)
            assert (found[name][length:] == squad.HIDDEN).all()

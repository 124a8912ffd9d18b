"""BiDAF with self-attention on a few questions, and the official scores."""

import json

import numpy as np
import pytest

import squad
from example_programs import ELMO, EXAMPLES, run_program, trains_a_model, write_glove
from helpers import assert_close, to_numpy

TINY = EXAMPLES / "tiny_squad.json"
CONTEXT = "The Heron, steered by Anna Berg (44), came in first."


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(tmp_path):
    write_glove(tmp_path / "glove.txt", ["the", "who", "heron", "Anna", "what"])
    return lambda *options: squad.parse(
        [
            *[x for part in ("train", "dev", "test") for x in (f"--{part}", str(TINY))],
            *("--glove", "glove.txt", "--elmo", str(ELMO), "--units", "8", "--epochs", "1"),
            *("--least-steps", "1", "--output", "out", *options),
        ]
    )


def squad_file(path, question="Who steered?", answer="Anna Berg", start=22, context=CONTEXT):
    answers = [{"text": answer, "answer_start": start}] if answer else []
    paragraph = {"context": context, "qas": [{"id": "1", "question": question, "answers": answers}]}
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    return path


def test_answers_are_spans_of_tokens(tmp_path):
    data = squad.Questions(squad_file(tmp_path / "one.json"))
    tokens = data.sentences[data.pairs[0, 1]]
    assert " ".join(tokens) == "The Heron , steered by Anna Berg ( 44 ) , came in first ."
    assert data.sentences[data.pairs[0, 0]] == ["Who", "steered", "?"]
    assert data.spans.tolist() == [[5, 6]] and data.text_of(0, (5, 6)) == "Anna Berg"
    # An answer within a token is that token: spans have no other ends.
    data = squad.Questions(squad_file(tmp_path / "one.json", answer="4", start=33))
    assert data.text_of(0, data.spans[0]) == "44"
    data = squad.Questions(TINY)
    for i, (first,) in enumerate(data.answers):
        assert data.text_of(i, data.spans[i]) == first


def test_tokens():
    tokens, places = squad.tokenize("He didn't pay $1,234.50, did\nhe? It's \u00e9t\u00e9.")
    assert tokens == [
        "He",
        "did",
        "n't",
        "pay",
        "$",
        "1,234.50",
        ",",
        "did",
        "he",
        "?",
        "It",
        "'s",
        "été",
        ".",
    ]
    assert places[:3] == [(0, 2), (3, 6), (6, 9)]
    tokens, _ = squad.tokenize("the 1990s, 20th-century 'Big Ben' and O'Brien's 3D")
    assert tokens == [
        *("the", "1990s", ",", "20th", "-", "century", "'", "Big", "Ben", "'", "and"),
        *("O", "'", "Brien", "'s", "3D"),
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"answer": ""}, "every question has an answer"),
        ({"start": 500}, "'Anna Berg' of question 1 is not in its context"),
        ({"question": " "}, "' ' has no words"),
    ],
)
def test_files_that_are_not_of_squad(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        squad.Questions(squad_file(tmp_path / "one.json", **arguments))
    for text, said in (
        ("[]", "not a file of SQuAD"),
        ('{"data": []}', "no questions"),
        ("x", "not a file of SQuAD"),
    ):
        (tmp_path / "two.json").write_text(text)
        with pytest.raises(ValueError, match=said):
            squad.Questions(tmp_path / "two.json")


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
    np.testing.assert_allclose(squad.scores([predicted], [answers]), (f1, exact))


def test_scores_are_means_over_questions():
    found = squad.scores(["a cat", "red boat"], [["cat"], ["boat"]])
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


@pytest.mark.slow  # most of all on JAX, which compiles each shape
def test_padding_changes_nothing(settings):
    experiment = squad.Experiment(settings("--no-cache"))
    inputs = experiment.prepare("glove+elmo")
    model = squad.Reader.of("glove+elmo", inputs, experiment.settings)
    texts = [
        "Who won ?",
        CONTEXT,
        "What did the boat that came in first win ?",
        "Gold .",
    ]
    sentences = [squad.tokenize(text)[0] for text in texts]
    options = {"words": inputs.words, "elmo": inputs.elmo}
    together = squad.QuestionBatches(sentences, batch_size=2, **options)
    found = dict(zip(together.batches[0], to_numpy(model(together[0][0]))))
    for i in range(2):
        pair = sentences[2 * i : 2 * i + 2]
        alone = to_numpy(model(squad.QuestionBatches(pair, batch_size=1, **options)[0][0]))[0]
        length = len(pair[1])
        assert_close(found[i][:length], alone[:length], tolerance=1e-4)
        assert (found[i][length:] == -1e4).all()


def test_a_step_trains_every_weight(settings):
    settings = settings("--batch-size", "4")
    experiment = squad.Experiment(settings)
    inputs = experiment.prepare("glove+elmo")
    model = squad.Reader.of("glove+elmo", inputs, settings)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    data = experiment.data["train"]
    batches = experiment.batches(inputs, "train", labels=data.spans, rows=[0, 1, 5, 6])
    assert squad.harness.train(model, batches, lambda: 50.0, settings, squad.span_loss) == (50.0, 1)
    for variable, old in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all()
        # What a word of the context adds to its similarity with all others alike is without effect.
        assert (to_numpy(variable) != old).any() or "similarity_1/first" in variable.path


@pytest.mark.slow
@trains_a_model
def test_learns_its_questions_by_heart(settings, tmp_path):
    options = ("--epochs", "60", "--units", "24", "--least-steps", "5", "--patience", "60")
    rates = ("--batch-size", "20", "--learning-rate", "0.01", "--halve-after", "60")
    (row,) = squad.run(settings("--features", "glove+elmo", *options, *rates))
    assert row["dev"] == row["test"] == 100
    (run,) = json.loads((tmp_path / "out" / "runs.json").read_text())
    assert run["exact match"] == 100
    predictions = json.loads((tmp_path / "out" / "glove+elmo-1-predictions.json").read_text())
    data = squad.Questions(TINY)
    assert predictions == {name: answer for name, (answer,) in zip(data.ids, data.answers)}
    model = tmp_path / "out" / "glove+elmo.keras"
    question, context = (data.contexts[i] for i in data.pairs[1])
    printed = run_program("squad.py", "--model", model, "--answer", context, question)
    assert printed == f"{data.answers[1][0]}\n"

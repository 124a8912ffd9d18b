"""ESIM on a few pairs of sentences."""

import json

import numpy as np
import pytest

import entailment
from attention import attend
from example_programs import ELMO, run_program, trains_a_model, write_glove
from helpers import assert_close, to_numpy

PAIRS = [
    ("A dog runs .", "An animal moves .", "entailment"),
    ("A dog runs .", "The dog is black .", "neutral"),
    ("A dog runs .", "A dog sleeps .", "contradiction"),
    ("Two men play music in the street .", "Men play .", "entailment"),
    ("Two men play music in the street .", "They play for money .", "neutral"),
    ("Two men play music in the street .", "The street is empty .", "contradiction"),
]
model_of = entailment.EnhancedSequentialInference.of
LINES = [json.dumps(dict(zip(("premise", "hypothesis", "label"), pair))) + "\n" for pair in PAIRS]


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "train.jsonl").write_text("".join(LINES))
    write_glove(tmp_path / "glove.txt", ["a", "dog", "runs", "men", "play", "the"])
    return lambda *options: entailment.parse(
        [
            *[x for part in ("train", "dev", "test") for x in (f"--{part}", "train.jsonl")],
            *("--glove", "glove.txt", "--elmo", str(ELMO), "--units", "8", "--epochs", "2"),
            *("--least-steps", "1", "--output", "out", *options),
        ]
    )


def test_pairs_of_both_forms(tmp_path):
    (tmp_path / "pairs.jsonl").write_text("".join(LINES[:2]))
    sentences, labels = entailment.read_pairs("pairs.jsonl")
    assert [" ".join(tokens) for tokens in sentences] == [*PAIRS[0][:2], *PAIRS[1][:2]]
    assert labels == [0, 1]
    record = {
        "gold_label": "contradiction",
        "sentence1": "A dog (brown) runs.",
        "sentence1_binary_parse": "( ( ( A dog ) ( -LRB- brown -RRB- ) ) ( runs . ) )",
        "sentence2_binary_parse": "( It ( sleeps . ) )",
    }
    lines = [json.dumps(record), json.dumps({**record, "gold_label": "-"})]
    (tmp_path / "snli.jsonl").write_text("\n".join(lines) + "\n")
    sentences, labels = entailment.read_pairs("snli.jsonl")
    assert sentences == [["A", "dog", "(", "brown", ")", "runs", "."], ["It", "sleeps", "."]]
    assert labels == [2]


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[1]",
        "{}",
        '{"premise": "A", "hypothesis": "B", "label": "perhaps"}',
        '{"premise": "", "hypothesis": "B", "label": "neutral"}',
        '{"premise": 1, "hypothesis": "B", "label": "neutral"}',
    ],
)
def test_lines_that_are_no_pairs(tmp_path, line):
    (tmp_path / "pairs.jsonl").write_text(f"{LINES[0]}{line}\n")
    with pytest.raises(ValueError, match="pairs.jsonl, line 2: .* is not a pair such as"):
        entailment.read_pairs("pairs.jsonl")
    (tmp_path / "pairs.jsonl").write_text("")
    with pytest.raises(ValueError, match="has no pairs"):
        entailment.read_pairs("pairs.jsonl")


def test_impossible_options(settings, capsys):
    for options, message in (
        (("--placement", "output", "--features", "glove", "elmo"), "nothing to read at the input"),
        (("--classify", "A .", "B ."), "--model missing"),
    ):
        with pytest.raises(SystemExit):
            settings(*options)
        assert message in capsys.readouterr().err


def test_a_step_trains_every_weight(settings):
    experiment = entailment.Experiment(settings("--epochs", "1"))
    inputs, labels = experiment.prepare("glove+elmo"), experiment.labels["train"]
    model = model_of("glove+elmo", inputs, experiment.settings)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    batches = inputs.batches("train", kind=entailment.PairBatches, labels=labels)
    loss = entailment.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    entailment.harness.train(model, batches, lambda: 50.0, experiment.settings, loss)
    for variable, old in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all()
        assert (to_numpy(variable) != old).any(), variable.path


@trains_a_model
@pytest.mark.parametrize("features", ["none", "glove+elmo"])
def test_learns_its_pairs_by_heart(settings, features):
    settings = settings("--epochs", "60", "--halve-after", "60", "--learning-rate", "0.02")
    settings.patience = settings.epochs
    experiment = entailment.Experiment(settings)
    inputs = experiment.prepare(features).trained_on(range(2 * len(PAIRS)))
    model = model_of(features, inputs, settings)
    model.drop.rate = 0
    labels = experiment.labels["train"]
    batches = inputs.batches("train", kind=entailment.PairBatches, labels=labels)
    loss = entailment.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def score():
        return entailment.harness.accuracy(labels, model.predict_classes(batches))

    assert entailment.harness.train(model, batches, score, settings, loss)[0] == 100


@pytest.mark.slow
@trains_a_model
def test_from_training_to_classifying(settings, tmp_path):
    (row,) = summary = entailment.run(settings("--features", "glove+elmo", "--epochs", "1"))
    assert len(row["input weights"]) == len(row["output weights"]) == 3
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == summary
    assert (tmp_path / "out" / "glove+elmo-confusion.png").stat().st_size > 5000
    model = tmp_path / "out" / "glove+elmo.keras"
    printed = run_program("entailment.py", "--model", model, "--classify", *PAIRS[0][:2])
    (number,) = entailment.keras.models.load_model(model).classify([PAIRS[0][:2]])
    assert printed == f"{entailment.CLASSES[number]}\n"


@pytest.mark.slow  # most of all on JAX, which compiles each shape
def test_padding_changes_nothing(settings):
    experiment = entailment.Experiment(settings("--no-cache"))
    inputs = experiment.prepare("glove+elmo")
    model = model_of("glove+elmo", inputs, experiment.settings)
    sentences = [x.split() for x in ("A dog", "The dog " * 6, "Two men play " * 4, "Men")]
    options = {"words": inputs.words, "elmo": inputs.elmo}
    together = entailment.PairBatches(sentences, batch_size=2, **options)
    assert [list(rows) for rows in together.batches] == [[1, 0]]
    expected = [
        to_numpy(model(entailment.PairBatches(pair, batch_size=1, **options)[0][0]))
        for pair in (sentences[2:], sentences[:2])
    ]
    assert_close(to_numpy(model(together[0][0])), np.concatenate(expected), tolerance=1e-5)


def test_attention_by_plain_numpy():
    random = np.random.default_rng(0)
    x, others = (random.normal(size=(1, n, 3)).astype("float32") for n in (2, 4))
    mask = np.array([[True, True, True, False]])
    powers = np.exp(np.einsum("bid,bjd->bij", x, others)) * mask[:, None]
    expected = np.einsum("bij,bjd->bid", powers / powers.sum(-1, keepdims=True), others)
    assert_close(to_numpy(attend(x, others, mask)), expected, tolerance=1e-5)


def test_elmo_joins_where_it_is_asked_to(settings):
    for placement, mixes in (("input", (1, 0)), ("output", (0, 1)), ("both", (1, 1))):
        experiment = entailment.Experiment(settings("--placement", placement, "--no-cache"))
        inputs = experiment.prepare("glove+elmo")
        model = model_of("glove+elmo", inputs, experiment.settings, placement=placement)
        assert (model.input_mix is not None, model.output_mix is not None) == mixes

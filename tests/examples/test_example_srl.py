"""The tagger of semantic roles on a few sentences."""

import itertools
import json
from pathlib import Path

import keras
import numpy as np
import pytest

import srl
from example_programs import ELMO, run_program, trains_a_model, write_glove
from helpers import assert_close, to_numpy
from highway_lstm import HighwayLSTM

SENTENCES = [
    ("The cat sat on the mat .", 2, "B-ARG1 I-ARG1 B-V B-ARG2 I-ARG2 I-ARG2 O"),
    ("The cat saw the dog .", 2, "B-ARG0 I-ARG0 B-V B-ARG1 I-ARG1 O"),
    ("Yesterday the dog gave up .", 3, "B-ARGM-TMP B-ARG0 I-ARG0 B-V I-V O"),
    ("Dogs bark .", 1, "B-ARG0 B-V O"),
]
CONLL_2012 = """\
#begin document (nw/a); part 000
nw/a 0 0 The DT (S(NP* - - - - * (ARG1* (1
nw/a 0 1 cat NN *) cat - - - * *) 1)
nw/a 0 2 sat VBD (VP* sit 01 1 - * (V*) -
nw/a 0 3 down RP *) - - - - * (ARGM-DIR*) -
nw/a 0 4 . . *) - - - - * * -

nw/a 0 0 Yes UH * - - - - * -

#end document
"""


def columns(sentence, place, tags):
    rows = zip(sentence.split(), tags.split())
    lines = [
        f"{i}\t{word}\t{'do.02' if i == place else '-'}\t{tag}\n"
        for i, (word, tag) in enumerate(rows)
    ]
    return "".join(lines) + "\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "train.srl").write_text("".join(columns(*item) for item in SENTENCES))
    write_glove(tmp_path / "glove.txt", ["the", "cat", "dog", "sat", "saw", "bark"])
    return lambda *options: srl.parse(
        [
            *[x for part in ("train", "dev", "test") for x in (f"--{part}", "train.srl")],
            *("--glove", "glove.txt", "--elmo", str(ELMO), "--units", "8", "--num-layers", "2"),
            *("--epochs", "1", "--least-steps", "1", "--output", "out", *options),
        ]
    )


def model_of(experiment, features="glove+elmo"):
    options = {"tag_names": experiment.tag_names, "num_layers": 2}
    inputs = experiment.prepare(features)
    return inputs, srl.RoleTagger.of(features, inputs, experiment.settings, **options)


def test_reads_both_forms(tmp_path):
    (tmp_path / "one.conll").write_text(CONLL_2012)
    data = srl.Propositions("one.conll")
    assert data.sentences == [["The", "cat", "sat", "down", "."], ["Yes"]]
    assert data.sentence_of.tolist() == [0] and data.places.tolist() == [2]
    assert data.tags == [["B-ARG1", "I-ARG1", "B-V", "B-ARGM-DIR", "O"]]

    # Two predicates, an auxiliary between them, a sentence without any; no empty line at the end.
    rows = ["0 He - O B-ARG0 O", "1 is be.03 B-V O O", "2 singing sing.01 O B-V O"]
    (tmp_path / "one.srl").write_text(
        "\n".join([*rows, "3 song song.01 O B-ARG1 B-V", "", "0 Oh -"])
    )
    data = srl.Propositions("one.srl")
    assert data.sentences == [["He", "is", "singing", "song"], ["Oh"]]
    assert data.places.tolist() == [2, 3]
    assert data.tags == [["B-ARG0", "O", "B-V", "B-ARG1"], ["O", "O", "O", "B-V"]]


@pytest.mark.parametrize(
    "rows, message",
    [
        ("0 He", "list index out of range"),
        ("0 He go.01 B-V O", "1 predicates with 2 columns"),
        ("0 He go.01", "1 predicates with 0 columns"),
        ("0 He go.01 V", "'V' is not a tag"),
        ("0 He go.01 I-V", "I-V after O"),
        ("0 He go.01 B-V\n1 on - I-ARG1", "I-ARG1 after B-V"),
        ("nw/a 0 0 He PRP * go 01 1 - * (V(ARG1* -", "'\\(V\\(ARG1\\*' is not a role"),
        ("nw/a 0 0 He PRP * go 01 1 - * (V* -", "V does not end"),
        ("nw/a 0 0 He PRP * go 01 1 - * *) -", "a role ends before it starts"),
        ("0 He go.01 B-V\n1 ran -", "zip"),
        ("nw/a 0 0 He", "list index out of range"),
    ],
)
def test_files_of_another_form(tmp_path, rows, message):
    (tmp_path / "one.srl").write_text(f"{columns(*SENTENCES[3])}{rows}\n\n")
    with pytest.raises(
        ValueError, match=f"ends before line .* is not one of CoNLL-2012.*{message}"
    ):
        srl.Propositions("one.srl")
    (tmp_path / "one.srl").write_text("0 Oh -\n")
    with pytest.raises(ValueError, match="has no predicates"):
        srl.Propositions("one.srl")


def test_batches_mark_the_predicate(settings):
    experiment = srl.Experiment(settings())
    data = experiment.data["train"]
    batches = experiment.batches(experiment.prepare("glove"), "train", labels=experiment.labels)
    ((inputs, labels),) = [batches[i] for i in range(len(batches))]
    for row, number in enumerate(batches.batches[0]):
        length = len(data.sentences[number])
        assert inputs["predicate"][row].tolist() == labels[row, :, 1].tolist()
        assert np.flatnonzero(inputs["predicate"][row]).tolist() == [data.places[number]]
        names = [experiment.tag_names[i] for i in labels[row, :length, 0]]
        assert names == data.tags[number] and (labels[row, length:, 0] == -1).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_highway_lstm_by_plain_numpy(reverse, training):
    layer = HighwayLSTM(3, reverse=reverse, dropout=0.4)
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 4, 5)).astype("float32")
    mask = np.array([[True, True, True, True], [True, True, False, False]])
    layer.build(x.shape)
    layer.set_weights([random.normal(size=v.shape) for v in layer.weights])
    found = to_numpy(layer(x, mask=mask, training=training))
    # What is dropped is dropped at all words, and the next word does not see it.
    dropped = (found == 0)[:, 0]
    assert dropped.any() == training and not dropped.all()
    factors = np.where(dropped, 0, 1 / 0.6) if training else np.ones((2, 3))
    kernel, bias, recurrent = map(to_numpy, layer.weights)
    projected = x @ kernel + bias

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    for row, length in enumerate((4, 2)):
        state = cell = np.zeros(3)
        for t in reversed(range(length)) if reverse else range(length):
            gates = projected[row, t, :15] + state @ recurrent
            i, f, o, r, g = np.split(gates, 5)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
            state = sigmoid(r) * hidden + (1 - sigmoid(r)) * projected[row, t, 15:]
            state = factors[row] * state
            assert_close(found[row, t], state, tolerance=1e-5)


def test_kernel_of_each_gate_is_orthogonal():
    layer = HighwayLSTM(3)
    layer.build((None, None, 5))
    kernel, _, recurrent = map(to_numpy, layer.weights)
    blocks = [*np.split(kernel, 6, axis=1), *np.split(recurrent, 5, axis=1)]
    for block in blocks:
        assert_close(block.T @ block, np.eye(3), tolerance=1e-5)
    for one, other in itertools.combinations(blocks[6:], 2):
        assert (one != other).any()


def test_scores_of_roles(settings):
    settings()
    data = srl.Propositions("train.srl")
    wrong = [[tag.replace("ARG2", "ARG1") for tag in tags] for tags in data.tags]
    for seed, predicted in enumerate((data.tags, wrong), start=1):
        srl.write_predictions(Path(f"glove-{seed}.jsonl"), data, predicted)
    found = srl.role_scores(["glove-1.jsonl", "glove-2.jsonl"], num_roles=3)
    # By frequency: three ARG0, two ARG1, one ARG2. ARG1 has precision 2/3 and recall 1.
    assert found == {"ARG0": [100, 100], "ARG1": [100, pytest.approx(80)], "ARG2": [100, 0]}
    assert list(found) == ["ARG0", "ARG1", "ARG2"]
    srl.harness.draw_scores({"glove": found, "elmo": found}, "Roles", "roles.png")
    assert Path("roles.png").read_bytes().startswith(b"\x89PNG")


def test_only_tags_that_form_spans(settings):
    _, model = model_of(srl.Experiment(settings()))
    names = model.tag_names
    logits = np.random.default_rng(0).normal(size=(20, 9, len(names))).astype("float32") * 5
    for tags in to_numpy(model.decoder(logits)):
        before = "O"
        for tag in (names[i] for i in tags):
            assert not tag.startswith("I-") or before[2:] == tag[2:], (before, tag)
            before = tag
    # They are the best such sequences.
    allowed = []
    for tags in itertools.product(range(len(names)), repeat=3):
        chosen = ["O", *(names[i] for i in tags)]
        if all(y[0] != "I" or x[2:] == y[2:] for x, y in itertools.pairwise(chosen)):
            allowed.append(tags)
    for scores, tags in zip(logits[:, :3], to_numpy(model.decoder(logits[:, :3]))):
        sums = [scores[range(3), list(one)].sum() for one in allowed]
        assert tuple(tags.tolist()) == allowed[np.argmax(sums)]
    spans = ["B-ARG0", "I-ARG0", "O"]
    starts, transitions = srl.constraints(spans)
    assert starts.tolist() == [0, -1e4, 0]
    assert (transitions < 0).tolist() == [[False] * 3, [False] * 3, [False, True, False]]


def test_a_step_trains_every_weight_but_the_constraints(settings):
    experiment = srl.Experiment(settings())
    inputs, model = model_of(experiment)
    before = [to_numpy(variable) for variable in model.trainable_variables]
    fixed = [to_numpy(variable) for variable in model.decoder.weights]
    batches = experiment.batches(inputs, "train", labels=experiment.labels)
    srl.harness.train(model, batches, lambda: 50.0, experiment.settings)
    for variable, old in zip(model.trainable_variables, before):
        assert np.isfinite(to_numpy(variable)).all()
        assert (to_numpy(variable) != old).any(), variable.path
    for variable, old in zip(model.decoder.weights, fixed):
        assert (to_numpy(variable) == old).all()


def test_padding_changes_nothing(settings):
    experiment = srl.Experiment(settings("--no-cache"))
    inputs, model = model_of(experiment)
    sentences = [x.split() for x in ("The cat sat", "The dog " * 6)]
    options = {"words": inputs.words, "elmo": inputs.elmo}
    numbers = np.arange(2)
    together = srl.PredicateBatches(sentences, sentence_of=numbers, places=numbers, **options)
    found = model(together[0][0])
    for row, number in enumerate(together.batches[0]):
        alone = srl.PredicateBatches(
            [sentences[number]], sentence_of=numbers[:1], places=numbers[number:], **options
        )
        expected, length = model(alone[0][0]), len(sentences[number])
        for name in ("logits", "is predicate", "tags"):
            values = (to_numpy(x[name])[i, :length] for x, i in ((found, row), (expected, 0)))
            assert_close(*values, tolerance=1e-5)


def test_f1_is_of_spans_without_the_predicate(settings):
    experiment = srl.Experiment(settings())
    predicted = [list(tags) for tags in experiment.data["dev"].tags]
    assert experiment.f1("dev", predicted) == 100
    predicted[0][2] = "O"  # the predicate
    assert experiment.f1("dev", predicted) == 100
    predicted[3][0] = "B-ARG1"  # one of seven arguments
    assert experiment.f1("dev", predicted) == pytest.approx(100 * 6 / 7)


@pytest.mark.slow
@trains_a_model
def test_learns_its_sentences_by_heart_and_labels(settings, tmp_path):
    # Long epochs: the first that knows all roles is kept, and is to know the predicates, too.
    options = ("--epochs", "10", "--patience", "10", "--halve-after", "10", "--least-steps", "20")
    settings = settings(*options, "--learning-rate", "0.02", "--features", "glove+elmo")
    (row,) = srl.run(settings)
    assert row["dev"] == row["test"] == 100 and len(row["input weights"]) == 3
    lines = (tmp_path / "out" / "glove+elmo-1.jsonl").read_text().splitlines()
    assert [json.loads(line)["predicted"] for line in lines] == [
        tags.split() for *_, tags in SENTENCES
    ]
    assert (tmp_path / "out" / "roles.png").exists()
    path = tmp_path / "out" / "glove+elmo.keras"
    printed = run_program("srl.py", "--model", path, "--label", SENTENCES[0][0], SENTENCES[3][0])
    assert printed == "[ARG1: The cat] [V: sat] [ARG2: on the mat] .\n[ARG0: Dogs] [V: bark] .\n"
    model = keras.models.load_model(path, compile=False)
    labeled = model.label([SENTENCES[3][0], SENTENCES[0][0].split()])
    assert labeled == [[(1, SENTENCES[3][2].split())], [(2, SENTENCES[0][2].split())]]
    before = model.predict_tags(experiment_batches(settings, model))
    again = srl.RoleTagger.from_config(model.get_config())
    again.set_weights(model.get_weights())
    assert again.predict_tags(experiment_batches(settings, again)) == before


def experiment_batches(settings, model):
    experiment = srl.Experiment(settings)
    return experiment.batches(experiment.prepare("glove+elmo"), "test")


def test_printing_roles():
    words, _, tags = SENTENCES[2]
    assert (
        srl.bracketed(words.split(), tags.split())
        == "[ARGM-TMP: Yesterday] [ARG0: the dog] [V: gave up] ."
    )

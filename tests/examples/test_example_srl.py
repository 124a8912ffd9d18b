"""The tagger of semantic roles on a few sentences."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import harness
import srl
from conll import read_propositions
from example_programs import ROLES, experiment_of
from helpers import assert_close, to_numpy
from highway_lstm import HighwayLSTM

pytestmark = pytest.mark.usefixtures("eager")

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


def test_reads_both_forms(tmp_path):
    (tmp_path / "one.conll").write_text(CONLL_2012)
    data = read_propositions("one.conll")
    assert data.sentences == [["The", "cat", "sat", "down", "."], ["Yes"]]
    assert data.items.tolist() == [[0]] and data.places.tolist() == [2]
    assert data.answers == [["B-ARG1", "I-ARG1", "B-V", "B-ARGM-DIR", "O"]]

    # Two predicates, an auxiliary between them, a sentence without any; no empty line at the end.
    rows = ["0 He - O B-ARG0 O", "1 is be.03 B-V O O", "2 singing sing.01 O B-V O"]
    (tmp_path / "one.srl").write_text(
        "\n".join([*rows, "3 song song.01 O B-ARG1 B-V", "", "0 Oh -"])
    )
    data = read_propositions("one.srl")
    assert data.sentences == [["He", "is", "singing", "song"], ["Oh"]]
    assert data.places.tolist() == [2, 3]
    assert data.answers == [["B-ARG0", "O", "B-V", "B-ARG1"], ["O", "O", "O", "B-V"]]


def test_batches_mark_the_predicate():
    experiment = experiment_of("srl")
    data, (inputs, model) = experiment.data["train"], experiment.make_model("glove")
    batches = experiment.batches(model, inputs, "train", labels=experiment.labels)
    ((batch, labels),) = [batches[i] for i in range(len(batches))]
    for row, number in enumerate(batches.batches[0]):
        length = len(data.sentences[number])
        assert batch["predicate"][row].tolist() == labels[row, :, 1].tolist()
        assert np.flatnonzero(batch["predicate"][row]).tolist() == [data.places[number]]
        names = [model.tag_names[i] for i in labels[row, :length, 0]]
        assert names == data.answers[number] and (labels[row, length:, 0] == -1).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_highway_lstm_by_plain_numpy(reverse, training):
    layer = HighwayLSTM(3, reverse=reverse, dropout=0.4)
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 4, 5)).astype("float32")
    mask = np.array([[True, True, True, True], [True, True, False, False]])
    layer(x)
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
    layer(np.zeros((1, 2, 5)))
    kernel, _, recurrent = map(to_numpy, layer.weights)
    blocks = [*np.split(kernel, 6, axis=1), *np.split(recurrent, 5, axis=1)]
    for block in blocks:
        assert_close(block.T @ block, np.eye(3), tolerance=1e-5)
    for one, other in itertools.combinations(blocks[6:], 2):
        assert (one != other).any()


def test_scores_of_roles():
    experiment = experiment_of("srl")
    data = experiment.data["train"]
    wrong = [[tag.replace("ARG2", "ARG1") for tag in tags] for tags in data.answers]
    for seed, predicted in enumerate((data.answers, wrong), start=1):
        experiment.write(f"glove-{seed}", data, [(tags, []) for tags in predicted])
    found = srl.role_scores(["glove-1.jsonl", "glove-2.jsonl"], num_roles=3)
    # By frequency: three ARG0, two ARG1, one ARG2. ARG1 has precision 2/3 and recall 1.
    assert found == {"ARG0": [100, 100], "ARG1": [100, pytest.approx(80)], "ARG2": [100, 0]}
    assert list(found) == ["ARG0", "ARG1", "ARG2"]
    harness.draw_scores({"glove": found, "elmo": found}, "Roles", "roles.png")
    assert Path("roles.png").read_bytes().startswith(b"\x89PNG")


def test_only_tags_that_form_spans():
    _, model = experiment_of("srl").make_model("glove")
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


def test_f1_is_of_spans_without_the_predicate():
    experiment = experiment_of("srl")
    data = experiment.data["dev"]
    predicted = [(list(tags), []) for tags in data.answers]
    assert experiment.score(data, predicted) == (100, {})
    predicted[0][0][2] = "O"  # the predicate
    assert experiment.score(data, predicted) == (100, {})
    predicted[3][0][0] = "B-ARG1"  # one of seven arguments
    assert experiment.score(data, predicted)[0] == pytest.approx(100 * 6 / 7)


def test_sentences_without_predicates():
    _, model = experiment_of("srl").make_model("glove")
    kernel, bias = model.is_predicate.get_weights()
    for value, expected in ((-9.0, []), (9.0, ["Dogs", "bark"])):
        model.is_predicate.set_weights([kernel * 0, bias + value])
        assert [words for words, _ in model.label(["Dogs bark"])] == [expected] * len(expected)


def test_printing_roles():
    words, _, tags = ROLES[2]
    assert (
        srl.bracketed(words.split(), tags.split())
        == "[ARGM-TMP: Yesterday] [ARG0: the dog] [V: gave up] ."
    )

"""The tagger of semantic roles on a few sentences."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import srl
from conll import read_propositions
from example_programs import ROLES, run_of
from experiments import read_parts, write_json_lines
from helpers import assert_close, to_numpy
from highway_lstm import HighwayLSTM
from pictures import draw_scores
from word_vectors import end_to_end, prepare

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
    tags = ["B-ARG1", "I-ARG1", "B-V", "B-ARGM-DIR", "O"]
    assert read_propositions("one.conll") == [
        (["The", "cat", "sat", "down", "."], [(2, tags)]),
        (["Yes"], []),
    ]

    # Two predicates, an auxiliary between them, a sentence without any; no empty line at the end.
    rows = ["0 He - O B-ARG0 O", "1 is be.03 B-V O O", "2 singing sing.01 O B-V O"]
    (tmp_path / "one.srl").write_text(
        "\n".join([*rows, "3 song song.01 O B-ARG1 B-V", "", "0 Oh -"])
    )
    assert read_propositions("one.srl") == [
        (
            ["He", "is", "singing", "song"],
            [(2, ["B-ARG0", "O", "B-V", "B-ARG1"]), (3, ["O", "O", "O", "B-V"])],
        ),
        (["Oh"], []),
    ]


def make_tagger():
    settings = run_of("srl", features="glove")
    data = read_parts(settings, read_propositions)
    sentences = {part: [words for words, _ in data[part]] for part in data}
    words, _, _ = prepare(settings, sentences)
    names = sorted({tag for _, pairs in data["train"] for _, tags in pairs for tag in tags})
    return srl.make_tagger(words, None, names, settings), names


def test_the_predicate_is_marked():
    item = srl.with_predicate({"words": 1}, 2, 4)
    assert item["words"] == 1 and item["predicate"].tolist() == [1, 1, 2, 1]
    assert srl.indicator([0, 2], 3).tolist() == [1, 0, 1]


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


TAGS = [tags.split() for _, _, tags in ROLES]


def test_scores_of_roles():
    wrong = [[tag.replace("ARG2", "ARG1") for tag in tags] for tags in TAGS]
    for seed, predicted in enumerate((TAGS, wrong), start=1):
        rows = ({"true": true, "predicted": found} for true, found in zip(TAGS, predicted))
        write_json_lines(f"glove-{seed}.jsonl", rows)
    found = srl.role_scores(["glove-1.jsonl", "glove-2.jsonl"], num_roles=3)
    # By frequency: three ARG0, two ARG1, one ARG2. ARG1 has precision 2/3 and recall 1.
    assert found == {"ARG0": [100, 100], "ARG1": [100, pytest.approx(80)], "ARG2": [100, 0]}
    assert list(found) == ["ARG0", "ARG1", "ARG2"]
    draw_scores({"glove": found, "elmo": found}, "Roles", "roles.png")
    assert Path("roles.png").read_bytes().startswith(b"\x89PNG")


def test_only_tags_that_form_spans():
    model, names = make_tagger()
    crf = model.get_layer("crf")
    logits = np.random.default_rng(0).normal(size=(20, 9, len(names))).astype("float32") * 5
    for tags in to_numpy(crf(logits)["tags"]):
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
    for scores, tags in zip(logits[:, :3], to_numpy(crf(logits[:, :3])["tags"])):
        sums = [scores[range(3), list(one)].sum() for one in allowed]
        assert tuple(tags.tolist()) == allowed[np.argmax(sums)]
    spans = ["B-ARG0", "I-ARG0", "O"]
    starts, transitions = srl.constraints(spans)
    assert starts.tolist() == [0, -1e4, 0]
    assert (transitions < 0).tolist() == [[False] * 3, [False] * 3, [False, True, False]]


def test_f1_is_of_spans_without_the_predicate():
    predicted = [list(tags) for tags in TAGS]
    assert srl.f1(TAGS, predicted) == 1
    predicted[0][2] = "O"  # the predicate
    assert srl.f1(TAGS, predicted) == 1
    predicted[3][0] = "B-ARG1"  # one of seven arguments
    assert srl.f1(TAGS, predicted) == pytest.approx(6 / 7)


def test_sentences_without_predicates():
    model, _ = make_tagger()
    tagger = end_to_end(model)
    (layer,) = (x for x in model.layers if x.output is model.output["is_predicate"])
    kernel, _ = layer.get_weights()
    for value, expected in ((-9.0, []), (9.0, ["Dogs", "bark"])):
        layer.set_weights([kernel * 0, np.array([0.0, value])])
        found = srl.label(tagger, [["Dogs", "bark"]])
        assert [words for words, _ in found] == [expected] * len(expected)


def test_printing_roles():
    words, _, tags = ROLES[2]
    assert (
        srl.bracketed(words.split(), tags.split())
        == "[ARGM-TMP: Yesterday] [ARG0: the dog] [V: gave up] ."
    )

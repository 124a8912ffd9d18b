"""The probes of the examples, on a few sentences."""

import lzma

import numpy as np
import pytest

import probes
from example_programs import write_glove
from helpers import TINY, assert_close

CONLLU = """# sent_id = 1
1	They	they	PRON	PRP	_	2	nsubj	_	_
2-3	playd	_	_	_	_	_	_	_	_
2	play	play	VERB	VBP	_	0	root	_	_
2.1	x	_	_	_	_	_	_	_	_
3	10 000	10000	NUM	CD	_	2	obj	_	_

1	A	a	DET	DT	_	2	det	_	_
2	play	play	NOUN	NN	_	0	root	_	_

"""

INDEX = """dog%1:05:00:: 02084071 1 42
play%1:10:01:: 07007945 1 32
play%1:04:00:: 00511817 14 0
play%2:33:00:: 01072967 1 70
new_york%1:15:00:: 1 1 0
"""

SEMCOR = """{"tokens": ["We", "play"], "keys": [null, ["play%2:33:00::"]]}
{"tokens": ["The", "play"], "keys": [null, ["play%1:04:00::"]]}
{"tokens": ["New_York", "x"], "keys": [["new_york%1:15:00::"], ["unknown%1:00:00::"]]}
"""

TEST = """<corpus><text id="d0"><sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="play" pos="NOUN">play</instance>
<instance id="d0.s0.t1" lemma="dog" pos="NOUN">dogs</instance>
<instance id="d0.s0.t2" lemma="quux" pos="NOUN">quux</instance>
</sentence></text></corpus>
"""

GOLD = "d0.s0.t0 play%1:04:00:: play%1:99:00::\nd0.s0.t1 dog%1:05:00::\nd0.s0.t2 quux%1:00:00::\n"


@pytest.fixture(autouse=True)
def files(in_folder, tmp_path):
    for name, times in (("ud", 1), ("train", 200)):
        with lzma.open(f"{name}.conllu.xz", "wt") as file:
            file.write(CONLLU * times)
    with lzma.open("senseval.gold.key.txt.xz", "wt") as file:
        file.write(GOLD)
    for name, text in {
        "index.sense": INDEX, "semcor.jsonl": SEMCOR, "senseval.data.xml": TEST,
        "text.txt": "They play well .\nNo word .\nSee a Play !\n", "other.txt": "No word .\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    write_glove(tmp_path / "glove.txt", ["play", "game", "river"])


def test_treebank():
    one, other = probes.read_conllu("ud.conllu.xz")
    assert one == (["They", "play", "10000"], ["PRP", "VBP", "CD"])
    assert other == (["A", "play"], ["DT", "NN"])
    assert probes.read_conllu("ud.conllu.xz", "upos")[1][1] == ["DET", "NOUN"]


@pytest.mark.slow
def test_parts_of_speech(tmp_path):
    files = ["--train", "train.conllu.xz", "--dev", "ud.conllu.xz", "--test", "ud.conllu.xz"]
    rows = probes.run(
        probes.parse(["pos", *files, "--epochs", "20", "--elmo", str(TINY), "--seeds", "2"])
    )
    assert [row["layer"] for row in rows] == ["tokens", "LSTM 1", "LSTM 2"]
    # The word does not tell the verb from the noun; its context does.
    assert rows[0]["test"] == 80 and rows[1]["test"] == 100
    assert rows[1]["seeds"] == 2 and rows[1]["test deviation"] == 0
    assert (tmp_path / "probes_output" / "pos.md").read_text().count("\n") == 5


def test_word_senses():
    inventory = probes.read_inventory("index.sense")
    assert inventory[("play", "NOUN")] == ["play%1:10:01::", "play%1:04:00::"]
    sentences = list(probes.read_senses("semcor.jsonl"))
    assert sentences[2][0] == ["New", "York", "x"]
    instance = sentences[2][1][0]
    assert (instance.start, instance.stop, instance.word) == (0, 2, ("new_york", "NOUN"))

    command = ["senses", "--train", "semcor.jsonl", "--wordnet", "index.sense"]
    rows = probes.run(probes.parse([*command, "--test", "senseval.data.xml", "--elmo", str(TINY)]))
    first, *layers = rows
    # "play" is right by the sense that was met, "dog" by the first one, "quux" is not in WordNet.
    assert_close(first["senseval"], np.array(100 / 3))
    assert_close([row["all"] for row in layers], np.array([200 / 3] * 3))


def test_the_nearest_sense_is_chosen():
    instance = probes.Instance(0, 1, ("play", "NOUN"), [])
    inventory = {("play", "NOUN"): ["a", "b", "c"]}
    senses = {"b": np.array([[1.0, 0], [0, 1]]), "c": np.array([[0.0, 1], [1, 0]])}
    vectors = np.array([[0.9, 0.1], [0.8, 0.2]])
    assert probes.choose_senses(instance, vectors, inventory, senses) == ["b", "c"]
    assert probes.choose_senses(instance, vectors, inventory, {}) == ["a", "a"]


def test_neighbors():
    sentence = "They play well ."
    command = ["neighbors", "--text", "text.txt", "--sentences", sentence, "--count", "1"]
    options = ["--glove", "glove.txt", "--elmo", str(TINY)]
    rows = probes.run(probes.parse([*command, *options]))
    assert [row["layer"] for row in rows] == ["GloVe", "LSTM 1", "LSTM 2"]
    assert rows[0]["nearest"] in ("game", "river")
    assert [row["nearest"] for row in rows[1:]] == ["They PLAY well ."] * 2
    assert rows[1]["cosine"] == pytest.approx(1, abs=1e-4)
    for more, message in (
        (["--word", "Zebra"], "'Zebra' is not a word of 'They play well .'"),
        (["--word", "they", "--text", "other.txt"], "not a word of any sentence in other.txt"),
        (["--word", "well"], "'well' has no vector in glove.txt"),
    ):
        with pytest.raises(ValueError, match=message):
            probes.run(probes.parse([*command, *options, *more]))


def test_test_sets_of_one_name(tmp_path):
    for names in (["a/test.jsonl", "b/test.jsonl"], ["all.jsonl"]):
        command = ["senses", "--train", "semcor.jsonl", "--wordnet", "index.sense"]
        with pytest.raises(ValueError, match="Test sets need distinct names other than 'all'"):
            probes.run(probes.parse([*command, "--test", *names]))

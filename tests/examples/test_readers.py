"""The readers of the examples: byte order marks, line ends, and white space inside of tokens."""

import gzip
import json

import pytest

import coref
import entailment
import features
import harness
import ner
import probes
import squad
import srl
import sst5

TOKENS = ["10\u00a0000", "\u3000", "\u2003km\u0085"]  # each is one token of the package's readers
SPACED, TREE = " ".join(TOKENS), "(2 " + "".join(f"(2 {token}) " for token in TOKENS)[:-1] + ")"
CONLLU = "".join(f"{i}\t{x}\t_\tNUM\tCD\t_\t0\t_\t_\t_\n" for i, x in enumerate(TOKENS, start=1))
CONLL_2012 = "".join(
    f"nw/a 0 {i} {token} CD * - - - - * {chain}\n"
    for i, (token, chain) in enumerate(zip(TOKENS, ("(1)", "-", "(1)")))
)
ROLES = "".join(
    f"{i}\t{token}\t{sense}\t{tag}\n"
    for i, (token, sense, tag) in enumerate(zip(TOKENS, ("do.02", "-", "-"), ("B-V", "O", "O")))
)
SQUAD = {
    "paragraphs": [
        {
            "context": "Ann was born in Paris .",
            "qas": [
                {
                    "id": "a",
                    "question": "Where ?",
                    "answers": [{"text": "Paris", "answer_start": 16}],
                }
            ],
        }
    ]
}
INDEX = "dog%1:05:00:: 02084071 1 42\nice\u00a0cream%1:13:00:: 1 1 0\n"


def lines_of_json(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def read_glove(path):
    words, vectors = features.read_glove(str(path), [])
    return words, vectors.tolist()


def read_documents(path):
    documents = coref.Documents(path)
    return documents.sentences, documents.ranges.tolist(), documents.chains


def read_senses(path):
    return [(tokens, instances[0].keys) for tokens, instances in probes.read_senses(path)]


READERS = {
    "columns": (
        ner.read_sentences,
        "a.bio",
        "".join(f"{token} CD B-X\n" for token in TOKENS),
        ([TOKENS], [["B-X"] * 3]),
    ),
    "columns with tabs": (
        ner.read_sentences,
        "a.bio",
        "".join(f"{token}\tO\n" for token in TOKENS) + "\nA\tO\n",
        ([TOKENS, ["A"]], [["O"] * 3, ["O"]]),
    ),
    "Universal NER": (
        ner.read_sentences,
        "a.iob2",
        "# sent_id = 1\n" + "".join(f"{i}\t{x}\tO\t-\t-\n" for i, x in enumerate(TOKENS, start=1)),
        ([TOKENS], [["O"] * 3]),
    ),
    "roles": (lambda path: srl.Propositions(path).sentences, "a.srl", ROLES, [TOKENS]),
    "chains": (
        read_documents,
        "a.conll",
        f"#begin document (nw/a); part 000\n{CONLL_2012}\n{CONLL_2012}\n#end document\n",
        ([TOKENS] * 2, [[0, 2]], [[{(0, 0), (2, 2), (3, 3), (5, 5)}]]),
    ),
    "chains without a first line": (
        read_documents,
        "a.conll",
        CONLL_2012,
        ([TOKENS], [[0, 1]], [[{(0, 0), (2, 2)}]]),
    ),
    "treebank": (
        probes.read_conllu,
        "a.conllu",
        f"# sent_id = 1\n{CONLLU}\n{CONLLU}\n",
        ([TOKENS] * 2, [["CD"] * 3] * 2),
    ),
    "treebank without a comment": (
        probes.read_conllu,
        "a.conllu",
        f"{CONLLU}\n",
        ([TOKENS], [["CD"] * 3]),
    ),
    "text": (probes.read_text, "a.txt", f"{SPACED}\n{SPACED} .\n", [TOKENS, [*TOKENS, "."]]),
    "senses of words": (
        lambda path: dict(probes.read_inventory(path)),
        "index.sense",
        INDEX,
        {
            ("dog", "NOUN"): ["dog%1:05:00::"],
            ("ice\u00a0cream", "NOUN"): ["ice\u00a0cream%1:13:00::"],
        },
    ),
    "senses in a text": (
        read_senses,
        "a.jsonl",
        lines_of_json({"tokens": TOKENS, "keys": [["dog%1:05:00::"], None, None]}),
        [(TOKENS, ["dog%1:05:00::"])],
    ),
    "trees": (sst5.read_trees, "a.txt", f"{TREE}\n\n{TREE}\n", ([TOKENS] * 2, [2, 2])),
    "pairs": (
        entailment.read_pairs,
        "a.jsonl",
        lines_of_json({"premise": SPACED, "hypothesis": SPACED, "label": "neutral"}),
        ([TOKENS] * 2, [1]),
    ),
    "pairs of SNLI": (
        entailment.read_pairs,
        "a.jsonl",
        lines_of_json(
            {
                "gold_label": "neutral",
                "sentence1_binary_parse": f"( {SPACED} )",
                "sentence2_binary_parse": SPACED,
            }
        ),
        ([TOKENS] * 2, [1]),
    ),
    "questions": (
        lambda path: squad.Questions(path).sentences,
        "a.json",
        json.dumps({"data": [SQUAD]}, indent=1) + "\n",
        [["Ann", "was", "born", "in", "Paris", "."], ["Where", "?"]],
    ),
    "GloVe": (
        read_glove,
        "a.txt",
        "".join(f"{token} 1.0 2.0\n" for token in TOKENS),
        (TOKENS, [[0, 0], [1, 2], [1, 2], [1, 2], [1, 2]]),
    ),
    "word2vec": (
        read_glove,
        "a.txt",
        "1 2\n" + f"{TOKENS[0]} 1.0 2.0\n",
        (TOKENS[:1], [[0, 0], [1, 2], [1, 2]]),
    ),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader(tmp_path, reader, line_end, encoding):
    read, name, text, expected = READERS[reader]
    content = text.replace("\n", line_end).encode(encoding)
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path / name) == expected
    if not name.endswith(".sense"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        assert read(tmp_path / f"{name}.gz") == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_senses_in_xml(tmp_path, line_end, encoding):
    words = "".join(f'<wf lemma="x" pos="X">{token}</wf>\n' for token in TOKENS)
    instance = '<instance id="s0.t0" lemma="dog" pos="NOUN">dog</instance>\n'
    files = {
        "a.data.xml": f'<corpus><sentence id="s0">\n{words}{instance}</sentence></corpus>\n',
        "a.gold.key.txt": "s0.t0 dog%1:05:00::\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.replace("\n", line_end).encode(encoding))
    assert read_senses(tmp_path / "a.data.xml") == [([*TOKENS, "dog"], ["dog%1:05:00::"])]


def test_sentences_of_the_command_line():
    assert harness.sentences_of([SPACED, [*TOKENS]]) == [TOKENS, TOKENS]

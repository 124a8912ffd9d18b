"""The readers of the examples: byte order marks, line ends, and white space inside of tokens."""

import gzip
import json

import pytest

import entailment
import ner
import probes
import reading
import squad
import sst5
import word_vectors
from conll import read_documents, read_propositions
from example_programs import ROLES as PROPOSITIONS
from example_programs import conll, role_columns

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
ANSWER = {"text": "Paris", "answer_start": 16}
QUESTION = {"id": "a", "question": "Where ?", "answers": [ANSWER]}
SQUAD = {"paragraphs": [{"context": "Ann was born in Paris .", "qas": [QUESTION]}]}
FORMS = [("\n", "utf-8"), ("\r\n", "utf-8-sig")]
INDEX = "dog%1:05:00:: 02084071 1 42\nice\u00a0cream%1:13:00:: 1 1 0\n"


def lines_of_json(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def read_glove(path):
    words, vectors = word_vectors.read_glove(str(path), [])
    return words, vectors.tolist()


def read_senses(path):
    return [(tokens, instances[0].keys) for tokens, instances in probes.read_senses(path)]


READERS = {
    "columns": (
        ner.read_sentences,
        "a.bio",
        "".join(f"{token} CD B-X\n" for token in TOKENS),
        [(TOKENS, ["B-X"] * 3)],
    ),
    "columns with tabs": (
        ner.read_sentences,
        "a.bio",
        "".join(f"{token}\tO\n" for token in TOKENS) + "\nA\tO\n",
        [(TOKENS, ["O"] * 3), (["A"], ["O"])],
    ),
    "Universal NER": (
        ner.read_sentences,
        "a.iob2",
        "# sent_id = 1\n" + "".join(f"{i}\t{x}\tO\t-\t-\n" for i, x in enumerate(TOKENS, start=1)),
        [(TOKENS, ["O"] * 3)],
    ),
    "roles": (read_propositions, "a.srl", ROLES, [(TOKENS, [(0, ["B-V", "O", "O"])])]),
    "chains": (
        read_documents,
        "a.conll",
        f"#begin document (nw/a); part 000\n{CONLL_2012}\n{CONLL_2012}\n#end document\n",
        [([TOKENS] * 2, [{(i, j, j) for i in (0, 1) for j in (0, 2)}])],
    ),
    "treebank": (
        probes.read_conllu,
        "a.conllu",
        f"# sent_id = 1\n{CONLLU}\n{CONLLU}\n",
        [(TOKENS, ["CD"] * 3)] * 2,
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
    "trees": (sst5.read_trees, "a.txt", f"{TREE}\n\n{TREE}\n", [(TOKENS, 2)] * 2),
    "pairs": (
        entailment.read_pairs,
        "a.jsonl",
        lines_of_json({"premise": SPACED, "hypothesis": SPACED, "label": "neutral"}),
        [([TOKENS] * 2, 1)],
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
        [([TOKENS] * 2, 1)],
    ),
    "questions": (
        squad.read_questions,
        "a.json",
        json.dumps({"data": [SQUAD]}, indent=1) + "\n",
        [("a", "Where ?", "Ann was born in Paris .", ["Paris"], (4, 4))],
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


@pytest.mark.parametrize("line_end, encoding", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader(tmp_path, reader, line_end, encoding):
    read, name, text, expected = READERS[reader]
    content = text.replace("\n", line_end).encode(encoding)
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path / name) == expected
    if not name.endswith(".sense"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        assert read(tmp_path / f"{name}.gz") == expected


@pytest.mark.parametrize("line_end, encoding", FORMS)
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
    assert reading.sentences_of([SPACED, [*TOKENS]]) == [TOKENS, TOKENS]
    with pytest.raises(ValueError, match="Sentence 2 of 2 has no words"):
        reading.sentences_of(["Bad", " "])


def bad(reader, name, good, lines, message):
    """Files of which the last sentence is wrong, one for each of some ends of the file."""
    return [pytest.param(reader, name, good, line, message, id=line[:30]) for line in lines]


PAIR = lines_of_json({"premise": "A", "hypothesis": "B", "label": "neutral"})
ROLE = role_columns(*PROPOSITIONS[3])
CHAIN = conll([[("Ann slept", "(1) -")]])


@pytest.mark.parametrize(
    "reader, name, good, line, message",
    [
        *bad(
            ner.read_sentences,
            "a.bio",
            "Ann B-PER\n\n",
            ["Ann L-PER", "Ann PER", "Ann", "# B-PER I- O-PER", "Ann\tB-"],
            "line 3: expected tokens with tags in IOB1",
        ),
        *bad(
            sst5.read_trees,
            "a.txt",
            "(2 Fine)\n\n",
            [
                "no tree",
                "(3 )",
                "(3 (2 It)) x",
                "(3 (2 It) (4 works)",
                "(3 It) 4)",
                "3\tIt works",
                "(5 It)",
                "(3x It)",
            ],
            "line 3: expected a tree such as",
        ),
        *bad(
            entailment.read_pairs,
            "a.jsonl",
            PAIR,
            ["no JSON", "[1]", "{}", PAIR.replace("neutral", "no"), PAIR.replace("A", "")],
            "line 2: expected pairs in the form of SNLI",
        ),
        *bad(
            read_propositions,
            "a.srl",
            ROLE,
            [
                "0 He",
                "0 He go.01 B-V O",
                "0 He go.01",
                "0 He go.01 V",
                "0 He go.01 I-V",
                "0 He go.01 B-V\n1 on - I-ARG1",
                "nw/a 0 0 He PRP * go 01 1 - * (V(ARG1* -",
                "nw/a 0 0 He PRP * go 01 1 - * (V* -",
                "nw/a 0 0 He PRP * go 01 1 - * *) -",
                "0 He go.01 B-V\n1 ran -",
                "nw/a 0 0 He",
            ],
            "line 5: expected CoNLL-2012, or columns",
        ),
        *bad(
            read_documents,
            "a.conll",
            CHAIN,
            ["d 0 0 She _ (1", "d 0 0 She _ 1)", "d 0 0 She _ (a)", "d 0 0 She _ 1|(", "d 0"],
            "line 6: expected CoNLL-2012, with chains",
        ),
        *bad(
            probes.read_conllu,
            "a.conllu",
            f"# text\n{CONLLU}\n",
            ["1 They PRON"],
            "line 6: expected the ten columns of CoNLL-U",
        ),
        *bad(
            probes.read_inventory,
            "index.sense",
            INDEX,
            ["dog 1", "dog%9:05:00:: 0 1 42", "dog%1:05:00:: 0 x 42", "dog% 1 1 1"],
            "line 3: expected WordNet's index.sense",
        ),
    ],
)
def test_lines_of_another_form(tmp_path, reader, name, good, line, message):
    (tmp_path / name).write_text(f"{good}{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"{name}, {message}.*, got "):
        reader(tmp_path / name)
    (tmp_path / name).write_text(good, encoding="utf-8")
    assert reader(tmp_path / name)
    (tmp_path / name).write_text("\n\n")
    with pytest.raises(ValueError, match=f"{name}: expected .*, got an empty file"):
        reader(tmp_path / name)


def test_files_without_answers(tmp_path):
    for reader, text, message in (
        (read_propositions, "0 Oh -\n", "has no predicates"),
        (read_documents, conll([[("Ann slept", "- -")]]), "has no chains"),
    ):
        (tmp_path / "one").write_text(text)
        with pytest.raises(ValueError, match=message):
            reader(tmp_path / "one")

"""Entities of the tagger, and the files that it reads."""

import lzma

import pytest

import ner

BIO = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC", "O", "B-ORG"]
IOBES = ["B-PER", "E-PER", "O", "S-LOC", "B-LOC", "E-LOC", "O", "S-ORG"]
IOB1 = ["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-LOC", "O", "I-ORG"]
ENTITIES = [("PER", 0, 2), ("LOC", 3, 4), ("LOC", 4, 6), ("ORG", 7, 8)]


@pytest.mark.parametrize("tags", [BIO, IOBES, IOB1])
def test_schemes_name_the_same_entities(tags):
    assert ner.entities(tags) == ENTITIES
    assert ner.to_bio(ENTITIES, len(tags)) == BIO
    assert ner.to_iobes(tags) == IOBES


def test_tags_that_no_scheme_allows_are_read_as_conlleval_does():
    assert ner.entities(["O", "I-A", "I-B", "E-B", "I-B"]) == [
        ("A", 1, 2),
        ("B", 2, 4),
        ("B", 4, 5),
    ]
    assert ner.entities(["E-A", "S-A", "O"]) == [("A", 0, 1), ("A", 1, 2)]
    assert ner.entities([]) == []


@pytest.mark.parametrize(
    "name, text",
    [
        ("conll.txt", "-DOCSTART- -X- -X- O\n\n# NN I-NP O\nAnn NNP I-NP I-PER\n"
         "Lee NNP I-NP I-PER\n"),
        ("wnut.conll", "\n#\tO\nAnn\tB-PER\nLee\tI-PER\n\n\n"),
        ("uner.bio", "# O\nAnn B-PER\nLee I-PER\n\n"),
        ("uner.iob2", "# sent_id = 1\n# text = # Ann Lee\n1\t#\tO\t-\t-\n2\tAnn\tB-PER\t-\t-\n"
         "3\tLee\tI-PER\t-\t-\n\n"),
    ],
)  # fmt: skip
def test_files_of_every_kind(tmp_path, name, text):
    expected = [(["#", "Ann", "Lee"], ["O", "B-PER", "I-PER"])]
    (tmp_path / name).write_text(text)
    assert ner.read_sentences(tmp_path / name) == expected
    with lzma.open(tmp_path / f"{name}.xz", "wt") as file:
        file.write(text.replace("\n", "\r\n"))
    assert ner.read_sentences(tmp_path / f"{name}.xz") == expected


def test_words_that_universal_ner_counts_as_no_names(tmp_path):
    lines = "# newpar\n1\tFrom\tB-O\t-\t-\n2\tIraqi\tB-OTH\t-\t-\n3\tAnn\tB-PER\t-\t-\n"
    (tmp_path / "uner.iob2").write_text(lines)
    assert ner.read_sentences(tmp_path / "uner.iob2")[0][1] == ["O", "O", "B-PER"]

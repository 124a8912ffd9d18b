import dataclasses

import pytest

from keras_elmo import CorpusIndex, count_words, tokenize
from keras_elmo.text.reader import read_sentences
from keras_elmo.text.tokenize import make_tokenizer

pytestmark = pytest.mark.needs("spacy", "syntok")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        (" \n\n\t ", []),
        (
            'Mr. Smith can\'t wait... "Really?" (No.)',
            ["Mr. Smith ca n't wait ...", '" Really ? "', "( No . )"],
        ),
        (
            "A well-known bank--the oldest\nin U.S. history.",
            ["A well-known bank -- the oldest in U.S. history ."],
        ),
        ("A title\n\nIts text costs $5.", ["A title", "Its text costs $ 5 ."]),
        ("naïve café 😀", ["naïve café 😀"]),
    ],
)
def test_english_text(text, expected):
    assert [" ".join(sentence) for sentence in tokenize(text)] == expected


def test_offsets_are_places_in_the_raw_text():
    text = "\u00a0 Na\u00efve \U0001f600  caf\u00e9s can't\tgo.\r\n\n Mr. X's $5 (U.S.)\nleft... "
    sentences, offsets = tokenize(text, return_offsets=True)
    assert sentences == tokenize(text) and len(sentences) > 1
    for tokens, places in zip(sentences, offsets, strict=True):
        assert [text[i : i + len(token)] for i, token in zip(places, tokens, strict=True)] == tokens
    places = [i for places in offsets for i in places]
    assert places == sorted(set(places))


def test_other_languages_have_their_own_rules():
    assert tokenize("Das ist z.B. gut.", language="de") == [["Das", "ist", "z.B.", "gut", "."]]
    for language in ("qq", "", "../../etc", "de.examples"):
        with pytest.raises(ValueError, match=f"Unknown language '{language}'"):
            tokenize("?", language=language)
    for language, message in (
        ("German", "Unknown language 'German': pass its code, 'de'"),
        ("de_AT", "Unknown language 'de_AT': pass its code, 'de'"),
        ("grman", "Unknown language 'grman': pass its code, 'de'"),
        ("gl", "spaCy has no rules for Galician: pass 'xx'"),
    ):
        with pytest.raises(ValueError, match=message):
            tokenize("?", language=language)
    with pytest.raises(ValueError, match="Expected a text as one string"):
        tokenize(["A list"])


def test_raw_text_to_count_and_to_train_on(tmp_path):
    raw, split = tmp_path / "raw.txt", tmp_path / "split.txt"
    raw.write_bytes(b"The bank didn't.  It left.\r\n\n\xff A title\nNa\xefve" + b"\n" * 40)
    split.write_text("The bank did n't .\nIt left .\nA title\nNave\n")
    index, expected = CorpusIndex.build(raw, tmp_path, tokenize=True), CorpusIndex.build(split)
    assert index.text_hash == expected.text_hash
    assert list(map(index.sentence, range(len(index)))) == list(read_sentences(split))
    assert index.stats == dataclasses.replace(expected.stats, blank_lines=40, invalid_lines=2)
    assert count_words(raw, tokenize="en").counts == count_words(split).counts
    # Other ways to read the same file have other indexes.
    assert CorpusIndex.build(raw, tmp_path).text_hash != index.text_hash
    for size in (4, 5):
        first = CorpusIndex.build(raw, tmp_path, tokenize=lambda x, n=size: [x.split()[:n]])
        assert first.sentence(0) == [b"The", b"bank", b"didn't.", b"It", b"left."][:size]


def test_raw_text_is_hinted_at(tmp_path, caplog):
    (tmp_path / "raw.txt").write_text("It left.\nThey came.\nA title\n")
    CorpusIndex.build(tmp_path / "raw.txt", tokenize=True)
    assert not caplog.records
    count_words(tmp_path / "raw.txt")
    (record,) = caplog.records
    assert "end in a token such as 'left.'" in record.message


@pytest.mark.parametrize(
    "function, wrong",
    [(str.split, "'a'"), (str.upper, "'A B'"), (print, "None"), (lambda text: [None], "None")],
)
def test_a_function_returns_lists_of_tokens(function, wrong):
    with pytest.raises(ValueError, match=f"must return a list of sentences, .*; got {wrong}"):
        make_tokenizer(function)("a b")


def test_no_characters_are_lost_in_a_long_paragraph():
    text = "The bank's rates rose by 2.5%. " * 40_000
    sentences = tokenize(text)
    assert len(sentences) == 40_000
    assert "".join(sentences[-1]) == text[:31].replace(" ", "")

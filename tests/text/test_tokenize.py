import pytest

from keras_elmo import tokenize

pytest.importorskip("syntok", reason="needs the extra tokenize")
pytest.importorskip("spacy", reason="needs the extra tokenize")


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


def test_other_languages_have_their_own_rules():
    assert tokenize("Das ist z.B. gut.", language="de") == [["Das", "ist", "z.B.", "gut", "."]]
    with pytest.raises(ImportError, match="qq"):
        tokenize("?", language="qq")


def test_no_characters_are_lost_in_a_long_paragraph():
    text = "The bank's rates rose by 2.5%. " * 40_000
    sentences = tokenize(text)
    assert len(sentences) == 40_000
    assert "".join(sentences[-1]) == text[:31].replace(" ", "")

"""Lexicon against the ids of ELMoForManyLangs, its files, and what is wrong with others'."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_elmo import Lexicon
from keras_elmo.pretrained.many_languages import read_architecture
from many_languages import MANY_LANGUAGES, MARKS, VARIANTS, golden, small_lexicon


@pytest.mark.parametrize("variant", VARIANTS)
def test_ids_of_the_original(variant):
    config, lexicon = read_architecture(MANY_LANGUAGES / variant / "config.json")
    (texts, outputs), num_words = golden(variant), int(config.word_dim > 0)
    rows = lexicon.encode_sentences(texts["sentences"])
    assert rows.shape[2] == config.row_width == lexicon.width
    for i, sentence in enumerate(texts["sentences"]):
        found = rows[i, : len(sentence) + 2] - 1
        if num_words:
            np.testing.assert_array_equal(found[:, 0], outputs[f"word_ids_{i}"])
        if config.reads_characters:
            np.testing.assert_array_equal(found[:, num_words:], outputs[f"char_ids_{i}"])
        assert not rows[i, len(sentence) + 2 :].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_files_and_dicts_come_back(variant, tmp_path):
    config, lexicon = read_architecture(MANY_LANGUAGES / variant / "config.json")
    assert Lexicon.from_dict(json.loads(json.dumps(lexicon.to_dict()))) == lexicon
    for name in lexicon.files:
        lexicon.write(name, tmp_path / name)
    parts = {"words": config.word_dim > 0, "characters": config.reads_characters}
    width = config.max_characters_per_token
    assert Lexicon.from_folder(tmp_path, **parts, max_characters_per_token=width) == lexicon
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (MANY_LANGUAGES / variant / path.name).read_bytes().replace(
            b"\n98\n", b"\n\xe3\x80\x80\t98\n"
        )


def test_a_row_by_hand():
    lexicon = small_lexicon(words="cat", characters="cat", width=8)
    oov, pad, bow, eow = 5, 6, 7, 8  # places in char.dic; <eow> begins a word, <bow> ends it
    row = np.array([0, eow, 0, oov, 2, bow, pad, pad, pad]) + 1
    np.testing.assert_array_equal(lexicon.encode_words(["cät"]), [row])


def _row(lexicon, text):
    """The rule once more, naively."""
    words, characters = lexicon.words, lexicon.characters
    text = text[: lexicon.max_characters_per_token - 2]
    marks = [text] if text in ("<bos>", "<eos>") else list(text)
    known = [x if x in characters else "<oov>" for x in marks]
    row = ["<eow>", *known, "<bow>"]
    row += ["<pad>"] * (lexicon.max_characters_per_token - len(row))
    word = text if text in words else "<oov>"
    return [words.index(word) + 1, *(characters.index(x) + 1 for x in row)]


@given(st.text(max_size=20))
def test_rows_follow_the_rule_and_depend_on_the_key_alone(text):
    lexicon = small_lexicon(width=8)
    text = text.encode("utf-8", "ignore").decode()
    row = lexicon.encode_words([text])[0]
    np.testing.assert_array_equal(row, _row(lexicon, text))
    key = lexicon.key(text.encode())
    np.testing.assert_array_equal(lexicon.encode_words([key])[0], row)


def test_a_boundary_is_known_by_its_text():
    lexicon = small_lexicon()
    rows = lexicon.encode_sentences([["<bos>", "cat", "<eos>"]])[0]
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[-1], rows[-2])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((None, None), "words, characters or both"),
        ((["<bos>", "a"], None), "word.dic does not list <oov>"),
        ((None, ["a", *MARKS[:3]]), "char.dic does not list <pad> and <eow> and <bow>"),
    ],
)
def test_what_a_lexicon_must_have(arguments, message):
    with pytest.raises(ValueError, match=message):
        Lexicon(*arguments)


@pytest.mark.parametrize(
    "content",
    [
        b"<oov>\t0\nlong\n",
        b"<oov>\t0\n\nb\t2\n",
        b"<oov>\t0\na\t0\n",
        b"<oov>\t0\na\t2\n",
        b"<oov>\t0\na\t-1\n",
        b"a\t" + 10_000 * b"9" + b"\n",
    ],
)
def test_lines_that_are_no_entries(content, tmp_path):
    (tmp_path / "word.dic").write_bytes(content)
    with pytest.raises(ValueError, match="word.dic: expected on each line an entry, a tab and"):
        Lexicon.from_folder(tmp_path, characters=False)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"word\.dic does not exist: the model needs it"):
        Lexicon.from_folder(tmp_path)
    (tmp_path / "word.dic").write_bytes(b"\xff\t0\n")
    with pytest.raises(ValueError, match=r"word\.dic is not UTF-8"):
        Lexicon.from_folder(tmp_path)
    (tmp_path / "word.dic").write_bytes(b"<oov>\t0\na\tb\t1\n")
    with pytest.raises(ValueError, match="Entry 1 of word.dic must be a string"):
        Lexicon.from_folder(tmp_path, characters=False)


@pytest.mark.parametrize("entry", ["", " a", "a\tb", "a\nb", "\u2003", None])
def test_entries_that_no_line_can_hold(entry):
    with pytest.raises(ValueError, match="Entry 1 of word.dic must be a string that does not"):
        Lexicon(["<oov>", entry])
    with pytest.raises(ValueError, match="Entry 0 of char.dic must be a string that does not"):
        Lexicon(None, [entry, *MARKS])


def test_entries_that_a_line_can_hold(tmp_path):
    lexicon = Lexicon(["<oov>", "\u3000", "a b", "c ", "\u200b", "\ufeff"])
    for name in lexicon.files:
        lexicon.write(name, tmp_path / name)
    assert Lexicon.from_folder(tmp_path, characters=False) == lexicon


@pytest.mark.parametrize("width", [6, "9"])
def test_too_few_characters_for_a_token(width):
    with pytest.raises(ValueError, match="must be an integer of at least 7; got"):
        Lexicon(None, MARKS, width)

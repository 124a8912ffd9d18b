"""What may be a batch of sentences, and which tokens it has."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_elmo.text.tokens import (
    check_batch,
    is_strings,
    plain_batch,
    split_tokens,
    token_lists,
    tokens_of,
    without_padding,
)


@pytest.mark.parametrize("make", [list, np.array, lambda rows: np.array(rows, dtype=object), tuple])
def test_padding_keeps_the_width_whatever_the_type(make):
    lists, width = token_lists(make([["row", "", "boats", "", ""], ["a", "", "", "", ""]]))
    assert lists == [["row", "", "boats"], ["a"]]
    assert width == 5


def test_sentences_are_as_wide_as_the_longest():
    assert token_lists(["a b c", "", "d"]) == ([["a", "b", "c"], [], ["d"]], 3)
    assert token_lists([[], ["", ""]]) == ([[], []], 2)


@pytest.mark.parametrize("sentence", ["a b", b"a b", ["a", "b"], ("a", "b"), np.array(["a", "b"])])
def test_tokens_of_a_sentence(sentence):
    assert [
        token.decode() if isinstance(token, bytes) else token for token in tokens_of(sentence)
    ] == ["a", "b"]


def test_tokens_of_tensors():
    tf = pytest.importorskip("tensorflow")
    assert tokens_of(tf.constant("a b")) == [b"a", b"b"]
    assert tokens_of(tf.constant(["a", "b"])) == [b"a", b"b"]


def test_invalid_text_is_dropped_before_a_sentence_is_split():
    assert split_tokens(b"a \xff\xfe b\xff") == [b"a", b"b"]
    assert split_tokens("a \ud800 b\udfff") == ["a", "b"]
    # A token that was given remains one.
    assert tokens_of(["a", "\ud800"]) == ["a", "\ud800"]
    assert without_padding(["a", "\ud800", ""]) == ["a", "\ud800"]


@pytest.mark.parametrize("table", [type("Table", (), {"columns": ("a",)})(), {"a": 1}])
def test_a_table_is_refused_with_a_hint_at_its_column(table):
    with pytest.raises(ValueError, match=r'got a \w+\. Pass the column .* data\["text"\]'):
        check_batch(table)


@pytest.mark.parametrize("one", ["a b", b"a b", np.array("a b")])
def test_a_single_string_is_refused(one):
    with pytest.raises(ValueError, match=r"single string .*a b.* list: \[sentence\]"):
        check_batch(one)


@pytest.mark.parametrize(
    "rows", [[["the plot"]], [["the plot", ""]], [[b"a", b" a\tb"], [b"c", b""]]]
)
@pytest.mark.parametrize("dtype", [None, object])
def test_an_array_of_sentences_in_place_of_tokens(rows, dtype):
    with pytest.warns(UserWarning, match=r"white space.*tf\.squeeze\(x, 1\).*split them"):
        token_lists(np.array(rows, dtype=dtype))
    tf = pytest.importorskip("tensorflow")
    with pytest.warns(UserWarning, match=r"white space.*tf\.squeeze\(x, 1\).*split them"):
        token_lists(plain_batch(tf.constant(rows)))


def test_no_warning_of_tokens_sentences_and_ids():
    for rows in ([["a", " b "], ["", " "]], [["no-break\u00a0space", "\u3000"]]):
        token_lists(np.array(rows))
    token_lists(np.array(["two sentences", "in a batch"]))
    assert token_lists([["New York", "is"]]) == ([["New York", "is"]], 2)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (["a b", "c"], True),
        ([["a"], []], True),
        ([], True),
        (np.array([None, "a"], dtype=object), True),
        (np.array([["a", "b"], ["c"]], dtype=object), True),
        ([[SimpleNamespace(text="spaCy's")]], True),
        (np.array([["a"]], dtype="S"), True),
        (np.zeros((2, 0), dtype=object), True),
        ([[1, 2]], False),
        (np.ones((2, 3), "int32"), False),
        (np.array([None], dtype=object), False),
    ],
)
def test_what_holds_strings(batch, expected):
    assert is_strings(plain_batch(batch)) is expected


def test_a_plain_batch_has_no_series_ragged_rows_or_eager_strings():
    class Series(list):
        def to_numpy(self):
            return np.array(self)

    assert plain_batch(Series(["a b"])) == ["a b"]
    tf = pytest.importorskip("tensorflow")
    ragged = plain_batch(tf.ragged.constant([["a", "b"], ["c"]]))
    assert ragged.tolist() == [[b"a", b"b"], [b"c", b""]]
    assert plain_batch(tf.ragged.constant([[1], []])).numpy().tolist() == [[1], [0]]


@pytest.mark.parametrize("row", [["the plot"], np.array(["the plot"]), np.array(["a b", "c"])])
def test_rows_that_seem_to_be_sentences(row):
    with pytest.warns(UserWarning, match="each string is one token"):
        tokens_of(row)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_values_are_named(missing):
    with pytest.raises(ValueError, match=f"got 'a b' and {missing}. Replace missing values by"):
        token_lists(["a b", "c", missing])
    with pytest.raises(ValueError, match=f"found {missing}. Replace missing values by"):
        tokens_of(missing)


@pytest.mark.parametrize("row", [{"text": "a b"}, {"a", "b"}])
def test_a_row_of_a_table_is_no_list_of_tokens(row):
    with pytest.raises(ValueError, match=rf'found a {type(row).__name__}\. .*\[row\["text"\] for'):
        tokens_of(row)


def test_values_of_pyarrow():
    assert tokens_of(SimpleNamespace(as_py=lambda: "a b")) == ["a", "b"]
    assert tokens_of(SimpleNamespace(as_py=lambda: ["a", "b"])) == ["a", "b"]

"""What may be a batch of sentences, and which tokens it has."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_elmo.text.tokens import (
    as_batch,
    check_batch,
    split_tokens,
    tokens_of,
    without_padding,
)


@pytest.mark.parametrize("make", [list, np.array, lambda rows: np.array(rows, dtype=object), tuple])
def test_padding_keeps_the_width_whatever_the_type(make):
    lists, width = as_batch(make([["row", "", "boats", "", ""], ["a", "", "", "", ""]]))
    assert lists == [["row", "", "boats"], ["a"]]
    assert width == 5


def test_sentences_are_as_wide_as_the_longest():
    assert as_batch(["a b c", "", "d"]) == ([["a", "b", "c"], [], ["d"]], 3)
    assert as_batch([[], ["", ""]]) == ([[], []], 2)


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
        as_batch(np.array(rows, dtype=dtype))
    tf = pytest.importorskip("tensorflow")
    with pytest.warns(UserWarning, match=r"white space.*tf\.squeeze\(x, 1\).*split them"):
        as_batch(tf.constant(rows))


def test_no_warning_of_tokens_sentences_and_ids():
    for rows in ([["a", " b "], ["", " "]], [["no-break\u00a0space", "\u3000"]]):
        as_batch(np.array(rows))
    as_batch(np.array(["two sentences", "in a batch"]))
    assert as_batch([["New York", "is"]]) == ([["New York", "is"]], 2)


@pytest.mark.parametrize(
    ("batch", "tokens"),
    [
        (["a b", b"c"], [["a", "b"], [b"c"]]),
        ([["a"], []], [["a"], []]),
        ([], []),
        (iter([("a", "b")]), [["a", "b"]]),
        ({"a b": 1}.keys(), [["a", "b"]]),
        (np.array([["a", "b"], ["c"]], dtype=object), [["a", "b"], ["c"]]),
        ([[SimpleNamespace(text="spaCy's")]], [["spaCy's"]]),
        (np.array([["a"]], dtype="S"), [[b"a"]]),
        (np.zeros((2, 0), dtype=object), [[], []]),
    ],
)
def test_sentences_in_any_container(batch, tokens):
    assert as_batch(batch).tokens == tokens


def test_an_array_without_rows_keeps_its_columns():
    assert as_batch(np.zeros((0, 3), dtype=object)) == ([], 3)
    assert as_batch(np.zeros(0, dtype=object)) == ([], 0)


@pytest.mark.parametrize("ids", [[[1, 2]], [np.array([1, 2])]])
def test_integers_are_ids(ids):
    found = as_batch(ids)
    assert found.tolist() == [[1, 2]] and found.dtype.kind == "i"
    assert as_batch(found) is found
    with pytest.raises(ValueError, match="rectangular, got sentences of different lengths: pad"):
        as_batch([[1, 2], [1]])


def test_tensors():
    tf = pytest.importorskip("tensorflow")
    ragged = as_batch(tf.ragged.constant([["a", "b"], ["c"]]))
    assert ragged == ([[b"a", b"b"], [b"c"]], 2)
    assert as_batch(tf.ragged.constant([[1], []])).numpy().tolist() == [[1], [0]]
    assert as_batch(tf.constant(["a b"])) == ([[b"a", b"b"]], 2)


def test_a_column_whose_dtype_is_called_string():
    pandas = pytest.importorskip("pandas")
    assert as_batch(pandas.Series(["a b"], dtype="string")) == ([["a", "b"]], 2)


def test_what_is_no_batch():
    for batch in (None, 3, object()):
        with pytest.raises(ValueError, match="Expected a batch of sentences, such as a list of"):
            as_batch(batch)


@pytest.mark.parametrize("row", [["the plot"], np.array(["the plot"]), np.array(["a b", "c"])])
def test_rows_that_seem_to_be_sentences(row):
    with pytest.warns(UserWarning, match="each string is one token"):
        tokens_of(row)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_values_are_named(missing):
    for batch in (["a b", "c", missing], [missing], np.array(["a b", missing], dtype=object)):
        with pytest.raises(ValueError, match=f"found {missing}. Replace missing values by"):
            as_batch(batch)


@pytest.mark.parametrize("row", [{"text": "a b"}, {"a", "b"}])
def test_a_row_of_a_table_is_no_list_of_tokens(row):
    with pytest.raises(ValueError, match=rf'found a {type(row).__name__}\. .*\[row\["text"\] for'):
        tokens_of(row)


def test_values_of_pyarrow():
    assert tokens_of(SimpleNamespace(as_py=lambda: "a b")) == ["a", "b"]
    assert tokens_of(SimpleNamespace(as_py=lambda: ["a", "b"])) == ["a", "b"]

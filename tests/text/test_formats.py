"""The formats of text: FASTA, CoNLL-U and JSON, and files that are none."""

import gzip
import hashlib
import io
import json

import pytest

from keras_elmo.text.reader import check_text, read_records, read_sentences

FASTA = b"""\xef\xbb\xbf
>sp|P69905|HBA_HUMAN Hemoglobin OS=Homo sapiens
MVLS paDK
tnV\r
>A0A1_HUMAN/2\x00\x1b9 caf\xe9
xbzUO





>4HHB_1|Chains A|x\tmore
>stop
MK*L
>gap
M-K
>letter
M\xc3\x9f
>long
MKVLAAGIVGLMK"""


def records(content, format, **options):
    return list(read_records(io.BytesIO(content), format=format, **options))


def test_entries_of_fasta():
    found = records(FASTA, "fasta", max_line_tokens=12)
    assert [(record.name, "".join(record.tokens), record.error) for record in found] == [
        ("P69905", "MVLSPADKTNV", None),
        ("A0A1_HUMAN_2__9", "XBZUO", None),
        ("4HHB_1|Chains", "", "no residues"),
        ("stop", "", "'*' at position 3 is not the letter of an amino acid"),
        ("gap", "", "'-' at position 2 is not the letter of an amino acid"),
        ("letter", "", "'ß' at position 2 is not the letter of an amino acid"),
        ("long", "", "13 tokens, more than max_line_tokens=12"),
    ]
    assert [record.is_utf8 for record in found] == [True, False, *5 * [True]]
    assert [len(record.sentences) for record in found] == [1, 1, *5 * [0]]
    text = FASTA[3:]  # without the mark
    ends = [
        text.index(b">", text.index(x)) for x in (b"MVLS", b"xbz", b"4HHB", b"MK*", b"M-", b"M\xc3")
    ]
    for record, end in zip(found, [*ends, len(text)], strict=True):
        assert record.digest == hashlib.sha256(text[:end]).hexdigest()


@pytest.mark.parametrize("name", ["P.FASTA", "p.fa.gz", "p.faa", "p.txt"])
def test_files_are_known_by_their_names(tmp_path, name):
    content = b">a\nMK\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    by_name = list(read_records(tmp_path / name))
    assert [record.name for record in by_name] == ([None, None] if name == "p.txt" else ["a"])
    (record,) = read_records(tmp_path / name, format="fasta")
    assert record.tokens == ["M", "K"]
    assert record.position == (tmp_path / name).stat().st_size


@pytest.mark.parametrize("options", [{"field": "text"}, {"tokenize": str.split}])
@pytest.mark.parametrize("format", ["fasta", "conllu"])
def test_what_holds_tokens_is_not_split(format, options):
    with pytest.raises(ValueError, match="is not read as raw text or JSON: leave out field and"):
        records(b"", format, **options)


def test_unknown_formats():
    with pytest.raises(ValueError, match="one of 'text', 'json', 'conllu', 'fasta'; got 'fastq'"):
        records(b"", "fastq")


def test_texts_that_are_not_of_their_format():
    with pytest.raises(ValueError, match="The text to be FASTA, with '>' at the beginning, got"):
        records(b"\nMKV\n>a\n", "fasta")
    for line in (b"EU NNP B-ORG", b"Stabilized\tO", b"1 EU", b"1\t"):
        with pytest.raises(ValueError, match="The text to be CoNLL-U, with a number, a tab and"):
            records(b"# a comment\n" + line, "conllu")


@pytest.mark.parametrize("format", ["text", "json", "conllu", "fasta"])
def test_no_records(format):
    assert records(b"", format) == []
    assert len(records(b"\n\n", format)) == (2 if format in ("text", "json") else 0)


CONLLU = """# newdoc

# text = We cannot stay
1	We	we	PRON	_	_	0	root	_	_
2-3	cannot	_	_	_	_	_	_	_	_
2	can	can	AUX	_	_	0	root	_	_
3	not	not	PART	_	_	0	root	_	_
4	20 000	stay	VERB	_	_	0	root	_	_
4.1	stayed	stay	VERB	_	_	_	_	_	_


1	#	#	SYM	_	_	0	root	_	_
2	caf\u00e9\u00a0
Go	!	!	PUNCT

1	Go	go	VERB
2	!	!	PUNCT"""


@pytest.mark.parametrize("name", ["a.conllu", "A.CONLLU.GZ", "a.conll", "a.txt"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_sentences_of_conllu(tmp_path, name, line_end):
    path, format = tmp_path / name, "conllu" if name == "a.txt" else None
    content = CONLLU.encode().replace(b"\n", line_end)
    path.write_bytes(gzip.compress(content) if name.endswith("GZ") else content)
    found = list(read_records(path, format=format))
    words = [["We", "can", "not", "20 000"], [], ["Go", "!"]]
    assert [record.tokens for record in found] == words
    assert found[1].error == "not CoNLL-U: b'Go\\t!\\t!\\tPUNCT'" and found[0].error is None
    assert found[-1].digest == hashlib.sha256(content).hexdigest()
    if format is None:
        with pytest.raises(ValueError, match="sentence 2: not CoNLL-U: .* Correct or remove it"):
            list(read_sentences(path))
        path.write_bytes(gzip.compress(b"1\ta\n") if name.endswith("GZ") else b"1\ta\n")
        assert list(read_sentences(path)) == [[b"a"]]


@pytest.mark.parametrize("name", ["TEXT.JSONL.GZ", "text.ndjson.gz", "text.json.gz"])
def test_files_of_json_lines(tmp_path, name):
    content = b'{"text": "one two"}\n\n{"text": ["three", "", "a b", ""]}\n{"text": []}\n'
    (tmp_path / name).write_bytes(gzip.compress(content))
    found = list(read_records(tmp_path / name))
    assert [r.tokens for r in found] == [["one", "two"], [], ["three", "", "a b", ""], []]
    assert [record.error for record in found] == [None, "an empty line", None, None]
    # Empty tokens at the end are padding.
    expected = [[b"one", b"two"], [b"three", b"", b"a b"]]
    assert list(read_sentences(tmp_path / name)) == expected
    (tmp_path / name).write_bytes(gzip.compress(content + b"{}\n"))
    with pytest.raises(ValueError, match="record 5: no field 'text'. Correct .* field='NAME'"):
        list(read_sentences(tmp_path / name))


def test_json_lines_of_another_field():
    lines = b'{"body": "a b"}\n{"body": ["c d"]}\n{}\n'
    found = list(read_records(io.BytesIO(lines), field="body"))
    assert [record.tokens for record in found] == [["a", "b"], ["c d"], []]
    assert found[2].error == "no field 'body'"
    # Only the tokens of the field count.
    (record,) = read_records(io.BytesIO(b'{"other": "e f g", "body": "a b"}\n'), "body", 2)
    assert record.tokens == ["a", "b"] and record.error is None


@pytest.mark.parametrize(
    "line, reason",
    [
        (" \n", "an empty line"),
        ("nothing", "not JSON: Expecting value at character 1"),
        ('{"text": ', "not JSON: Expecting value at character 9"),
        ('{"text": 1}', "field 'text' is neither a string nor a list of strings"),
    ],
)
def test_lines_that_are_not_json(line, reason):
    (record,) = records(line.encode(), "json")
    assert record.error == reason and record.tokens == []


NEITHER = "the record is neither a string nor a list of strings"


@pytest.mark.parametrize(
    "text", ['["one two", ["a b", "c"], [1], 2]', '"one two"\n["a b", "c"]\n[1]\n2']
)
def test_records_of_json_without_fields(text):
    found = records(text.encode(), "json")
    assert [record.tokens for record in found] == [["one", "two"], ["a b", "c"], [], []]
    assert [record.error for record in found] == [None, None, NEITHER, NEITHER]


def test_an_object_of_json_in_several_lines():
    for content in (json.dumps({"text": "a b"}, indent=2), '\n{\n"data": []}'):
        with pytest.raises(ValueError, match="The text has an object of JSON in several lines"):
            records(content.encode(), "json")


@pytest.mark.parametrize("indent, start", [(None, ""), (2, ""), (None, " \n ")])
def test_an_array_of_json(tmp_path, indent, start):
    rows = [{"text": "a b"}, {"text": ["]", "}, {"]}, {"other": 1}, 2, {"text": "caf\u00e9"}]
    content = (start + json.dumps(rows, indent=indent, ensure_ascii=False)).encode()
    (tmp_path / "a.json").write_bytes(content.replace("\u00e9".encode(), b"\xff\xc3\xa9"))
    found = list(read_records(tmp_path / "a.json"))
    assert [record.tokens for record in found] == [["a", "b"], ["]", "}, {"], [], [], ["caf\u00e9"]]
    assert [record.error for record in found] == [
        None,
        None,
        "no field 'text', only 'other'",
        NEITHER,
        None,
    ]
    assert [record.is_utf8 for record in found] == [*4 * [True], False]
    assert len({record.digest for record in found}) == 5
    assert records(b" [ ] ", "json") == []


@pytest.mark.parametrize(
    "content", ["[", "[1", "[1,", "[1 2]", '[{"text": "a"}', "[1]\n[2]", "[a]", "[1]]", "[1,]"]
)
def test_damaged_arrays_of_json(content):
    with pytest.raises(ValueError, match=r"The text begins with '\[' but is not a JSON array: "):
        records(content.encode(), "json")


@pytest.mark.parametrize(
    "name, message",
    [
        ("a.csv", "is a table, not lines: write its sentences to a .txt file"),
        ("a.TSV.gz", "is a table"),
        ("a.html", "is markup, not text"),
        ("a.pdf", "is a formatted document, not text"),
        ("a.docx", "is a formatted document"),
        ("a.parquet", "is binary data"),
        ("a.ipynb", "is a formatted document"),
        ("a.zip", "is an archive or compressed, but neither .gz nor .xz: unpack it"),
        ("a.tar.gz", "is an archive"),
        ("a.fastq", "is FASTQ, not FASTA"),
    ],
)
def test_files_of_other_kinds(tmp_path, name, message):
    (tmp_path / name).write_bytes(gzip.compress(b"a b\n") if name.endswith("gz") else b"a b\n")
    for read in (read_records, read_sentences, check_text):
        with pytest.raises(ValueError, match=message):
            list(read(tmp_path / name) or ())
    (record,) = read_records(tmp_path / name, format="text")
    assert record.tokens == [b"a", b"b"]

"""Reading FASTA files."""

import gzip
import hashlib
import io

import pytest

from keras_elmo.text.reader import read_records

CONTENT = b"""\xef\xbb\xbf
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


def records(content, **options):
    return list(read_records(io.BytesIO(content), format="fasta", **options))


def test_entries():
    found = records(CONTENT, max_line_tokens=12)
    assert [(record.name, "".join(record.tokens), record.error) for record in found] == [
        ("P69905", "MVLSPADKTNV", None),
        ("A0A1_HUMAN_2__9", "XBZUO", None),
        ("4HHB_1|Chains", "", "no residues"),
        ("stop", "", "'*' at position 3 is not the letter of an amino acid"),
        ("gap", "", "'-' at position 2 is not the letter of an amino acid"),
        ("letter", "", "'ß' at position 2 is not the letter of an amino acid"),
        ("long", "", "13 residues, more than max_line_tokens=12"),
    ]
    assert [record.is_utf8 for record in found] == [True, False, *5 * [True]]
    assert [len(record.sentences) for record in found] == [1, 1, *5 * [0]]
    text = CONTENT[3:]  # without the mark
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


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"\nMKV\n>a\n", {}, "Expected The text to be FASTA, with '>' at the beginning, got b'MKV"),
        (b">a\nM\n>b\nM\n>a\nK\n", {}, "its own identifier, got 'a' for entry 3"),
        (b">a/b\nM\n>a_b\nM\n", {}, "got 'a_b' for entry 2"),
        (b"> \nM\n", {}, "got '' for entry 1, which is missing or"),
        (b">.\nM\n", {}, "got '.' for entry 1"),
        (b">a\nM\n", {"field": "text"}, "leave out field and tokenize"),
        (b">a\nM\n", {"tokenize": str.split}, "leave out field and tokenize"),
    ],
)
def test_what_is_refused(content, options, message):
    with pytest.raises(ValueError, match=message):
        records(content, **options)
    with pytest.raises(ValueError, match="format must be None or 'fasta', got 'fastq'"):
        list(read_records(io.BytesIO(content), format="fastq"))


def test_no_entries():
    assert records(b"") == records(b"\n\n") == []

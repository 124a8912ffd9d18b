"""The command line."""

import contextlib
import gzip
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from helpers import TINY, assert_close
from keras_elmo import ElmoLayer, Embedder, encode_sentences
from keras_elmo.cli import embed
from keras_elmo.cli.common import log_to_console, to_cli_names
from keras_elmo.embedding import distributed
from keras_elmo.embedding.file_job import EmbeddedFile
from many_languages import MANY_LANGUAGES, golden

ROOT = Path(__file__).parents[2]


def vectors_of(*sentences, **arguments):
    elmo = ElmoLayer(TINY, **arguments)
    ids = encode_sentences([sentence.split() for sentence in sentences])
    return keras.ops.convert_to_numpy(elmo(ids))


def table_of(out):
    """The rows of a printed table, without its head."""
    return [re.split(r"\s*│\s*", line) for line in out.splitlines() if "│" in line]


# --- embed ------------------------------------------------------------------------------------


def test_embed_shows_vectors_and_nearest_words(run):
    code, out, _ = run("embed", "--model", TINY, "a [b] c", "c d", "--neighbors", 2)
    assert code == 0
    vectors = np.concatenate([v[:n] for v, n in zip(vectors_of("a [b] c", "c d"), (3, 2))])
    rows = table_of(out)
    assert [row[0] for row in rows] == ["1", "", "", "2", ""]
    assert [row[1] for row in rows] == ["a", "[b]", "c", "c", "d"]
    shown = [[float(number) for number in row[2].split()[:2]] for row in rows]
    np.testing.assert_allclose(shown, vectors[:, :2], atol=6e-4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[0]
    cosines[0] = -2
    names = ["a", "[b]", "c", "c (2)", "d (2)"]
    best = np.argsort(-cosines)[:2]
    assert rows[0][3].strip() == ", ".join(f"{names[i]} {cosines[i]:.2f}" for i in best)


def test_the_first_example_fits_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sentences = re.findall(r'"([A-Z][^"]* \.)"', (ROOT / "README.md").read_text())[:4]
    _, out, _ = run("embed", "--vectors", "top", *sentences)
    assert [row[1] for row in table_of(out)] == " ".join(sentences).split()


@pytest.mark.parametrize(
    "kind, arguments, has_boundaries",
    [
        ("mix", {}, False),
        ("top", {"use_top_only": True}, False),
        ("layers", {"vectors": "layers"}, True),
    ],
)
def test_embed_writes_files(run, tmp_path, kind, arguments, has_boundaries):
    text, output = tmp_path / "text.txt", tmp_path / "vectors.h5"
    lines = b"Zo\xc3\xab paid caf\xe9\r\n\nthe \t end .\n"
    text.write_bytes(lines)
    command = ("embed", "--model", TINY, "--input", text, "--output", output, "--vectors", kind)
    options = ["--boundaries"] if has_boundaries else []
    code, out, err = run(*command, "--batch-tokens", 2, *options)
    assert code == 0
    assert "of 3 lines" in out and "6 tokens" in out
    assert err == "keras-elmo: 1 line with invalid UTF-8 (those bytes dropped)\n"
    expected = vectors_of("Zoë paid caf", "", "the end .", **arguments)
    with h5py.File(output) as file:
        assert list(file) == list(map(str, range(3)))
        for i, length in enumerate((3, 0, 3)):
            edge = int(has_boundaries)
            assert file[str(i)].shape[-2] == length + 2 * edge
            words = file[str(i)][()][..., edge : length + edge, :]
            np.testing.assert_allclose(words, expected[i][..., :length, :], atol=1e-5)


def test_embed_reads_standard_input(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
    output = tmp_path / "vectors.h5"
    code, out, _ = run("embed", "--model", TINY, "--output", output)
    assert code == 0 and "of 1 line to" in out and "(1 token at" in out
    with h5py.File(output) as file:
        assert [file[name].shape for name in file] == [(1, 24)]
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run("embed")
    assert code == 2 and "no sentence: pass one in quotes" in err


def test_embed_continues_a_file(run, tmp_path):
    text, output = tmp_path / "text.jsonl", tmp_path / "vectors.h5"
    rows = ['{"body": "one two"}', "no JSON", '{"body": ["a b", "c", "d"]}']
    command = ("embed", text, "--model", TINY, "--output", output, "--field", "body")
    options = ("--vectors", "top", "--dtype", "float16", "--compression", "gzip")
    text.write_text("\n".join(rows))
    code, _, err = run(*command, *options)
    assert code == 0 and "record 2: not JSON" in err
    code, _, err = run(*command, *options)
    assert code == 1 and "vectors.h5 exists already" in err and "pass --overwrite" in err
    code, out, err = run(*command, *options, "--resume")
    assert code == 0 and "3 records" in out and "it was complete" in out
    with h5py.File(output) as file:
        assert [file[name].shape for name in "012"] == [(2, 24), (0, 24), (3, 24)]
        assert file["0"].dtype == "float16" and file["0"].compression == "gzip"
    code, _, err = run(*command, *options, "--boundaries", "--resume")
    assert code == 1 and "made with --boundaries False: resume with the same" in err
    code, _, err = run(*command, "--resume")
    assert (
        code == 1
        and "made with --compression 'gzip' and --dtype 'float16' and --vectors 'top'" in err
    )
    assert run(*command, "--overwrite")[0] == 0
    text.write_text("")
    _, out, _ = run("embed", text, "--model", TINY, "--output", tmp_path / "empty.h5", "--resume")
    assert "of 0 records" in out and "(in this run 0 tokens at" in out


@pytest.mark.parametrize("flag, has_bfloat16", [("amx_bf16", 1), ("avx512_bf16", 1), ("avx2", 0)])
def test_embed_hints_at_bfloat16_where_it_saves_a_minute(
    run, tmp_path, monkeypatch, flag, has_bfloat16
):
    report = EmbeddedFile(seconds=300)
    processor = tmp_path / "cpuinfo"
    processor.write_text(f"processor : 0\nflags : fpu {flag} sse\n")
    monkeypatch.setattr(embed, "_PROCESSOR", processor)
    monkeypatch.setattr(Embedder, "embed_file", lambda *_, **__: report)
    command = ("embed", "one two", "--model", TINY, "--output", tmp_path / "vectors.h5")
    hint = "--compute-dtype bfloat16 would have been faster"
    assert (hint in run(*command)[2]) == has_bfloat16
    assert hint not in run(*command, "--compute-dtype", "bfloat16")[2]
    report.seconds = 100
    assert hint not in run(*command)[2]


def test_an_interrupted_file_is_kept(run, tmp_path, monkeypatch):
    text, output = tmp_path / "text.txt", tmp_path / "vectors.h5"
    text.write_text("one two\n" * 100)
    pairs = Embedder.pairs

    def interrupted(*args):
        yield next(pairs(*args))
        raise KeyboardInterrupt

    command = ("embed", text, "--model", TINY, "--output", output, "--batch-tokens", 8)
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "pairs", interrupted)
        code, _, err = run(*command)
    assert code == 130
    kept = "The vectors of the first 32 lines are kept: resuming continues after them."
    assert err == f"{kept}\nkeras-elmo: interrupted\n"
    code, out, _ = run(*command, "--resume")
    assert code == 0 and "100 lines" in out


@pytest.mark.parametrize(
    "name, arguments, shown",
    [
        ("text.jsonl", [], 19 * ["one", "two"]),
        ("text.jsonl.gz", ["--field", "body"], 19 * ["three"]),
    ],
)
def test_embed_shows_the_first_sentences_of_a_file(run, tmp_path, name, arguments, shown):
    text = tmp_path / name
    content = "\n".join(["no JSON", *['{"text": "one two", "body": ["three"]}'] * 25]).encode()
    text.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    code, out, err = run("embed", text, "--model", TINY, *arguments)
    assert code == 0 and [row[1] for row in table_of(out)] == shown
    assert "record 1: not JSON" in err and "Only the first 20 records are shown" in out


@pytest.mark.parametrize(
    "name, content, written, problem",
    [
        ("a.txt", "a b . c d .\n\n", "2 lines", None),
        ("a.jsonl", '{"text": "a", "id": 7}\n{}\n', "2 records", "record 2: no field 'text'"),
        ("a.json", '[{"text": "a"},\n\n{}]', "2 records", "record 2: no field 'text'"),
        ("a.conllu", "1\ta\n\n# x\n1\tb\nc\n", "2 sentences", "sentence 2: not CoNLL-U"),
        ("a.fasta", ">p1\nMK\n>p2\n7\n", "2 entries", "entry p2: '7' at position 1"),
    ],
)
def test_messages_count_what_the_format_has(run, tmp_path, name, content, written, problem):
    (tmp_path / name).write_text(content)
    command = ("embed", "--model", TINY, tmp_path / name)
    code, out, err = run(*command, "--output", tmp_path / "v.h5")
    assert code == 0 and f"Wrote the vectors of {written} to" in out
    for said in (err, run(*command)[2]):
        assert (problem in said) if problem else not said


def test_fields_are_kept(run, tmp_path):
    command = ("embed", "--model", TINY, tmp_path / "a.jsonl", "--output", tmp_path / "v.npz")
    (tmp_path / "a.jsonl").write_text('{"text": "a b", "id": 7, "label": "x y"}\n')
    assert run(*command, "--keep-fields", "id, label")[0] == 0
    with np.load(tmp_path / "v.npz") as file:
        assert file.files == ["0", "id/0", "label/0"]
        assert (file["id/0"].item(), file["label/0"].item()) == ("7", "x y")
    code, _, err = run(*command, "--keep-fields", "id,line", "--overwrite")
    assert code == 1 and "--keep-fields cannot have 'line'" in err


def test_embed_of_bytes_that_are_no_utf8(run):
    code, _, err = run("embed", "--model", TINY, os.fsdecode(b"caf\xe9 au lait"))
    assert code == 1 and "The text is not UTF-8: 1 invalid byte in the first" in err
    sentences = [os.fsdecode(b"a\xff b"), "caf\u00e9"]
    code, out, err = run("embed", "--model", TINY, *sentences)
    assert code == 0 and "│ a " in out
    assert "1 line with invalid UTF-8 (those bytes dropped)" in err


@pytest.mark.parametrize("word", ["U.S", "3.14", "e.g", "and/or", "a/"])
def test_a_word_with_a_dot_is_a_sentence(run, word):
    code, out, _ = run("embed", "--model", TINY, word)
    assert code == 0 and f"│ {word} " in out


def test_the_table_keeps_joiners_and_escapes_what_moves_the_cursor(run):
    code, out, _ = run(
        "embed", "--model", TINY, "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 a\x1bb"
    )
    assert (
        code == 0
        and "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645" in out
        and "a\ufffdb" in out
    )


def test_a_text_of_which_no_line_can_be_read(run, tmp_path):
    text, output = tmp_path / "text.jsonl", tmp_path / "v.h5"
    text.write_text('{"id": 1}\n{"id": 2}\n')
    command = ("embed", text, "--model", TINY, "--field", "batch_tokens")
    for options in ([], ["--output", output]):
        code, out, err = run(*command, *options)
        assert (code, out) == (1, "")
        assert "none of 2 records could be read. The first one: no field 'batch_tokens'" in err
    assert os.listdir(tmp_path) == ["text.jsonl"]


def test_what_was_odd_in_shards_is_mentioned(run, tmp_path, monkeypatch):
    reasons = [("b.jsonl", 4, "not JSON")]
    report = distributed.EmbeddedShards(lines=90, failed=30, invalid_lines=2, reasons=reasons)
    calls = []
    monkeypatch.setattr(distributed, "embed_shards", lambda *_, **x: calls.append(x) or report)
    command = ("embed", "--input", "x", "--output", tmp_path / "v", "--ray")
    code, _, err = run(*command, "a:1")
    assert code == 0 and err.splitlines() == [
        "keras-elmo: b.jsonl, line 5: not JSON",
        "keras-elmo: ... 30 in all",
        "keras-elmo: 2 lines with invalid UTF-8 (those bytes dropped)",
    ]
    assert run(*command)[0] == 0
    assert [call["address"] for call in calls] == ["a:1", None]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_input_without_words_is_no_error(run, tmp_path, content):
    text, output = tmp_path / "empty.txt", tmp_path / "v.h5"
    text.write_text(content)
    lines = content.count("\n")
    command = ["embed", "--model", TINY, "--input", text]
    assert run(*command) == (0, "", f"keras-elmo: no words in {lines} lines\n")
    code, out, _ = run(*command, "--output", output)
    assert code == 0 and out.startswith(f"Wrote the vectors of {lines} lines")
    with h5py.File(output) as file:
        assert len(file) == lines


# --- dump-words and vocab ---------------------------------------------------------------------


def test_dump_words(run, tmp_path):
    words, output = tmp_path / "words.txt", tmp_path / "words.h5"
    words.write_text("<S>\n</S>\n<UNK>\n北京\nthe\n", encoding="utf-8")
    model = MANY_LANGUAGES / "word_char"
    code, out, _ = run("dump-words", words, "--model", model, "--output", output)
    assert code == 0 and "5 words" in out
    with h5py.File(output) as file:
        vectors = file["embedding"][()]
    texts, outputs = golden("word_char")
    i = next(i for i, sentence in enumerate(texts["sentences"]) if sentence)
    assert_close(vectors[:2], outputs[f"token_vectors_{i}"][[0, -1]])
    assert_close(vectors[3:], Embedder(model).encode_words(["北京", "the"]))


@pytest.mark.parametrize("arguments", [["vocab"], ["dump-words", "--model", TINY]])
def test_an_existing_output_is_replaced_only_on_demand(run, tmp_path, arguments):
    text, output, link = (tmp_path / name for name in ("text.txt", "output", "link.txt"))
    text.write_text("bank bank bank\n" if arguments == ["vocab"] else "bank\n")
    before = text.read_text()
    output.write_text("precious")
    link.symlink_to(text)
    command = [*arguments, text, "--output"]
    code, _, err = run(*command, output)
    assert code == 1 and "output exists already" in err and "--overwrite" in err
    for wrong, message in (
        (tmp_path, "is not a file that can be replaced"),
        (text, "text.txt is an input and would be overwritten"),
        (link, "link.txt is an input and would be overwritten"),
        (tmp_path / "none" / "text.txt", "does not exist: create it"),
    ):
        code, _, err = run(*command, wrong, "--overwrite")
        assert code == 1 and message in err
    assert (output.read_text(), text.read_text()) == ("precious", before)
    assert run(*command, output, "--overwrite")[0] == 0
    assert output.read_bytes() != b"precious"


# --- info and models --------------------------------------------------------------------------


def test_info_of_files(run, tmp_path):
    code, out, _ = run("info", TINY)
    assert code == 0
    assert f"{ElmoLayer(TINY, vectors='layers').count_params():,}" in out
    assert str(TINY / "weights.hdf5") in out and "UnicodeCharEncoder" in out
    archive = shutil.make_archive(tmp_path / "model", "zip", TINY)
    code, out, _ = run("info", archive)
    assert code == 0 and re.search(rf"archive: +{re.escape(archive)} \([\d.]+ MB\)", out)


@pytest.mark.parametrize(
    "variant, shown, hidden",
    [
        ("word_char", ["convolutions", "LexiconEncoder", "LexiconEmbedding"], "CharCNN"),
        ("word_only", ["LexiconEncoder", "LexiconEmbedding"], "convolutions"),
        ("char_only", ["convolutions", "LexiconEncoder", "CharCNNEmbedding"], "words:"),
    ],
)
def test_info_of_models_with_a_lexicon(run, variant, shown, hidden):
    code, out, _ = run("info", MANY_LANGUAGES / variant)
    assert code == 0 and all(x in out for x in shown) and hidden not in out
    elmo = ElmoLayer(MANY_LANGUAGES / variant, vectors="layers")
    assert f"{elmo.count_params():,}" in out
    if variant == "word_char":
        assert f"{len(elmo.lexicon.words)} in the lexicon, {elmo.config.word_dim} numbers" in out


def test_info_of_a_model_of_words(run, tmp_path):
    options = json.loads((TINY / "options.json").read_text())
    del options["char_cnn"]
    (tmp_path / "options.json").write_text(json.dumps(options))
    (tmp_path / "weights.hdf5").write_bytes(b"")
    code, _, err = run("info", tmp_path)
    assert code == 1 and "n_tokens_vocab" in err
    (tmp_path / "options.json").write_text(json.dumps({**options, "n_tokens_vocab": 1000}))
    code, out, _ = run("info", tmp_path)
    assert code == 0
    assert "1,000 in the vocabulary" in out and "WordEmbedding" in out
    assert "UnicodeCharEncoder" not in out


def test_info_of_models_whose_files_are_not_here(run, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    code, out, _ = run("info", "original")
    assert code == 0
    for shown in ("93,600,848", "374.4 MB", "2xhighway_options.json", "2xhighway_weights.hdf5"):
        assert shown in out
    assert re.search(r"BiLMStack\W+\(B, T\+2, 512\)\W+\(B, 3, T\+2, 1024\)", out)
    code, out, _ = run("info", "many-languages/it")
    assert code == 0
    for line in (
        r"description: +Italian, trained on",
        r"language: +it$",
        r"tokenization: +UDPipe",
        r"license: +MIT",
        r"archive: +http://vectors\.nlpl\.eu/repository/11/159\.zip$",
        r"LSTM: +2 layers of 4096 units, projected to 512",
        r"word vector: +1024 numbers, in each of 3 layers$",
    ):
        assert re.search(f"^{line}", out, re.MULTILINE), line
    code, out, _ = run("info", "nlpl/ru-195")
    assert code == 0 and "load it once with ElmoLayer('nlpl/ru-195')" in out
    shutil.copytree(TINY, tmp_path / "keras_elmo" / "nlpl" / "ru-195")  # as a download leaves it
    code, out, _ = run("info", "nlpl/ru-195")
    assert code == 0 and "load it once" not in out and "BiLMStack" in out


def test_models_fit_a_narrow_terminal_and_name_every_language(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("models")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) < 60
    for name in ("default", "small", "medium", "original", "original-5.5b", "pubmed"):
        assert re.search(rf"│ {re.escape(name)} ", out)
    for text in ("13,593,296", "allennlp/pt", "nlpl/ru-195", "it Italian", "zht Chinese (trad"):
        assert text in out
    assert "many-languages/CODE is ELMoForManyLangs, for the code of 44 languages:" in out


def test_models_of_a_language(run):
    code, out, _ = run("models", "--language", "tr")
    assert code == 0
    assert re.search(r"│ many-languages/tr .* Turkish, trained on", out)
    assert "default" not in out
    code, _, err = run("models", "--language", "xx")
    assert code == 1 and "No model for language 'xx': expected one of ar, bg," in err


# --- All commands -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "required: COMMAND"),
        (("tune",), "invalid choice: 'tune'"),
        (("embed", "a", "--input", "x"), "not both"),
        (("embed", "a.txt", "--output", "v.h5"), "the file a.txt does not exist"),
        (("embed", "texts/a.tok"), "the file texts/a.tok does not exist"),
        (("embed", "--input", "*.txt"), "--input *.txt is not a file: pass one file, or many with"),
        (("embed", "--input", "."), "--input . is not a file: pass one file, or many with --ray"),
        (("embed", __file__, "b", "--output", "v.h5"), f"--input {__file__}, or many with --ray"),
        (("embed", "a", "--dtype", "float16"), "--dtype needs --output"),
        (("embed", "a", "--vectors", "layers"), "--vectors layers needs --output"),
        (("embed", "a", "--resume"), "--resume needs --output"),
        (("embed", "a", "--boundaries"), "--boundaries needs --output"),
        (("embed", "a", "--keep-fields", "id"), "--keep-fields needs --output"),
        (("embed", "a", "--actors", "2", "--output", "v.h5"), "--actors needs --ray"),
        (("embed", "--input", "a", "--ray"), "--ray needs --output"),
        (("embed", "a", "--output", "v", "--ray"), "--ray needs text files"),
        (("embed", "--input", "a", "--output", "v", "--overwrite", "--ray"), "not allowed with"),
        (("embed", "a", "--batch-tokens", "0"), "'0' is not a whole number of at least 1"),
    ],
)
def test_wrong_usage_leaves_with_2(run, arguments, message):
    code, _, err = run(*arguments)
    assert code == 2 and message in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("embed", "a", "--model", "smal"), "Did you mean 'small'"),
        (("embed", "a", "--output", "v.txt"), "must end in .h5, .hdf5, .npz or .parquet"),
        (("embed", "--input", "/no/such/file"), "No such file or directory: '/no/such/file'"),
        (("embed", "a", "--model", TINY, "--output", "/no/such/v.h5"), "/no/such does not exist"),
        (("info", "/no/such/folder"), "/no/such/folder is neither a known model nor"),
    ],
)
def test_errors_leave_with_1_and_one_line(run, arguments, message):
    code, _, err = run(*arguments)
    assert code == 1 and message in err


@pytest.mark.parametrize(
    "error, message",
    [
        (KeyError(), "KeyError"),
        (MemoryError(), "Not enough memory"),
        (MemoryError("Unable to allocate 2 GiB"), "Unable to allocate 2 GiB"),
    ],
)
def test_an_error_without_a_cause_is_named(run, monkeypatch, error, message):
    def fails(*_):
        raise error

    monkeypatch.setattr("keras_elmo.cli.models.list_models", fails)
    assert run("models")[2] == f"keras-elmo: error: {message}\n"


@pytest.mark.parametrize("arguments", [["--debug", "info", "x"], ["info", "x", "--debug"]])
def test_debug_shows_the_traceback(capsys, arguments):
    from keras_elmo import cli

    assert cli.main(arguments) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_errors_name_options_in_the_place_of_arguments():
    names = ("output", "overwrite", "dtype", "batch_size")
    options = {name: "--" + name.replace("_", "-") for name in names}
    options |= {"max_steps": "--steps"}
    for message, expected in (
        ("pass overwrite=True, or dtype='float16'.", "pass --overwrite, or --dtype 'float16'."),
        ("batch_size must be 1, got batch_size=0.", "--batch-size must be 1, got --batch-size 0."),
        ("max_steps=2,000: less", "--steps 2,000: less"),
        ("choose a different output", "choose a different output"),
        ("/tmp/batch_size/a or batch_size.txt", "/tmp/batch_size/a or batch_size.txt"),
        ("my_batch_size=1 and batch_size_2", "my_batch_size=1 and batch_size_2"),
        ("no field 'batch_size'", "no field 'batch_size'"),
        ("\"dtype=1\" isn't batch_size, don't", "\"dtype=1\" isn't --batch-size, don't"),
    ):
        assert to_cli_names(message, options) == expected


def test_the_log_is_printed_above_a_progress_bar():
    log, options = logging.getLogger("keras_elmo"), {"tokenize": "--tokenize"}
    with (
        contextlib.redirect_stdout(io.StringIO()) as stdout,
        contextlib.redirect_stderr(io.StringIO()) as stderr,
    ):
        with log_to_console({}, complete=True):
            log.info("step 1")
        with log_to_console(options, complete=False):
            log.info("step 2")
            log.warning("pass tokenize=True")
    assert (stdout.getvalue(), stderr.getvalue()) == ("step 1\n", "pass --tokenize\n")


@pytest.mark.parametrize("arguments", [["info"], ["vocab", "text.txt", "--output", "v"]])
def test_a_reader_that_stops_reading_is_no_error(tmp_path, arguments):
    (tmp_path / "text.txt").write_text("bank bank bank\n")
    command = [sys.executable, "-m", "keras_elmo", *arguments]
    read, write = os.pipe()
    os.close(read)
    finished = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(write)
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert (tmp_path / "v").exists() == (arguments[0] == "vocab")  # the work is done


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_stream_changes_nothing(tmp_path, closed):
    command = f'exec "$0" -m keras_elmo embed --model "$1" a --output v.h5 {closed}>&-'
    run = subprocess.run(["sh", "-c", command, sys.executable, TINY], cwd=tmp_path)
    assert run.returncode == 0
    with h5py.File(tmp_path / "v.h5") as file:
        assert list(file) == ["0"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_an_output_that_cannot_be_printed(tmp_path):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "keras_elmo", "models"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "No space left" in run.stderr


def test_characters_that_the_output_lacks_are_escaped(tmp_path, monkeypatch, run):
    (tmp_path / "text.txt").write_text("bank bank bank\n")
    written = io.BytesIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert run("vocab", "text.txt", "--output", "\u00e9")[0] == 0
    assert b"to \\xe9:" in written.getvalue()


def test_version_and_help(run):
    assert re.fullmatch(r"keras-elmo 0\..*\n", run("--version")[1])
    for command in ("embed", "dump-words", "info", "train", "evaluate"):
        code, out, _ = run(command, "--help")
        assert code == 0 and out.startswith(f"usage: keras-elmo {command}")

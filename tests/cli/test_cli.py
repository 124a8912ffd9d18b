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

from keras_elmo import ElmoLayer, Embedder, cli, encode_sentences
from keras_elmo.cli.common import printed_log, with_options
from keras_elmo.embedding import distributed

TINY = str(Path(__file__).parents[1] / "golden" / "inference" / "default")


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


def run(capsys, *arguments):
    code = cli.main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def wrong_usage(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    return capsys.readouterr().err


def vectors_of(*sentences, **arguments):
    elmo = ElmoLayer(TINY, **arguments)
    ids = encode_sentences([sentence.split() for sentence in sentences])
    return keras.ops.convert_to_numpy(elmo(ids))


def test_embed_shows_vectors_and_nearest_words(capsys):
    code, out, _ = run(capsys, "embed", "--model", TINY, "a [b] c", "c d", "--neighbors", "2")
    assert code == 0
    vectors = np.concatenate([v[:n] for v, n in zip(vectors_of("a [b] c", "c d"), (3, 2))])
    rows = [re.split(r"\s*│\s*", line) for line in out.splitlines() if "│" in line]
    assert [row[1] for row in rows] == ["1", "", "", "2", ""]
    assert [row[2] for row in rows] == ["a", "[b]", "c", "c", "d"]
    for row, vector in zip(rows, vectors):
        shown = [float(number) for number in row[3].split()[:3]]
        np.testing.assert_allclose(shown, vector[:3], atol=6e-4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[0]
    cosines[0] = -2
    names = ["a", "[b]", "c", "c (2)", "d (2)"]
    best = np.argsort(-cosines)[:2]
    assert rows[0][4] == ", ".join(f"{names[i]} {cosines[i]:.2f}" for i in best)


@pytest.mark.parametrize(
    "kind, arguments",
    [
        ("mix", {}),
        ("top", {"use_top_only": True}),
        ("layers", {"output": "layers"}),
    ],
)
def test_embed_writes_files(capsys, tmp_path, kind, arguments):
    text = tmp_path / "text.txt"
    text.write_bytes("Zoë paid\r\n\nthe \t end .".encode())
    output = tmp_path / "vectors.h5"
    code, out, _ = run(
        capsys,
        "embed",
        "--model",
        TINY,
        "--input",
        str(text),
        "--vectors",
        kind,
        "--output",
        str(output),
        "--batch-tokens",
        "2",
    )
    assert code == 0
    assert "3 sentences" in out and "5 tokens" in out
    expected = vectors_of("Zoë paid", "", "the end .", **arguments)
    with h5py.File(output) as file:
        assert sorted(file) == ["0", "1", "2"]
        for i, length in enumerate((2, 0, 3)):
            np.testing.assert_allclose(file[str(i)][()], expected[i][..., :length, :], atol=1e-5)


def test_embed_reads_standard_input(capsys, tmp_path, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"one two\nthree\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    output = tmp_path / "vectors.h5"
    assert run(capsys, "embed", "--model", TINY, "--output", str(output))[0] == 0
    with h5py.File(output) as file:
        assert [file[name].shape for name in file] == [(2, 24), (1, 24)]


def test_embed_continues_a_file(capsys, tmp_path):
    text, output = tmp_path / "text.jsonl", tmp_path / "vectors.h5"
    rows = ['{"body": "one two"}', "no JSON", '{"body": ["a b", "c", "d"]}']
    command = ("embed", str(text), "--model", TINY, "--output", str(output), "--field", "body")
    options = ("--vectors", "top", "--dtype", "float16", "--compression", "gzip")
    text.write_text("\n".join(rows))
    code, _, err = run(capsys, *command, *options)
    assert code == 0 and "line 2: not JSON" in err
    code, _, err = run(capsys, *command, *options)
    assert code == 1 and "--resume" in err and "--overwrite" in err
    code, out, err = run(capsys, *command, *options, "--resume")
    assert code == 0 and "3 sentences" in out and "it was complete" in out
    with h5py.File(output) as file:
        assert [file[name].shape for name in "012"] == [(2, 24), (0, 24), (3, 24)]
        assert file["0"].dtype == "float16" and file["0"].compression == "gzip"
    code, _, err = run(capsys, *command, "--resume")
    assert code == 1 and "made with a different compression and a different dtype" in err
    assert run(capsys, *command, "--overwrite")[0] == 0


def test_an_interrupted_file_is_kept(capsys, tmp_path, monkeypatch, caplog):
    text, output = tmp_path / "text.txt", tmp_path / "vectors.h5"
    text.write_text("one two\n" * 100)
    embed_block, blocks = Embedder.embed_block, []

    def interrupted(self, sentences, *args):
        if blocks:
            raise KeyboardInterrupt
        blocks.append(sentences)
        return embed_block(self, sentences, *args)

    command = ("embed", str(text), "--model", TINY, "--output", str(output), "--batch-tokens", "8")
    with monkeypatch.context() as patch:
        patch.setattr(Embedder, "embed_block", interrupted)
        code, _, err = run(capsys, *command)
    assert code == 130
    assert err == "keras-elmo: interrupted\n"
    assert "The vectors of the first 32 lines are kept" in caplog.text
    code, out, _ = run(capsys, *command, "--resume")
    assert code == 0 and "100 sentences" in out


def test_no_sentence(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "no sentence: pass one in quotes" in wrong_usage(capsys, "embed")


def test_one_is_no_plural(capsys, tmp_path):
    output = str(tmp_path / "v.h5")
    out = run(capsys, "embed", "--model", TINY, "one", "--output", output)[1]
    assert "of 1 sentence to" in out and "(1 token at" in out


def test_dump_words(capsys, tmp_path):
    words, output = tmp_path / "words.txt", tmp_path / "words.h5"
    words.write_text("<S>\n</S>\n<UNK>\ncat\n")
    code, out, _ = run(capsys, "dump-words", str(words), "--model", TINY, "--output", str(output))
    assert code == 0 and "4 words" in out
    with h5py.File(output) as file:
        assert file["embedding"].shape == (4, 12)


def test_embed_shows_the_first_sentences_of_a_long_file(capsys, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("word\n" * 25)
    code, out, _ = run(capsys, "embed", "--model", TINY, "--input", str(text))
    assert code == 0
    assert out.count("word ") >= 20
    assert "Only the first 20 sentences are shown" in out
    text.write_text(f"{600 * 'word '}\n" * 5)
    assert (
        "Only the first 2 sentences are shown"
        in run(capsys, "embed", "--model", TINY, "--input", str(text))[1]
    )


def test_invalid_utf8_is_mentioned(capsys, tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"caf\xe9\nfine\n")
    output = str(tmp_path / "v.h5")
    code, _, err = run(capsys, "embed", "--model", TINY, "--input", str(text), "--output", output)
    assert code == 0 and "1 line with invalid UTF-8 (those bytes dropped)" in err


@pytest.mark.parametrize("name", ["text.jsonl", "text.jsonl.gz"])
def test_embed_shows_json_lines(capsys, tmp_path, name):
    text = tmp_path / name
    rows = ['{"text": "one two", "body": ["three"]}', "no JSON"]
    content = "\n".join(rows).encode()
    text.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    code, out, err = run(capsys, "embed", "--model", TINY, "--input", str(text))
    assert code == 0
    assert "│ one " in out and "│ two " in out and "text" not in out and "JSON" not in out
    assert "line 2: not JSON" in err
    code, out, _ = run(capsys, "embed", "--model", TINY, "--input", str(text), "--field", "body")
    assert code == 0 and "│ three " in out and "│ one " not in out


def test_embed_of_bytes_that_are_no_utf8(capsys, tmp_path):
    output = tmp_path / "vectors.h5"
    sentence = os.fsdecode(b"a\xff b")
    assert "│ b " in run(capsys, "embed", "--model", TINY, sentence)[1]
    assert run(capsys, "embed", "--model", TINY, sentence, "--output", str(output))[0] == 0
    with h5py.File(output) as file:
        np.testing.assert_allclose(file["0"][:], vectors_of("a b")[0], atol=1e-5)


def test_several_files_are_no_sentences(capsys, tmp_path):
    for name in "ab":
        (tmp_path / name).touch()
    names = [str(tmp_path / name) for name in "ab"]
    err = wrong_usage(capsys, "embed", *names, "--output", str(tmp_path / "v.h5"))
    assert f"--input {names[0]}, or many with --ray" in err
    assert not (tmp_path / "v.h5").exists()


def test_what_was_odd_in_shards_is_mentioned(capsys, tmp_path, monkeypatch):
    reasons = [("b.jsonl", 4, "not JSON")]
    report = distributed.EmbeddedShards(lines=90, failed=30, invalid_lines=2, reasons=reasons)
    monkeypatch.setattr(distributed, "embed_shards", lambda *_, **__: report)
    code, _, err = run(capsys, "embed", "--input", "x", "--ray", "--output", str(tmp_path / "v"))
    assert code == 0 and err.splitlines() == [
        "keras-elmo: b.jsonl, line 5: not JSON",
        "keras-elmo: ... 30 such lines in all",
        "keras-elmo: 2 lines with invalid UTF-8 (those bytes dropped)",
    ]


def test_errors_name_options_in_the_place_of_arguments():
    names = ("output", "overwrite", "dtype", "batch_size")
    options = {name: "--" + name.replace("_", "-") for name in names}
    options |= {"max_steps": "--steps"}
    for message, expected in (
        ("pass overwrite=True, or dtype='float16'.", "pass --overwrite, or --dtype float16."),
        ("batch_size must be 1, got batch_size=0.", "--batch-size must be 1, got --batch-size 0."),
        ("max_steps=2,000: less", "--steps 2,000: less"),
        ("choose a different output", "choose a different output"),
        ("/tmp/batch_size/a or batch_size.txt", "/tmp/batch_size/a or batch_size.txt"),
        ("my_batch_size=1 and batch_size_2", "my_batch_size=1 and batch_size_2"),
    ):
        assert with_options(message, options) == expected


def test_the_log_is_printed_above_a_progress_bar():
    with printed_log(), contextlib.redirect_stdout(io.StringIO()) as above_the_bar:
        logging.getLogger("keras_elmo").info("step 1")
    assert above_the_bar.getvalue() == "step 1\n"


def test_ray_does_not_overwrite(capsys, tmp_path):
    output = str(tmp_path / "v")
    err = wrong_usage(capsys, "embed", "--input", "x", "--ray", "--output", output, "--overwrite")
    assert "--ray does not overwrite: remove the folder, or choose another --output" in err


def test_info_of_the_catalog_and_of_a_folder(capsys):
    code, out, _ = run(capsys, "info", "original")
    assert code == 0
    assert "93,600,848" in out
    assert "374.4 MB" in out
    assert "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5" in out
    assert re.search(r"BiLMStack\W+\(B, T\+2, 512\)\W+\(B, 3, T\+2, 1024\)", out)
    code, out, _ = run(capsys, "info", TINY)
    assert code == 0
    weights = ElmoLayer(TINY, output="layers").count_params()
    assert f"{weights:,}" in out
    assert str(Path(TINY) / "weights.hdf5") in out


def test_info_of_a_model_of_words(capsys, tmp_path):
    options = json.loads((Path(TINY) / "options.json").read_text())
    del options["char_cnn"]
    (tmp_path / "options.json").write_text(json.dumps({**options, "n_tokens_vocab": 1000}))
    (tmp_path / "weights.hdf5").write_bytes(b"")
    code, out, _ = run(capsys, "info", str(tmp_path))
    assert code == 0
    assert "1,000 in the vocabulary" in out
    assert "WordEmbedding" in out
    assert "UnicodeCharEncoder" not in out


def test_models_lists_the_catalog(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0
    for name in ("default", "small", "medium", "original", "original-5.5b", "pubmed"):
        assert re.search(rf"│ {re.escape(name)} ", out)
    assert "13,593,296" in out


def test_models_fit_a_narrow_terminal_and_name_every_language(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "models")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert len(out.splitlines()) < 60
    for name in ("allennlp/pt", "nlpl/ru-195", "it Italian", "zht Chinese (traditional)"):
        assert name in out
    assert "many-languages/CODE is ELMoForManyLangs, for the code of 44 languages:" in out


def test_models_of_a_language(capsys):
    code, out, _ = run(capsys, "models", "--language", "tr")
    assert code == 0
    assert re.search(r"│ many-languages/tr .* Turkish, trained on", out)
    assert "default" not in out
    code, _, err = run(capsys, "models", "--language", "xx")
    assert code == 1
    assert "No model for language 'xx': expected one of ar, bg," in err


def test_info_of_models_whose_files_are_not_here(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    code, out, _ = run(capsys, "info", "many-languages/it")
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
    code, out, _ = run(capsys, "info", "nlpl/ru-195")
    assert code == 0
    assert "load it once with ElmoLayer('nlpl/ru-195')" in out
    folder = tmp_path / "keras_elmo" / "nlpl" / "ru-195"
    shutil.copytree(TINY, folder)  # as a download leaves them
    code, out, _ = run(capsys, "info", "nlpl/ru-195")
    assert code == 0
    assert "load it once" not in out
    assert "BiLMStack" in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "required: COMMAND"),
        (("embed", "a", "--input", "x"), "not both"),
        (("embed", "a.txt", "--output", "v.h5"), "the file a.txt does not exist"),
        (("embed", "a", "--dtype", "float16"), "--dtype needs --output"),
        (("embed", __file__), f"is a file: read it with --input {__file__}"),
        (("embed", "a", "--vectors", "layers"), "needs --output"),
        (("embed", "a", "--resume"), "--resume needs --output"),
        (("embed", "a", "--actors", "2", "--output", "v.h5"), "--actors needs --ray"),
        (("embed", "a", "--ray", "--output", "v"), "--ray needs text files"),
        (("embed", "a", "--batch-tokens", "0"), "'0' is not a whole number of at least 1"),
        (("tune",), "invalid choice: 'tune'"),
    ],
)
def test_wrong_usage_leaves_with_2(capsys, arguments, message):
    assert message in wrong_usage(capsys, *arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("embed", "a", "--model", "smal"), "Did you mean 'small'"),
        (("embed", "a", "--output", "v.txt"), "must end in .h5, .hdf5 or .parquet"),
        (("embed", "--input", "/no/such/file"), "No such file or directory: '/no/such/file'"),
        (("embed", "a", "--model", TINY, "--output", "/no/such/v.h5"), "/no/such does not exist"),
        (("info", "/no/such/folder"), "archive /no/such/folder does not exist"),
    ],
)
def test_errors_leave_with_1_and_one_line(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert len(err.splitlines()) == 1
    assert err.startswith("keras-elmo: error: ")
    assert message in err


@pytest.mark.parametrize("command", ["vocab", "dump-words"])
def test_no_command_overwrites_what_it_reads(capsys, tmp_path, command):
    text, link = tmp_path / "text.txt", tmp_path / "link.txt"
    text.write_text("bank\nriver\n")
    link.symlink_to(text)
    for output, message in (
        (text, "text.txt is an input and would be overwritten"),
        (link, "link.txt is an input and would be overwritten"),
        (tmp_path / "none" / "text.txt", "does not exist: create it"),
    ):
        code, _, err = run(capsys, command, str(text), "--output", str(output), "--overwrite")
        assert code == 1 and message in err
    assert text.read_text() == "bank\nriver\n"


@pytest.mark.parametrize("arguments", [["vocab"], ["dump-words", "--model", TINY]])
def test_an_existing_output_is_replaced_only_on_demand(capsys, tmp_path, arguments):
    text, output = tmp_path / "text.txt", tmp_path / "output"
    text.write_text("bank bank bank\n" if arguments == ["vocab"] else "bank\n")
    output.write_text("precious")
    arguments = [*arguments, str(text), "--output", str(output)]
    code, _, err = run(capsys, *arguments)
    assert code == 1 and "output exists already" in err and "--overwrite" in err
    assert output.read_text() == "precious"
    code, _, err = run(capsys, *arguments[:-1], str(tmp_path), "--overwrite")
    assert code == 1 and "is not a file that can be replaced" in err
    assert run(capsys, *arguments, "--overwrite")[0] == 0
    assert output.read_bytes() != b"precious"


@pytest.mark.parametrize(
    "arguments", [["models"], ["info"], ["vocab", "text.txt", "--output", "v"]]
)
def test_a_reader_that_stops_reading_is_no_error(tmp_path, arguments):
    (tmp_path / "text.txt").write_text("bank bank bank\n")
    command = [sys.executable, "-m", "keras_elmo", *arguments]
    read, write = os.pipe()
    os.close(read)
    finished = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(write)
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert (tmp_path / "v").exists() == (arguments[0] == "vocab")  # the work is done


def test_characters_that_the_output_lacks_are_escaped(tmp_path):
    (tmp_path / "text.txt").write_text("bank bank bank\n")
    finished = subprocess.run(
        [sys.executable, "-m", "keras_elmo", "vocab", "text.txt", "--output", "\u00e9"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    assert finished.returncode == 0 and b"to \\xe9:" in finished.stdout


def test_an_error_without_a_message_is_named(capsys, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr("keras_elmo.cli.models.list_models", fails)
    assert run(capsys, "models")[2] == "keras-elmo: error: MemoryError\n"


def test_info_of_an_archive_names_it(capsys, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "model"), "zip", TINY)
    code, out, _ = run(capsys, "info", archive)
    assert code == 0 and re.search(rf"archive: +{re.escape(archive)} \([\d.]+ MB\)", out)


def test_info_of_options_that_name_no_input(capsys, tmp_path):
    shutil.copytree(TINY, tmp_path / "model")
    options = json.loads((tmp_path / "model" / "options.json").read_text())
    del options["char_cnn"]
    (tmp_path / "model" / "options.json").write_text(json.dumps(options))
    code, _, err = run(capsys, "info", str(tmp_path / "model"))
    assert code == 1 and "n_tokens_vocab" in err


@pytest.mark.parametrize(
    "content, message", [("", "the input is empty"), ("\n \n", "no words in the first 2 lines")]
)
def test_an_input_without_words_is_no_error(capsys, tmp_path, content, message):
    """It is mentioned on standard error, and an output is written."""
    text, output = tmp_path / "empty.txt", tmp_path / "v.h5"
    text.write_text(content)
    command = ["embed", "--model", TINY, "--input", str(text)]
    code, out, err = run(capsys, *command)
    assert (code, out, err) == (0, "", f"keras-elmo: {message}\n")
    code, out, err = run(capsys, *command, "--output", str(output))
    assert code == 0 and out.startswith(f"Wrote the vectors of {content.count(chr(10))} sentences")
    assert err == ("" if content else f"keras-elmo: {message}\n")
    with h5py.File(output) as file:
        assert len(file) == content.count("\n")


@pytest.mark.parametrize("option", ["--resume", "--overwrite", None])
def test_embed_does_not_replace_its_input(capsys, tmp_path, option):
    text, link = tmp_path / "text.h5", tmp_path / "link.h5"
    text.write_text("bank\nriver\n")
    link.hardlink_to(text)
    for output in (text, link):
        command = ["embed", "--model", TINY, "--input", str(text), "--output", str(output)]
        code, _, err = run(capsys, *command, *filter(None, [option]))
        assert code == 1 and f"{output.name} is an input and would be overwritten" in err
    assert text.read_text() == "bank\nriver\n" and len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback(capsys, place):
    arguments = (
        ["--debug", "info", "nothing"] if place == "before" else ["info", "nothing", "--debug"]
    )
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "Traceback (most recent call last)" in err


def test_version_and_help(capsys):
    for arguments in (
        ["--version"],
        ["--help"],
        ["embed", "--help"],
        ["dump-words", "--help"],
        ["info", "--help"],
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 0
    assert "keras-elmo 0." in capsys.readouterr().out

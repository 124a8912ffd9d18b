"""The commands on models of ELMoForManyLangs, and `keras-elmo convert`."""

import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest

from helpers import assert_close, tensorflow_only, to_numpy
from keras_elmo import ElmoLayer, Embedder, cli, convert
from many_languages import MANY_LANGUAGES, VARIANTS, golden

MODEL = MANY_LANGUAGES / "word_char"


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def packed(tmp_path):
    return shutil.make_archive(tmp_path / "model", "zip", MODEL)


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_convert(capsys, tmp_path, name):
    output = tmp_path / "out" / name
    output.parent.mkdir()
    command = ("convert", MODEL, "--output", output)
    code, out, _ = run(capsys, *command)
    assert code == 0
    assert f"Wrote {output}. Read back, its largest differences from the original" in out
    shown = dict(line.split() for line in out.splitlines()[1:])
    assert list(shown) == ["word_emb", "lstm_outputs1", "lstm_outputs2"]
    assert max(map(float, shown.values())) <= 1e-6
    expected = to_numpy(ElmoLayer(MODEL)([["the", "北京"]]))
    assert_close(to_numpy(ElmoLayer(output)([["the", "北京"]])), expected)
    code, _, err = run(capsys, *command)
    assert code == 1 and len(err.splitlines()) == 1 and "exists already" in err
    assert run(capsys, *command, "--overwrite")[0] == 0
    assert os.listdir(output.parent) == [name]


def test_convert_to_float16(capsys, tmp_path):
    output = tmp_path / "half"
    assert run(capsys, "convert", MODEL, "--dtype", "float16", "--output", output)[0] == 0
    with h5py.File(output / "weights.hdf5") as file:
        assert file["word_embed"].dtype == "float16"
    assert "word.dic" in os.listdir(output)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--dtype", "int8"), "invalid choice: 'int8'"),
    ],
)
def test_convert_of_wrong_usage(capsys, tmp_path, arguments, message):
    with pytest.raises(SystemExit) as stop:
        run(capsys, "convert", MODEL, "--output", tmp_path / "a", *arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "model, message",
    [
        (MODEL / "none", "none does not exist"),
        (MODEL / "word.dic", "neither a folder nor a complete zip or tar.gz file"),
        ("many-langages/it", "Known models: default"),
    ],
)
def test_convert_of_what_cannot_be_converted(capsys, tmp_path, model, message):
    code, _, err = run(capsys, "convert", model, "--output", tmp_path / "a")
    assert code == 1 and len(err.splitlines()) == 1
    assert message in err
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
def test_embed_writes_the_vectors_of_the_original(capsys, tmp_path, variant):
    texts, outputs = golden(variant)
    sentences = {
        i: tokens
        for i, tokens in enumerate(texts["sentences"])
        if all(token.split() == [token] for token in tokens)
    }
    text, output = tmp_path / "text.txt", tmp_path / "vectors.h5"
    lines = [" ".join(tokens) + "\n" for tokens in sentences.values()]
    text.write_text("".join(lines), encoding="utf-8")
    command = ("embed", "--model", MANY_LANGUAGES / variant, "--input", text, "--output", output)
    assert run(capsys, *command, "--vectors", "layers")[0] == 0
    assert len(sentences) > 10
    with h5py.File(output) as file:
        for line, i in enumerate(sentences):
            assert_close(file[str(line)][()], outputs[f"alone_all_{i}"])


def test_embed_shows_words(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, out, _ = run(capsys, "embed", "--model", MODEL, "我 爱 北京")
    assert code == 0
    rows = [re.split(r"\s*│\s*", line) for line in out.splitlines() if "│" in line]
    assert [row[2] for row in rows] == ["我", "爱", "北京"]
    shown = [[float(number) for number in row[3].split()[:3]] for row in rows]
    expected = to_numpy(ElmoLayer(MODEL)([["我", "爱", "北京"]]))[0, :, :3]
    np.testing.assert_allclose(shown, expected, atol=6e-4)


def test_info_of_folder_and_zip(capsys, packed):
    elmo = ElmoLayer(MODEL, output="layers")
    for model in (MODEL, packed):
        code, out, _ = run(capsys, "info", model)
        assert code == 0
        assert f"{len(elmo.lexicon.words)} in the lexicon, {elmo.config.word_dim} numbers" in out
        assert f"{len(elmo.lexicon.characters)} in the lexicon" in out
        assert "LexiconEncoder" in out and "LexiconEmbedding" in out
        assert f"{elmo.count_params():,}" in out
    code, out, _ = run(capsys, "info", MANY_LANGUAGES / "word_only")
    assert code == 0 and "LexiconEmbedding" in out and "convolutions" not in out
    code, out, _ = run(capsys, "info", MANY_LANGUAGES / "char_only")
    assert code == 0 and "CharCNNEmbedding" in out and "LexiconEncoder" in out


def test_info_needs_every_file(capsys, tmp_path):
    folder = shutil.copytree(MODEL, tmp_path / "model")
    (folder / "word.dic").unlink()
    code, _, err = run(capsys, "info", folder)
    assert code == 1 and len(err.splitlines()) == 1 and "word.dic" in err


def test_dump_words(capsys, tmp_path):
    words, output = tmp_path / "words.txt", tmp_path / "words.h5"
    words.write_text("<S>\n</S>\n<UNK>\n北京\nthe\n", encoding="utf-8")
    code, out, _ = run(capsys, "dump-words", words, "--model", MODEL, "--output", output)
    assert code == 0 and "5 words" in out
    texts, outputs = golden("word_char")
    i = next(i for i, sentence in enumerate(texts["sentences"]) if sentence)
    with h5py.File(output) as file:
        vectors = file["embedding"][()]
    assert_close(vectors[0], outputs[f"token_vectors_{i}"][0])
    assert_close(vectors[1], outputs[f"token_vectors_{i}"][-1])
    assert_close(vectors[3:], Embedder(MODEL).encode_words(["北京", "the"]))
    # The vectors take the place of the encoder.
    stored = ElmoLayer(MODEL, output="layers", token_embeddings=output)
    found = to_numpy(stored(np.array([[1, 4, 5, 2]])))
    assert_close(found, to_numpy(ElmoLayer(MODEL, output="layers")([["北京", "the"]])))


@pytest.mark.slow
@tensorflow_only
def test_export_as_saved_model(capsys, tmp_path):
    import tensorflow as tf

    output = tmp_path / "served"
    command = ("export", "--model", MODEL, "--format", "saved-model", "--output", output)
    assert run(capsys, *command)[0] == 0
    served = tf.saved_model.load(output).signatures["default"]
    found = served(strings=tf.constant(["我 爱 北京"]))["elmo"]
    assert_close(found, to_numpy(ElmoLayer(MODEL)([["我", "爱", "北京"]])))


def test_no_language_model(capsys, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("a b\n")
    convert(MODEL, tmp_path / "hdf5")
    for model in (MODEL, tmp_path / "hdf5"):
        for command in (
            ("train", text, "--output", output, "--start-from", model),
            ("evaluate", model, text),
            ("export", model, "--output", output),
        ):
            code, _, err = run(capsys, *command)
            assert code == 1 and len(err.splitlines()) == 1
            assert (
                "A model with a lexicon, such as an ELMoForManyLangs model, cannot be trained"
                in err
            )
    options = tmp_path / "hdf5" / "options.json"
    assert "lexicon" in json.loads(options.read_text())
    code, _, err = run(capsys, "train", text, "--output", output, "--options", options)
    assert code == 1 and "cannot be trained" in err
    assert not output.exists()

"""The command `keras-elmo export`."""

import os

import h5py
import pytest

from export_checks import OUTPUTS, TINY
from helpers import assert_close, tensorflow_only, to_numpy
from keras_elmo import ElmoLayer
from many_languages import MANY_LANGUAGES

MODEL = MANY_LANGUAGES / "word_char"


def differences(out):
    return {line.split()[0]: float(line.split()[1]) for line in out.splitlines()[1:]}


@pytest.mark.slow
@tensorflow_only
def test_export_of_a_saved_model(run, tmp_path):
    output = tmp_path / "elmo" / "1"
    code, out, _ = run("export", TINY, "--format", "saved-model", "--output", output)
    assert code == 0 and f"Wrote {output}" in out
    assert list(differences(out)) == OUTPUTS and max(differences(out).values()) <= 1e-5
    assert (output / "saved_model.pb").exists()


@pytest.mark.parametrize("model, name", [(TINY, "a"), (MODEL, "a.zip")])
def test_export_as_hdf5(run, tmp_path, model, name):
    command = ["export", model, "--output", tmp_path / name]
    code, out, _ = run(*command)
    assert code == 0 and f"Wrote {tmp_path / name}. Read back, its largest differences" in out
    assert list(differences(out)) == ["word_emb", "lstm_outputs1", "lstm_outputs2"]
    assert max(differences(out).values()) <= 1e-6
    expected = to_numpy(ElmoLayer(model)([["the", "cat"]]))
    assert_close(to_numpy(ElmoLayer(tmp_path / name)([["the", "cat"]])), expected)
    code, _, err = run(*command)
    assert code == 1 and "exists already" in err and "--overwrite" in err
    assert run(*command, "--overwrite")[0] == 0
    assert os.listdir(tmp_path) == [name]


def test_export_to_float16(run, tmp_path):
    output = tmp_path / "half"
    assert run("export", MODEL, "--dtype", "float16", "--output", output)[0] == 0
    with h5py.File(output / "weights.hdf5") as file:
        assert file["word_embed"].dtype == "float16"
    assert "word.dic" in os.listdir(output)


@pytest.mark.parametrize(
    "model, message",
    [
        (MODEL / "none", "none is neither a known model nor an existing folder or archive"),
        (MODEL / "word.dic", "neither a folder nor a complete zip or tar.gz file"),
        ("many-langages/it", "Known models: default"),
        ("defalt", "Did you mean 'default'?"),
    ],
)
def test_a_wrong_model_is_named(run, tmp_path, model, message):
    code, _, err = run("export", model, "--output", tmp_path / "a")
    assert code == 1 and message in err
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "the following arguments are required: MODEL"),
        (["default", "--format", "onnx", "--dtype", "float16"], "need --format hdf5"),
        (["default", "--format", "saved-model", "--vocab", "v"], "need --format hdf5"),
        (["default", "--dtype", "int8"], "invalid choice: 'int8'"),
    ],
)
def test_wrong_usage_leaves_with_2(run, arguments, message):
    code, _, err = run("export", *arguments, "--output", "x")
    assert code == 2 and message in err

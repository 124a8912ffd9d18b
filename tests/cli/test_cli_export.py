"""The command `keras-elmo export`."""

import os
import sys

import pytest

from export_checks import OUTPUTS, TINY
from helpers import tensorflow_only
from keras_elmo import cli


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@tensorflow_only
def test_command_writes_a_saved_model_and_a_report(capsys, tmp_path):
    output = tmp_path / "elmo" / "1"
    code, out, _ = run(
        capsys, "export", "--model", TINY, "--format", "saved-model", "--output", output
    )
    assert code == 0
    assert f"Wrote {output}" in out
    assert [line.split()[0] for line in out.splitlines()[1:]] == OUTPUTS
    assert all(float(line.split()[1]) <= 1e-5 for line in out.splitlines()[1:])
    assert (output / "saved_model.pb").exists()


def test_command_writes_bilm_tf_files(capsys, tmp_path):
    arguments = ("export", "--model", TINY, "--output", tmp_path / "a")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "lstm_outputs2" in out
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "exists already" in err
    assert run(capsys, *arguments, "--overwrite")[0] == 0


def test_command_fails_when_the_export_differs(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_elmo.export.convert._TOLERANCES", {"float32": -1.0})
    code, _, err = run(capsys, "export", "--model", TINY, "--output", tmp_path / "a")
    assert code == 1
    assert "nothing was written" in err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", [("export", "--model"), ("convert",)])
def test_a_mistyped_model_is_named_before_the_backend_loads(capsys, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "keras_elmo.export.convert", None)
    code, _, err = run(capsys, *command, "defalt", "--output", tmp_path / "a")
    assert code == 1
    assert "Did you mean 'default'?" in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "pass either a CHECKPOINT or --model"),
        (("run", "--model", "default"), "pass either a CHECKPOINT or --model"),
        (("run", "--format", "onnx"), "a CHECKPOINT can only be exported as hdf5"),
        (("--model", "default", "--vocab", "v.txt"), "--vocab is the vocabulary of a CHECKPOINT"),
    ],
)
def test_wrong_usage_leaves_with_2(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        cli.main(["export", *arguments, "--output", "x"])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

"""Commands run in this process."""

import os

import pytest

from keras_elmo import cli
from keras_elmo.cli import embed


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command: its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(embed, "_PROCESSOR", os.devnull)

    def command(*arguments):
        try:
            code = cli.main(list(map(str, arguments)))
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        if code == 1:  # an error is one line
            assert captured.err.startswith("keras-elmo: error: ") and captured.err.count("\n") == 1
        return code, captured.out, captured.err

    return command

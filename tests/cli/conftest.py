"""Commands run in this process."""

import functools
import os

import pytest

from keras_elmo import cli
from keras_elmo.cli import embed
from keras_elmo.embedding import embedder

# Commands with the same model and options share what is compiled.
shared_embedder = functools.cache(embedder.Embedder)


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command: its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(embed, "_PROCESSOR", os.devnull)
    monkeypatch.setattr(embedder, "Embedder", shared_embedder)

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

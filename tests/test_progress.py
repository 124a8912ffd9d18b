import subprocess
import sys
from types import SimpleNamespace

import pytest

from keras_elmo.progress import progress_bar


class Terminal:
    """A stream that says it is a terminal, and keeps what is written."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    # pytest sets sys.stderr anew after the fixtures.
    monkeypatch.setattr("keras_elmo.progress.sys", SimpleNamespace(stderr=stream, stdout=None))
    monkeypatch.setattr("rich.console.sys", SimpleNamespace(**{**vars(sys), "stderr": stream}))
    return stream


def test_shows_description_count_and_text_on_a_terminal(terminal):
    with progress_bar("embedding", total=2000, unit="sentences", completed=10) as bar:
        assert bar.is_shown
        bar.advance(90)
        bar.update(1500, text="[7 tokens/s]")
        bar.advance(500)
    assert "embedding" in terminal.text
    assert "2,000 of 2,000 sentences" in terminal.text
    assert "[7 tokens/s]" in terminal.text


def test_shows_a_count_without_a_total(terminal):
    with progress_bar("scoring", unit="sentences") as bar:
        bar.advance(1234)
    assert "1,234 sentences" in terminal.text


def test_is_hidden_on_request(terminal):
    with progress_bar("embedding", total=2, shown=False) as bar:
        assert not bar.is_shown
        bar.advance()
        bar.update(2, text="done")
    assert not terminal.text


def test_is_hidden_without_a_terminal(capsys):
    with progress_bar("embedding", total=2) as bar:
        bar.advance()
    assert capsys.readouterr() == ("", "")


def test_is_shown_on_request_without_a_terminal(capsys):
    with progress_bar("embedding", total=2, unit="files", shown=True) as bar:
        bar.advance(2)
    written = capsys.readouterr()
    assert not written.out
    assert "2 of 2 files" in written.err


def test_leaves_standard_output_alone(terminal, capsys, monkeypatch):
    monkeypatch.setattr("keras_elmo.progress.sys.stdout", sys.stdout)
    with progress_bar("embedding", total=2):
        print("a result")
    assert capsys.readouterr().out == "a result\n"


def test_an_error_ends_the_bar(terminal):
    with pytest.raises(KeyboardInterrupt), progress_bar("embedding", total=2):
        raise KeyboardInterrupt
    assert terminal.text.endswith(("\n", "\x1b[?25h"))  # the cursor is shown again


def test_rich_is_imported_only_for_a_bar():
    code = (
        "import sys; from keras_elmo.progress import progress_bar\n"
        "with progress_bar('x', shown=False): print('rich' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.stdout.strip() == "False", finished.stderr

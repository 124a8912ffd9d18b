import sys

import pytest

from keras_elmo.progress import progress_bar


def test_shows_description_count_unit_and_text(capsys):
    with progress_bar("embedding", 2000, unit="sentences", shown=True) as bar:
        assert bar.is_shown
        bar.advance(90)
        bar.update(1500, text="[7 tokens/s]")
        bar.advance(500)
    written = capsys.readouterr()
    assert not written.out
    last = written.err.split("\r")[-1]
    assert last.startswith("embedding: 100%") and "2000/2000" in last
    assert "sentences" in last and "[7 tokens/s]" in last


def test_shows_a_count_without_a_total(capsys):
    with progress_bar("scoring", unit="sentences", shown=True) as bar:
        bar.advance(1234)
    assert "scoring: 1234 sentences" in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal, shown", [(True, False), (False, None)])
def test_is_hidden_on_request_and_without_a_terminal(capsys, monkeypatch, is_terminal, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with progress_bar("embedding", total=2, shown=shown) as bar:
        assert not bar.is_shown
        bar.advance()
        bar.update(2, text="done")
    assert capsys.readouterr() == ("", "")


def test_is_shown_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt), progress_bar("embedding", total=2) as bar:
        assert bar.is_shown
        raise KeyboardInterrupt
    assert capsys.readouterr().err.endswith("\n")  # the bar is closed after an error

import sys

import pytest

from keras_elmo.progress import progress_bar


def test_shows_description_count_unit_and_text(capsys):
    with progress_bar("embedding", 2000, unit="sentences", shown=True) as bar:
        bar.set_postfix_str("[7 tokens/s]", refresh=False)
        bar.update(2000)
    with progress_bar("scoring", unit="sentences", shown=True) as bar:
        bar.update(1234)
    written = capsys.readouterr()
    assert not written.out
    assert "embedding: 100%" in written.err and "2000/2000" in written.err
    assert "[7 tokens/s]" in written.err and "scoring: 1234 sentences" in written.err


@pytest.mark.parametrize(
    "is_terminal, shown, is_shown", [(True, None, True), (True, False, False), (False, None, False)]
)
def test_is_shown_on_a_terminal(capsys, monkeypatch, is_terminal, shown, is_shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with progress_bar("embedding", total=2, unit="steps", shown=shown) as bar:
        bar.update()
        bar.set_postfix_str("half", refresh=False)
        assert bar.disable is not is_shown
    captured = capsys.readouterr()
    assert bool(captured.err) is is_shown and not captured.out

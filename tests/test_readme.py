"""The code in README.md runs and gives what it says."""

import re
from pathlib import Path

import pytest

from helpers import tensorflow_only
from keras_elmo import list_models

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
DOWNLOADS = 'ElmoLayer("original")'


@tensorflow_only
def test_code_blocks_run_in_turn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    runnable = [block for block in BLOCKS if DOWNLOADS not in block]
    assert len(runnable) == len(BLOCKS) - 1 >= 3
    for block in runnable:
        exec(block, names)
    assert "(2, 9, 256)" in capsys.readouterr().out
    assert (tmp_path / "sentiment.keras").exists()
    assert (tmp_path / "sentiment" / "saved_model.pb").exists()
    said, shown = (
        re.search(r"print\(vectors\.shape\)  # (\(.*?\))", README).group(1),
        names["vectors"],
    )
    assert said == str(tuple(shown.shape))


@pytest.mark.parametrize("name", list_models())
def test_every_model_is_listed(name):
    assert f"| `{name}` |" in README


def test_links_to_files_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (Path(__file__).parent.parent / link).exists(), link

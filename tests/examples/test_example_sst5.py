"""The trees of the classifier of the examples."""

import sst5
from example_programs import TREES


def test_trees(tmp_path):
    (tmp_path / "trees.txt").write_text(TREES)
    assert sst5.read_trees("trees.txt") == [
        (["It", "'s", "fun"], 3),
        (["The", "plot", "(", "bad", ")"], 1),
        (["fun", "/"], 4),
        (["bad", "bad"], 0),
    ]

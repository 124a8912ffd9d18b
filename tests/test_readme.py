"""The code in README.md runs and gives what it says."""

import re
from pathlib import Path

import pytest

from helpers import tensorflow_only
from keras_elmo import ElmoLayer, list_models
from training_models import DATA

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRAINING = (ROOT / "docs" / "TRAINING.md").read_text(encoding="utf-8")
EMBEDDING = (ROOT / "docs" / "EMBEDDING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
DOWNLOADS = 'ElmoLayer("original")'


@tensorflow_only
def test_code_blocks_run_in_turn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    names = {}
    runnable = [block for block in BLOCKS if DOWNLOADS not in block]
    assert len(runnable) == len(BLOCKS) - 1 >= 3
    for block in runnable:
        exec(block, names)
    assert "(2, 9, 256)" in capsys.readouterr().out
    assert (tmp_path / "sentiment.keras").exists()
    assert (tmp_path / "sentiment" / "saved_model.pb").exists()
    assert (tmp_path / "my_serving" / "elmo" / "1" / "saved_model.pb").exists()
    said, shown = (
        re.search(r"print\(vectors\.shape\)  # (\(.*?\))", README).group(1),
        names["vectors"],
    )
    assert said == str(tuple(shown.shape))


def write_corpus(folder):
    """The text that the code on training reads: a few batches of 128 x 20 words."""
    text = (DATA / "train.txt").read_text()
    (folder / "shards").mkdir()
    for shard in range(2):
        (folder / "shards" / f"{shard}.txt").write_text(text * 4)
    (folder / "heldout.txt").write_text((DATA / "heldout.txt").read_text())
    (folder / "vocab.txt").write_text((DATA / "vocab.txt").read_text())


def test_code_on_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", TRAINING, re.DOTALL)
    # The program as it is, but smaller.
    block = block.replace("epochs=10", "epochs=1").replace("lstm_dim=1024", "lstm_dim=64")
    exec(block.replace("num_highway=1", "num_highway=1, filters=((1, 8), (2, 8))"), {})
    assert "PerplexityReport(perplexity=" in capsys.readouterr().out
    assert (tmp_path / "my_elmo" / "softmax.hdf5").exists()


def test_code_on_embedding(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ElmoLayer(ROOT / "tests" / "golden" / "inference" / "default").export_hdf5("my_model")
    (tmp_path / "text.txt").write_text("The cat sat .\nHello\n")
    (tmp_path / "vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", EMBEDDING, re.DOTALL):
        exec(block, names)
    assert capsys.readouterr().out.startswith("(4, ")
    assert (tmp_path / "vectors.h5").exists()
    assert len(names["embedder"].word_cache) == len((tmp_path / "words.txt").read_text().split())


def test_commands_on_training_are_there(capsys):
    from keras_elmo import cli

    text = README + TRAINING
    for command in set(re.findall(r"^keras-elmo (\w+)", text, re.MULTILINE)):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        known = capsys.readouterr().out
        for line in re.findall(rf"keras-elmo {command} .*(?:\\\n.*)*", text):
            for option in re.findall(r"--[a-z-]+", line.split("`")[0]):
                assert option in known, (command, option)


@pytest.mark.parametrize("name", list_models())
def test_every_model_is_listed(name):
    assert f"| `{name}` |" in README


def test_links_to_files_lead_somewhere():
    for folder, text in ((ROOT, README), (ROOT / "docs", TRAINING)):
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            if not link.startswith("http"):
                assert (folder / link).exists(), link

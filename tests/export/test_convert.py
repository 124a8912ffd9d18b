"""Models from one format to another: verified on every backend, whole or not at all."""

import os

import numpy as np
import pytest

from keras_elmo import convert
from keras_elmo.export import checks


def test_hdf5_on_every_backend(elmo, tmp_path):
    differences = convert(elmo, tmp_path / "a" / "b")
    assert differences == dict.fromkeys(["word_emb", "lstm_outputs1", "lstm_outputs2"], 0)
    assert sorted(os.listdir(tmp_path / "a" / "b")) == ["options.json", "weights.hdf5"]


def test_an_export_that_differs_leaves_nothing(elmo, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(checks, "TOLERANCE", -1.0)
        with pytest.raises(ValueError, match=r"nothing was written: word_emb by 0\.0e\+00, lstm"):
            convert(elmo, tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(checks, "_difference", lambda *_: np.nan)
    with pytest.raises(ValueError, match="word_emb by nan"):
        convert(elmo, tmp_path / "a" / "b")


def test_an_existing_folder_is_replaced_only_when_told(elmo, tmp_path):
    convert(elmo, tmp_path / "a")
    with pytest.raises(FileExistsError, match="a is there already: choose another name"):
        convert(elmo, tmp_path / "a")
    convert(elmo, tmp_path / "a", overwrite=True)
    assert os.listdir(tmp_path) == ["a"]

"""The model card of an exported folder."""

import json

import pytest

from helpers import TINY
from keras_elmo import ElmoConfig, ElmoLayer, export_hdf5, register_model
from keras_elmo.pretrained import registry
from keras_elmo.pretrained.model_card import model_card
from many_languages import MANY_LANGUAGES


def parts(card):
    """The metadata of a card, JSON values by name, and the rows of its table."""
    _, metadata, body = card.split("---\n", 2)
    rows = [line[2:-2].split(" | ", 1) for line in body.splitlines() if line.startswith("| ")]
    values = (line.partition(": ") for line in metadata.splitlines())
    return {name: json.loads(value) for name, _, value in values}, dict(rows[2:])


@pytest.mark.parametrize("language", ["no", "de", None])
def test_the_architecture_and_what_else_is_known(language):
    license = 'other: "mine"\n- x #'
    details = {"language": language, "license": license, "Te|xt": "two\n| lines"}
    metadata, rows = parts(model_card(ElmoConfig(), details))
    assert metadata.pop("language", None) == language
    assert metadata.pop("license") == license
    assert metadata == {
        "library_name": "keras_elmo",
        "pipeline_tag": "feature-extraction",
        "tags": ["elmo", "keras", "word-embeddings"],
    }
    assert rows["LSTM"] == "2 layers of 4096 units, projected to 512, forward and backward"
    assert (rows["Parameters"], rows["Te\\|xt"]) == ("93,600,848", "two \\| lines")


def test_the_programs_that_read_the_files():
    for config in (ElmoConfig(), ElmoLayer(MANY_LANGUAGES / "word_char").config):
        card = model_card(config, {})
        assert ("in the format of bilm-tf" in card) is not config.has_lexicon


def test_a_card_is_replaced_unless_it_was_edited(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    register_model("tiny", TINY, language="no")
    card = tmp_path / "model" / "README.md"
    export_hdf5("tiny", card.parent)
    assert parts(card.read_text())[0]["language"] == "no"
    ElmoLayer(TINY).export_hdf5(card.parent)
    written = card.read_text()
    assert "language" not in parts(written)[0]
    elmo = ElmoLayer("tiny")
    for text in ("mine", "", written.replace("# ELMo", "# My ELMo"), written + "\nMore\n"):
        card.write_text(text)
        elmo.export_hdf5(card.parent)
        assert card.read_text() == text
    export_hdf5("tiny", card.parent, overwrite=True)
    assert card.read_text() == text
    card.write_text(written)
    export_hdf5("tiny", card.parent, overwrite=True)
    assert parts(card.read_text())[0]["language"] == "no"

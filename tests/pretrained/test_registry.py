"""The catalog of models."""

import pytest

from keras_elmo import ElmoLayer, get_model, list_models, register_model
from keras_elmo.pretrained import registry


def test_the_catalog():
    assert list_models() == ["default", "small", "medium", "original", "original-5.5b", "pubmed"]
    original = get_model("original")
    assert original.weights_bytes == 374_434_792
    assert original.weights_file == "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    assert get_model("pubmed").weights_file.endswith("2xhighway_weights_PubMed_only.hdf5")
    assert get_model("original-5.5b").options_file.endswith("2xhighway_5.5B_options.json")
    assert get_model("default").local_folder is not None


def test_addresses_of_the_published_models():
    for name, folder in (
        ("small", "2x1024_128_2048cnn_1xhighway"),
        ("medium", "2x2048_256_2048cnn_1xhighway"),
        ("original", "2x4096_512_2048cnn_2xhighway"),
        ("original-5.5b", "2x4096_512_2048cnn_2xhighway_5.5B"),
        ("pubmed", "contributed/pubmed"),
    ):
        base = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
        assert get_model(name).locations[0] == f"{base}/{folder}"


def test_unknown_names_show_close_ones():
    with pytest.raises(ValueError, match="'orignal'.* Did you mean 'original' or 'original-5.5b'"):
        get_model("orignal")
    with pytest.raises(ValueError, match="Known models: default, small") as error:
        ElmoLayer("xyzzy")
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize(
    "name, location, known, message",
    [
        ("../../../x", "https://example.org", {}, "'../../../x' becomes part of a path"),
        (".hidden", "https://example.org", {}, "'.hidden' becomes part of a path"),
        ("", "https://example.org", {}, "'' becomes part of a path"),
        ("x", "https://example.org", {"weights_file": "a/../b"}, "'a/../b' becomes part"),
        ("x", "file:///elmo", {}, "file:///elmo is no place .* begins with http:// or https://"),
        ("x", "here", {"mirrors": ["ftp://elmo"]}, "ftp://elmo is no place"),
    ],
)
def test_names_and_places_that_are_refused(name, location, known, message):
    before = list_models()
    with pytest.raises(ValueError, match=message):
        register_model(name, location, **known)
    assert list_models() == before


def test_places_as_users_write_them(monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    monkeypatch.setenv("HOME", "/home/someone")
    assert register_model("one", "HTTP://example.org/").local_folder is None
    assert str(register_model("two", "~/elmo").local_folder) == "/home/someone/elmo"

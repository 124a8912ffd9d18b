"""The catalog of models."""

import pytest

from keras_elmo import ElmoLayer, get_model, list_models, register_model
from keras_elmo.pretrained import registry
from keras_elmo.pretrained.weight_table import count_parameters


def test_the_catalog():
    english = ["default", "small", "medium", "original", "original-5.5b", "pubmed"]
    assert list_models()[:6] == english
    assert list_models(language="en") == [*english, "many-languages/en"]
    assert get_model("original").weights_bytes == 374_434_792
    assert get_model("default").local_path is not None
    assert list_models("proteins") == ["seqvec"]
    assert [options for options, _ in registry.urls_of(get_model("seqvec"))] == [
        "http://data.bioembeddings.com/public/embeddings/embedding_models/seqvec/options.json",
        "https://rostlab.org/~deepppi/embedding_repo/embedding_models/seqvec/options.json",
    ]


def test_parameters_of_the_published_models():
    numbers = {"small": 13_593_296, "medium": 28_027_728, "original-5.5b": 93_600_848}
    for name, parameters in numbers.items():
        assert count_parameters(get_model(name).config) == parameters
    for name in ("original", "pubmed", "seqvec"):
        assert get_model(name).config == get_model("original-5.5b").config


def test_the_models_of_elmo_for_many_langs():
    numbers = {"ar": 136, "en": 144, "grc": 153, "it": 159, "nl": 164, "nb": 165, "zht": 179}
    for code, number in numbers.items():
        url = f"http://vectors.nlpl.eu/repository/11/{number}.zip"
        assert get_model(f"many-languages/{code}").files == (url,)
    names = [name for name in list_models() if name.startswith("many-languages/")]
    assert len(names) == 44
    for name in names:
        model = get_model(name)
        assert "UDPipe" in model.tokenization
        assert model.license.startswith("MIT")
        assert model.has_lexicon
        assert model.local_path is None
    assert get_model("many-languages/tr").description.startswith("Turkish")
    assert "not characters" in get_model("many-languages/ja").tokenization


def test_the_models_of_a_language():
    assert list_models(language="tr") == ["many-languages/tr"]
    assert list_models(language="zht") == list_models(language="zh") == ["many-languages/zht"]
    assert list_models("pt") == ["allennlp/pt", "many-languages/pt"]
    assert list_models("ru") == ["nlpl/ru-195", "nlpl/ru-212", "many-languages/ru"]
    assert list_models("no") == [f"nlpl/no-{number}" for number in (210, 211, 217, 218)]
    assert list_models("zh") == ["many-languages/zht"]
    assert get_model("nlpl/no-218").files == ("http://vectors.nlpl.eu/repository/20/218.zip",)
    for name in ("German", "german", "DE", "de_AT", "de-DE"):
        assert list_models(name) == ["many-languages/de"]
    assert list_models("Greek") == ["many-languages/el"]
    assert list_models("chinese") == ["many-languages/zht"]
    assert list_models("norwegian") == [
        *list_models("no"),
        "many-languages/nb",
        "many-languages/nn",
    ]
    for name in ("xx", "", "klingon"):
        message = f"No model for language '{name}': expected one of ar, bg, ca"
        with pytest.raises(ValueError, match=message):
            list_models(language=name)


@pytest.mark.parametrize("language", ["en", "EN", "en_US", "English", "english", None])
def test_the_language_of_a_registered_model(language, monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    assert register_model("a", "b", language=language).language == (language and "en")
    assert register_model("c", "b", language="cy").language == "cy"


@pytest.mark.parametrize(
    "language, codes",
    [("eng", "'de'"), ("engl", "'de'"), ("", "'de'"), ("Norwegian", "'nb' or 'nn' or 'no'")],
)
def test_languages_that_are_refused(language, codes):
    with pytest.raises(ValueError, match=f"Unknown language '{language}': .* such as {codes}"):
        register_model("a", "b", language=language)


@pytest.mark.parametrize(
    "name",
    ["many-languages/xx", "user/repo", "no-such-model", "it_model", "id-123", "de-v2", "my/de-v2"],
)
def test_no_language_is_suggested_for_a_name_without_one(name):
    with pytest.raises(FileNotFoundError) as error:
        ElmoLayer(name)
    assert "Did you mean" not in str(error.value)


def test_unknown_names_show_close_ones():
    with pytest.raises(ValueError, match="'orignal'.* Did you mean 'original' or 'original-5.5b'"):
        get_model("orignal")
    with pytest.raises(FileNotFoundError, match="Known models: default, small") as error:
        ElmoLayer("xyzzy")
    assert "Did you mean" not in str(error.value)
    assert len(str(error.value)) < 240


@pytest.mark.parametrize(
    "name, meant",
    [
        ("it", "Did you mean 'many-languages/it'?"),
        ("pt", "Did you mean 'allennlp/pt' or 'many-languages/pt'?"),
        ("zht", "Did you mean 'many-languages/zht'?"),
        ("many-languages/itt", "Did you mean 'many-languages/it'"),
        ("many-languages/english", "Did you mean 'many-languages/en'"),
        ("many-languages/German", "Did you mean 'many-languages/de'?"),
        ("de_DE", "Did you mean 'many-languages/de'?"),
        ("my/de", "Did you mean 'many-languages/de'?"),
        ("many-languages/zh", "Did you mean 'many-languages/zht'?"),
        ("many-langs/de", "Did you mean 'many-languages/de'?"),
        ("embeddia/german", "Did you mean 'many-languages/de'?"),
        ("german", "Did you mean 'many-languages/de'?"),
        ("english", "Did you mean 'default' or 'small' or 'medium'?"),
        ("proteins", "Did you mean 'seqvec'?"),
        ("nlpl/ru-196", "Did you mean 'nlpl/ru-195'"),
    ],
)
def test_unknown_languages_show_close_ones(name, meant):
    with pytest.raises(FileNotFoundError) as error:
        ElmoLayer(name)
    assert meant in str(error.value)
    assert "more: see list_models() or `keras-elmo models`" in str(error.value)


@pytest.mark.parametrize(
    "name, location, message",
    [
        ("../../../x", "https://example.org", "part of a path"),
        (".hidden", "https://example.org", "part of a path"),
        ("", "https://example.org", "part of a path"),
        ("a/../b", "https://example.org", "part of a path"),
        ("a/b/c", "https://example.org", "part of a path; got 'a/b/c'"),
        ("a/", "https://example.org", "part of a path"),
        ("/a", "https://example.org", "part of a path"),
        ("x", "file:///elmo", "begins with http:// or https://, got file:///elmo"),
        ("x", "ftp://elmo", "begins with http:// or https://, got ftp://elmo"),
    ],
)
def test_names_and_places_that_are_refused(name, location, message):
    before = list_models()
    with pytest.raises(ValueError, match=message):
        register_model(name, location)
    assert list_models() == before


def test_places_as_users_write_them(monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    monkeypatch.setenv("HOME", "/home/someone")
    assert register_model("one", "HTTP://example.org/").local_path is None
    assert str(register_model("two", "~/elmo").local_path) == "/home/someone/elmo"


def test_archives_are_known_by_their_endings(monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    places = {
        "https://a.org/1.zip": True,
        "https://a.org/1.TAR.GZ?download=1": True,
        "1.tgz": True,
        "https://a.org/1.zip/elmo": False,
        "https://a.org/zip": False,
    }
    for number, (place, is_single) in enumerate(places.items()):
        files = register_model(f"mine/{number}", place, language="cy").files
        options_and_weights = (f"{place}/options.json", f"{place}/weights.hdf5")
        assert files == ((place,) if is_single else options_and_weights)
    assert list_models(language="cy") == [f"mine/{number}" for number in range(5)]

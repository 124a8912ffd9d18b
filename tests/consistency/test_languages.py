"""In which language is this text, and this model? Every way to embed warns once if they differ."""

import re

import pytest

from helpers import TINY
from keras_elmo import (
    CorpusIndex,
    Embedder,
    bilm_tf_perplexity,
    cli,
    load_language_model,
    perplexity,
    register_model,
)
from keras_elmo.pretrained import registry
from keras_elmo.pretrained.registry import check_language
from training_models import tiny_model, vocabulary

pytestmark = pytest.mark.needs("spacy", "syntok")

TEXT, FASTA = "Das ist gut. Es geht.\n", ">one\nMKV\n>two\nG\n"


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch):
    """No model stays registered, and no warning counts as given."""
    check_language.cache_clear()
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))


def model_of(language):
    """The name of a model of a language."""
    register_model(f"test-{language}", TINY, language=language)
    return f"test-{language}"


def embedded(model, text, language):
    embedder = Embedder(model)
    for _ in range(2):
        embedder.embed([text.read_text()], tokenize=language)


def padded(model, text, language):
    Embedder(model).embed([text.read_text()], tokenize=language, pad_to="longest")


def streamed(model, text, language):
    list(Embedder(model).stream([text.read_text()], tokenize=language))


def embedded_file(model, text, language):
    embedder = Embedder(model)
    for name in ("v.h5", "w.h5"):
        embedder.embed_file(text, text.with_name(name), tokenize=language)


def embedded_copy(model, text, language):
    Embedder(Embedder(model).layer).embed_file(text, text.with_name("v.h5"), tokenize=language)


def shown_by_the_command(model, text, language, *options):
    language = ["--language", language] if language else []
    assert cli.main(["embed", "--model", model, "--input", str(text), *language, *options]) == 0


def written_by_the_command(model, text, language):
    shown_by_the_command(model, text, language, "--output", str(text.with_name("v.h5")))


def logged(caplog):
    return [
        record.getMessage() for record in caplog.records if record.name.startswith("keras_elmo")
    ]


OF_TEXTS = (embedded, padded, streamed)
OF_FILES = (embedded_file, embedded_copy, shown_by_the_command, written_by_the_command)


@pytest.mark.parametrize("way", OF_TEXTS + OF_FILES[:2])
def test_an_unknown_language_is_refused_without_a_warning(way, tmp_path, caplog):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    with pytest.raises(ValueError, match="English"):
        way(model_of("en"), text, "English")
    assert not logged(caplog)


@pytest.mark.parametrize("own, number", [("en", 1), ("de", 0), (None, 0)])
@pytest.mark.parametrize("way", OF_TEXTS + OF_FILES)
def test_a_text_in_another_language(way, own, number, tmp_path, caplog):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    way(model_of(own), text, "de")
    found = logged(caplog)
    assert len(found) == number
    for message in found:
        assert message.startswith("The model was trained on English, not on German: its vectors")
        assert "Models for German: 'many-languages/de'" in message


@pytest.mark.parametrize("own, number", [("en", 1), ("zxx", 0), (None, 0)])
@pytest.mark.parametrize("way", OF_FILES)
def test_proteins(way, own, number, tmp_path, caplog):
    text = tmp_path / "proteins.fasta"
    text.write_text(FASTA)
    way(model_of(own), text, None)
    found = logged(caplog)
    assert len(found) == number
    for message in found:
        assert message.startswith("The model was trained on English, not on proteins: its vectors")
        assert "Models for proteins: 'seqvec'" in message


def evaluated(model, text, language):
    language_model, words = load_language_model(model)
    index = CorpusIndex.build(text, tokenize=language)
    for _ in range(2):
        perplexity(language_model, index, words)


def evaluated_as_bilm_tf(model, text, language):
    language_model, words = load_language_model(model)
    index = CorpusIndex.build(text, tokenize=language)
    bilm_tf_perplexity(language_model, index, words, batch_size=1)


def evaluated_by_the_command(model, text, language):
    assert cli.main(["evaluate", model, str(text), "--language", language]) == 0


@pytest.mark.parametrize("language, number", [("en", 0), ("de", 1)])
@pytest.mark.parametrize("way", [evaluated, evaluated_as_bilm_tf, evaluated_by_the_command])
def test_an_evaluation(tmp_path, caplog, way, language, number):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    tiny_model().export_hdf5(tmp_path / "model", vocabulary())
    register_model("test-evaluation", tmp_path / "model", language="en")
    way("test-evaluation", text, language)
    found = logged(caplog)
    assert len(found) == number
    assert all(x.startswith("The model was trained on English, not on German: ") for x in found)


@pytest.mark.parametrize("sentence", ["The bank", "MKVL"])
def test_words_that_are_not_residues(sentence, caplog):
    embedder = Embedder(model_of("zxx"))
    embedder.embed([["M", "K"], ["V"]])
    assert not logged(caplog)
    for _ in range(2):
        embedder.embed([sentence])
    (message,) = logged(caplog)
    assert message.startswith("Most tokens have several letters, such as")


@pytest.mark.parametrize(
    "model, text, message",
    [
        ("de", "en", "German, not on English: .* not meaningful. Models for English: 'default'"),
        ("en", "is", "English, not on Icelandic: .* No model for Icelandic is known by name"),
        (
            "zxx",
            "de",
            "proteins, not on German: .* Models for German: 'many-languages/de'[^.]*\\.$",
        ),
        ("zxx", "xx", "proteins, not on text"),
        ("el", "grc", "Greek, not on Ancient Greek"),
        *((one, other, None) for one, other in [("en", "xx"), ("no", "nb"), ("nn", "no")]),
        *((one, other, None) for one, other in [("de", None), (None, "de"), ("de", "de")]),
    ],
)
def test_what_is_another_language(model, text, message, caplog):
    check_language(model, text)
    if message is None:
        assert not caplog.records
    else:
        assert re.search(message, caplog.records[0].getMessage())

"""The files of ELMoForManyLangs: which are found and which are refused."""

import json
import shutil

import pytest

from keras_elmo import ElmoConfig, ElmoLayer
from keras_elmo.pretrained.many_languages import read_architecture
from many_languages import MANY_LANGUAGES

PUBLISHED = "cnn_50_100_512_4096_sample.json"


@pytest.fixture
def model(tmp_path):
    """A copy of a golden model, to be damaged."""
    return shutil.copytree(MANY_LANGUAGES / "word_char", tmp_path / "model")


def test_the_published_architecture(model):
    (model / PUBLISHED).unlink()
    config, lexicon = read_architecture(model / "config.json")
    sizes = {"vocabulary_size": len(lexicon.words), "num_characters": len(lexicon.characters)}
    assert config == ElmoConfig(
        char_embedding_dim=50, word_dim=100, always_project=True, **sizes
    )  # otherwise equal to bilm-tf's original model
    with pytest.raises(ValueError, match="too few for the arrays of|misshapen"):
        ElmoLayer(model)


def test_where_the_architecture_is_looked_for(model, tmp_path):
    expected = read_architecture(model / "config.json")
    architecture = (model / PUBLISHED).rename(tmp_path / "elsewhere.json")
    options = model / "config.json"
    for place in (architecture, "../elsewhere.json"):
        options.write_text(json.dumps({"config_path": str(place)}))
        assert read_architecture(options) == expected
    options.write_text('{"config_path": "/no/such/folder/mine.json"}')
    with pytest.raises(FileNotFoundError, match=r"has no mine\.json, .* names: put it there"):
        read_architecture(options)
    options.write_text(json.dumps({"config_path": 300 * "x"}))
    with pytest.raises(FileNotFoundError, match="names: put it there"):
        read_architecture(options)
    options.write_text("{}")
    with pytest.raises(ValueError, match=r"config\.json has no config_path"):
        read_architecture(options)


@pytest.mark.parametrize(
    "section, fields, message",
    [
        ("encoder", {"name": "lstm"}, "Expected the encoder of .* with the name 'elmo'"),
        ("token_embedder", {"name": "lstm"}, "Expected the token_embedder .* with the name 'cnn'"),
        ("encoder", {"dim": "16"}, "lstm_dim"),
        ("encoder", {"cell_clip": -1}, "cell_clip"),
        ("token_embedder", {"activation": "ReLU"}, "'relu' or 'tanh'"),
        ("token_embedder", {"max_characters_per_token": 6}, "at least 7"),
        ("token_embedder", {"word_dim": 0, "char_dim": 0}, "words, characters or both"),
        ("token_embedder", {"word_dim": ...}, r"has no token_embedder\.word_dim: add it"),
        ("encoder", 1, "Expected the encoder of .* got 1"),
        # larger than its files
        ("encoder", {"dim": 1 << 16, "projection_dim": 1 << 10}, r"pkl has [\d,]+ bytes, too few"),
        ("encoder", {"projection_dim": 1 << 16}, r"pkl has [\d,]+ bytes, too few for the arrays"),
    ],
)
def test_architectures_that_are_refused(model, section, fields, message, monkeypatch):
    values = json.loads((model / PUBLISHED).read_text())
    changed = values[section] | fields if isinstance(fields, dict) else {}
    values[section] = {name: x for name, x in changed.items() if x is not ...} or fields
    (model / PUBLISHED).write_text(json.dumps(values))
    monkeypatch.setattr(ElmoLayer, "build", lambda *_: pytest.fail("layers are built for it"))
    with pytest.raises(ValueError, match=message):
        ElmoLayer(model)


@pytest.mark.parametrize("name, table", [("word.dic", "word_emb"), ("char.dic", "char_emb")])
def test_dictionaries_of_another_model(model, name, table):
    path = model / name
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + b"zz\t%d\n" % len(lines))
    with pytest.raises(ValueError, match=rf"misshapen {table}_layer.embedding.weight: expected \("):
        ElmoLayer(model)


def test_weights_of_another_model(model):
    shutil.copy(MANY_LANGUAGES / "char_only" / "encoder.pkl", model)
    with pytest.raises(ValueError, match=r"misshapen forward_layer_0\.input_linearity\.weight"):
        ElmoLayer(model)
    shutil.copy(MANY_LANGUAGES / "word_char" / "encoder.pkl", model)
    shutil.copy(MANY_LANGUAGES / "char_only" / "token_embedder.pkl", model)
    with pytest.raises(ValueError, match=r"missing word_emb_layer\.embedding\.weight"):
        ElmoLayer(model)


@pytest.mark.parametrize(
    "name", ["encoder.pkl", "token_embedder.pkl", "config.json", "word.dic", "char.dic"]
)
def test_a_file_that_is_missing(model, name):
    (model / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        ElmoLayer(model)


def test_pickles_that_are_wrong_or_damaged(model):
    with pytest.raises(ValueError, match="missing forward_layer_0"):
        ElmoLayer((model / "config.json", model / "token_embedder.pkl"))
    (model / "encoder.pkl").write_bytes((model / "encoder.pkl").read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"encoder\.pkl.*Download it again"):
        ElmoLayer(model)


def test_a_pickle_with_a_foreign_global_runs_nothing(model, tmp_path):
    program = f"cposix\nsystem\n(S'touch {tmp_path / 'ran'}'\ntR.".encode()
    (model / "encoder.pkl").write_bytes(program)
    with pytest.raises(ValueError, match="encoder.pkl"):
        ElmoLayer(model)
    assert not (tmp_path / "ran").exists()

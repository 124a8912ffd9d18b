"""ElmoConfig: every options.json of bilm-tf, and clear errors for bad ones."""

import copy
import json
import os

import numpy as np
import pytest

from helpers import GOLDEN
from keras_elmo import ElmoConfig

OPTIONS = json.loads((GOLDEN / "default" / "options.json").read_text())


def changed(path, *value):
    """The options with the field at a dotted path set to a value, or without it."""
    options = copy.deepcopy(OPTIONS)
    *sections, field = path.split(".")
    section = options
    for name in sections:
        section = section[name]
    if value:
        section[field] = value[0]
    else:
        del section[field]
    return options


def test_fields_of_an_inference_file():
    config = ElmoConfig.from_json(GOLDEN / "default" / "options.json")
    assert config == ElmoConfig(
        filters=((1, 4), (2, 8), (3, 12), (4, 16)),
        char_embedding_dim=6,
        activation="relu",
        max_characters_per_token=50,
        num_highway=2,
        lstm_dim=24,
        projection_dim=12,
        num_layers=2,
        cell_clip=3.0,
        proj_clip=3.0,
        use_skip_connections=True,
    )
    assert (config.num_filters, config.num_directions, config.output_dim) == (40, 2, 24)


@pytest.mark.parametrize(
    "options, field, expected",
    [
        (changed("char_cnn.n_characters", 261), "num_filters", 40),
        (changed("char_cnn.n_characters"), "num_filters", 40),
        (changed("char_cnn.activation", "tanh"), "activation", "tanh"),
        (changed("char_cnn.n_highway"), "num_highway", 0),
        (changed("char_cnn.n_highway", None), "num_highway", 0),
        (changed("char_cnn.filters", [[7, 3]]), "filters", ((7, 3),)),
        (changed("char_cnn.max_characters_per_token", 12), "max_characters_per_token", 12),
        (changed("char_cnn.projection_after_highway", True), "training_options", {}),
        (changed("lstm.n_layers"), "num_layers", 1),
        (changed("lstm.n_layers", 4), "num_layers", 4),
        (changed("lstm.cell_clip"), "cell_clip", None),
        (changed("lstm.proj_clip", None), "proj_clip", None),
        (changed("lstm.proj_clip", 2.5), "proj_clip", 2.5),
        (changed("lstm.use_skip_connections"), "use_skip_connections", False),
        (changed("char_cnn"), "reads_characters", False),
        (changed("char_cnn", None), "reads_characters", False),
        ({**OPTIONS, "bidirectional": False}, "num_directions", 1),
        ({**OPTIONS, "n_tokens_vocab": 83}, "vocabulary_size", 83),
        ({**OPTIONS, "dropout": 0.1}, "training_options", {"dropout": 0.1}),
    ],
)
def test_every_kind_of_options_is_read_and_written_again(options, field, expected):
    given = copy.deepcopy(options)
    config = ElmoConfig.from_json(options)
    assert getattr(config, field) == expected
    assert options == given, "the dict that was passed must not change"
    again = ElmoConfig.from_json(config.to_dict())
    assert (again, again.training_options) == (config, config.training_options)
    assert config.to_dict().items() >= config.training_options.items()


def test_written_options_are_those_of_an_inference_file(tmp_path):
    config = ElmoConfig.from_json(changed("char_cnn.n_characters", 261))
    config.to_json(tmp_path / "options.json")
    assert json.loads((tmp_path / "options.json").read_text()) == OPTIONS
    assert ElmoConfig.from_json(str(tmp_path / "options.json")) == config


def test_word_input_from_a_character_model():
    config = ElmoConfig(max_characters_per_token=9, filters=[[1, 2]], num_highway=1)
    config = config.with_word_input(83)
    assert ElmoConfig.from_dict(config.to_dict()) == config
    assert (config.reads_characters, config.vocabulary_size, config.num_filters) == (False, 83, 0)
    assert "char_cnn" not in config.to_dict()


@pytest.mark.parametrize(
    "options, message",
    [
        (changed("lstm"), "with the field lstm; found char_cnn"),
        ({"dataset_reader": {}, "model": {}}, "found dataset_reader, model. Pass the options.json"),
        (changed("char_cnn.filters", None), r"no field char_cnn\.filters"),
        ({}, "with the field lstm; found no fields"),
        (changed("lstm", None), "lstm = None: expected an object with the fields cell_clip, dim"),
        (
            changed("char_cnn.projection_after_highway", False),
            r"char_cnn\.projection_after_highway = False: expected true",
        ),
        (changed("lstm.dim"), r"no field lstm\.dim; found lstm = "),
        (changed("char_cnn.filters"), r"no field char_cnn\.filters"),
        (changed("lstm.dim", "4096"), "lstm_dim must be an integer from 1 to 65,536; got '4096'"),
        (changed("lstm.dim", True), "lstm_dim must be an integer .* got True"),
        (changed("lstm.n_layers", 0), "num_layers must be an integer .* got 0"),
        (changed("lstm.cell_clip", 0), "cell_clip must be a number above 0; got 0"),
        (changed("lstm.cell_clip", 10**400), "cell_clip must be a number above 0; got 1000"),
        (changed("lstm.proj_clip", float("nan")), "proj_clip must be a number above 0; got nan"),
        (
            changed("lstm.use_skip_connections", "yes"),
            "must be True or False; got 'yes'",
        ),
        (changed("lstm.dimension", 3), r"Unknown field lstm\.dimension = 3 .* fields of lstm"),
        (changed("char_cnn.activation", "elu"), "activation = 'elu': expected 'relu' or 'tanh'"),
        (changed("char_cnn.n_characters", 260), r"n_characters = 260: expected 261 or 262"),
        (changed("char_cnn.filters", []), r"filters = \[\]: expected a list of at most 64 \[width"),
        (changed("char_cnn.filters", [[1, 0]]), r"filters = \[\[1, 0\]\]: expected a list of"),
        (changed("char_cnn.filters", 32), "filters = 32: expected a list of"),
        (changed("char_cnn.embedding", 16), r"embedding = 16: expected an object such as"),
        (changed("char_cnn.embedding.dim"), "char_embedding_dim must be an integer .* got None"),
        (
            changed("char_cnn.max_characters_per_token", 2),
            "per_token must be .* got 2",
        ),
        (changed("char_cnn.max_characters_per_token", 3), r"16\]\]: expected widths of at most"),
        ({**OPTIONS, "n_tokens_vocab": 0}, "vocabulary_size must be an integer .* got 0"),
        ({**OPTIONS, "bidirectional": 1}, "bidirectional must be True or False; got 1"),
        # far too large
        (changed("lstm.n_layers", 10**6), "must be an integer from 1 to 64; got 1000000"),
        (changed("lstm.projection_dim", 10**6), "projection_dim must be .* got 1000000"),
        (changed("char_cnn.n_highway", 10**6), "must be an integer from 0 to 64; got 1000000"),
        (
            changed("char_cnn.max_characters_per_token", 10**9),
            "must be .* got 1000000000",
        ),
        (changed("char_cnn.filters", [[1, 10**6]]), r"filters = \[\[1, 1000000\]\]: expected"),
        (changed("char_cnn.filters", [[1, 1]] * 65), "expected a list of at most 64"),
        ({**OPTIONS, "n_tokens_vocab": 10**12}, "must be an integer .* got 1000000000000"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ElmoConfig.from_json(options)


@pytest.mark.parametrize(
    "name, value, used",
    [("activation", "relu", "'relu'"), ("max_characters_per_token", 50, "50")],
)
def test_a_value_that_bilm_tf_requires_is_told_where_it_is_absent(name, value, used):
    with pytest.warns(UserWarning, match=f"no char_cnn.{name}, which bilm-tf requires: {used} is"):
        config = ElmoConfig.from_dict(changed(f"char_cnn.{name}"))
    assert getattr(config, name) == value


def test_a_dict_may_be_required():
    assert ElmoConfig.from_dict(OPTIONS) == ElmoConfig.from_json(OPTIONS)
    with pytest.raises(ValueError, match=r"Expected the options as a dict, got 'options\.json'"):
        ElmoConfig.from_dict("options.json")


def test_files_that_may_never_end_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match="is not a regular file"):
            ElmoConfig.from_json(path)


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "is not a JSON file: "),
        ("[" * 100_000, "is not a JSON file"),
        ("[1]", "must hold a JSON object, found list"),
        (" " * (1 << 20) + "{}", "is too large: expected a JSON object of at most 1 MiB"),
    ],
)
def test_bad_files_are_named(tmp_path, content, message):
    path = tmp_path / "options.json"
    with pytest.raises(FileNotFoundError, match=r"options\.json"):
        ElmoConfig.from_json(path)
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"options\.json.* {message}"):
        ElmoConfig.from_json(path)
    path.write_text(json.dumps(OPTIONS), "utf-8-sig")
    assert ElmoConfig.from_json(path) == ElmoConfig.from_json(OPTIONS)


LEXICON = {"word_dim": 5, "vocabulary_size": 9, "num_characters": 30, "always_project": True}


@pytest.mark.parametrize(
    "fields",
    [
        LEXICON,
        {**LEXICON, "word_dim": 0, "vocabulary_size": None},
        {**LEXICON, "num_characters": None, "filters": None},
    ],
)
def test_options_of_a_lexicon_come_back(fields):
    config = ElmoConfig(**fields)
    assert config.has_lexicon and config.reads_text
    assert config.row_width == 50 * config.reads_characters + (config.word_dim > 0)
    assert ElmoConfig.from_dict(config.to_dict()) == config
    assert not config.with_word_input(3).has_lexicon


@pytest.mark.parametrize(
    "lexicon, message",
    [
        ({}, "lexicon = {}: expected n_characters, word_dim or both"),
        ({"word_dim": 5}, "vocabulary_size = None: expected the number of words"),
        ({"n_words": 9, "word_dim": 5}, "num_characters = None: expected the number of code"),
        ({"n_characters": 9, "max_characters_per_token": 6}, "at least 7 where code points"),
        ({"n_characters": -1}, "num_characters must be .* got -1"),
        ([], r"lexicon = \[\]: expected an object"),
    ],
)
def test_bad_options_of_a_lexicon(lexicon, message):
    filters = None if lexicon == {"word_dim": 5} else OPTIONS["char_cnn"]
    with pytest.raises(ValueError, match=message):
        ElmoConfig.from_dict({**OPTIONS, "char_cnn": filters, "lexicon": lexicon})


@pytest.mark.parametrize("fields", [{"num_highway": 5}, {"activation": "tanh"}])
def test_characters_have_no_options_where_none_are_read(fields):
    with pytest.raises(ValueError, match="expected no value, since filters=None reads no"):
        ElmoConfig(filters=None, **fields)


def test_numbers_of_numpy_are_numbers():
    sizes = {"lstm_dim": 8, "projection_dim": 4, "filters": ((1, 4),)}
    config = ElmoConfig(
        lstm_dim=np.int64(8), projection_dim=np.int32(4), filters=np.array([(1, 4)])
    )
    assert config == ElmoConfig(**sizes) and hash(config) == hash(ElmoConfig(**sizes))
    json.dumps(config.to_dict())


def test_options_of_training_are_not_compared():
    config, same = ElmoConfig(training_options={"dropout": 0.1}), ElmoConfig()
    assert config == same and len({config, same}) == 1
    assert ElmoConfig.from_dict(config) is config

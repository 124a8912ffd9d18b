"""Which value has this setting? However it is given, the run and its files have the same one."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from keras_elmo import ElmoConfig, TrainingSettings, cli, train
from keras_elmo.training import settings as settings_module
from keras_elmo.training.settings import SETTINGS, fitting, from_options, read_record, to_options
from training_models import DATA, WORDS

WORDS_OF_TEXT = 100_000
FITTED = fitting(WORDS_OF_TEXT)
VALUES = {
    "tokenize": "de",
    "field": "body",
    "recipe": "bilm-tf",
    "start_from": "default",
    "min_count": 4,
    "set_aside": 5,
    "devices": 2,
    "epochs": 0.5,
    "steps": 7,
    "batch_size": 2,
    "unroll_steps": 5,
    "dropout": 0.3,
    "negatives": 9000,
    "clip_norm": 3.0,
    "share_embedding_softmax": True,
    "optimizer": "adagrad",
    "learning_rate": 0.05,
    "schedule": "trapezoid",
    "warmup_steps": 3,
    "cooldown_steps": 4,
    "zero_softmax_bias": True,
    "seed": 9,
    "checkpoint_every": 11,
    "evaluate_sentences": 12,
    "patience": 6,
    "keep": 2,
    "compute_dtype": "mixed_bfloat16",
    "tensorboard": True,
}
"""A value for each setting that training.json records; not its default."""

NEEDED = {"cooldown_steps": {"schedule": "trapezoid"}}


def by_argument(name, value, **needed):
    settings = TrainingSettings(files="text", output="run", **needed, **{name: value})
    return settings.resolved({}, WORDS_OF_TEXT)


def by_options(name, value):
    config = ElmoConfig.from_dict({**WORDS.to_dict(), **to_options({name: value})})
    settings = TrainingSettings(files="text", output="run", options=config.to_dict())
    return settings.resolved(config.training_options, WORDS_OF_TEXT)


def by_record(name, value, **needed):
    record = json.loads(json.dumps(by_argument(name, value, **needed).record()))
    settings = TrainingSettings(files="text", output="run")
    return settings.resumed(record).resolved({}, WORDS_OF_TEXT)


def by_command(name, value, **needed):
    """What the command passes to `train`."""
    given = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_elmo.training.train.train", lambda x, **_: given.append(x) or exit())
        command = ["train", str(DATA / "train.txt"), "--output", "new"]
        for one, text in {**needed, name: value}.items():
            option = "--language" if one == "tokenize" else "--" + one.replace("_", "-")
            command += [option] if text is True else [option, str(text)]
        with pytest.raises(SystemExit):
            cli.main(command)
    return given[0].resolved({}, WORDS_OF_TEXT)


def test_the_table_has_every_setting():
    recorded = {name for name, field in SETTINGS.items() if not field.metadata.get("is_path")}
    assert set(VALUES) == recorded
    # So that a value that is lost would be noticed.
    defaults = TrainingSettings(files="text", output="run").resolved({}, WORDS_OF_TEXT).record()
    assert not any(defaults.get(name) == value for name, value in VALUES.items())


OPTIONS = [name for name in VALUES if "option" in SETTINGS[name].metadata]
WAYS = [(name, way) for name in VALUES for way in (by_argument, by_record, by_command)]
WAYS += [(name, by_options) for name in OPTIONS]


@pytest.mark.parametrize("name, way", WAYS)
def test_a_setting_has_the_value_that_is_given(name, way):
    found = way(name, VALUES[name], **NEEDED.get(name, {}))
    if name == "epochs":  # a run has a number of steps
        steps_per_pass = WORDS_OF_TEXT // (found.batch_size * found.unroll_steps)
        assert (found.epochs, found.steps) == (None, round(0.5 * steps_per_pass))
    else:
        assert getattr(found, name) == found.record()[name] == VALUES[name]


LAYERS = {
    "bilm-tf": ({"recipe": "bilm-tf"}, {}, {}, (10.0, "original", 0.2)),
    "the size of the text": ({}, {}, {}, (FITTED["epochs"], "tiny", FITTED["learning_rate"])),
    "options": ({}, {"n_epochs": 3, "learning_rate": 0.3}, {}, (3.0, "tiny", 0.3)),
    "record": ({}, {"n_epochs": 3}, {"steps": 50, "learning_rate": 0.4}, (1.0, "tiny", 0.4)),
    "given": (
        {"epochs": 2},
        {"n_epochs": 3},
        {"steps": 50},
        (2.0, "tiny", FITTED["learning_rate"]),
    ),
    # A learning rate is that of its optimizer.
    "optimizer": ({"optimizer": "adagrad"}, {}, {}, (FITTED["epochs"], "tiny", 0.2)),
    "another optimizer": (
        {"optimizer": "adam"},
        {"learning_rate": 0.3},
        {},
        (FITTED["epochs"], "tiny", FITTED["learning_rate"]),
    ),
}


@pytest.mark.parametrize("arguments, options, record, expected", LAYERS.values(), ids=LAYERS)
def test_what_comes_before_what(arguments, options, record, expected):
    settings = TrainingSettings(files="text", output="run", batch_size=100, **arguments)
    if record:
        settings = settings.resumed({"batch_size": 100, **record})
    found = settings.resolved(options, WORDS_OF_TEXT)
    assert (found.steps / 50, found.preset, found.learning_rate) == expected


def test_a_small_text_has_small_batches():
    sizes = [TrainingSettings(files="text", output="run").resolved({}, n) for n in (50, 10**4)]
    assert [(one.batch_size, one.steps) for one in sizes] == [
        (1, 2 * FITTED["epochs"]),
        (5, 100 * FITTED["epochs"]),
    ]
    with pytest.raises(ValueError, match="The text has 10 words to predict, fewer than one step"):
        TrainingSettings(files="text", output="run").resolved({}, 10)


# Negatives beyond the vocabulary: the full softmax is an effect, not the setting.
OF_MODEL = ("batch_size", "unroll_steps", "dropout", "negatives", "share_embedding_softmax")
OF_RUN = (*OF_MODEL, "clip_norm", "learning_rate", "steps", "seed", "zero_softmax_bias")


def settings_of(folder, **changes):
    return TrainingSettings(
        **{
            "files": DATA / "train.txt",
            "vocabulary": DATA / "vocab.txt",
            "output": folder,
            "options": WORDS.to_dict(),
            "set_aside": 0,
            "optimizer": "adagrad",
            "schedule": "constant",
            "checkpoint_every": 11,
            **changes,
        }
    )


def check_run(result):
    """The settings in the files of a run and in its model."""
    run, model = result.folder.parent, result.model
    expected = {name: VALUES[name] for name in OF_RUN}
    assert read_record(run).items() >= expected.items()
    options = json.loads((run / "model" / "options.json").read_text())
    assert from_options(options) == {name: VALUES[name] for name in OF_MODEL}
    config = {**model.get_config(), "negatives": model.get_config()["num_negative_samples"]}
    assert config.items() >= {name: VALUES[name] for name in OF_MODEL}.items()
    assert float(model.optimizer.learning_rate) == pytest.approx(0.05)
    assert model.optimizer.global_clipnorm == 3.0 / 5
    assert [row["step"] for row in result.history] == [7]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    result = train(settings_of(folder, **{name: VALUES[name] for name in OF_RUN}))
    check_run(result)
    return result


def test_a_run_by_options_ends_as_one_by_arguments(trained, tmp_path):
    found = {name: VALUES[name] for name in OF_RUN if name in OPTIONS}
    options = {**WORDS.to_dict(), **to_options(found)}
    others = {name: VALUES[name] for name in OF_RUN if name not in OPTIONS}
    result = train(settings_of(tmp_path / "run", options=options, **others))
    check_run(result)
    assert result.history[0]["loss"] == trained.history[0]["loss"]


def test_a_resumed_run_keeps_its_settings_when_the_defaults_change(trained, tmp_path, monkeypatch):
    run = shutil.copytree(trained.folder.parent, tmp_path / "run")
    others = {**dict.fromkeys(settings_module.BILM_TF, 99), "preset": "small"}
    monkeypatch.setattr(settings_module, "BILM_TF", others)
    monkeypatch.setattr(settings_module, "fitting", lambda *_, **__: {"schedule": "cosine"})
    before = read_record(run)
    result = train(TrainingSettings(files=DATA / "train.txt", output=run))
    check_run(result)
    assert result.history == trained.history and read_record(run) == before
    with pytest.raises(ValueError, match="other settings: dropout was 0.3, now 0.5"):
        train(TrainingSettings(files=DATA / "train.txt", output=run, dropout=0.5))
    with pytest.raises(ValueError, match="other settings: the architecture. Pass"):
        train(TrainingSettings(files=DATA / "train.txt", output=run, preset="tiny"))


def test_a_model_to_start_from_gives_its_architecture_and_weights(trained, tmp_path):
    model = shutil.copytree(trained.folder, tmp_path / "model")
    start = settings_of(tmp_path / "run", options=None, start_from=model, steps=2, keep=1)
    result = train(start)
    assert result.model.config.lstm_dim == WORDS.lstm_dim
    defaults = dataclasses.replace(start, vocabulary=None, steps=None).resolved({}, 879)
    record = read_record(tmp_path / "run")
    assert record.items() >= {name: getattr(defaults, name) for name in OF_MODEL}.items()
    shutil.rmtree(model)  # the run has all that it needs
    for settings in (start, TrainingSettings(files=DATA / "train.txt", output=tmp_path / "run")):
        assert train(settings).history == result.history


def test_the_page_has_the_settings_of_each_size():
    page = (Path(__file__).parents[2] / "docs" / "TRAINING.md").read_text(encoding="utf-8")
    sizes = 10**6, 10**7, 10**8, 10**9  # the largest ones of the table's columns
    for name, row in {
        "epochs": "passes (`--epochs`)",
        "batch_size": "rows of a batch (`--batch-size`), each of 20 words",
        "learning_rate": "highest learning rate of Adam, which falls to zero as a cosine",
        "dropout": "dropout (`--dropout`)",
    }.items():
        # The page says that the batches are the same in both cases.
        started_row = row if name == "batch_size" else f"with `--start-from`: {row}"
        for label, started in ((row, False), (started_row, True)):
            values = [fitting(words, starts_from_model=started)[name] for words in sizes]
            assert f"| {label} | {' | '.join(f'{x:g}' for x in values)} |" in page

"""Has this training run ended, and what is its last state? Every use has the same answer."""

import shutil

import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import ElmoLayer, Embedder, cli, export_hdf5, load_language_model
from keras_elmo.pretrained.folder import last_state
from keras_elmo.training.checkpoint import save_checkpoint
from keras_elmo.training.loading import saved_model, start_from
from training_models import CONFIG, tiny_model, vocabulary

# The files in the folder of a run, and the step whose weights each use takes.
STATES = {
    "started": (["training.json"], None, None),
    "unfinished": (["training.json", "step 2"], None, 2),
    "ended": (["training.json", "step 2", "model of 2", "exported"], 2, 2),
    "ended, without checkpoints": (["training.json", "model of 2", "exported"], 2, 2),
    "extended and stopped": (["training.json", "step 2", "step 4", "model of 2"], None, 4),
    "extended and ended": (["training.json", "step 2", "step 4", "model of 4", "exported"], 4, 4),
    "without its model": (["training.json", "step 2", "exported"], None, 2),
    "only the model": (["model of 2"], 2, 2),
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The files of all states."""
    folder = tmp_path_factory.mktemp("parts")
    for step in (2, 4):
        model = tiny_model(CONFIG, seed=step)
        model.compile("sgd")
        save_checkpoint(folder / f"step-0000000{step}.ckpt", model, {"step": step})
        model.export_hdf5(folder / f"model of {step}", vocabulary())
    return folder


@pytest.fixture
def run(state, parts, tmp_path):
    """The folder of a run in a state."""
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    vocabulary().write(run / "vocabulary.txt")
    for name in STATES[state][0]:
        if name.startswith("model"):
            shutil.copytree(parts / name, run / "model")
        elif name.startswith("step"):
            shutil.copy(parts / f"step-0000000{name[-1]}.ckpt", run / "checkpoints")
        else:
            (run / name).write_text('{"config": {}, "batch_size": 4, "unroll_steps": 8}')
    return run


def by_layer(run):
    return ElmoLayer(run)


def by_embedder(run):
    return Embedder(run).layer


def by_evaluation(run):
    return load_language_model(run)[0]


def by_export(run):
    export_hdf5(run, run.with_name("exported"))
    return ElmoLayer(run.with_name("exported"))


def by_start_from(run):
    model = tiny_model(saved_model(run).config, seed=1)
    start_from(model, run, vocabulary())
    return model


def check(use, run, step):
    """Whether a use takes the weights of a step, or says that there are none."""
    if step is None:
        remedy = "repeat its" if last_state(run) is None else "export its last checkpoint"
        with pytest.raises(FileNotFoundError, match=f"holds an unfinished training run.* {remedy}"):
            use(run)
        return
    expected = tiny_model(CONFIG, seed=step).backbone.weights
    for one, other in zip(use(run).backbone.weights, expected, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


every_state = pytest.mark.parametrize("state", STATES)


@every_state
@pytest.mark.parametrize("use", [by_layer, by_embedder])
def test_layers_take_only_the_model_of_a_run_that_has_ended(use, run, state):
    check(use, run, STATES[state][1])


@every_state
@pytest.mark.parametrize("use", [by_evaluation, by_export, by_start_from])
def test_language_models_take_the_last_state(use, run, state, monkeypatch):
    for name in ("layer_outputs", "verified"):  # which take seconds
        monkeypatch.setattr(f"keras_elmo.export.hdf5.{name}", lambda *_: {})
    check(use, run, STATES[state][2])


@every_state
def test_info_shows_only_a_run_that_has_ended(run, state, capsys):
    code, shown = cli.main(["info", str(run)]), capsys.readouterr()
    assert code == (STATES[state][1] is None)
    assert ("unfinished training run" in shown.err) == (STATES[state][1] is None)

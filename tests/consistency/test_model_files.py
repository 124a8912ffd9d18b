"""Where are a model's files? However a model is named, every use finds the same weights, softmax
and vocabulary."""

import shutil
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import (
    ElmoLayer,
    Embedder,
    cli,
    export_hdf5,
    load_language_model,
    register_model,
)
from keras_elmo.pretrained import registry
from keras_elmo.pretrained.hdf5 import read_softmax
from keras_elmo.pretrained.locate import find_model_files
from keras_elmo.text.vocabulary import read_words
from keras_elmo.training.checkpoint import save_checkpoint
from keras_elmo.training.loading import saved_model, start_from
from training_models import CONFIG, WORDS, tiny_model, vocabulary, write_tf1_checkpoint

FILES = ("options.json", "weights.hdf5")
WAYS = {
    "name": lambda place: "the-folder",
    "name of an archive": lambda place: "the-archive",
    "folder": lambda place: str(place.folder),
    "PathLike": lambda place: place.folder,
    "folder in a folder": lambda place: place.folder.parent,
    "zip": lambda place: place.folder.parent.with_name("model.zip"),
    "tar.gz": lambda place: str(place.folder.parent.with_name("model.tar.gz")),
    "pair": lambda place: tuple(place.folder / name for name in FILES),
    "files that were found": lambda place: find_model_files(place.folder),
    "run": lambda place: place.run,
    "checkpoint": lambda place: str(place.checkpoint),
    "checkpoint of bilm-tf": lambda place: place.tf1,
}
CHECKPOINTS = ("checkpoint", "checkpoint of bilm-tf")


@pytest.fixture(scope="module", params=["characters", "words"])
def place(request, tmp_path_factory):
    """The same model in all forms, and its parts."""
    base = tmp_path_factory.mktemp(request.param)
    model = tiny_model(CONFIG if request.param == "characters" else WORDS, seed=7)
    model.compile("sgd")
    model.softmax.bias.assign(np.linspace(-1, 1, 127))
    place = SimpleNamespace(folder=base / "outer" / "model", run=base / "run", tf1=base / "tf1")
    place.parts = parts_of(model, vocabulary().words)
    place.config = model.config
    model.export_hdf5(place.folder, vocabulary())
    for kind in ("zip", "gztar"):
        shutil.make_archive(base / "model", kind, place.folder)
    shutil.copytree(place.folder, place.run / "model")
    (place.run / "exported").touch()
    place.checkpoint = place.run / "checkpoints" / "step-00000003.ckpt"
    place.checkpoint.parent.mkdir()
    vocabulary().write(place.run / "vocabulary.txt")
    save_checkpoint(place.checkpoint, model, {"step": 3})
    place.tf1.mkdir()
    for name in ("options.json", "vocabulary.txt"):
        shutil.copy(place.folder / name, place.tf1)
    if find_spec("tensorflow"):
        write_tf1_checkpoint(model, place.tf1 / "model.ckpt-3", steps=3)
    known = dict(registry._MODELS)
    register_model("the-folder", place.folder)
    register_model("the-archive", base / "model.zip")
    yield place
    registry._MODELS.clear()
    registry._MODELS.update(known)


def parts_of(model, words):
    """The parts of a language model, or of what a use found of it."""
    weights = [to_numpy(variable) for variable in model.backbone.weights]
    return {"weights": weights, "softmax": softmax_of(model), "vocabulary": words}


def softmax_of(model):
    if not hasattr(model, "softmax"):
        return None
    return [to_numpy(model.softmax_kernel), to_numpy(model.softmax.bias)]


def by_layer(source, place, tmp_path):
    layer = ElmoLayer(source)
    return parts_of(layer, layer.vocabulary)


def by_embedder(source, place, tmp_path):
    embedder = Embedder(source)
    return parts_of(embedder.layer, embedder.vocabulary)


def by_embedder_of_a_layer(source, place, tmp_path):
    embedder = Embedder(ElmoLayer(source))
    return parts_of(embedder.layer, embedder.vocabulary)


def by_evaluation(source, place, tmp_path):
    model, words = load_language_model(source)
    return parts_of(model, words.words)


def by_export(source, place, tmp_path):
    export_hdf5(source, tmp_path / "exported")
    layer = ElmoLayer(tmp_path / "exported")
    words = read_words(tmp_path / "exported" / "vocabulary.txt")
    return {**parts_of(layer, words), "softmax": read_softmax(tmp_path / "exported/softmax.hdf5")}


def by_export_of_a_layer(source, place, tmp_path):
    export_hdf5(ElmoLayer(source), tmp_path / "exported")
    layer = ElmoLayer(tmp_path / "exported")
    return parts_of(layer, layer.vocabulary)


def by_start_from(source, place, tmp_path):
    model = tiny_model(saved_model(source).config, seed=1)
    start_from(model, source, vocabulary())
    return parts_of(model, vocabulary().words)


LAYERS = (by_layer, by_embedder, by_embedder_of_a_layer, by_export_of_a_layer)
LANGUAGE_MODELS = (by_evaluation, by_export, by_start_from)


@pytest.mark.parametrize("use", [*LAYERS, *LANGUAGE_MODELS])
@pytest.mark.parametrize("way", WAYS)
def test_every_use_finds_the_same_parts(place, way, use, tmp_path, monkeypatch):
    for name in ("layer_outputs", "verified"):  # which take seconds
        monkeypatch.setattr(f"keras_elmo.export.hdf5.{name}", lambda *_: {})
    if way == "checkpoint of bilm-tf":
        pytest.importorskip("tensorflow")
    source, expected = WAYS[way](place), dict(place.parts)
    if use in LAYERS:
        expected["softmax"] = None
        if place.config.reads_text:
            expected["vocabulary"] = None
    if use in LAYERS and way in CHECKPOINTS:
        with pytest.raises(FileNotFoundError, match="keras-elmo export|must hold options.json"):
            use(source, place, tmp_path)
        return
    found = use(source, place, tmp_path)
    assert found.pop("vocabulary") == expected.pop("vocabulary")
    for name, arrays in expected.items():
        assert (found[name] is None) == (arrays is None), name
        for one, other in zip(found[name] or (), arrays or (), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("pair", *CHECKPOINTS)])
def test_info_shows_the_same_model(place, way, capsys):
    source = WAYS[way](place)
    if way == "files that were found":
        source = source.place
    assert cli.main(["info", str(source)]) == 0
    shown = capsys.readouterr().out
    parameters = sum(array.size for array in place.parts["weights"])
    assert f"parameters:     {parameters:,}" in shown
    is_archive = way in ("name of an archive", "zip", "tar.gz")
    assert ("model.zip (" in shown or "model.tar.gz (" in shown) == is_archive


def test_files_come_before_a_checkpoint_of_bilm_tf(place, tmp_path):
    """For a layer and for its export; a language model takes the checkpoint."""
    pytest.importorskip("tensorflow")
    folder = shutil.copytree(place.tf1, tmp_path / "both")
    other = tiny_model(place.config, seed=8)
    other.export_hdf5(folder, vocabulary())
    for use, model in ((by_layer, other), (by_export, other), (by_evaluation, place)):
        expected = place.parts if model is place else parts_of(model, None)
        for one, value in zip(use(folder, place, tmp_path)["weights"], expected["weights"]):
            np.testing.assert_array_equal(one, value)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in CHECKPOINTS])
def test_no_output_replaces_the_model(place, way, tmp_path):
    source = WAYS[way](place)
    files = find_model_files(source)
    before = {path: path.read_bytes() for path in files.paths}
    embedder = Embedder(source)
    for path in files.paths:
        with pytest.raises((ValueError, FileExistsError)):
            embedder.dump_words(["<S>", "</S>"], path, overwrite=True)
    outputs = {files.place, files.paths[0], files.paths[0].parent}
    for output in outputs:
        with pytest.raises((ValueError, FileExistsError)):
            export_hdf5(source, output, overwrite=True)
    assert {path: path.read_bytes() for path in files.paths} == before

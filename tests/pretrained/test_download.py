"""From a name or place to a model's files, against a server on this machine."""

import functools
import hashlib
import http.server
import os
import shutil
import threading
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import to_numpy
from keras_elmo import ElmoLayer, get_model, list_models, register_model
from keras_elmo.pretrained import download, registry

TINY = Path(__file__).parents[1] / "golden" / "inference" / "default"
WEIGHTS = (TINY / "weights.hdf5").read_bytes()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, notes requests, and cuts off what it is told to."""

    requests = None
    cut_off = ()

    def do_GET(self):
        self.requests.append(self.path)
        if not self.path.endswith(tuple(self.cut_off) or "?"):
            super().do_GET()
            return
        data = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that is served, its address, and the requests made."""
    folder = tmp_path / "served"
    shutil.copytree(TINY, folder / "tiny")
    monkeypatch.setattr(Handler, "requests", [])
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        running.folder = folder
        running.address = f"http://127.0.0.1:{running.server_port}"
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_cache_and_catalog(tmp_path, monkeypatch):
    """A cache of the test's own, the catalog as it was afterwards, and no address but this host."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(download.MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    monkeypatch.setattr(download, "PUBLISHED", ("http://127.0.0.1:9",))
    for name in list_models()[1:]:
        known = registry._MODELS[name]
        here = tuple(
            f"http://127.0.0.1:9/{place.split('/models/elmo/')[1]}" for place in known.locations
        )
        registry._MODELS[name] = registry.dataclasses.replace(known, locations=here)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "home" / "keras_elmo"


@pytest.fixture
def folder(tmp_path):
    """A copy of the model that a test may damage."""
    return Path(shutil.copytree(TINY, tmp_path / "model"))


def same_as_tiny(model):
    np.testing.assert_array_equal(
        to_numpy(ElmoLayer(model)([["a"]])), to_numpy(ElmoLayer(TINY)([["a"]]))
    )


def refused(model, *messages):
    with pytest.raises(ConnectionError) as error:
        ElmoLayer(model)
    for message in messages:
        assert message in str(error.value)


def test_the_bundled_model_needs_no_network(cache):
    ElmoLayer("default")
    assert not cache.exists()


def test_a_model_is_downloaded_once(server, cache):
    register_model("tiny", f"{server.address}/tiny/")
    same_as_tiny("tiny")
    assert Handler.requests == ["/tiny/options.json", "/tiny/weights.hdf5"]
    assert sorted(os.listdir(cache / "tiny")) == ["options.json", "weights.hdf5"]
    same_as_tiny("tiny")
    assert len(Handler.requests) == 2


def test_a_folder_under_a_name(server):
    register_model("local", server.folder / "tiny", description="mine", license="CC BY")
    assert (get_model("local").description, get_model("local").license) == ("mine", "CC BY")
    same_as_tiny("local")
    assert Handler.requests == []
    with pytest.raises(ValueError, match="There is a model 'local' already"):
        register_model("local", server.folder)
    (server.folder / "tiny" / "weights.hdf5").unlink()
    with pytest.raises(FileNotFoundError, match=r"weights\.hdf5 of the model 'local' is missing"):
        ElmoLayer("local")


def test_a_transfer_that_is_cut_off_leaves_nothing_and_can_be_repeated(server, cache, monkeypatch):
    register_model("tiny", f"{server.address}/tiny")
    monkeypatch.setattr(Handler, "cut_off", ("weights.hdf5",))
    address = f"{server.address}/tiny/weights.hdf5"
    refused("tiny", address, "Could not download weights.hdf5", str(cache / "tiny"), "retrieval")
    assert os.listdir(cache / "tiny") == ["options.json"]
    monkeypatch.setattr(Handler, "cut_off", ())
    same_as_tiny("tiny")


@pytest.mark.parametrize(
    "content, known, message",
    [
        (WEIGHTS[:-1] + b"x", {"weights_sha256": hashlib.sha256(WEIGHTS).hexdigest()}, "sha256"),
        (WEIGHTS + b"x", {"weights_bytes": len(WEIGHTS)}, "expected 110,552 bytes, got 110,553"),
        (b"<html>Sign in</html>", {}, "is not a complete hdf5 file"),
    ],
    ids=["sha256", "size", "page"],
)
def test_a_corrupted_file_is_refused_and_a_mirror_used(server, cache, content, known, message):
    bad = Path(shutil.copytree(server.folder / "tiny", server.folder / "bad"))
    (bad / "weights.hdf5").write_bytes(content)
    register_model("bad", f"{server.address}/bad", **known)
    refused("bad", message, "Without a network, fetch")
    assert os.listdir(cache / "bad") == ["options.json"]
    register_model("good", f"{server.address}/bad", mirrors=[f"{server.address}/tiny"], **known)
    same_as_tiny("good")
    assert Handler.requests[-2:] == ["/bad/weights.hdf5", "/tiny/weights.hdf5"]


def test_corrupted_options_are_refused(server, cache):
    (server.folder / "tiny" / "options.json").write_text("<html>")
    register_model("tiny", f"{server.address}/tiny")
    refused("tiny", "Could not download options.json", "not a JSON file")
    assert os.listdir(cache / "tiny") == []


def test_a_cached_file_of_a_wrong_size_is_fetched_again(server, cache):
    register_model("tiny", f"{server.address}/tiny", weights_bytes=len(WEIGHTS))
    same_as_tiny("tiny")
    (cache / "tiny" / "weights.hdf5").write_bytes(WEIGHTS[:1000])
    same_as_tiny("tiny")
    assert (cache / "tiny" / "weights.hdf5").read_bytes() == WEIGHTS


def test_missing_files_and_no_network(server, cache):
    register_model("gone", f"{server.address}/nowhere")
    refused("gone", "404", f"{server.address}/nowhere/options.json")
    file = "elmo_2x1024_128_2048cnn_1xhighway_options.json"
    address = f"http://127.0.0.1:9/2x1024_128_2048cnn_1xhighway/{file}"
    folder = str(cache / "small")
    refused("small", f"Could not download {file}", address, folder, download.MIRROR_VARIABLE)


def test_files_put_into_the_folder_by_hand_are_used(server, cache):
    folder = cache / "small"
    folder.mkdir(parents=True)
    for kind, name in (("options", "options.json"), ("weights", "weights.hdf5")):
        ending = name.split(".")[1]
        shutil.copy(TINY / name, folder / f"elmo_2x1024_128_2048cnn_1xhighway_{kind}.{ending}")
    same_as_tiny("small")


def test_a_mirror_of_the_published_models(server, monkeypatch):
    folder = server.folder / "2x1024_128_2048cnn_1xhighway"
    folder.mkdir()
    for kind, name in (("options", "options.json"), ("weights", "weights.hdf5")):
        shutil.copy(TINY / name, folder / f"elmo_{folder.name}_{kind}.{name.split('.')[1]}")
    monkeypatch.setenv(download.MIRROR_VARIABLE, f"{server.address}/")
    same_as_tiny("small")
    assert len(Handler.requests) == 2


def test_what_a_killed_download_left_is_removed(server, cache):
    old, new = cache / "tiny" / ".download-old", cache / "tiny" / ".download-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "weights.hdf5").write_bytes(b"half")
    os.utime(old, (0, 0))
    register_model("tiny", f"{server.address}/tiny")
    same_as_tiny("tiny")
    assert not old.exists()
    assert new.exists(), "it may belong to another process that is downloading now"


def test_an_interrupted_download_leaves_nothing(server, cache, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    register_model("tiny", f"{server.address}/tiny")
    monkeypatch.setattr(keras.utils, "get_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ElmoLayer("tiny")
    assert os.listdir(cache / "tiny") == []


@pytest.mark.parametrize("place", ["folder", "pair", "zip", "zip with a folder", "other names"])
def test_places_of_a_model(folder, tmp_path, place):
    options, weights = folder / "options.json", folder / "weights.hdf5"
    if place == "folder":
        model = str(folder)
        (folder / "vocab.txt").write_text("not a file of ours\n")
        (folder / ".partial-0.hdf5").write_text("what a killed export has left\n")
    elif place == "pair":
        model = (str(options), weights)
    elif place.startswith("zip"):
        model = tmp_path / "model.zip"
        prefix = "elmo/" if place == "zip with a folder" else ""
        with zipfile.ZipFile(model, "w") as archive:
            archive.write(options, prefix + "options.json")
            archive.write(weights, prefix + "weights.hdf5")
            archive.writestr(prefix + "meta.txt", "x")
    else:
        model = folder
        (folder / "token_embeddings.hdf5").unlink()
        (folder / "bilm_embeddings.hdf5").unlink()
        options.rename(folder / "elmo_tiny_options.json")
        weights.rename(folder / "elmo_tiny_weights.hdf5")
    np.testing.assert_array_equal(
        to_numpy(ElmoLayer(model)([["a"]])), to_numpy(ElmoLayer(TINY)([["a"]]))
    )


def test_places_without_a_model_are_named(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty must hold options\.json.*found nothing"):
        ElmoLayer(tmp_path / "empty")
    (tmp_path / "empty" / "training.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="training that has not ended.*keras-elmo export"):
        ElmoLayer(tmp_path / "empty")
    shutil.copytree(TINY, tmp_path / "empty" / "model")
    ElmoLayer(tmp_path / "empty")  # a training's folder, with its model
    (folder / "weights.hdf5").unlink()
    with pytest.raises(ValueError, match=r"found bilm_embeddings\.hdf5, token_embeddings\.hdf5"):
        ElmoLayer(folder)
    with pytest.raises(FileNotFoundError, match="There is no folder or zip file nowhere/at/all"):
        ElmoLayer("nowhere/at/all")
    with pytest.raises(FileNotFoundError, match="is a file, but no zip file"):
        ElmoLayer(str(TINY / "weights.hdf5"))
    with pytest.raises(FileNotFoundError, match="There is no weights file"):
        ElmoLayer((TINY / "options.json", tmp_path / "weights.hdf5"))
    with pytest.raises(ValueError, match=r"a pair of paths \(options, weights\), got 1 items"):
        ElmoLayer([TINY])
    with pytest.raises(ValueError, match="or a pair .* of paths; got 3"):
        ElmoLayer(3)

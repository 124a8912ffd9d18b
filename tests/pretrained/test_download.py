"""Downloads by name and from the Hugging Face Hub, from a server on this machine."""

import errno
import functools
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from helpers import TINY, assert_close, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer, cli, files, get_model, list_models, register_model
from keras_elmo.pretrained import download, registry
from keras_elmo.pretrained.locate import find_model_files
from many_languages import MANY_LANGUAGES

WEIGHTS = (TINY / "weights.hdf5").read_bytes()
MODEL = ["options.json", "weights.hdf5"]
FILES = [f"tiny/{name}" for name in MODEL]
COMMIT = "0" * 40


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and notes requests; the first folder of some addresses is a fault."""

    requests: list[str]
    done: threading.Event

    def do_GET(self):
        self.requests.append(self.path)
        fault, _, path = self.path.removeprefix("/").partition("/")
        if fault == "silent":
            self.done.wait()
        elif fault == "redirect":
            self.send_response(302)
            self.send_header("Location", f"http://{self.headers['Host']}/{path}")
            self.end_headers()
        elif fault == "half":
            data = Path(self.translate_path(path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
        else:
            super().do_GET()

    def end_headers(self):
        self.send_header("X-Repo-Commit", COMMIT)  # as a hub does
        self.send_header("ETag", f'"{Path(self.path).name}"')
        super().end_headers()

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of the tiny model as a folder, zip and tar.gz file."""
    folder = tmp_path / "served"
    (folder / "tiny").mkdir(parents=True)
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(TINY / name, folder / "tiny")
    for kind in ("zip", "gztar"):
        shutil.make_archive(folder / "tiny", kind, folder / "tiny")
    monkeypatch.setattr(Handler, "requests", [], raising=False)
    monkeypatch.setattr(Handler, "done", threading.Event(), raising=False)
    handler = functools.partial(Handler, directory=str(folder))
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    running.folder, running.address = folder, f"http://127.0.0.1:{running.server_port}"
    yield running
    Handler.done.set()
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture(autouse=True)
def own_cache_and_catalog(tmp_path, monkeypatch):
    """A cache of the test's own, the catalog unchanged afterwards, no address but this host."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(download.MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    monkeypatch.setattr(registry, "MIRRORS", {"http://127.0.0.1:9": ("http://127.0.0.1:8",)})
    for name in list_models()[1:]:
        known = registry._MODELS[name]
        bases = "/models/elmo/|/repository/[0-9]+/|/11356/1277/|/embedding_models/"
        ends = [re.split(bases, url)[1] for url in known.files]
        here = tuple(f"http://127.0.0.1:9/{end}" for end in ends)
        registry._MODELS[name] = registry.dataclasses.replace(known, files=here)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "home" / "keras_elmo"


def same_as_tiny(model):
    found = find_model_files(model)
    assert found.config == ElmoConfig.from_json(TINY / "options.json")
    assert found.weights.read_bytes() == WEIGHTS


def cached(cache, name):
    """Where a registered model is downloaded to."""
    url = get_model(name).files[0]
    return cache / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def refused(model, *messages):
    with pytest.raises(ConnectionError) as error:
        find_model_files(model)
    for message in messages:
        assert message in str(error.value)
    _, *lines = str(error.value).splitlines()  # each URL with its error in one line
    remedies = [line for line in lines if not re.match("  https?://", line)]
    ends = ("Without a network", "Unpack it", "Put both", "Or set KERAS_ELMO_MIRROR", "See docs/")
    assert all(line.startswith(ends) for line in remedies) and len(remedies) <= 4
    assert bool(lines) == (not model.startswith("hf://"))


def test_the_bundled_model_needs_no_network(cache):
    ElmoLayer("default")
    assert not cache.exists()


@pytest.mark.parametrize("place", ["tiny/", "tiny.zip", "tiny.tar.gz", "tiny.zip?download=1"])
def test_a_model_is_downloaded_once(server, cache, place):
    register_model("my/tiny", f"{server.address}/{place}")
    same_as_tiny("my/tiny")
    assert Handler.requests == [f"/{x}" for x in (FILES if place == "tiny/" else [place])]
    folder = cached(cache, "my/tiny")
    assert sorted(os.listdir(folder)) == ["options.json", "weights.hdf5"]
    assert os.listdir(folder.parent) == [folder.name]
    server.shutdown()
    same_as_tiny("my/tiny")


def test_a_name_used_for_a_different_model_is_a_different_download(server, monkeypatch):
    register_model("tiny", f"{server.address}/tiny")
    same_as_tiny("tiny")
    monkeypatch.delitem(registry._MODELS, "tiny")  # as in another process
    register_model("tiny", f"{server.address}/other")
    refused("tiny", f"{server.address}/other/options.json: ", "404")


@pytest.mark.parametrize("place", ["tiny", "tiny.tar.gz"])
def test_a_local_model_under_a_name(server, cache, place):
    register_model("local", server.folder / place, description="mine")
    same_as_tiny("local")
    assert Handler.requests == [] and not cache.exists()
    register_model("local", server.folder / place, description="mine")
    with pytest.raises(ValueError, match="A different model is registered as 'local': choose"):
        register_model("local", server.folder)
    (server.folder / "tiny" / "weights.hdf5").unlink()
    (server.folder / "tiny.tar.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"tiny must hold|tiny\.tar\.gz is neither"):
        ElmoLayer("local")


SHA256 = hashlib.sha256(WEIGHTS).hexdigest()


@pytest.mark.parametrize(
    "place, known, message",
    [
        ("bad", {"weights_sha256": SHA256}, "expected the sha256"),
        ("bad", {"weights_bytes": len(WEIGHTS) - 1}, "expected 110,551 bytes, got 110,552"),
        ("bad", {"weights_bytes": len(WEIGHTS) + 1}, "expected 110,553 bytes, got 110,552"),
        ("page", {}, "is not a complete hdf5 file"),
        ("options", {}, "not a JSON file"),
        ("nowhere", {}, "404"),
        ("page.zip", {}, "is not a complete hdf5 file"),
        ("text.zip", {}, "cannot be unpacked: File is not a zip file"),
        ("empty.zip", {}, "must hold options.json"),
        ("half/tiny.tar.gz", {}, "bytes, got"),
        ("cut.tar.gz", {}, "cannot be unpacked: Compressed file ended"),
        ("tiny.zip", {"weights_sha256": 64 * "0"}, "expected the sha256 0000"),
        ("nowhere.zip", {}, "404"),
    ],
)
def test_wrong_files_are_refused(server, cache, place, known, message):
    page, tiny = b"<html>Sign in</html>", server.folder / "tiny"
    for name, file, content in (
        ("bad", "weights.hdf5", WEIGHTS[:-1] + b"x"),
        ("page", "weights.hdf5", page),
        ("options", "options.json", page),
    ):
        shutil.copytree(tiny, server.folder / name)
        (server.folder / name / file).write_bytes(content)
    (server.folder / "empty").mkdir()
    for name in ("page", "empty"):
        shutil.make_archive(server.folder / name, "zip", server.folder / name)
    (server.folder / "text.zip").write_bytes(page)
    content = (server.folder / "tiny.tar.gz").read_bytes()
    (server.folder / "cut.tar.gz").write_bytes(content[: len(content) // 2])
    url = f"{server.address}/{place}"
    register_model("wrong", url, **known)
    remedy = "Without a network", str(cached(cache, "wrong"))
    refused("wrong", "Could not download the model 'wrong'", f"{url}", message, *remedy)
    assert os.listdir(cache) == []


@pytest.mark.parametrize("fault", ["silent", "half"])
def test_a_server_that_stops_is_left_for_the_next(server, monkeypatch, fault):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.5)
    base = f"{server.address}/{fault}"
    monkeypatch.setattr(registry, "MIRRORS", {base: (server.address,)})
    register_model("tiny", f"{base}/tiny")
    same_as_tiny("tiny")
    assert Handler.requests[:2] == [f"/{fault}/tiny/options.json", "/tiny/options.json"]
    monkeypatch.setattr(registry, "MIRRORS", {})
    register_model("bad", f"{server.address}/{fault}/tiny.zip")
    refused("bad", {"silent": "timed out", "half": "bytes, got"}[fault])


def test_a_redirect_may_not_leave_https(server, monkeypatch):
    register_model("plain", f"{server.address}/redirect/tiny")
    same_as_tiny("plain")

    class Connection(http.client.HTTPConnection):
        """Stands for an encrypted one."""

        def __init__(self, host, timeout=None, **_):
            super().__init__(host, timeout=timeout)

    monkeypatch.setattr(http.client, "HTTPSConnection", Connection)
    secure = server.address.replace("http:", "https:")
    register_model("secure", f"{secure}/redirect/tiny")
    refused("secure", "it redirects from https to http://")
    register_model("direct", f"{secure}/tiny")
    same_as_tiny("direct")


def test_a_full_disk_is_not_the_server_s_fault(server, cache, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    register_model("tiny", f"{server.address}/tiny")
    monkeypatch.setattr(registry, "MIRRORS", {server.address: (f"{server.address}/mirror",)})
    monkeypatch.setattr(files, "sync_to_disk", full)
    with pytest.raises(OSError, match="No space left") as error:
        find_model_files("tiny")
    assert error.value.errno == errno.ENOSPC
    assert Handler.requests == [f"/{name}" for name in FILES]
    assert os.listdir(cache) == []


def test_an_interrupted_download_leaves_nothing(server, cache, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    register_model("tiny", f"{server.address}/tiny.zip")
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ElmoLayer("tiny")
    assert os.listdir(cache) == []


def test_no_network(cache):
    stem = "2x1024_128_2048cnn_1xhighway"
    base = f"http://127.0.0.1:9/{stem}/elmo_{stem}"
    urls = [f"{base}_{name}" for name in MODEL]
    remedy = f"  {urls[0]}\n  {urls[1]}\nPut both into {cache / 'small'}.\n", "KERAS_ELMO_MIRROR"
    refused("small", "Could not download the model", urls[0].replace(":9", ":8"), *remedy)
    refused("nlpl/ru-195", "http://127.0.0.1:9/195.zip", "KERAS_ELMO_MIRROR")
    register_model("other", "http://127.0.0.1:7")
    with pytest.raises(ConnectionError) as error:
        ElmoLayer("other")
    assert "KERAS_ELMO_MIRROR" not in str(error.value)


def test_a_model_to_fetch_by_hand_is_named_in_short_lines(cache, capsys, monkeypatch):
    """Also by the command, with the archive, the folder and the page that tells more."""
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["embed", "M K V", "--model", "seqvec"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "keras-elmo: error: Could not download the model 'seqvec':"
    assert "https://rostlab.org/~deepppi/seqvec.zip" in lines
    assert f"Unpack it into {cache / 'seqvec'}, or pass its path." in lines
    assert lines[-1] == "See docs/PROTEINS.md."
    assert cli.main(["info", "seqvec"]) == 0  # downloads nothing
    shown = capsys.readouterr().out
    assert "93,600,848" in shown and "seqvec.zip" in shown
    for number in (
        "2 layers of 4096 units, projected to 512",
        "1024 of width 7",
        "highway layers: 2",
    ):
        assert number in " ".join(shown.split())


@pytest.mark.parametrize("place", ["tiny", "tiny.zip"])
def test_files_put_into_the_folder_by_hand_are_used(server, cache, place):
    register_model("tiny", f"http://127.0.0.1:7/{place}")
    shutil.copytree(server.folder / "tiny", cached(cache, "tiny"))
    same_as_tiny("tiny")


def test_a_mirror_of_the_published_models(server, cache, monkeypatch):
    config = ElmoConfig.from_json(TINY / "options.json")
    known = registry.dataclasses.replace(get_model("small"), config=config)
    monkeypatch.setitem(registry._MODELS, "small", known)
    folder = server.folder / "2x1024_128_2048cnn_1xhighway"
    folder.mkdir()
    for name, url in zip(MODEL, known.files):
        shutil.copy(TINY / name, folder / url.rpartition("/")[2])
    shutil.copy(server.folder / "tiny.zip", server.folder / "195.zip")
    shutil.copytree(server.folder / "tiny", server.folder / "seqvec")
    shutil.make_archive(server.folder / "159", "zip", MANY_LANGUAGES / "word_char")
    monkeypatch.setenv(download.MIRROR_VARIABLE, f"{server.address}/")
    same_as_tiny("small")
    same_as_tiny("nlpl/ru-195")
    same_as_tiny("seqvec")
    weights = find_model_files("many-languages/it").weights
    assert weights == cache / "many-languages" / "it" / "encoder.pkl"
    assert len(Handler.requests) == 6


def test_a_name_wins_over_a_folder_of_that_name(tmp_path, monkeypatch):
    shutil.copytree(TINY, tmp_path / "nlpl" / "ru-195")
    monkeypatch.chdir(tmp_path)
    refused("nlpl/ru-195", "http://127.0.0.1:9/195.zip")
    same_as_tiny("./nlpl/ru-195")


@pytest.mark.parametrize("place", ["tiny", "tiny.zip"])
def test_two_downloads_at_once(server, cache, monkeypatch, place):
    register_model("tiny", f"{server.address}/{place}")
    both_began, real_fetch, found = threading.Barrier(2), download._fetch, []

    def fetch(*arguments):
        real_fetch(*arguments)
        both_began.wait(60)

    def load():
        found.append(find_model_files("tiny").weights.read_bytes())

    monkeypatch.setattr(download, "_fetch", fetch)
    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == 2 * [WEIGHTS]
    assert sorted(os.listdir(cached(cache, "tiny"))) == ["options.json", "weights.hdf5"]


@pytest.mark.needs("huggingface_hub")
def test_a_repository_of_the_hub(monkeypatch):
    calls = []

    def snapshot_download(repo, revision, allow_patterns):
        if repo == "user/empty":
            return "/nowhere"  # as it does if no file matches
        if repo != "user/repo":
            raise OSError("404: no such\nrepository")
        assert {"options.json", "weights.hdf5", "encoder.pkl"} <= set(allow_patterns)
        calls.append(revision)
        return str(TINY)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    same_as_tiny("hf://user/repo")
    same_as_tiny("hf://user/repo@v1")
    assert calls == [None, "v1"]
    refused("hf://user/none", "Could not download hf://user/none: 404: no such repository")
    with pytest.raises(FileNotFoundError, match="hf://user/empty holds no model: expected options"):
        ElmoLayer("hf://user/empty")


FROM_HUB = """
import h5py, keras, numpy as np
from keras_elmo import ElmoLayer, cli
code = cli.main(["embed", "the cat", "--model", "hf://user/repo", "--output", "v.h5"])
vectors = keras.ops.convert_to_numpy(ElmoLayer("hf://user/repo")(["the cat"]))
np.savez("v.npz", layer=vectors[0], command=h5py.File("v.h5")["0"][()], code=code)
"""


@pytest.mark.needs("huggingface_hub")
def test_an_export_is_served_by_a_hub_and_loaded(server, tmp_path):
    elmo, names = ElmoLayer(TINY), ["README.md", "options.json", "weights.hdf5"]
    repo = server.folder / "user" / "repo" / "resolve" / COMMIT
    elmo.export_hdf5(repo)
    assert sorted(os.listdir(repo)) == names
    sizes = [(repo / name).stat().st_size for name in names]
    answers = {
        "revision/main": {"id": "user/repo", "sha": COMMIT, "siblings": []},
        f"tree/{COMMIT}": [
            {"type": "file", "path": name, "oid": name, "size": size}
            for name, size in zip(names, sizes)
        ],
    }
    for place, answer in answers.items():
        path = server.folder / "api" / "models" / "user" / "repo" / place
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(answer))
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HF_ENDPOINT": server.address,
        "HF_HOME": str(tmp_path / "home"),
    }
    program = [sys.executable, "-c", FROM_HUB]
    ended = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
    (downloaded,) = (tmp_path / "home").glob("hub/models--user--repo/snapshots/*")
    assert sorted(os.listdir(downloaded)) == ["options.json", "weights.hdf5"]
    expected = to_numpy(elmo(["the cat"]))[0]
    with np.load(tmp_path / "v.npz") as found:
        assert found["code"] == 0
        for name in ("layer", "command"):
            assert_close(found[name], expected)


@pytest.mark.parametrize("model", ["hf://", "hf://repo", "hf://a/b/c", "hf://a/b@", "hf:///a/b"])
def test_addresses_that_the_hub_does_not_have(model):
    with pytest.raises(ValueError, match="Expected hf://user/repo or hf://user/repo@revision, got"):
        ElmoLayer(model)


def test_without_huggingface_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"hf://a/b needs huggingface_hub: pip install 'keras-"):
        ElmoLayer("hf://a/b")

"""From a name or place to a model's files, against a server on this machine."""

import contextlib
import fcntl
import functools
import hashlib
import http.server
import io
import os
import re
import shutil
import tarfile
import threading
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

from helpers import TINY, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer, get_model, list_models, register_model
from keras_elmo.pretrained import download, registry

OPTIONS = (TINY / "options.json").read_bytes()
WEIGHTS = (TINY / "weights.hdf5").read_bytes()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, notes requests, and cuts off what it is told to."""

    requests = None
    cut_off = ()
    done = None

    def do_GET(self):
        self.requests.append(self.path)
        if self.path.startswith("/silent/"):
            self.done.wait()
            return
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
    monkeypatch.setattr(Handler, "done", threading.Event())
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        running.folder = folder
        running.address = f"http://127.0.0.1:{running.server_port}"
        yield running
        Handler.done.set()
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
        bases = "/models/elmo/|/repository/[0-9]+/|/11356/1277/"
        ends = [re.split(bases, place)[1] for place in known.locations]
        here = tuple(f"http://127.0.0.1:9/{end}" for end in ends)
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


def cached(cache, name):
    """Where a registered model is downloaded to."""
    address = get_model(name).locations[0]
    return cache / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"


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
    assert sorted(os.listdir(cached(cache, "tiny"))) == ["options.json", "weights.hdf5"]
    same_as_tiny("tiny")
    assert len(Handler.requests) == 2


def test_a_name_used_for_another_model_is_another_download(server, cache, monkeypatch):
    register_model("tiny", f"{server.address}/tiny")
    same_as_tiny("tiny")
    monkeypatch.delitem(registry._MODELS, "tiny")  # as in another process
    register_model("tiny", f"{server.address}/other")
    refused("tiny", f"{server.address}/other/options.json")


def test_a_folder_under_a_name(server):
    register_model("local", server.folder / "tiny", description="mine", license="CC BY")
    assert (get_model("local").description, get_model("local").license) == ("mine", "CC BY")
    same_as_tiny("local")
    assert Handler.requests == []
    register_model("local", server.folder / "tiny", description="mine", license="CC BY")
    with pytest.raises(ValueError, match="There is another model 'local' already: choose another"):
        register_model("local", server.folder)
    (server.folder / "tiny" / "weights.hdf5").unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no weights file .*weights\.hdf5"):
        ElmoLayer("local")


def test_a_transfer_that_is_cut_off_leaves_nothing_and_can_be_repeated(server, cache, monkeypatch):
    register_model("tiny", f"{server.address}/tiny")
    monkeypatch.setattr(Handler, "cut_off", ("weights.hdf5",))
    address = f"{server.address}/tiny/weights.hdf5"
    sizes = "expected 110,552 bytes, got 55,276"
    refused("tiny", address, "Could not download weights.hdf5", str(cached(cache, "tiny")), sizes)
    assert os.listdir(cached(cache, "tiny")) == ["options.json"]
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
    assert os.listdir(cached(cache, "bad")) == ["options.json"]
    register_model("good", f"{server.address}/bad", mirrors=[f"{server.address}/tiny"], **known)
    same_as_tiny("good")
    assert Handler.requests[-2:] == ["/bad/weights.hdf5", "/tiny/weights.hdf5"]


def test_corrupted_options_are_refused(server, cache):
    (server.folder / "tiny" / "options.json").write_text("<html>")
    register_model("tiny", f"{server.address}/tiny")
    refused("tiny", "Could not download options.json", "not a JSON file")
    assert not cache.exists()


def test_a_cached_file_of_a_wrong_size_is_fetched_again(server, cache):
    register_model("tiny", f"{server.address}/tiny", weights_bytes=len(WEIGHTS))
    same_as_tiny("tiny")
    (cached(cache, "tiny") / "weights.hdf5").write_bytes(WEIGHTS[:1000])
    same_as_tiny("tiny")
    assert (cached(cache, "tiny") / "weights.hdf5").read_bytes() == WEIGHTS


def test_missing_files_and_no_network(server, cache):
    register_model("gone", f"{server.address}/nowhere")
    refused("gone", "404", f"{server.address}/nowhere/options.json")
    with pytest.raises(ConnectionError) as error:
        ElmoLayer("gone")
    assert download.MIRROR_VARIABLE not in str(error.value)
    stem = "2x1024_128_2048cnn_1xhighway"
    files = [
        f"http://127.0.0.1:9/{stem}/elmo_{stem}_{name}" for name in ("options.json", "weights.hdf5")
    ]
    folder = str(cache / "small")
    refused("small", "Could not download elmo", *files, folder, download.MIRROR_VARIABLE)
    assert not cache.exists()


def test_files_put_into_the_folder_by_hand_are_used(server, cache):
    register_model("tiny", "http://127.0.0.1:7", weights_bytes=len(WEIGHTS))
    shutil.copytree(TINY, cached(cache, "tiny"))
    same_as_tiny("tiny")


@pytest.mark.parametrize("name, known", [("options", {"config": ElmoConfig()}), ("weights", {})])
def test_files_of_another_model_put_there_by_hand_are_refused(cache, name, known):
    register_model("tiny", "http://127.0.0.1:7", weights_bytes=len(WEIGHTS) + 1, **known)
    shutil.copytree(TINY, cached(cache, "tiny"))
    problem = {
        "options": "its architecture is not that of 'tiny'",
        "weights": "expected 110,553 bytes, got 110,552",
    }[name]
    file = next(cached(cache, "tiny").glob(f"{name}.*"))
    refused("tiny", f"{file} is there, but: {problem}", f"Could not download {file.name}")
    assert (cached(cache, "tiny") / "weights.hdf5").read_bytes() == WEIGHTS


def test_the_bundled_model_is_not_taken_for_another(cache):
    bundled, small = get_model("default"), get_model("small")
    (cache / "small").mkdir(parents=True)
    for kind in ("options_file", "weights_file"):
        source = bundled.local_path / getattr(bundled, kind)
        shutil.copy(source, cache / "small" / getattr(small, kind))
    refused("small", "is there, but: its architecture is not that of 'small'")


def test_a_mirror_of_the_published_models(server, monkeypatch):
    known = registry.dataclasses.replace(
        get_model("small"), config=ElmoConfig.from_json(TINY / "options.json")
    )
    monkeypatch.setitem(registry._MODELS, "small", known)
    folder = server.folder / "2x1024_128_2048cnn_1xhighway"
    folder.mkdir()
    shutil.copy(TINY / "options.json", folder / known.options_file)
    shutil.copy(TINY / "weights.hdf5", folder / known.weights_file)
    monkeypatch.setenv(download.MIRROR_VARIABLE, f"{server.address}/")
    same_as_tiny("small")
    assert len(Handler.requests) == 2


def test_a_server_that_does_not_answer_is_left_for_the_next(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.1)
    register_model("tiny", f"{server.address}/silent", mirrors=[f"{server.address}/tiny"])
    same_as_tiny("tiny")
    assert Handler.requests[:2] == ["/silent/options.json", "/tiny/options.json"]


def test_a_download_is_no_larger_than_its_architecture_needs(server):
    (server.folder / "tiny" / "weights.hdf5").write_bytes(bytes(10_000_000))
    register_model("tiny", f"{server.address}/tiny")
    refused("tiny", "expected at most", "bytes, got more")


def test_what_killed_downloads_left_is_removed_unless_one_lives(server, cache):
    register_model("tiny", f"{server.address}/tiny")
    killed, live, new = (cached(cache, "tiny") / f".partial-{i}.hdf5" for i in range(3))
    killed.parent.mkdir(parents=True)
    for path in (killed, live, new):
        path.write_bytes(b"half")
    for path in (killed, live):
        os.utime(path, (0, 0))
    with open(live, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        same_as_tiny("tiny")
    assert (killed.exists(), live.exists(), new.exists()) == (False, True, True)


def test_a_download_that_takes_long_to_reach_the_disk_is_left_alone(server, cache, monkeypatch):
    """Another process looks for killed downloads while the file is synced, and just before it."""
    register_model("tiny", f"{server.address}/tiny")
    seen, fsync, replace = [], os.fsync, os.replace

    def slow_fsync(descriptor):
        for path in cached(cache, "tiny").glob(".partial-*"):
            os.utime(path, (0, 0))
        download._make_room(cached(cache, "tiny"))
        seen.append("synced")
        fsync(descriptor)

    def late_replace(source, target):
        download._make_room(cached(cache, "tiny"))
        seen.append("renamed")
        replace(source, target)

    monkeypatch.setattr(download.os, "fsync", slow_fsync)
    monkeypatch.setattr(download.os, "replace", late_replace)
    monkeypatch.setattr(download, "atomic_write", without_sync)
    same_as_tiny("tiny")
    assert seen == 2 * ["synced", "renamed"]


@contextlib.contextmanager
def without_sync(path):
    partial = f"{path.parent}/.partial-0{path.suffix}"
    yield partial
    os.replace(partial, path)


def test_an_interrupted_download_leaves_nothing(server, cache, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    register_model("tiny", f"{server.address}/tiny")
    monkeypatch.setattr(urllib.request, "urlopen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ElmoLayer("tiny")
    assert not cache.exists()


@pytest.mark.parametrize(
    "place", ["folder", "home", "pair", "zip", "zip with a folder", "other names", "OTHER NAMES"]
)
def test_places_of_a_model(folder, tmp_path, monkeypatch, place):
    options, weights = folder / "options.json", folder / "weights.hdf5"
    if place == "folder":
        model = str(folder)
        (folder / "vocab.txt").write_text("not a file of ours\n")
        (folder / ".partial-0.hdf5").write_text("what a killed export has left\n")
    elif place == "home":
        monkeypatch.setenv("HOME", str(tmp_path))
        model = "~/model"
    elif place == "pair":
        monkeypatch.setenv("HOME", str(tmp_path))
        model = ("~/model/options.json", weights)
    elif place.startswith("zip"):
        model = tmp_path / "model.zip"
        prefix = "elmo/" if place == "zip with a folder" else ""
        with zipfile.ZipFile(model, "w") as archive:
            archive.write(options, prefix + "options.json")
            archive.write(weights, prefix + "weights.hdf5")
            archive.writestr(prefix + "meta.txt", "x")
            archive.writestr(f"__MACOSX/{prefix}._options.json", "of macOS")
            archive.writestr(f"__MACOSX/{prefix}._weights.hdf5", "of macOS")
    else:
        model = folder
        (folder / "token_embeddings.hdf5").unlink()
        (folder / "bilm_embeddings.hdf5").unlink()
        upper = str.upper if place.isupper() else str
        options.rename(folder / upper("elmo_tiny_options.json"))
        weights.rename(folder / upper("elmo_tiny_weights.h5"))
    same_as_tiny(model)


def test_places_without_a_model_are_named(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty must hold options\.json.*found nothing"):
        ElmoLayer(tmp_path / "empty")
    (tmp_path / "empty" / "training.json").write_text("{}")
    with pytest.raises(
        FileNotFoundError, match="training run that has not ended.*keras-elmo export"
    ):
        ElmoLayer(tmp_path / "empty")
    shutil.copytree(TINY, tmp_path / "empty" / "model")
    ElmoLayer(tmp_path / "empty")  # a training folder, with its model
    (folder / "weights.hdf5").unlink()
    with pytest.raises(ValueError, match=r"found bilm_embeddings\.hdf5, token_embeddings\.hdf5"):
        ElmoLayer(folder)
    with pytest.raises(FileNotFoundError, match=r"no folder or archive nowhere/at/all\. Known"):
        ElmoLayer("nowhere/at/all")
    os.mkfifo(tmp_path / "fifo")
    for path in (TINY / "weights.hdf5", tmp_path / "fifo", "/dev/zero"):
        with pytest.raises(FileNotFoundError, match="is neither a folder nor a whole zip or"):
            ElmoLayer(str(path))
        with pytest.raises((FileNotFoundError, ValueError), match="no options file|no JSON|not a"):
            ElmoLayer((path, TINY / "weights.hdf5"))
    for address in ("HTTP://example.org/elmo", "file:///elmo", "https://example.org/elmo"):
        with pytest.raises(FileNotFoundError, match="is an address: take a published"):
            ElmoLayer(address)
        with pytest.raises(FileNotFoundError, match="is an address: take a published"):
            ElmoLayer((f"{address}/options.json", f"{address}/weights.hdf5"))
    with pytest.raises(FileNotFoundError, match="There is no weights file"):
        ElmoLayer((TINY / "options.json", tmp_path / "weights.hdf5"))
    with pytest.raises(ValueError, match=r"a pair of paths \(options, weights\), got 1 items"):
        ElmoLayer([TINY])
    with pytest.raises(ValueError, match="or a pair .* of paths; got 3"):
        ElmoLayer(3)


def zipped(path, **content):
    files = {"options.json": OPTIONS, "weights.hdf5": WEIGHTS}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, **content}.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "old, new, message",
    [
        # in the central directory: versions, flags and the method of each file
        (b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\x01\0", "encrypted"),
        (b"\x14\x03\x14\0\0\0\x08\0", b"\x14\x03\x14\0\0\0\x63\0", "compression"),
        (b"PK\x01\x02", b"PK\x01\x03", "Bad magic number for central directory"),
    ],
    ids=["encrypted", "unknown compression", "directory"],
)
def test_zip_files_that_cannot_be_unpacked_are_named(tmp_path, old, new, message):
    path = zipped(tmp_path / "model.zip")
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(
        ValueError, match=rf"model\.zip cannot be unpacked: .*{message}.* without a"
    ):
        ElmoLayer(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_zip_file_is_named(tmp_path, compression):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("options.json", OPTIONS)
        archive.writestr("weights.hdf5", WEIGHTS)
    data = bytearray(path.read_bytes())
    for place in range(2000, 60_000, 500):
        data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"model\.zip cannot be unpacked: .*pack or copy it again"):
        ElmoLayer(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_of_large_blocks_are_refused(tmp_path, compression):
    with zipfile.ZipFile(tmp_path / "model.zip", "w", compression) as archive:
        archive.writestr("options.json", OPTIONS)
        archive.writestr("weights.hdf5", WEIGHTS)
    with pytest.raises(ValueError, match="neither stored nor deflated"):
        ElmoLayer(tmp_path / "model.zip")


def test_zip_files_are_unpacked_within_what_the_architecture_needs(tmp_path):
    for name, most in (("weights.hdf5", "4,355,344"), ("options.json", "1,048,576")):
        path = zipped(tmp_path / "model.zip", **{name: bytes(20_000_000)})
        message = f"{name} in .*zip would have 20,000,000 bytes unpacked; expected at most {most}"
        with pytest.raises(ValueError, match=message):
            ElmoLayer(path)


def test_names_in_a_zip_file_may_be_long_and_must_be_of_one_model(tmp_path):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"../{300 * 'x'}_options.json", OPTIONS)
        archive.writestr(f"{300 * 'x'}_weights.hdf5", WEIGHTS)
    same_as_tiny(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/weights.h5", WEIGHTS)
    with pytest.raises(
        ValueError, match=r"model\.zip must hold weights\.hdf5, or one .*other/weigh"
    ):
        ElmoLayer(path)


def tarred(path, **content):
    """A tar.gz file of the model in a folder, with other files before it."""
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {
            "vocab.txt": b"a",
            "model.hdf5": WEIGHTS,
            "options.json": OPTIONS,
        }.items():
            info = tarfile.TarInfo(f"elmo/{name}")
            info.size = len(content.get(name, data))
            archive.addfile(info, io.BytesIO(content.get(name, data)))
    return path


@pytest.fixture
def archives(server):
    """The server, which has the model as tiny.zip and tiny.tar.gz."""
    zipped(server.folder / "tiny.zip", README=b"of NLPL")
    tarred(server.folder / "tiny.tar.gz")
    return server


@pytest.mark.parametrize("file", ["tiny.zip", "tiny.tar.gz", "tiny.zip?download=1"])
def test_an_archive_is_downloaded_once(archives, cache, file):
    register_model("my/tiny", f"{archives.address}/{file}")
    same_as_tiny("my/tiny")
    assert Handler.requests == [f"/{file}"]
    assert sorted(os.listdir(cached(cache, "my/tiny"))) == ["options.json", "weights.hdf5"]
    archives.shutdown()
    same_as_tiny("my/tiny")


def test_a_local_archive_under_a_name(archives, cache):
    register_model("local", archives.folder / "tiny.tar.gz")
    same_as_tiny("local")
    assert not cache.exists()
    register_model("gone", archives.folder / "gone.zip")
    with pytest.raises(FileNotFoundError, match=r"There is no folder or archive .*gone\.zip"):
        ElmoLayer("gone")


@pytest.mark.parametrize(
    "file, known, message",
    [
        ("page.zip", {}, "it is no whole zip or tar.gz file"),
        ("empty.zip", {}, "must hold options.json, .* found nothing"),
        ("half.tar.gz", {}, "cannot be unpacked: Compressed file ended"),
        ("text.tar.gz", {}, "is not a complete hdf5 file"),
        ("tiny.zip", {"weights_sha256": 64 * "0"}, "expected sha256 0000"),
        ("tiny.zip", {"weights_bytes": 7}, "expected at most 7 bytes, got more"),
        ("tiny.zip", {"weights_bytes": 10**6}, "expected 1,000,000 bytes, got"),
        ("tiny.zip", {"config": ElmoConfig()}, "its architecture is not that of 'bad'"),
        ("nowhere.zip", {}, "404"),
    ],
)
def test_a_wrong_archive_leaves_nothing_and_a_mirror_is_used(archives, cache, file, known, message):
    (archives.folder / "page.zip").write_text("<html>Sign in</html>")
    with zipfile.ZipFile(archives.folder / "empty.zip", "w"):
        pass
    tarred(archives.folder / "text.tar.gz", **{"model.hdf5": b"text"})
    half = (archives.folder / "tiny.tar.gz").read_bytes()[:50_000]
    (archives.folder / "half.tar.gz").write_bytes(half)
    address = f"{archives.address}/{file}"
    register_model("bad", address, **known)
    refused("bad", "Could not download the archive of the model 'bad'", address)
    with pytest.raises(ConnectionError, match=message) as error:
        ElmoLayer("bad")
    assert f"fetch {address} elsewhere and unpack it into {cached(cache, 'bad')}" in str(
        error.value
    )
    assert not cache.exists()
    register_model("good", address, mirrors=[f"{archives.address}/tiny.tar.gz"])
    same_as_tiny("good")


def test_a_transfer_of_an_archive_that_is_cut_off_can_be_repeated(archives, cache, monkeypatch):
    register_model("my/tiny", f"{archives.address}/tiny.zip")
    monkeypatch.setattr(Handler, "cut_off", ("tiny.zip",))
    refused("my/tiny", "bytes, got", str(cached(cache, "my/tiny")))
    assert not cache.exists()
    monkeypatch.setattr(Handler, "cut_off", ())
    same_as_tiny("my/tiny")


def test_a_mirror_of_the_nlpl_repository(archives, cache, monkeypatch):
    shutil.copy(archives.folder / "tiny.zip", archives.folder / "195.zip")
    refused("nlpl/ru-195", "http://127.0.0.1:9/195.zip", download.MIRROR_VARIABLE)
    monkeypatch.setenv(download.MIRROR_VARIABLE, archives.address)
    same_as_tiny("nlpl/ru-195")
    assert Handler.requests == ["/195.zip"]
    assert sorted(os.listdir(cache / "nlpl" / "ru-195")) == ["options.json", "weights.hdf5"]


def test_a_name_wins_over_a_folder_of_that_name(archives, tmp_path, monkeypatch):
    shutil.copytree(TINY, tmp_path / "nlpl" / "ru-195")
    monkeypatch.chdir(tmp_path)
    refused("nlpl/ru-195", "http://127.0.0.1:9/195.zip")
    same_as_tiny("./nlpl/ru-195")


def test_a_model_unpacked_into_the_cache_by_hand_is_used(cache):
    register_model("tiny", "http://127.0.0.1:7/tiny.zip")
    cached(cache, "tiny").mkdir(parents=True)
    for name, data in {"options.json": OPTIONS, "model.hdf5": WEIGHTS, "README": b""}.items():
        (cached(cache, "tiny") / name).write_bytes(data)
    same_as_tiny("tiny")


def test_a_model_in_the_cache_that_is_not_whole_is_fetched_again(archives, cache):
    register_model("tiny", f"{archives.address}/tiny.zip")
    cached(cache, "tiny").mkdir(parents=True)
    (cached(cache, "tiny") / "options.json").write_bytes(OPTIONS)  # as a kill leaves it
    same_as_tiny("tiny")
    (cached(cache, "tiny") / "options.json").write_text("{}")
    same_as_tiny("tiny")
    assert len(Handler.requests) == 2


def test_the_weights_appear_last(archives, cache, monkeypatch):
    register_model("tiny", f"{archives.address}/tiny.zip")
    moved, real_replace = [], os.replace

    def replace(source, target):
        moved.append(Path(target).name)
        if moved[-1] == "weights.hdf5" and len(moved) == 2:
            raise KeyboardInterrupt
        real_replace(source, target)

    monkeypatch.setattr(download.os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        ElmoLayer("tiny")
    assert os.listdir(cached(cache, "tiny")) == ["options.json"]
    same_as_tiny("tiny")
    assert moved == 2 * ["options.json", "weights.hdf5"]


def test_what_killed_downloads_of_archives_left_is_removed_unless_one_lives(archives, cache):
    register_model("tiny", f"{archives.address}/tiny.zip")
    killed, empty, live, new = (cached(cache, "tiny") / f".partial-{i}" for i in range(4))
    for path in (killed, empty, live, new):
        path.mkdir(parents=True)
        if path != empty:
            (path / "archive").write_bytes(b"half")
    (killed / "unpacked").mkdir()
    (killed / "unpacked" / "weights.hdf5").write_bytes(b"half")
    for path in (killed, empty, live):
        os.utime(path, (0, 0))
    with open(live / "archive", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        same_as_tiny("tiny")
    exist = [path.exists() for path in (killed, empty, live, new)]
    assert exist == [False, False, True, True]


def test_two_downloads_of_an_archive_at_once(archives, cache, monkeypatch):
    register_model("tiny", f"{archives.address}/tiny.tar.gz")
    both_began = threading.Barrier(2)
    real_transfer = download._transfer

    def transfer(*arguments):
        both_began.wait(60)
        return real_transfer(*arguments)

    def load():
        with download.model_files("tiny") as (options, weights):
            contents.append((options.read_bytes(), weights.read_bytes()))

    monkeypatch.setattr(download, "_transfer", transfer)
    contents, threads = [], [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents == 2 * [(OPTIONS, WEIGHTS)]
    assert sorted(os.listdir(cached(cache, "tiny"))) == ["options.json", "weights.hdf5"]


def test_an_archive_of_elmo_for_many_langs(server, cache, monkeypatch):
    """Only its files: their reader has tests of its own."""
    names = ("char.dic", "config.json", "encoder.pkl", "token_embedder.pkl", "word.dic")
    with zipfile.ZipFile(server.folder / "159.zip", "w") as archive:
        for name in (*names, "README", "meta.json"):
            archive.writestr(name, name)
    monkeypatch.setenv(download.MIRROR_VARIABLE, server.address)
    for _ in range(2):
        with download.model_files("many-languages/it") as pair:
            assert [path.read_text() for path in pair] == ["config.json", "encoder.pkl"]
            assert [path.parent for path in pair] == 2 * [cache / "many-languages" / "it"]
    assert sorted(os.listdir(cache / "many-languages" / "it")) == sorted(names)
    assert Handler.requests == ["/159.zip"]

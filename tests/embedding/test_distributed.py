"""Text shards embedded by Ray actors."""

import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from helpers import TINY
from keras_elmo import Embedder
from keras_elmo.embedding import distributed
from keras_elmo.embedding.distributed import _Actor, _shards, embed_shards

ARGUMENTS = {"model": str(TINY), "num_actors": 2, "embedder": {"batch_tokens": 64}}


@pytest.fixture
def shards(tmp_path, rng):
    for name in "abcd":
        lines = [" ".join(rng.choice(["the", "cat", "sat"], size=n)) for n in range(20)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return str(tmp_path / "*.txt")


def read(folder):
    import pyarrow.parquet as parquet

    names = sorted(os.listdir(folder))
    return {name: parquet.read_table(os.path.join(folder, name)).to_pylist() for name in names}


def kill_an_actor(killed):
    """Kills the first actor to appear, soon after, and notes it in the list."""
    for _ in range(600):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                name = path.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name.startswith(b"ray::_Actor"):
                time.sleep(0.5)
                os.kill(int(path.parent.name), signal.SIGKILL)
                killed.append(path.parent.name)
                return
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.needs("ray", "pyarrow")
def test_two_actors_one_of_which_dies(tmp_path, shards, request, monkeypatch):
    import ray

    killed = []
    killer = threading.Thread(target=kill_an_actor, args=(killed,))
    killer.start()
    shutil.copytree(TINY, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    report = embed_shards(shards, tmp_path / "out", **{**ARGUMENTS, "model": "model"})
    killer.join()
    assert killed
    assert (report.shards, report.lines, report.failed) == (4, 80, 0)
    assert report.skipped <= 1  # the actor may have died just after it had completed a shard
    embedder = Embedder(TINY)
    for name, rows in read(tmp_path / "out").items():
        lines = (tmp_path / name.removesuffix(".parquet")).read_text().splitlines()
        assert [row["line"] for row in rows] == list(range(20))
        for row, line, expected in zip(rows, lines, embedder.embed(lines), strict=True):
            assert row["tokens"] == line.split()
            np.testing.assert_allclose(
                np.reshape(row["vectors"], expected.shape), expected, atol=1e-5
            )
    assert not ray.is_initialized()
    ray.init(include_dashboard=False, logging_level="ERROR")  # as a program that uses Ray itself
    request.addfinalizer(ray.shutdown)
    (tmp_path / "e.txt").write_bytes(b"\xc3\xb4ne mor\xe9\n")
    one = {**ARGUMENTS, "num_actors": 1}
    report = embed_shards(shards, tmp_path / "out", **one)
    assert (report.shards, report.skipped, report.lines, report.tokens) == (5, 4, 81, 2)
    assert report.invalid_lines == 1 and not report.was_complete and report.seconds > 0
    with pytest.raises(ValueError, match=r"[a-e]\.txt\.parquet was made with vectors='mix'"):
        embed_shards(shards, tmp_path / "out", vectors="top", **one)
    (tmp_path / "other" / ".a.txt.parquet.parts").mkdir(parents=True)
    (tmp_path / "other" / ".a.txt.parquet.parts" / "part-00000.parquet").mkdir()
    with pytest.raises(RuntimeError, match="failed with IsADirectoryError: .*part-00000.parquet"):
        embed_shards(shards, tmp_path / "other", **one)
    missing = {**one, "model": str(tmp_path / "no_model")}
    with pytest.raises(RuntimeError, match=r"txt failed with FileNotFoundError: .*no_model"):
        embed_shards(shards, tmp_path / "none", **missing)
    assert ray.is_initialized()


@pytest.mark.needs("pyarrow")
def test_what_became_of_a_shard(tmp_path):
    source, target = tmp_path / "a.txt", tmp_path / "a.txt.parquet"

    def became(model=TINY, **file_arguments):
        result = _Actor(model, {}, file_arguments).embed(target, source)
        if isinstance(result, Exception):
            return f"{type(result).__name__}: {result}"
        return result.was_complete, result.lines, result.tokens

    source.write_text("the cat\nsat\n")
    assert became() == (False, 2, 3)
    assert became() == (True, 2, 0)
    assert re.match("ValueError: .* was made with vectors='mix'", became(vectors="top"))
    source.write_text("a cat\n")
    assert re.match("ValueError: .* does not begin with the 2 lines", became())
    missing = "RuntimeError: Embedding .* failed with FileNotFoundError: .*no_model"
    assert re.match(missing, became(TINY.with_name("no_model")))


@pytest.mark.needs("ray", "pyarrow")
def test_the_folder_of_a_user_is_not_replaced(tmp_path, monkeypatch):
    """The error of an actor is raised as what it is."""
    source, target = tmp_path / "a.txt", tmp_path / "out" / "a.txt.parquet"
    source.write_text("the cat\n")
    target.mkdir(parents=True)
    (target / "thesis.txt").write_text("mine")
    result = _Actor(TINY, {}, {}).embed(target, source)
    monkeypatch.setattr(distributed, "_results", lambda *_: [(str(source), result)])
    monkeypatch.setattr(distributed, "_start_actors", lambda *_: [])
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    with pytest.raises(FileExistsError, match="files that keras_elmo did not write"):
        embed_shards(source, target.parent)
    assert os.listdir(target) == ["thesis.txt"]


@pytest.mark.needs("ray", "pyarrow")
@pytest.mark.parametrize("is_pair", [False, True])
def test_actors_get_absolute_paths(tmp_path, monkeypatch, is_pair):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default").mkdir()  # the name of a model, too
    names = ["text.txt", "options.json", "weights.hdf5"]
    for name in names:
        (tmp_path / name).write_text("the cat\n")
    seen = []
    monkeypatch.setattr(distributed, "_results", lambda *_: [])
    monkeypatch.setattr(distributed, "_start_actors", lambda ray, *x: seen.append(x[0]) or [])
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    model = tuple(names[1:]) if is_pair else "default"
    embed_shards(names[0], "out", model=model, embedder={"vocabulary": "text.txt", "word_cache": 2})
    expected = tuple(str(tmp_path / name) for name in names[1:]) if is_pair else "default"
    embedder = {"vocabulary": str(tmp_path / "text.txt"), "word_cache": 2}
    assert seen == [(expected, embedder, {})]


@pytest.mark.parametrize("option", ["overwrite", "resume"])
def test_jobs_always_resume(tmp_path, option):
    with pytest.raises(ValueError, match="embed_shards always resumes: leave out"):
        embed_shards("*.txt", tmp_path, **{option: True})


def test_the_progress_of_an_actor_can_be_shown():
    assert _Actor(TINY, {"progress": True}, {})._embedder.progress


def test_shards_of_one_name(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text.txt").write_text("a\n")
    with pytest.raises(ValueError, match=r"Several shards are named text\.txt"):
        _shards(str(tmp_path / "*" / "text.txt"), tmp_path / "out")

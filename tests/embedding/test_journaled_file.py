"""JournaledFile: a file as any other to who writes it, and good at any moment to who reads it."""

import contextlib
import io
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

from keras_elmo.embedding.journaled_file import JournaledFile, recover
from keras_elmo.embedding.writers import open_store, stored_state


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    return path


def write_randomly(rng, *files):
    """The same writes, anywhere in the files and a little behind their ends."""
    for _ in range(30):
        place, size = int(rng.integers(0, 30_000)), int(rng.integers(0, 9_000))
        data = rng.bytes(size)
        for file in files:
            file.seek(place)
            assert file.write(data) == size


def test_writes_and_reads_as_any_file(rng, path):
    expected, file = io.BytesIO(), JournaledFile(path, 0)
    for _ in range(5):
        write_randomly(rng, expected, file)
        for place, size in rng.integers(0, 40_000, size=(20, 2)):
            expected.seek(place)
            file.seek(place)
            assert file.read(size) == expected.read(size)
        assert file.seek(0, io.SEEK_END) == expected.seek(0, io.SEEK_END)
        file.commit()
        assert path.read_bytes() == expected.getvalue()
    file.truncate(5)
    file.commit()
    file.close()
    assert path.read_bytes() == expected.getvalue()[:5]


def test_nothing_old_changes_before_the_commit(rng, path):
    file = JournaledFile(path, 0)
    write_randomly(rng, file)
    file.commit()
    committed = path.read_bytes()
    write_randomly(rng, file)
    assert path.read_bytes()[: len(committed)] == committed
    file.discard()
    write_randomly(rng, file)
    file.close()
    assert path.read_bytes() == committed


KILLED = """
import os, sys
import numpy as np
from keras_elmo.embedding import journaled_file
from keras_elmo.embedding.writers import open_store, stored_state
import h5py

path = sys.argv[1]

def write(store):
    while store.num_lines < 40:
        store.write([], np.full((2, 3), store.num_lines, "float32"))
        if store.num_lines % 4 == 0:
            store.commit(str(store.num_lines))

def child(n):
    store = open_store(path, {}, resume=os.path.exists(path))
    left = n
    def dying(function):
        def call(*args):
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(9)
            return function(*args)
        return call
    for name in ("pwrite", "ftruncate", "fsync", "unlink", "replace"):
        setattr(os, name, dying(getattr(os, name)))
    write(store)
    store.finish("all")
    os._exit(0)

kills = interrupted_commits = 0
for n in range(1, 200):
    before = stored_state(path)["num_lines"]
    process = os.fork()
    if not process:
        child(n)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    kills += status == 9
    interrupted_commits += os.path.exists(path + ".journal")
    done = stored_state(path)["num_lines"]
    assert done >= before and done % 4 == 0, (n, before, done)
    with h5py.File(path) as file:
        assert sorted(map(int, file)) == list(range(done)), n
        assert all((file[str(i)][:] == i).all() for i in range(done)), n
    if status == 0:
        break
assert done == 40 and stored_state(path)["complete"]
print(kills, interrupted_commits)
"""


def test_killed_at_any_moment(tmp_path):
    """Each run dies one call to the system later than the one before it, and goes on after it."""
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "v.h5")], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    kills, interrupted_commits = map(int, run.stdout.split())
    assert kills > 10 and interrupted_commits > 2


def interrupting(function, error, moment, calls):
    """The function, but raising before or after the nth call of all that note theirs together."""

    def call(*args):
        calls.append(function)
        sys._clear_type_cache()  # it can hide what a pending error does to inherited names
        if moment == (len(calls), "before"):
            raise error
        result = function(*args)
        if moment == (len(calls), "after"):
            raise error
        return result

    return call


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_an_interrupted_commit_is_undone_or_finished(tmp_path, monkeypatch, error, side):
    path, found = tmp_path / "v.h5", []
    for n in range(1, 25):
        store, calls = open_store(path, {}, overwrite=True), []
        for i in range(12):
            if i == 4:
                store.commit("four")
            store.write([], np.full((2, 3), i, "float32"))
        with monkeypatch.context() as patch, contextlib.suppress(type(error)):
            for name in ("pwrite", "ftruncate", "fsync", "unlink", "replace"):
                patch.setattr(os, name, interrupting(getattr(os, name), error, (n, side), calls))
            store.commit("twelve")
        store.abort()
        found.append(stored_state(path)["num_lines"])
        with h5py.File(path) as file:
            assert sorted(map(int, file)) == list(range(found[-1])), n
            assert all((file[name][()] == int(name)).all() for name in file), n
    assert 10 < len(calls) < n
    assert found == sorted(found) and set(found) == {4, 12}


def test_a_damaged_journal_is_not_used(path):
    (path.parent / "file.journal").write_bytes(b"x" * 100)
    with pytest.raises(OSError, match="journal is damaged"):
        recover(path)
    assert path.read_bytes() == b""

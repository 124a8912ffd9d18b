"""Files of word vectors."""

import h5py
import numpy as np
import pytest

from keras_elmo.embedding import writers as store_module
from keras_elmo.embedding.writers import open_store, stored_state

LAYERS = [
    np.arange(12, dtype="float32").reshape(2, 2, 3),
    np.zeros((2, 0, 3), "float32"),
    np.ones((2, 1, 3), "float32"),
]
TOKENS = [["a", b"b\xff"], [], ["c"]]
SETTINGS = {"model": "m"}


def fill(store, arrays=LAYERS, digest="d"):
    for tokens, array in zip(TOKENS, arrays):
        store.write(tokens, array, None if tokens else "no words")
    store.finish(digest)


def read_parquet(path):
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(path).to_pylist()


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_hdf5(tmp_path, dtype, compression):
    path = tmp_path / "v.h5"
    fill(open_store(path, SETTINGS, dtype=dtype, compression=compression))
    with h5py.File(path) as file:
        assert sorted(file) == ["0", "1", "2"]
        for i, array in enumerate(LAYERS):
            np.testing.assert_array_equal(file[str(i)][()], array)
            assert file[str(i)].dtype == dtype
        assert file["0"].compression == compression
        assert file["1"].attrs["error"] == "no words"
        assert not file["0"].attrs
    assert stored_state(path)["complete"]
    assert [found.name for found in tmp_path.iterdir()] == ["v.h5"]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_npz(tmp_path, compression):
    fill(open_store(tmp_path / "v.npz", SETTINGS, compression=compression))
    with np.load(tmp_path / "v.npz") as file:
        for i, array in enumerate(LAYERS):
            np.testing.assert_array_equal(file[str(i)], array)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("take", [lambda x: x, lambda x: x[0], lambda x: x.sum(axis=(0, 1))])
def test_parquet(tmp_path, dtype, take):
    arrays = list(map(take, LAYERS))
    fill(open_store(tmp_path / "v.parquet", SETTINGS, dtype=dtype), arrays)
    rows = read_parquet(tmp_path / "v.parquet")
    assert [row["line"] for row in rows] == [0, 1, 2]
    assert [row["tokens"] for row in rows] == [["a", "b"], [], ["c"]]
    assert [row["error"] for row in rows] == [None, "no words", None]
    for row, array in zip(rows, arrays):
        np.testing.assert_array_equal(np.reshape(row["vectors"], array.shape), array)


def test_parquet_in_parts(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(store_module, "_ROW_GROUP_BYTES", 30)
    monkeypatch.setattr(store_module, "_PART_BYTES", 40)
    path = tmp_path / "v.parquet"
    store = open_store(path, SETTINGS)
    for i in range(5):
        store.write(TOKENS[0], LAYERS[0] + i)
        store.commit(str(i))
    # The last part is not full; a process that ends here leaves those before.
    assert stored_state(path) == {
        "settings": {**SETTINGS, "dtype": "float32", "compression": None},
        "num_lines": 4,
        "digest": "3",
        "complete": False,
    }
    store = open_store(path, SETTINGS, resume=True)
    assert (store.num_lines, store.digest) == (4, "3")
    store.write(TOKENS[0], LAYERS[0] + 4)
    store.finish("4")
    rows = read_parquet(path)
    assert [row["line"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["vectors"][0][0][0] for row in rows] == [0, 1, 2, 3, 4]
    assert stored_state(path)["complete"]
    assert sorted(found.name for found in path.iterdir())[-1] == "part-00004.parquet"


@pytest.mark.parametrize("name", ["v.h5", "v.parquet"])
def test_abort_goes_back_to_the_last_commit(tmp_path, name, monkeypatch):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(store_module, "_PART_BYTES", 1)
    path = tmp_path / name
    store = open_store(path, SETTINGS)
    store.write(TOKENS[0], LAYERS[0])
    store.commit("one")
    store.write(TOKENS[2], LAYERS[2])
    store.abort()
    assert stored_state(path)["num_lines"] == 1
    store = open_store(path, SETTINGS, resume=True)
    assert (store.num_lines, store.digest) == (1, "one")
    store.write(TOKENS[2], LAYERS[2])
    store.finish("two")
    assert stored_state(path)["num_lines"] == 2


def test_a_full_disk_leaves_the_last_commit(tmp_path, monkeypatch):
    path = tmp_path / "v.h5"
    store = open_store(path, SETTINGS)
    store.write(TOKENS[0], LAYERS[0])
    store.commit("one")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("keras_elmo.embedding.journaled_file.os.pwrite", full)
        with pytest.raises(OSError, match="No space left on device"):
            for _ in range(100):
                store.write(TOKENS[0], np.zeros((2, 100, 100), "float32"))
        store.abort()
    with h5py.File(path) as file:
        assert list(file) == ["0"]
        np.testing.assert_array_equal(file["0"][()], LAYERS[0])
    assert stored_state(path)["digest"] == "one"


@pytest.mark.parametrize("name", ["v.h5", "v.npz"])
def test_an_existing_file_is_not_overwritten(tmp_path, name):
    fill(open_store(tmp_path / name, SETTINGS))
    with pytest.raises(FileExistsError, match="Go on with it by resume .* or give another name"):
        open_store(tmp_path / name, SETTINGS)
    fill(open_store(tmp_path / name, SETTINGS, overwrite=True), LAYERS[:1])
    opened = h5py.File if name == "v.h5" else np.load
    with opened(tmp_path / name) as file:
        assert list(file) == ["0"]


def test_the_journal_of_a_replaced_file_goes_with_it(tmp_path):
    path = tmp_path / "v.h5"
    fill(open_store(path, SETTINGS))
    (tmp_path / "v.h5.journal").write_bytes(b"of a commit that was killed")
    fill(open_store(path, SETTINGS, overwrite=True))
    assert stored_state(path)["complete"]


def test_another_programs_folder_is_left_alone(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "v.parquet"
    fill(open_store(path, SETTINGS))
    (path / "_SUCCESS").touch()
    before = sorted(path.iterdir())
    with pytest.raises(ValueError, match="made with another model"):
        open_store(path, {"model": "n"}, resume=True)
    assert sorted(path.iterdir()) == before


def test_errors(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.h5, \.hdf5, \.parquet or \.npz"):
        open_store(tmp_path / "v.txt", SETTINGS)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        open_store(tmp_path / "none" / "v.h5", SETTINGS)
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float16', got 'int8'"):
        open_store(tmp_path / "v.h5", SETTINGS, dtype="int8")
    with pytest.raises(ValueError, match="compression must be None or 'gzip', got 'zip'"):
        open_store(tmp_path / "v.h5", SETTINGS, compression="zip")
    with pytest.raises(ValueError, match="one of resume and overwrite"):
        open_store(tmp_path / "v.h5", SETTINGS, resume=True, overwrite=True)
    assert not list(tmp_path.iterdir())
    for name in ("v.h5", "v.npz"):
        fill(open_store(tmp_path / name, SETTINGS))
    with pytest.raises(ValueError, match="written whole, at the end"):
        open_store(tmp_path / "v.npz", SETTINGS, resume=True)
    with pytest.raises(ValueError, match="made with another dtype and another model"):
        open_store(tmp_path / "v.h5", {"model": "n"}, dtype="float16", resume=True)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["0"] = 1
    with pytest.raises(ValueError, match="not a file that keras_elmo began"):
        open_store(tmp_path / "other.h5", SETTINGS, resume=True)
    with h5py.File(tmp_path / "other.h5") as file:
        assert list(file) == ["0"]

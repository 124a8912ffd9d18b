"""Loading and exporting bilm-tf's weights files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from helpers import GOLDEN, TINY, VARIANTS, to_numpy
from keras_elmo import ElmoConfig, ElmoLayer, Embedder
from keras_elmo.pretrained import hdf5, weights
from keras_elmo.pretrained.weight_table import count_parameters, weight_table


@pytest.fixture
def folder(tmp_path):
    """A copy of the model that a test may damage."""
    return Path(shutil.copytree(TINY, tmp_path / "model"))


def arrays_of(path):
    with hdf5.open_arrays(path) as found:
        return {name: array[()] for name, array in found.items()}


def rewrite(path, change):
    arrays = arrays_of(path)
    with h5py.File(path, "w") as file:
        for name, array in change(arrays).items():
            file[name] = array


@pytest.mark.parametrize("variant", VARIANTS)
def test_export_gives_back_what_was_loaded(tmp_path, variant):
    ElmoLayer(GOLDEN / variant).export_hdf5(tmp_path / "new" / "folder")
    original = arrays_of(GOLDEN / variant / "weights.hdf5")
    exported = arrays_of(tmp_path / "new" / "folder" / "weights.hdf5")
    assert exported.keys() == original.keys()
    for name, array in original.items():
        assert exported[name].dtype == "float32"
        np.testing.assert_array_equal(exported[name], array)
    options = json.loads((tmp_path / "new" / "folder" / "options.json").read_text())
    assert options == json.loads((GOLDEN / variant / "options.json").read_text())


@pytest.mark.parametrize(
    "config",
    [
        ElmoConfig(((1, 3), (2, 5)), 4, "tanh", 20, 0, 6, 8, 1, None, None, False),
        ElmoConfig(((1, 3), (2, 5)), 4, "relu", 9, 2, 8, 8, 3),
        ElmoConfig(((1, 3),), 4, "relu", 9, 1, 6, 4, 2, bidirectional=False),
        ElmoConfig(None, vocabulary_size=9, lstm_dim=8, projection_dim=4),
    ],
    ids=["nothing optional", "no projections", "forward", "words"],
)
def test_any_architecture_survives_export_and_load(tmp_path, config):
    fresh = ElmoLayer(None, config=config)
    fresh.export_hdf5(tmp_path)
    again = ElmoLayer(tmp_path)
    assert again.config == config
    for one, other in zip(fresh.weights, again.weights):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_no_model_has_are_not_written(tmp_path, value):
    layer = ElmoLayer(TINY)
    layer.export_hdf5(tmp_path)
    before = (tmp_path / "weights.hdf5").read_bytes()
    bias = layer.bilm.forward_lstms[0].bias
    bias.assign(to_numpy(bias) * value)
    with pytest.raises(ValueError, match="of this model holds NaN, infinity or numbers"):
        layer.export_hdf5(tmp_path)
    assert (tmp_path / "weights.hdf5").read_bytes() == before


def test_one_error_lists_everything_that_is_wrong(folder):
    def change(arrays):
        del arrays["CNN_proj/b_proj"]
        arrays["CNN/b_cnn_1"] = arrays["CNN/b_cnn_1"][:5]
        arrays["lm/softmax/W"] = np.zeros((2, 3))
        arrays["char_embed"] = np.full((261, 6), b"x")
        return arrays

    rewrite(folder / "weights.hdf5", change)
    with pytest.raises(ValueError, match="do not match the architecture in the options") as error:
        ElmoLayer(folder)
    message = str(error.value)
    assert "missing CNN_proj/b_proj: expected (12,)" in message
    assert "misshapen CNN/b_cnn_1: expected (8,), found (5,)" in message
    assert "unknown lm/softmax/W: found (2, 3)" in message
    assert "char_embed: expected floating-point numbers, found |S1" in message
    assert str(folder / "weights.hdf5") in message


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e300])
def test_numbers_that_no_weight_has_are_refused(folder, value):
    name = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_0"

    def change(arrays):
        arrays[name] = arrays[name].astype("float64")
        arrays[name].flat[7] = value
        return arrays

    rewrite(folder / "weights.hdf5", change)
    with pytest.raises(ValueError, match=f"array {name} in .*hdf5 holds NaN, infinity or numbers"):
        ElmoLayer(folder)


def external_array(file):
    secret = Path(file.filename).with_name("secret")
    secret.write_bytes(bytes(4 * 261 * 6))
    file.create_dataset("char_embed", (261, 6), "f4", external=[(str(secret), 0, 4 * 261 * 6)])


def virtual_array(file):
    layout = h5py.VirtualLayout((261, 6), "f4")
    layout[:] = h5py.VirtualSource(str(TINY / "weights.hdf5"), "char_embed", (261, 6))
    file.create_virtual_dataset("char_embed", layout)


def link(file):
    file["char_embed"] = h5py.ExternalLink(str(TINY / "weights.hdf5"), "char_embed")


def soft_link(file):
    file["char_embed"] = h5py.SoftLink("/CNN_proj/W_proj")


def link_of_a_group(file):
    file["x"] = h5py.ExternalLink(str(TINY / "weights.hdf5"), "CNN_proj")


def a_group_in_itself(file):
    file["char_embed"] = file["/"]


@pytest.mark.parametrize("make", [external_array, virtual_array])
def test_arrays_in_other_files_are_refused(folder, make):
    path = folder / "weights.hdf5"
    with h5py.File(path, "r+") as file:
        del file["char_embed"]
        make(file)
    for read in (lambda _: ElmoLayer(folder), hdf5.read_softmax, hdf5.read_token_embeddings):
        with pytest.raises(ValueError, match="char_embed is an array in other files") as error:
            read(path)
        assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("make", [link, soft_link, link_of_a_group, a_group_in_itself])
def test_links_are_not_followed(folder, make):
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file["char_embed"]
        make(file)
    with pytest.raises(ValueError, match=r"missing char_embed: expected \(261, 6\)\nPass"):
        ElmoLayer(folder)


@pytest.mark.parametrize(
    "options",
    [{}, {"chunks": (1, 1024)}, {"chunks": (1024, 1024), "compression": "gzip"}],
    ids=["contiguous", "chunks", "compressed"],
)
def test_arrays_that_no_file_of_that_size_holds_are_refused(tmp_path, options):
    path = tmp_path / "words.hdf5"
    with h5py.File(path, "w") as file:
        array = file.create_dataset("embedding", (10**9, 1024), "f4", **options)
        if options:
            array[:1024] = 0
    message = r"too few for the arrays of 4,096,000,000,000 bytes that it or its options declare"
    with pytest.raises(ValueError, match=message):
        hdf5.read_token_embeddings(path)


GZIP = {"compression": "gzip"}


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": None},
        {},
        GZIP,
        {"compression": "lzf"},
        {"shuffle": True},
        {"shuffle": True, "fletcher32": True, **GZIP},
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f2", ">f8"])
def test_any_storage_and_floating_point_type_is_read(tmp_path, rng, options, dtype):
    array = rng.normal(size=(50, 33)).astype(dtype)
    path = tmp_path / "words.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("embedding", data=array, **{"chunks": (16, 10), **options})
    np.testing.assert_array_equal(hdf5.read_token_embeddings(path), array.astype("float32"))


def test_chunks_that_were_never_written_are_zeros(tmp_path):
    path, expected = tmp_path / "words.hdf5", np.zeros((50, 33), "float32")
    expected[:5] = 1
    with h5py.File(path, "w") as file:
        file.create_dataset("embedding", (50, 33), "f4", chunks=(16, 10))[:5] = 1
    np.testing.assert_array_equal(hdf5.read_token_embeddings(path), expected)


def test_a_damaged_chunk_is_named(tmp_path):
    path = tmp_path / "words.hdf5"
    with h5py.File(path, "w") as file:
        array = file.create_dataset("embedding", (8, 4), "f4", chunks=(8, 4), **GZIP)
        array.id.write_direct_chunk((0, 0), b"x")
    with pytest.raises(ValueError, match="array embedding in .* cannot be read: the file is dam"):
        hdf5.read_token_embeddings(path)


def test_too_little_memory_is_no_damage(folder, monkeypatch):
    def full(*_):
        raise MemoryError("Unable to allocate 2 GiB")

    monkeypatch.setattr(h5py.Dataset, "__getitem__", full)
    with pytest.raises(MemoryError, match="Unable to allocate"):
        ElmoLayer(folder)


def test_weights_of_another_architecture_change_nothing():
    elmo = ElmoLayer(TINY)
    before = [to_numpy(weight).copy() for weight in elmo.weights]
    with pytest.raises(ValueError, match=r"unknown RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B"):
        weights.load_weights(elmo.backbone, GOLDEN / "three_layers" / "weights.hdf5")
    for old, weight in zip(before, elmo.weights):
        np.testing.assert_array_equal(old, to_numpy(weight))


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.999])
def test_a_file_cut_off_is_refused(folder, share):
    path = folder / "weights.hdf5"
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"weights\.hdf5 \([\d,]+ bytes\) is not a complete hdf5"):
        ElmoLayer(folder)


def test_other_files_are_refused(folder):
    (folder / "weights.hdf5").write_text("<html>Access denied</html>")
    with pytest.raises(ValueError, match=r"\(26 bytes\) is not a complete hdf5 file"):
        ElmoLayer(folder)
    (folder / "weights.hdf5").unlink()
    with pytest.raises(FileNotFoundError, match="weights file .* does not exist"):
        weights.load_weights(ElmoLayer(TINY).backbone, folder / "weights.hdf5")


def test_a_full_disk_leaves_the_old_files_alone(folder, monkeypatch, capfd):
    """At each file that HDF5 writes: an OSError which names the folder, no message of HDF5."""
    elmo = ElmoLayer(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for write in (
        lambda: elmo.export_hdf5(folder),
        lambda: Embedder(elmo).dump_words(["<S>", "</S>", "the"], folder.parent / "words.h5"),
    ):
        with monkeypatch.context() as patch, pytest.raises(OSError) as caught:
            patch.setattr("keras_elmo.hdf5_write._File._write_all", full)
            write()
        assert caught.value.errno == 28 and str(folder.parent) in caught.value.filename
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert os.listdir(folder.parent) == [folder.name]
    assert capfd.readouterr().err == ""


def full(*_):
    raise OSError(28, "No space left on device")


def test_no_file_takes_its_name_before_all_are_written(folder):
    elmo = ElmoLayer(GOLDEN / "three_layers")
    old = {path.name: path.read_bytes() for path in folder.iterdir()}
    message = "softmax/W of this model holds NaN"
    with pytest.raises(ValueError, match=message), weights.model_folder(folder) as partial:
        weights.write_model(partial, elmo.backbone, softmax=(np.array([np.nan]), np.zeros(1)))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == old


def test_the_softmax_of_another_model_is_not_left_beside_new_weights(tmp_path):
    layer = ElmoLayer(TINY)
    layer.export_hdf5(tmp_path)
    (tmp_path / "softmax.hdf5").write_bytes(b"of a different model")
    before = (tmp_path / "weights.hdf5").read_bytes()
    with pytest.raises(FileExistsError, match=r"softmax\.hdf5 belongs to a different model"):
        layer.export_hdf5(tmp_path)
    assert (tmp_path / "weights.hdf5").read_bytes() == before


def test_stored_token_vectors_of_another_width_are_refused(tmp_path):
    path = tmp_path / "words.hdf5"
    for content, found in (({"embedding": (5, 7)}, r"embedding \(5, 7\)"), ({}, "no arrays")):
        with h5py.File(path, "w") as file:
            for name, shape in content.items():
                file[name] = np.zeros(shape, "float32")
        with pytest.raises(ValueError, match=rf"shape \(num_words, 12\), found {found}"):
            ElmoLayer(TINY, token_embeddings=path)


def test_stored_token_vectors_are_part_of_an_export(tmp_path):
    elmo = ElmoLayer(TINY, token_embeddings=TINY / "token_embeddings.hdf5")
    elmo.export_hdf5(tmp_path)
    ids = np.array([[1, 5, 7, 2]])
    again = ElmoLayer(tmp_path)
    assert again.config.vocabulary_size == 83
    np.testing.assert_array_equal(to_numpy(again(ids)), to_numpy(elmo(ids)))


PEAK_MEMORY = """
import sys
from keras_elmo import ElmoConfig, ElmoLayer

def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024

tiny = ElmoLayer(sys.argv[2])  # whatever the backend needs for itself
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts again from here
before = field("VmRSS")
elmo = ElmoLayer(sys.argv[1])
print(field("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="reads Linux's /proc")
def test_loading_takes_no_more_than_twice_the_memory_of_the_arrays(tmp_path):
    config = ElmoConfig()
    config.to_json(tmp_path / "options.json")
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for entry in weight_table(config):
            file[entry.name] = np.zeros(entry.shape, "float32")
    finished = subprocess.run(
        [sys.executable, "-c", PEAK_MEMORY, str(tmp_path), str(TINY)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    arrays = 4 * count_parameters(config)
    assert arrays <= int(finished.stdout) <= 2 * arrays

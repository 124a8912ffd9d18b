"""Files of word vectors."""

import h5py
import numpy as np
import pytest

from keras_elmo.embedding.store import save_vectors

VECTORS = [np.full((2, 3), 1.5, "float32"), np.zeros((0, 3), "float32"), np.ones((1, 3), "float32")]


@pytest.mark.parametrize(
    "name, opened", [("v.h5", h5py.File), ("v.hdf5", h5py.File), ("v.npz", np.load)]
)
def test_one_array_a_sentence(tmp_path, name, opened):
    assert save_vectors(tmp_path / name, iter(VECTORS)) == 3
    with opened(tmp_path / name) as file:
        assert sorted(file) == ["0", "1", "2"]
        for i, vectors in enumerate(VECTORS):
            np.testing.assert_array_equal(file[str(i)][()], vectors)


@pytest.mark.parametrize("name", ["v.h5", "v.npz"])
def test_an_interrupted_writer_leaves_the_old_file_alone(tmp_path, name):
    def interrupted():
        yield VECTORS[0]
        raise KeyboardInterrupt

    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        save_vectors(tmp_path / name, interrupted())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"old"


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.h5, \.hdf5 or \.npz"):
        save_vectors(tmp_path / "v.txt", VECTORS)

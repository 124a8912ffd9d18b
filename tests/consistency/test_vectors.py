"""Which vectors are meant? Each way to ask for a kind of vectors gives the same ones."""

import h5py
import keras
import numpy as np
import pytest

from helpers import TINY, assert_close, to_numpy
from keras_elmo import ElmoLayer, Embedder, cli

SENTENCES = ["They play in the street .", "Hello", "", "He wrote a play about the war ."]
COUNTS = [len(sentence.split()) for sentence in SENTENCES]
KINDS = ["mix", "layers", "top", "average", "sum", "concat", 0, 1, 2]


def expected(kind):
    """Plain NumPy on all layers."""
    layers = to_numpy(ElmoLayer(TINY, vectors="layers")(SENTENCES))
    arrays = {
        **{"mix": layers.mean(axis=1), "average": layers.mean(axis=1), "sum": layers.sum(axis=1)},
        **{"layers": layers, "concat": np.concatenate(list(layers.swapaxes(0, 1)), axis=-1)},
        **{"top": layers[:, -1], 0: layers[:, 0], 1: layers[:, 1], 2: layers[:, 2]},
    }
    return [array[..., :count, :] for array, count in zip(arrays[kind], COUNTS)]


def in_the_layer(kind, folder):
    elmo = ElmoLayer(TINY, vectors=kind)
    vectors = elmo(SENTENCES)
    found = to_numpy(vectors)
    assert found.shape == (*elmo.compute_output_shape((4, 8))[:-1], elmo.dim)
    mask = to_numpy(vectors._keras_mask)
    assert mask.shape == found.shape[:-1] and not found[~mask].any()
    return found


def saved_in_a_model(kind, folder):
    ids = keras.Input((None, 50), dtype="int32")
    keras.Model(ids, ElmoLayer(TINY, vectors=kind)(ids)).save(folder / "model.keras")
    model = keras.models.load_model(folder / "model.keras")
    return model.predict(ElmoLayer(TINY).text_encoder.encode_sentences(SENTENCES), verbose=0)


def embedded(kind, folder):
    return Embedder(TINY).embed(SENTENCES, kind)


def embedded_in_chunks(kind, folder):
    return Embedder(TINY, batch_tokens=3).embed(SENTENCES, kind)


def padded(kind, folder):
    return Embedder(TINY).embed(SENTENCES, vectors=kind, pad_to=9)[0]


def in_a_file(kind, folder):
    (folder / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    Embedder(TINY).embed_file(folder / "text.txt", output=folder / "vectors.h5", vectors=kind)
    return read(folder)


def on_the_command_line(kind, folder):
    (folder / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    command = ["embed", "--model", TINY, "--input", folder / "text.txt"]
    options = ["--output", folder / "vectors.h5", "--vectors", kind]
    assert cli.main(list(map(str, [*command, *options]))) == 0
    return read(folder)


def read(folder):
    with h5py.File(folder / "vectors.h5") as file:
        return [file[str(i)][()] for i in range(len(SENTENCES))]


WAYS = [
    in_the_layer,
    saved_in_a_model,
    embedded,
    embedded_in_chunks,
    padded,
    in_a_file,
    on_the_command_line,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_kind_means_the_same_everywhere(way, kind, tmp_path):
    for array, vectors, count in zip(way(kind, tmp_path), expected(kind), COUNTS, strict=True):
        assert_close(array[..., :count, :], vectors, 1e-5)


@pytest.mark.parametrize("kind", ["first", 3, -1, True, None, 1.0])
@pytest.mark.parametrize(
    "way", [in_the_layer, embedded, padded, in_a_file], ids=lambda way: way.__name__
)
def test_other_kinds_are_refused(way, kind, tmp_path):
    # Before the model is loaded, the number of its layers is not known.
    numbers = "0 or more" if way is in_the_layer and kind != 3 else "0 to 2"
    message = f"vectors must be 'mix', .* or the number of a layer, {numbers}; got {kind!r}"
    with pytest.raises(ValueError, match=message):
        way(kind, tmp_path)


def test_the_command_line_refuses_other_kinds(capsys):
    assert cli.main(["embed", "--model", str(TINY), "--vectors", "7", "a b"]) == 1
    assert "the number of a layer, 0 to 2; got 7" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["embed", "--model", "original", "--vectors", "tpo", "a b"])
    assert "--vectors: vectors must be 'mix', 'layers', " in capsys.readouterr().err


def test_other_kinds_are_refused_before_a_download():
    with pytest.raises(ValueError, match="vectors must be 'mix', .* 0 or more; got 'tpo'"):
        ElmoLayer("original", vectors="tpo")


def test_only_the_first_vectors():
    embedder = Embedder(TINY)
    whole = embedder.embed(SENTENCES, "layers")
    vectors, mask = embedder.embed(SENTENCES, "layers", pad_to=3, truncate=True)
    assert vectors.shape == (4, 3, 3, 24) and mask.sum(axis=1).tolist() == [3, 1, 0, 3]
    for array, other in zip(vectors, whole):
        count = min(3, other.shape[1])
        np.testing.assert_array_equal(array[:, :count], other[:, :count])
    with pytest.raises(ValueError, match=r"sentences\[3\] has 8 tokens, .* or truncate=True"):
        embedder.embed(SENTENCES, pad_to=3)

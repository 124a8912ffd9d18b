"""Copies a trained biLM to weights/default and writes the values that the tests expect of it.

    python weights/release.py run/model

The folder is one that `keras-elmo train` or `export` wrote. weights/default gets its options,
vocabulary, weights and softmax. The weights are rounded to bfloat16 (7 bits of mantissa), as
training rounded them in each step, and the words' rows of the softmax to 4 bits, which makes the
file smaller; the arrays are compressed float32, which every program reads. tests/golden/bundled
gets the layers' vectors of a few sentences and the perplexities of text.txt. MODEL_CARD.md is
written by hand.
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_elmo import ElmoLayer, load_language_model, perplexity
from keras_elmo.files import atomic_folder

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "weights" / "default"
GOLDEN = ROOT / "tests" / "golden" / "bundled"
SENTENCES = [
    ["The", "bank", "of", "the", "river", "was", "covered", "with", "grass", "."],
    ["Zoë", "'s", "tweets", "?"],
]
COPIED, ROUNDED = ("options.json", "vocabulary.txt"), ("weights.hdf5", "softmax.hdf5")
MANTISSA_BITS = {"softmax/W": 4}  # not its bias, which needs more than 4; others have 7
CARD = "MODEL_CARD.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with weights.hdf5 and softmax.hdf5")
    folder = parser.parse_args().folder
    with atomic_folder(DEFAULT, overwrite=True) as partial:
        shutil.copyfile(DEFAULT / CARD, Path(partial, CARD))
        for name in COPIED:
            shutil.copyfile(folder / name, Path(partial, name))
        for name in ROUNDED:
            write_rounded(folder / name, Path(partial, name))
    layers = ElmoLayer(DEFAULT, vectors="layers")(SENTENCES)
    np.savez_compressed(GOLDEN / "layers.npz", layers=keras.ops.convert_to_numpy(layers))
    report = text_perplexity()
    expected = {
        "forward": report.forward,
        "backward": report.backward,
        "sha256": {
            name: hashlib.sha256((DEFAULT / name).read_bytes()).hexdigest()
            for name in (*COPIED, *ROUNDED)
        },
    }
    (GOLDEN / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(json.dumps(expected, indent=1))


def write_rounded(source, target):
    """Copies an hdf5 file with its arrays rounded, as float32, each compressed as a whole."""
    gzip = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
    with h5py.File(source) as whole, h5py.File(target, "w") as file:

        def copy(name, array):
            if isinstance(array, h5py.Dataset):
                values = rounded(array[...], MANTISSA_BITS.get(name, 7))
                file.create_dataset(name, data=values, chunks=values.shape, **gzip)

        whole.visititems(copy)


def rounded(values, bits):
    """float32 numbers rounded to `bits` bits of mantissa, to the nearest, ties to even."""
    dropped = 23 - bits
    integers = values.view("uint32")
    odd = (integers >> dropped) & 1
    integers = (integers + (1 << (dropped - 1)) - 1 + odd) >> dropped << dropped
    return integers.view("float32")


def text_perplexity():
    """Perplexity of tests/golden/bundled/text.txt, by the bundled softmax."""
    model, vocabulary = load_language_model(DEFAULT)
    return perplexity(model, GOLDEN / "text.txt", vocabulary, batch_size=8)


if __name__ == "__main__":
    main()

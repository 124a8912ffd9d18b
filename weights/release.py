"""Copies a trained biLM to weights/default and writes the values that the tests expect of it.

    python weights/release.py run/model

The folder is one that `keras-elmo train` or `export` wrote. weights/default gets its options,
weights and vocabulary; tests/golden/bundled gets the layers' vectors of a few sentences, the
softmax rows of the most frequent words in float16, and the perplexities of text.txt over those
words. The full softmax is too large to ship. MODEL_CARD.md is written by hand.
"""

import argparse
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_elmo import BidirectionalLanguageModel, ElmoConfig, ElmoLayer, Vocabulary, perplexity
from keras_elmo.pretrained.hdf5 import SOFTMAX_NAMES

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ROOT / "weights" / "default"
GOLDEN = ROOT / "tests" / "golden" / "bundled"
FREQUENT_WORDS = 4000
SENTENCES = [
    ["The", "bank", "of", "the", "river", "was", "covered", "with", "grass", "."],
    ["Zoë", "'s", "tweets", "?"],
]
FILES = ("options.json", "weights.hdf5", "vocabulary.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with weights.hdf5 and softmax.hdf5")
    folder = parser.parse_args().folder
    DEFAULT.mkdir(exist_ok=True)
    for name in FILES:
        shutil.copyfile(folder / name, DEFAULT / name)
    layers = ElmoLayer(DEFAULT, output="layers")(SENTENCES)
    np.savez_compressed(GOLDEN / "layers.npz", layers=keras.ops.convert_to_numpy(layers))
    with (
        h5py.File(folder / "softmax.hdf5") as whole,
        h5py.File(GOLDEN / "softmax.hdf5", "w") as file,
    ):
        for name in SOFTMAX_NAMES:
            file[name] = whole[name][:FREQUENT_WORDS].astype("float16")
    report = frequent_words_perplexity()
    expected = {
        "forward": report.forward,
        "backward": report.backward,
        "sha256": {
            name: hashlib.sha256((DEFAULT / name).read_bytes()).hexdigest() for name in FILES
        },
    }
    (GOLDEN / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(json.dumps(expected, indent=1))


def frequent_words_perplexity():
    """Of tests/golden/bundled/text.txt, all other words being `<UNK>`."""
    vocabulary = Vocabulary(Vocabulary.from_file(DEFAULT / "vocabulary.txt").words[:FREQUENT_WORDS])
    config = ElmoConfig.from_json(DEFAULT / "options.json")
    model = BidirectionalLanguageModel(config, FREQUENT_WORDS, carry_state=False)
    with tempfile.TemporaryDirectory() as folder:
        for path in (DEFAULT / "options.json", DEFAULT / "weights.hdf5", GOLDEN / "softmax.hdf5"):
            shutil.copy(path, folder)
        model.load_hdf5(folder)
    return perplexity(model, GOLDEN / "text.txt", vocabulary)


if __name__ == "__main__":
    main()

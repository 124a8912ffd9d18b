"""The golden models of ELMoForManyLangs, and small lexicons."""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_elmo import Lexicon

MANY_LANGUAGES = Path(__file__).parent / "golden" / "many_languages"
VARIANTS = ["char_only", "tanh_clips", "word_char", "word_only"]
WORD_CHAR_FIRST = [
    pytest.param(name, marks=[] if name == "word_char" else pytest.mark.slow) for name in VARIANTS
]
"""For tests that compile much: the others take long."""
MARKS = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]


def golden(variant):
    """The sentences and calls of a golden model, and what the original computed for them."""
    folder = MANY_LANGUAGES / variant
    return json.loads((folder / "sentences.json").read_text()), np.load(folder / "outputs.npz")


def small_lexicon(words="the cat sat 猫 قطة", characters="catheso猫ق", width=12):
    specials = ["<oov>", "<bos>", "<eos>", "<pad>"]
    return Lexicon([*specials, *words.split()], [*characters, *MARKS], width)

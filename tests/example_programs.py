"""What the tests of the example programs share: tiny files to run them on."""

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from helpers import TINY

EXAMPLES = Path(__file__).parents[1] / "examples"

trains_a_model = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="a program's training takes minutes on this backend; its layers are tested on all",
)

ENTITIES = """
Ann B-PER\nLee I-PER\nwent O\nto O\nParis B-LOC\n. O\n
Paris B-LOC\nis O\nfar O\n. O\n
Bob B-PER\nwent O\nhome O\n. O\n
Home O\n! O\n
Bob B-PER\nis O\nin O\nRome B-LOC\n. O
"""
TREES = """(3 (2 It) (4 (2 's) (4 fun)))
(1 (2 (2 The) (2 plot)) (0 (1 -LRB-) (0 (0 bad) (1 -RRB-))))
(4 (2 fun) (2 \\/))
(0 (0 bad) (0 bad))
"""
PAIRS = [
    ("A dog runs .", "An animal moves .", "entailment"),
    ("A dog runs .", "The dog is black .", "neutral"),
    ("A dog runs .", "A dog sleeps .", "contradiction"),
    ("Two men play music in the street .", "Men play .", "entailment"),
    ("Two men play music in the street .", "They play for money .", "neutral"),
    ("Two men play music in the street .", "The street is empty .", "contradiction"),
]
ROLES = [
    ("The cat sat on the mat .", 2, "B-ARG1 I-ARG1 B-V B-ARG2 I-ARG2 I-ARG2 O"),
    ("The cat saw the dog .", 2, "B-ARG0 I-ARG0 B-V B-ARG1 I-ARG1 O"),
    ("Yesterday the dog gave up .", 3, "B-ARGM-TMP B-ARG0 I-ARG0 B-V I-V O"),
    ("Dogs bark .", 1, "B-ARG0 B-V O"),
]
DOCUMENTS = [
    [("Ann saw her brother .", "(1) - (1)|(2 2) -"), ("She called him .", "(1) - (2) -")],
    [("The old man slept .", "(7 - 7) - -"), ("He lost a boat .", "(7) - (8 8) -")],
]


def role_columns(sentence, place, tags):
    """A sentence in the columns of `srl.py`."""
    rows = enumerate(zip(sentence.split(), tags.split()))
    lines = (f"{i}\t{w}\t{'do.02' if i == place else '-'}\t{tag}\n" for i, (w, tag) in rows)
    return "".join(lines) + "\n"


def conll(documents):
    """Documents in the columns of CoNLL-2012 that `coref.py` reads."""
    lines = []
    for i, document in enumerate(documents):
        lines.append(f"#begin document (d{i}); part 0")
        for words, chains in document:
            rows = zip(words.split(), chains.split())
            lines += [f"d{i} 0 {j} {word} _ {chain}" for j, (word, chain) in enumerate(rows)]
            lines.append("")
        lines.append("#end document")
    return "\n".join(lines) + "\n"


TEXTS = {
    "ner": ENTITIES,
    "sst5": TREES,
    "entailment": "".join(
        json.dumps(dict(zip(("premise", "hypothesis", "label"), pair))) + "\n" for pair in PAIRS
    ),
    "srl": "".join(role_columns(*item) for item in ROLES),
    "coref": conll(DOCUMENTS),
    "squad": (EXAMPLES / "tiny_squad.json").read_text(encoding="utf-8"),
}


def settings_of(task, *options):
    """Options of a task, which trains on a tiny text in the current folder."""
    Path("text").write_text(TEXTS[task], encoding="utf-8")
    words = "the paris ann Bob is bad dog who cat sat saw bark"
    write_glove(Path("glove.txt"), words.split())
    files = [x for part in ("train", "dev", "test") for x in (f"--{part}", "text")]
    model = ("--glove", "glove.txt", "--elmo", str(TINY), "--units", "8", "--epochs", "1")
    return importlib.import_module(task).parse([*files, *model, "--output", "out", *options])


def run_of(task, *options, features="glove+elmo"):
    """The options of one run, of one feature set and one seed."""
    return argparse.Namespace(
        **{**vars(settings_of(task, *options)), "features": features, "seed": 1}
    )


def run_program(name, *arguments):
    """Runs a program in a process of its own and returns what it printed."""
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


def write_glove(path, words, dim=4):
    """Writes a GloVe text file of random vectors; returns them as an array."""
    vectors = np.random.default_rng(1).normal(size=(len(words), dim)).round(3)
    rows = (f"{word} {' '.join(map(str, vector))}\n" for word, vector in zip(words, vectors))
    path.write_text("".join(rows), encoding="utf-8")
    return vectors.astype("float32")

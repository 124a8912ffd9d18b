"""The examples in the docstrings run and give what they say."""

import dataclasses
import doctest
import gzip
import importlib
import pkgutil
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_elmo
from helpers import tensorflow_only
from many_languages import MANY_LANGUAGES
from training_models import BATCH, CONFIG, DATA, tiny_model, vocabulary

ROOT = Path(__file__).parents[1]
NOT_RUN = {
    "embed_shards": "starts a Ray cluster: tests/embedding/test_distributed.py",
    "register_model": "downloads",
    "serve": "serves until it is interrupted: tests/explore",
}
SMALLER = {
    "epochs=100": "epochs=10",
    "epochs=10": "epochs=1",
    "steps_per_epoch=500": "steps_per_epoch=2",
    "// 500": "// 2",
    "steps_per_epoch=1000": "steps_per_epoch=2",
    "batch_size=128, unroll_steps=20": "batch_size=4, unroll_steps=8",
    "(128, 20)": "(4, 8)",
    '"heldout.txt", vocabulary, config, batch_size=128': (
        '"heldout.txt", vocabulary, config, batch_size=4'
    ),
    "num_negative_samples=1024": "num_negative_samples=16, batch_size=4, unroll_steps=8",
    '"many-languages/it"': '"many-languages/159"',  # a folder, in place of the download
    '"shards/*", output="run"': '"shards/*", output="trained", steps=2, batch_size=4',
}
USUAL = dataclasses.replace(CONFIG, max_characters_per_token=50)
ILLUSTRATIVE = {
    *("118.3", "812.3", "([97.5, 142.8], 0.93)", "['lake', 'coast', 'valley']"),
    *("3551342", "60003", "512", "(3, 4, 1024)", "(2, 1024)"),
}
"""Outputs that depend on the files, for which the test has small ones."""


NEEDS = {"plot": "matplotlib", "explore.": "streamlit", "text.tokenize": "syntok"}
"""Modules that cannot be imported, or run, without an extra."""


def docstring_examples():
    missing = [part for part, package in NEEDS.items() if not find_spec(package)]
    for module in pkgutil.walk_packages(keras_elmo.__path__, "keras_elmo."):
        if module.name.endswith("__main__") or any(part in module.name for part in missing):
            continue
        finder = doctest.DocTestFinder(exclude_empty=True)
        for test in finder.find(importlib.import_module(module.name)):
            if test.examples and not re.search(r"\._(?!_)", test.name):
                yield test


EXAMPLES = {test.name.removeprefix("keras_elmo."): test for test in docstring_examples()}


def marks_of(name):
    if re.match("training|export|embedding|compat", name):  # they compile models
        return [pytest.mark.slow]
    return [pytest.mark.needs(package) for part, package in NEEDS.items() if part in name]


@tensorflow_only
@pytest.mark.parametrize("name", [pytest.param(n, marks=marks_of(n)) for n in EXAMPLES])
def test_example(name, tmp_path, monkeypatch):
    test = EXAMPLES[name]
    if name.rsplit(".", 1)[-1] in NOT_RUN:
        pytest.skip(NOT_RUN[name.rsplit(".", 1)[-1]])
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    for example in test.examples:
        for large, small in SMALLER.items():
            example.source = example.source.replace(large, small)
            example.want = example.want.replace(large, small)
    test.globs = {**test.globs, **names(" ".join(example.source for example in test.examples))}
    report = []
    doctest.DocTestRunner(checker=Checker()).run(test, out=report.append)
    assert not report, "".join(report)


class Checker(doctest.OutputChecker):
    """Compares outputs that are given; tensors and shapes by their values."""

    def check_output(self, want, got, flags):
        got = re.sub(r"<tf.Tensor: .* numpy=(.*)>", r"\1", got)
        got, want = (re.sub(r"TensorShape\(\[(.*)\]\)", shape, text) for text in (got, want))
        if not want or want.strip() in ILLUSTRATIVE:
            return True
        return super().check_output(want, got, flags | doctest.NORMALIZE_WHITESPACE)


def shape(match):
    return f"({match[1]},)" if match[1] and "," not in match[1] else f"({match[1]})"


def write_files(folder):
    """Small files of the names in the examples."""
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(ROOT / "weights" / "default" / name, folder)
    for number in ("158", "159"):
        shutil.copytree(MANY_LANGUAGES / "word_char", folder / "many-languages" / number)
    for name in ("vocab.txt", "vocabulary.txt"):
        shutil.copy(DATA / "vocab.txt", folder / name)
    (folder / "heldout.txt").write_text("Hello , world\n" + (DATA / "heldout.txt").read_text())
    (folder / "shards").mkdir()
    shutil.copy(DATA / "train.txt", folder / "shards" / "0.txt")
    with gzip.open(folder / "shards" / "1.txt.gz", "wb") as file:
        file.write((DATA / "train.txt").read_bytes().replace(b"\n", b" the\n"))
    shutil.copy(DATA / "heldout.txt", folder / "plain.txt")
    with gzip.open(folder / "text.txt.gz", "wb") as file:
        file.write(b"Hello , world\nGood morning\n")


def names(code):
    """What the examples take for granted, made only if they use it."""
    import tensorflow as tf

    public = {name: getattr(keras_elmo, name) for name in keras_elmo.__all__}
    known = {**public, "keras": keras, "np": np, "tf": tf}
    makers = {
        "config": lambda: USUAL,
        "elmo": keras_elmo.ElmoLayer,
        "vocabulary": vocabulary,
        "model": compiled_model,
        "corpus": lambda: keras_elmo.LanguageModelCorpus("shards/*", vocabulary(), USUAL, **BATCH),
        "dataset": lambda: tf.data.Dataset.from_tensors(tf.constant(["Hello world"])),
        "onnxruntime": lambda: pytest.importorskip("onnxruntime"),
    }
    for name, make in makers.items():
        if re.search(rf"\b{name}\b", code):
            known[name] = make()
    if '"words.h5"' in code:
        keras_elmo.Embedder().dump_words("vocabulary.txt", "words.h5")
    if '"run"' in code:
        keras_elmo.train(
            keras_elmo.TrainingSettings(files="shards/*", output="run", steps=2, **BATCH)
        )
    return known


def compiled_model():
    model = tiny_model(USUAL)
    model.compile()
    return model

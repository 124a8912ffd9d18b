"""Models from every source to options.json and weights.hdf5, with softmax and vocabulary."""

import contextlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from keras_elmo.export.checks import (
    HALF_PRECISION_TOLERANCE,
    TOLERANCE,
    check_stateless,
    layer_outputs,
    verified,
)
from keras_elmo.export.source import find_source, load_source, paths_of
from keras_elmo.files import PARTIAL, atomic_folder, atomic_write
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.formats import FORMATS
from keras_elmo.pretrained.locate import ModelSource
from keras_elmo.pretrained.model_card import CARD, is_edited
from keras_elmo.pretrained.weights import write_model

_NAMES = re.compile("|".join(map(re.escape, (*FORMATS[0].files, CARD))))
_TOLERANCES = {"float32": TOLERANCE, "float16": HALF_PRECISION_TOLERANCE}


def export_hdf5(
    model: ModelSource | ElmoLayer,
    output: str | os.PathLike,
    *,
    dtype: str = "float32",
    vocabulary: str | os.PathLike | None = None,
    overwrite: bool = False,
) -> dict[str, float]:
    """Writes a model as options.json and weights.hdf5, reads it back and compares the two.

    softmax.hdf5 and vocabulary.txt are next to them if the model has a softmax or reads whole
    words, word.dic and char.dic if it has a lexicon. README.md is its model card for the Hugging
    Face Hub; one in the folder that you wrote or edited is kept.

    Args:
        model: As for `ElmoLayer`, or an `ElmoLayer`; or the folder of a training run, a checkpoint
            of one, or a TensorFlow 1 checkpoint of bilm-tf, which TensorFlow reads.
        output: The output: a folder, which is created with its parents; or a .zip file.
        dtype: `"float32"` or `"float16"`, of the weights.
        vocabulary: The vocabulary file of a model with a softmax, if it is not in its folder.
        overwrite: Whether an earlier export at that place is replaced.

    Returns:
        The largest absolute difference of `word_emb` and each `lstm_outputs`, by name.

    Raises:
        ConnectionError: if a download failed.
        FileExistsError: if the output exists and `overwrite` is not set.
        FileNotFoundError: if a file is missing.
        ValueError: if the output is the model, or the model cannot be written, or read back differs
            by more than 1e-5, for float16 0.05.

    Example:

    >>> export_hdf5("many-languages/it", "italian", dtype="float16")
    """
    found = find_source(model)
    inputs = (*paths_of(found), vocabulary)
    with _output(output, overwrite, inputs) as (partial, folder):
        source = load_source(found, vocabulary)
        layer = source.layer
        check_stateless(layer)
        write_model(
            folder,
            layer.backbone,
            softmax=source.softmax,
            lexicon=layer.lexicon,
            vocabulary=source.vocabulary,
            dtype=dtype,
            config=source.config,
            details=source.details,
        )
        if partial != folder:
            _pack(folder, partial)
        elif is_edited(card := Path(output, CARD)):
            shutil.copy(card, folder)
        written = ElmoLayer(partial, vectors="layers", dtype=layer.bilm_dtype_policy)
        return verified(layer, [layer_outputs(written)], _TOLERANCES[dtype])


@contextlib.contextmanager
def _output(output, overwrite, inputs) -> Iterator[tuple[str, str]]:
    """Yields a temporary path, which becomes `output`, and the folder to write the files into."""
    if Path(output).suffix.lower() != ".zip":
        with atomic_folder(output, overwrite, inputs, _NAMES) as partial:
            yield partial, partial
        return
    with (
        atomic_write(output, overwrite, inputs) as partial,
        tempfile.TemporaryDirectory(prefix=PARTIAL, dir=Path(partial).parent) as folder,
    ):
        yield partial, folder


def _pack(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(Path(folder).iterdir()):
            archive.write(file, file.name)

"""Models from one format of files to another."""

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from keras_elmo.export.checks import (
    HALF_PRECISION_TOLERANCE,
    TOLERANCE,
    check_layer,
    unmixed_outputs,
    verified,
)
from keras_elmo.files import atomic_folder, atomic_write, check_free
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained import hdf5, many_languages
from keras_elmo.pretrained.download import ModelSource

FORMATS = ("hdf5", "many-languages")
_TOLERANCES = {"float32": TOLERANCE, "float16": HALF_PRECISION_TOLERANCE}


def convert(
    model: ModelSource | ElmoLayer,
    output: str | os.PathLike,
    *,
    format: str = "hdf5",
    dtype: str = "float32",
    overwrite: bool = False,
) -> dict[str, float]:
    """Writes a model in another format, reads it back and compares the two.

    Args:
        model: As for `ElmoLayer`, or an `ElmoLayer`.
        output: Where to: a folder, which is made with its parents; or a .zip file.
        format: `"hdf5"` for options.json and weights.hdf5, with word.dic and char.dic beside them
            if the model has a lexicon; `"many-languages"` for the files of ELMoForManyLangs, which
            only a model with a lexicon has.
        dtype: `"float32"` or `"float16"`, of the weights in `"hdf5"`.
        overwrite: Whether an earlier export at that place is replaced.

    Returns:
        The largest absolute difference of `word_emb` and each `lstm_outputs`, by name.

    Raises:
        ConnectionError: if a download failed.
        FileExistsError: if the output exists and `overwrite` is not set.
        ValueError: if the model cannot be written in that format, or read back differs by more than
            1e-5, for float16 0.05.

    Example:

    >>> convert("many-languages/it", "italian", dtype="float16")
    """
    if format not in FORMATS or dtype not in _TOLERANCES:
        raise ValueError(
            f"format must be one of {FORMATS} and dtype of {tuple(_TOLERANCES)}; got "
            f"{format!r} and {dtype!r}."
        )
    if format == "many-languages" and dtype != "float32":
        raise ValueError("ELMoForManyLangs stores float32 alone: leave dtype out.")
    check_free(output, overwrite)
    layer = model if isinstance(model, ElmoLayer) else ElmoLayer(model)
    check_layer(layer)
    if format == "many-languages":
        _check_many_languages(layer)
    with _written(layer, output, format, dtype, overwrite) as partial:
        found = unmixed_outputs(ElmoLayer(partial, dtype=layer.bilm_dtype_policy))
        return verified(unmixed_outputs(layer), [found], _TOLERANCES[dtype])


@contextlib.contextmanager
def _written(layer, output, format, dtype, overwrite) -> Iterator[str]:
    """Yields the path of what becomes `output` once the block has succeeded."""
    if Path(output).suffix.lower() != ".zip":
        with atomic_folder(output, overwrite) as partial:
            _write(layer, partial, format, dtype)
            yield partial
        return
    around = Path(output).absolute().parent
    with (
        atomic_write(output) as partial,
        tempfile.TemporaryDirectory(prefix=".partial-", dir=around) as folder,
    ):
        _write(layer, folder, format, dtype)
        with zipfile.ZipFile(partial, "w") as archive:
            for path in sorted(Path(folder).iterdir()):
                archive.write(path, path.name)
        yield partial
        check_free(output, overwrite)  # it may have appeared meanwhile


def _write(layer, folder, format, dtype):
    if format == "hdf5":
        hdf5.write_model(folder, layer, layer.config, lexicon=layer.lexicon, dtype=dtype)
    else:
        many_languages.write_model(folder, layer, layer.config, layer.lexicon)


def _check_many_languages(layer):
    config = layer.config
    is_projected = config.projects_cells and (
        config.projects_characters or not config.reads_characters
    )
    has_its_shape = config.bidirectional and config.use_skip_connections and is_projected
    if layer.lexicon is None or not has_its_shape:
        raise ValueError(
            "ELMoForManyLangs has no such models: it reads code points and words of a lexicon, in "
            "both directions, with skip connections and with projections (always_project). Write "
            "hdf5 instead."
        )

"""Models from any readable format to options.json and weights.hdf5."""

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
    layer_outputs,
    verified,
)
from keras_elmo.files import (
    PARTIAL,
    atomic_folder,
    atomic_write,
    check_not_an_input,
    check_not_exists,
)
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.pretrained.locate import ModelSource
from keras_elmo.pretrained.weights import write_model

_TOLERANCES = {"float32": TOLERANCE, "float16": HALF_PRECISION_TOLERANCE}


def convert(
    model: ModelSource | ElmoLayer,
    output: str | os.PathLike,
    *,
    dtype: str = "float32",
    overwrite: bool = False,
) -> dict[str, float]:
    """Writes a model as options.json and weights.hdf5, reads it back and compares the two.

    A model with a lexicon has word.dic and char.dic next to them. README.md is its model card for
    the Hugging Face Hub; one in the folder that you wrote or edited is kept.

    Args:
        model: As for `ElmoLayer`, or an `ElmoLayer`.
        output: The output: a folder, which is created with its parents; or a .zip file.
        dtype: `"float32"` or `"float16"`, of the weights.
        overwrite: Whether an earlier export at that place is replaced.

    Returns:
        The largest absolute difference of `word_emb` and each `lstm_outputs`, by name.

    Raises:
        ConnectionError: if a download failed.
        FileExistsError: if the output exists and `overwrite` is not set.
        ValueError: if the output is the model, or the model cannot be written, or read back differs
            by more than 1e-5, for float16 0.05.

    Example:

    >>> convert("many-languages/it", "italian", dtype="float16")
    """
    if dtype not in _TOLERANCES:
        raise ValueError(f"dtype must be one of {', '.join(_TOLERANCES)}; got {dtype!r}.")
    check_not_exists(output, overwrite)
    layer = model if isinstance(model, ElmoLayer) else ElmoLayer(model)
    check_not_an_input(output, layer.model_paths)
    check_layer(layer)
    with _written(layer, output, dtype, overwrite) as partial:
        written = ElmoLayer(partial, output="layers", dtype=layer.bilm_dtype_policy)
        return verified(layer, [layer_outputs(written)], _TOLERANCES[dtype])


@contextlib.contextmanager
def _written(layer, output, dtype, overwrite) -> Iterator[str]:
    """Yields a temporary path, which is renamed to `output` if the block succeeds."""
    is_archive = Path(output).suffix.lower() == ".zip"
    with (
        (atomic_write if is_archive else atomic_folder)(output, overwrite) as partial,
        tempfile.TemporaryDirectory(prefix=PARTIAL, dir=Path(partial).parent) as aside,
    ):
        folder = aside if is_archive else partial
        facts = {"language": layer.language}
        write_model(folder, layer.backbone, lexicon=layer.lexicon, dtype=dtype, facts=facts)
        if is_archive:
            with zipfile.ZipFile(partial, "w") as archive:
                for path in sorted(Path(folder).iterdir()):
                    archive.write(path, path.name)
        yield partial

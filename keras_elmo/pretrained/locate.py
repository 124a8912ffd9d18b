"""From the name, folder, archive or URL of a model to its files."""

import dataclasses
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.archive import is_archive, unpack
from keras_elmo.pretrained.download import download
from keras_elmo.pretrained.folder import (
    TRAINING,
    find_model,
    saved_model_error,
    unfinished_error,
)
from keras_elmo.pretrained.formats import (
    EXPECTED,
    PUBLISHED_NAMES,
    SOFTMAX,
    VOCABULARY,
    format_of,
)
from keras_elmo.pretrained.registry import hint_at_models, known_model
from keras_elmo.pretrained.weight_table import check_declared_bytes, count_parameters
from keras_elmo.text.lexicon import Lexicon

_HUB = "hf://"


@dataclasses.dataclass(frozen=True, eq=False)
class ModelFiles:
    """The files of a model on this machine, and its architecture.

    An archive is unpacked into a temporary folder, which exists as long as this object.

    Args:
        config: The architecture.
        options, weights: Paths of options.json and weights.hdf5, or of config.json and encoder.pkl
            of ELMoForManyLangs.
        lexicon: The `Lexicon` of a model that has one, else `None`.
        softmax: The softmax of a language model, softmax.hdf5 next to the weights, or `None`.
        vocabulary: The words of a softmax or a word table, vocabulary.txt next to the weights, or
            `None`.
        language: ISO 639 code of its language, or `None` if it is not known.
        place: What messages call the model: its folder or archive.
        paths: What no output may replace: its archive or files.
    """

    config: ElmoConfig
    options: Path
    weights: Path
    lexicon: Lexicon | None
    softmax: Path | None
    vocabulary: Path | None
    language: str | None
    place: Path
    paths: tuple[Path, ...]


ModelSource = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike] | ModelFiles
"""A model's name, its folder, zip or tar.gz file, the paths of its options and weights, or
`"hf://user/repo"`, optionally followed by `@revision`; or its `ModelFiles`.

The URLs of a known model's options and weights work like its name.
"""


def find_model_files(model: ModelSource) -> ModelFiles:
    """The files of a model, downloaded where needed.

    Args:
        model: See `ModelSource`.

    Raises:
        FileNotFoundError: if the name is unknown, a file or folder does not exist, or a training
            run has not ended.
        ValueError: if a folder or archive does not hold one model, or a file is damaged.
        ConnectionError: if a download failed.
        ImportError: if `hf://` needs `huggingface_hub`, which is not installed.

    Example:

    >>> files = find_model_files("default")
    >>> files.config.projection_dim, files.weights.name
    (256, 'weights.hdf5')
    """
    if isinstance(model, ModelFiles):
        return model
    if (known := known_model(model)) is not None:
        return _from_path(known.local_path or download(known), language=known.language)
    if isinstance(model, (tuple, list)):
        options, weights = _checked_pair(model)
        beside = [weights.with_name(name) for name in format_of(weights).files]
        return _read(weights.parent, [options, weights, *filter(Path.is_file, beside)])
    if not isinstance(model, (str, os.PathLike)):
        raise ValueError(
            "Expected a model name, a folder, zip or tar.gz file, a pair (options, weights) of "
            f"paths, or hf://user/repo; got {model!r}."
        )
    if str(model).startswith(_HUB):
        return _from_path(_hub_folder(model))
    return _from_path(_checked_path(model))


def is_keras_file(model: object) -> bool:
    """Whether it is the path of an existing file of a Keras model."""
    if not isinstance(model, (str, os.PathLike)):
        return False
    return str(model).endswith(".keras") and os.path.isfile(model)


def _from_path(path, language=None):
    if path.is_dir():
        return _read(path, find_model(path), language)
    if is_keras_file(path):
        raise FileNotFoundError(
            f"{path} is a saved Keras model: load it with keras.models.load_model, and take the "
            "ElmoLayer in its layers. Embedder and `keras-elmo embed` accept the file."
        )
    if path.suffix == ".ckpt" and path.is_file():
        raise FileNotFoundError(
            f"{path} is a checkpoint of a training run: export it with `keras-elmo export {path} "
            "--output FOLDER` and pass that folder."
        )
    if path.is_file() and is_archive(path):
        folder = Path(tempfile.mkdtemp(prefix=f"{path.name}-"))
        try:
            unpack(path, folder)
            files = _read(path, find_model(folder), language)
        except BaseException:
            shutil.rmtree(folder)
            raise
        weakref.finalize(files, shutil.rmtree, folder, ignore_errors=True)
        return files
    if path.exists():
        raise FileNotFoundError(
            f"{path} is neither a folder nor a complete zip or tar.gz file. Pass the folder that "
            f"holds {EXPECTED}; or the pair of their paths."
        )
    if path.name == "model" and (path.parent / TRAINING).is_file():
        raise FileNotFoundError(unfinished_error(path.parent))
    raise FileNotFoundError(
        f"{path} is neither a known model nor an existing folder or archive."
        f"{hint_at_models(str(path))}"
    )


def _read(place: Path, paths: Sequence[Path], language: str | None = None) -> ModelFiles:
    """Reads the architecture and lexicon of a model from its files, the first two of which are
    options and weights."""
    options, weights, *others = paths
    config, lexicon = format_of(weights).read_architecture(options)
    # Before layers are built for it.
    if config.reads_text or config.vocabulary_size is not None:
        check_declared_bytes(weights, 4 * count_parameters(config))
    beside = {path.name: path for path in others}
    return ModelFiles(
        config,
        options,
        weights,
        lexicon,
        softmax=beside.get(SOFTMAX),
        vocabulary=beside.get(VOCABULARY),
        language=language,
        place=place,
        paths=(place,) if place.is_file() else tuple(paths),
    )


def _checked_pair(pair):
    if len(pair) != 2:
        raise ValueError(f"Expected a pair of paths (options, weights), got {len(pair)} items.")
    paths = [_checked_path(path) for path in pair]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(
                f"The file {path} of the pair (options, weights) does not exist."
            )
    with open(paths[1], "rb") as file:
        if file.read(64).lstrip().startswith(b"{"):
            raise ValueError(
                f"{paths[1]} is a JSON file, not weights: pass the pair as (options, weights), in "
                "this order."
            )
    return paths


def _checked_path(place):
    if re.match(r"https?://(www\.)?(tfhub\.dev|kaggle\.com|tfhub-modules)|gs://tfhub", str(place)):
        raise FileNotFoundError(saved_model_error(place))
    if "://" in str(place):
        raise FileNotFoundError(
            f"{place} is a URL: pass a published model by its name, a repository of the Hugging "
            "Face Hub as hf://user/repo, or downloaded files. register_model(name, url) names the "
            "http(s) URL of a different model."
        )
    return Path(place).expanduser()


def _hub_folder(model):
    """The folder of a repository's model files, downloaded by huggingface_hub into its cache."""
    found = re.fullmatch(r"hf://([\w.-]+/[\w.-]+)(?:@(\S+))?", model)
    if found is None:
        raise ValueError(f"Expected hf://user/repo or hf://user/repo@revision, got {model!r}.")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError(f"{model} needs huggingface_hub: pip install 'keras-elmo[hub]'") from None
    try:
        folder = snapshot_download(
            found[1], revision=found[2], allow_patterns=list(PUBLISHED_NAMES)
        )
    except Exception as error:  # of several libraries
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise ConnectionError(f"Could not download {model}: {reason}") from None
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{model} holds no model: expected options.json and weights.hdf5.")
    return Path(folder)

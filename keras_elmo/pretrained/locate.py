"""From the name, folder, archive or address of a model to its files."""

import contextlib
import dataclasses
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained import many_languages
from keras_elmo.pretrained.archive import is_archive, unpack
from keras_elmo.pretrained.download import download, files_of
from keras_elmo.pretrained.folder import HUB_FILES, find_model, is_elmo_for_many_langs
from keras_elmo.pretrained.registry import (
    PretrainedModel,
    get_model,
    hint_at_models,
    list_models,
    name_from_urls,
)
from keras_elmo.pretrained.weight_table import check_declared_bytes, count_parameters, weight_table
from keras_elmo.text.lexicon import Lexicon

ModelSource = str | os.PathLike | tuple[str | os.PathLike, str | os.PathLike]
"""A model's name, its folder, zip or tar.gz file, the paths of its options and weights, or
`"hf://user/repo"`, optionally followed by `@revision`.

The addresses of a known model's options and weights stand for its name.
"""

HUB = "hf://"
_FILE_ENDINGS = (".zip", ".tar.gz", ".tgz", ".hdf5", ".h5")


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """The files of a model on this machine, and its architecture.

    Args:
        config: The architecture.
        options, weights: Paths of options.json and weights.hdf5, or of config.json and encoder.pkl
            of ELMoForManyLangs.
        lexicon: The `Lexicon` of a model that has one, else `None`.
    """

    config: ElmoConfig
    options: Path
    weights: Path
    lexicon: Lexicon | None = None

    @property
    def folder(self) -> Path:
        """The folder of the weights."""
        return self.weights.parent

    @property
    def softmax(self) -> Path | None:
        """The softmax of a language model, softmax.hdf5 next to the weights, else `None`."""
        return self._beside("softmax.hdf5")

    @property
    def vocabulary(self) -> Path | None:
        """The words of a softmax or a word table, vocabulary.txt next to the weights, or `None`."""
        return self._beside("vocabulary.txt")

    def _beside(self, name):
        path = self.folder / name
        return path if path.is_file() else None


@contextlib.contextmanager
def locate(model: ModelSource) -> Iterator[ModelFiles]:
    """Yields the files of a model, downloaded where needed.

    An archive is unpacked into a temporary folder, which is deleted at the end of the block.

    Args:
        model: See `ModelSource`.

    Raises:
        FileNotFoundError: if a file or folder does not exist, or a training run has not ended.
        ValueError: if the name is unknown, a folder or archive does not hold one model, or a file
            is damaged.
        ConnectionError: if a download failed.
        ImportError: if `hf://` needs `huggingface_hub`, which is not installed.

    Example:

    >>> with locate("default") as files:
    ...     print(files.config.projection_dim, files.weights.name)
    256 weights.hdf5
    """
    with contextlib.ExitStack() as stack:
        yield _read(model, stack)


def find_downloaded(model: PretrainedModel) -> ModelFiles | None:
    """The files of a known model if they are on this machine already, else `None`."""
    try:
        return read_files(*files_of(model))
    except (OSError, ValueError):
        return None


def read_files(options: Path, weights: Path) -> ModelFiles:
    """Reads the architecture and lexicon of a model whose files are on this machine."""
    lexicon = None
    if is_elmo_for_many_langs(weights):
        config, lexicon = many_languages.read_architecture(options)
    else:
        config = ElmoConfig.from_json(options)
        if config.has_lexicon:
            lexicon = Lexicon.from_folder(
                options.parent,
                words=config.word_dim > 0,
                characters=config.reads_characters,
                max_characters_per_token=config.max_characters_per_token,
            )
    # Before layers are built for it.
    if config.reads_text or config.vocabulary_size is not None:
        check_declared_bytes(weights, 4 * count_parameters(config))
    return ModelFiles(config, options, weights, lexicon)


def _read(model, stack):
    """The files of a model; an archive is unpacked until `stack` is closed."""
    if isinstance(model, (tuple, list)):
        name = name_from_urls(model)
        if name is None:
            return read_files(*_checked_pair(model))
        model = name
    if not isinstance(model, (str, os.PathLike)):
        raise ValueError(
            "Expected a model name, a folder, zip or tar.gz file, a pair (options, weights) of "
            f"paths, or hf://user/repo; got {model!r}."
        )
    if isinstance(model, str) and model.startswith(HUB):
        return read_files(*find_model(_hub_folder(model)))
    if isinstance(model, str) and _is_name(model):
        known = get_model(model)
        if known.local_path is None:
            download(known)
        elif known.is_archive:
            return read_files(*_at(known.local_path, stack))
        return _checked_architecture(known, read_files(*files_of(known)))
    return read_files(*_at(model, stack))


def _is_name(model):
    is_path = os.sep in model or model.startswith((".", "~")) or os.path.exists(model)
    return model in list_models() or not (is_path or model.endswith(_FILE_ENDINGS))


def _checked_architecture(known, files):
    if known.config is not None and weight_table(known.config) != weight_table(files.config):
        raise ValueError(
            f"{files.options} does not have the architecture of {known.name!r}: delete the folder "
            "to download the model again."
        )
    return files


def _at(place, stack):
    """The pair in a folder, or in an archive, which is unpacked until `stack` is closed."""
    path = _checked_path(place)
    if path.is_dir():
        return find_model(path)
    if path.suffix == ".ckpt" and path.is_file():
        raise FileNotFoundError(
            f"{path} is a checkpoint of a training run: export it with `keras-elmo export {path} "
            "--output FOLDER` and pass that folder."
        )
    if path.is_file() and is_archive(path):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        unpack(path, folder)
        while len(content := list(folder.iterdir())) == 1 and content[0].is_dir():
            folder = content[0]
        return find_model(folder, path)
    if path.exists():
        raise FileNotFoundError(
            f"{path} is neither a folder nor a complete zip or tar.gz file. Pass the folder that "
            "holds options.json and weights.hdf5 (of ELMoForManyLangs: config.json and "
            "encoder.pkl), or the pair of their paths."
        )
    raise FileNotFoundError(
        f"The folder or archive {path} does not exist.{hint_at_models(str(place))}"
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
    return paths


def _checked_path(place):
    if "://" in str(place):
        raise FileNotFoundError(
            f"{place} is an address: pass a published model by its name, a repository of the "
            "Hugging Face Hub as hf://user/repo, or downloaded files. register_model(name, "
            "address) names the http(s) address of a different model."
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
        folder = snapshot_download(found[1], revision=found[2], allow_patterns=list(HUB_FILES))
    except Exception as error:  # of several libraries
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise ConnectionError(f"Could not download {model}: {reason}") from None
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{model} holds no model: expected options.json and weights.hdf5.")
    return Path(folder)

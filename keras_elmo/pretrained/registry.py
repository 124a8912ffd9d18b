"""Known models: where their files are, what is known of them, and how they get here."""

import contextlib
import dataclasses
import difflib
import os
import shutil
import tempfile
import time
import zipfile
from pathlib import Path

from keras_elmo.config import ElmoConfig

MIRROR_VARIABLE = "KERAS_ELMO_MIRROR"
"""Environment variable: a base address to fetch the published models from before all others."""

_PUBLISHED = (
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
    "https://allennlp.s3.amazonaws.com/models/elmo",
)
_ONE_BILLION_WORDS = "tokens of the 1 Billion Word Benchmark (Penn Treebank style, case kept)"
_NO_LICENSE = "none stated with the weights; bilm-tf's code is Apache-2.0"
_PACKAGE = Path(__file__).resolve().parent.parent
_OLD_DOWNLOAD_SECONDS = 24 * 3600


@dataclasses.dataclass(frozen=True)
class PretrainedModel:
    """A model that `ElmoLayer` knows by name.

    Args:
        name: The name.
        description: One line.
        locations: Folders that hold both files: local paths or http(s) addresses, tried in turn.
        options_file: Name of the options file.
        weights_file: Name of the weights file.
        config: The architecture, where known without the files.
        weights_bytes: Size of the weights file, where known.
        weights_sha256: sha256 of the weights file in hexadecimal digits, where known.
        tokenization: How text is to be split for it.
        license: Terms of the weights.
    """

    name: str
    description: str
    locations: tuple
    options_file: str = "options.json"
    weights_file: str = "weights.hdf5"
    config: ElmoConfig | None = None
    weights_bytes: int | None = None
    weights_sha256: str | None = None
    tokenization: str = "not stated"
    license: str = "not stated"

    @property
    def is_local(self):
        """Whether the files are on this machine already."""
        return any(not _is_address(location) for location in self.locations)


_MODELS = {}


def register_model(
    name,
    location,
    *,
    description="",
    mirrors=(),
    options_file="options.json",
    weights_file="weights.hdf5",
    config=None,
    weights_bytes=None,
    weights_sha256=None,
    tokenization="not stated",
    license="not stated",
):
    """Makes a model known by name, for this process.

    Args:
        name: The name to give to `ElmoLayer`.
        location: Folder of its two files: a local path, or an http(s) address.
        description: One line on the model.
        mirrors: Further addresses of such folders, tried in turn.
        options_file: Name of the options file in the folder.
        weights_file: Name of the weights file in the folder.
        config: The model's `ElmoConfig`, to show it before the files are here.
        weights_bytes: Size of the weights file; a download of another size is refused.
        weights_sha256: sha256 of the weights file; a download with another one is refused.
        tokenization: How text is to be split for it.
        license: Terms of the weights.

    Returns:
        The `PretrainedModel`.

    Raises:
        ValueError: if the name is taken.

    Example:

    >>> register_model("clinical", "https://example.org/elmo/clinical", license="CC BY 4.0")
    >>> elmo = ElmoLayer("clinical")
    """
    if name in _MODELS:
        raise ValueError(f"There is a model {name!r} already; known: {', '.join(list_models())}.")
    model = PretrainedModel(
        name=name,
        description=description,
        locations=tuple(str(place).rstrip("/") for place in (location, *mirrors)),
        options_file=options_file,
        weights_file=weights_file,
        config=config,
        weights_bytes=weights_bytes,
        weights_sha256=weights_sha256,
        tokenization=tokenization,
        license=license,
    )
    _MODELS[name] = model
    return model


def list_models():
    """Names of the models that `ElmoLayer` knows, the bundled one first.

    Example:

    >>> list_models()
    ['default', 'small', 'medium', 'original', 'original-5.5b', 'pubmed']
    """
    return list(_MODELS)


def get_model(name):
    """What is known of a model.

    Args:
        name: One of `list_models()`.

    Returns:
        A `PretrainedModel`.

    Raises:
        ValueError: if there is no such name; the message shows close ones.
    """
    if name not in _MODELS:
        raise _unknown_name(name)
    return _MODELS[name]


def _unknown_name(name):
    close = difflib.get_close_matches(str(name), _MODELS, n=3, cutoff=0.4)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return ValueError(
        f"Unknown model {str(name)!r}: no model of that name, and no folder or zip file.{hint} "
        f"Known models: {', '.join(list_models())}."
    )


@contextlib.contextmanager
def model_files(model):
    """Gives the paths of a model's two files, fetching or unpacking them first where needed.

    Args:
        model: A name of `list_models()`, a folder or zip file with options.json and weights.hdf5,
            or a pair of paths `(options, weights)`.

    Yields:
        Pair of paths: the options file and the weights file. Unpacked files are gone afterwards.

    Raises:
        FileNotFoundError: if a file or folder does not exist.
        ValueError: if the name is unknown, or a folder does not hold one model.
        ConnectionError: if a download failed; the message names the file, its address and the
            folder to put it in by hand.

    Example:

    >>> with model_files("default") as (options, weights):
    ...     config = ElmoConfig.from_json(options)
    """
    if isinstance(model, (tuple, list)):
        yield _checked_pair(model)
    elif not isinstance(model, (str, os.PathLike)):
        raise ValueError(
            "Expected a model name, a folder or zip file, or a pair (options, weights) of paths; "
            f"got {model!r}."
        )
    elif model in _MODELS:
        yield _fetch(_MODELS[model])
    elif os.path.isdir(model):
        yield _files_in(Path(model), model)
    elif zipfile.is_zipfile(model):
        with tempfile.TemporaryDirectory() as folder:
            yield _unpack(model, Path(folder))
    elif _looks_like_path(model):
        raise FileNotFoundError(_no_such_place(model))
    else:
        raise _unknown_name(model)


def _looks_like_path(model):
    if isinstance(model, os.PathLike) or os.path.exists(model):
        return True
    return os.sep in model or model.startswith((".", "~")) or model.endswith((".zip", ".hdf5"))


def _no_such_place(model):
    if os.path.isfile(model):
        return (
            f"{model} is a file, but no zip file. Pass the folder that holds options.json and "
            "weights.hdf5, or the pair (options, weights) of their paths."
        )
    return f"There is no folder or zip file {model}. Known models: {', '.join(list_models())}."


def _checked_pair(pair):
    if len(pair) != 2:
        raise ValueError(f"Expected a pair of paths (options, weights), got {len(pair)} items.")
    for path, kind in zip(pair, ("options", "weights")):
        if not os.path.isfile(path):
            raise FileNotFoundError(f"There is no {kind} file {os.fspath(path)}.")
    return tuple(map(Path, pair))


def _files_in(folder, named):
    """The one options file and the one weights file in a folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return (
        _the_file(files, "options.json", "options.json", named),
        _the_file(files, "weights.hdf5", ".hdf5", named),
    )


def _the_file(files, name, ending, named):
    matches = [path for path in files if path.name == name]
    matches = matches or [path for path in files if path.name.endswith(ending)]
    if len(matches) == 1:
        return matches[0]
    listing = ", ".join(path.name for path in matches or files) or "nothing"
    error = FileNotFoundError if not matches else ValueError
    raise error(
        f"{named} must hold {name}, or one file whose name ends in {ending}; found {listing}. "
        "Pass the pair (options, weights) of their paths instead."
    )


def _unpack(archive, folder):
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            name = Path(info.filename).name
            if info.is_dir() or not name.endswith((".json", ".hdf5")):
                continue
            with packed.open(info) as source, open(folder / name, "wb") as target:
                shutil.copyfileobj(source, target)
    return _files_in(folder, archive)


def _fetch(model):
    for location in model.locations:
        if not _is_address(location):
            return _files_of(model, Path(location))
    folder = _cache_folder(model)
    options, weights = (folder / name for name in (model.options_file, model.weights_file))
    if not options.is_file():
        _download(model, model.options_file, folder)
    if not _is_complete(weights, model):
        _download(model, model.weights_file, folder)
    return options, weights


def _files_of(model, folder):
    pair = (folder / model.options_file, folder / model.weights_file)
    for path in pair:
        if not path.is_file():
            raise FileNotFoundError(f"The file {path} of the model {model.name!r} is missing.")
    return pair


def _is_complete(weights, model):
    # Files take their name only after they were checked, so the size is enough here.
    return weights.is_file() and model.weights_bytes in (None, weights.stat().st_size)


def _cache_folder(model):
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    return Path(home).expanduser() / "keras_elmo" / model.name


def _download(model, name, folder):
    """Fetches one file into `folder`: it appears there complete and checked, or not at all."""
    import keras

    folder.mkdir(parents=True, exist_ok=True)
    _remove_old_downloads(folder)
    addresses = [f"{location}/{name}" for location in _locations(model)]
    problems = []
    for address in addresses:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as partial:
            try:
                path = Path(keras.utils.get_file(name, origin=address, cache_subdir=partial))
                _check_download(path, model)
                os.replace(path, folder / name)
                return
            # Keras turns every failure of the network into a plain Exception.
            except Exception as error:
                problems.append(f"  {address}: {error}")
    raise ConnectionError(
        f"Could not download {name} of the model {model.name!r}:\n"
        + "\n".join(problems)
        + f"\nWithout a network, fetch {addresses[0]} elsewhere and put it into {folder}, or set "
        f"{MIRROR_VARIABLE} to the address of a mirror."
    )


def _locations(model):
    mirror = os.environ.get(MIRROR_VARIABLE, "").rstrip("/")
    if not mirror or not model.locations[0].startswith(_PUBLISHED[0]):
        return model.locations
    return (mirror + model.locations[0][len(_PUBLISHED[0]) :], *model.locations)


def _check_download(path, model):
    if path.name != model.weights_file:
        ElmoConfig.from_json(path)
        return
    size = path.stat().st_size
    if model.weights_bytes not in (None, size):
        raise ValueError(f"expected {model.weights_bytes:,} bytes, got {size:,}")
    if model.weights_sha256 is not None:
        found = _sha256(path)
        if found != model.weights_sha256.lower():
            raise ValueError(f"expected sha256 {model.weights_sha256}, got {found}")
    from keras_elmo.pretrained.hdf5 import open_hdf5

    with open_hdf5(path):
        """An address may answer with a page of text."""


def _sha256(path):
    import hashlib

    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _remove_old_downloads(folder):
    """Removes what downloads that were killed left behind."""
    for partial in folder.glob(".download-*"):
        if time.time() - partial.stat().st_mtime > _OLD_DOWNLOAD_SECONDS:
            shutil.rmtree(partial, ignore_errors=True)


def _is_address(location):
    return location.startswith(("http://", "https://"))


def _bundled_folder():
    installed = _PACKAGE / "weights" / "default"
    return installed if installed.is_dir() else _PACKAGE.parent / "weights" / "default"


def _register_published(name, folder, description, config, **known):
    stem = folder.rsplit("/", 1)[-1]
    known = {
        "options_file": f"elmo_{stem}_options.json",
        "weights_file": f"elmo_{stem}_weights.hdf5",
        "tokenization": _ONE_BILLION_WORDS,
        **known,
    }
    register_model(
        name,
        f"{_PUBLISHED[0]}/{folder}",
        mirrors=[f"{base}/{folder}" for base in _PUBLISHED[1:]],
        description=description,
        config=config,
        license=_NO_LICENSE,
        **known,
    )


def _register_known_models():
    small = ElmoConfig(lstm_dim=1024, projection_dim=128, num_highway=1)
    medium = ElmoConfig(lstm_dim=2048, projection_dim=256, num_highway=1)
    original = ElmoConfig(lstm_dim=4096, projection_dim=512, num_highway=2)
    original_bytes = 374_434_792  # as downloads of it report
    billion_words = "trained on the 1 Billion Word Benchmark"
    register_model(
        "default",
        _bundled_folder(),
        description="bundled: a small biLM trained on public-domain books",
        tokenization="Penn Treebank style, case kept",
        license="Apache-2.0; trained on public-domain text",
    )
    _register_published("small", "2x1024_128_2048cnn_1xhighway", billion_words, small)
    _register_published("medium", "2x2048_256_2048cnn_1xhighway", billion_words, medium)
    _register_published(
        "original",
        "2x4096_512_2048cnn_2xhighway",
        f"the paper's model, {billion_words}",
        original,
        weights_bytes=original_bytes,
    )
    _register_published(
        "original-5.5b",
        "2x4096_512_2048cnn_2xhighway_5.5B",
        "trained on 5.5 billion tokens of Wikipedia and news",
        original,
        tokenization="not stated",
    )
    _register_published(
        "pubmed",
        "contributed/pubmed",
        "trained on PubMed",
        original,
        options_file="elmo_2x4096_512_2048cnn_2xhighway_options.json",
        weights_file="elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
        tokenization="not stated",
    )


_register_known_models()

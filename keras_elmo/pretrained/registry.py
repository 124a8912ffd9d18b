"""The models known by name: what is known of them, and where their files are."""

import dataclasses
import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from keras_elmo.config import ElmoConfig

PUBLISHED = (
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
    "https://allennlp.s3.amazonaws.com/models/elmo",
)
"""Base addresses of the published models."""

_BILLION = "trained on the 1 Billion Word Benchmark"
_BILLION_TOKENIZATION = "tokens of the 1 Billion Word Benchmark (Penn Treebank style, case kept)"
_NO_LICENSE = "none stated with the weights; bilm-tf's code is Apache-2.0"
_ADDRESS = re.compile("https?://", re.IGNORECASE)
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class PretrainedModel:
    """A model that `ElmoLayer` knows by name: what `register_model` was told.

    Args:
        locations: Folders that hold both files: local paths or http(s) addresses, tried in turn.
    """

    name: str
    description: str
    locations: tuple[str, ...]
    options_file: str = "options.json"
    weights_file: str = "weights.hdf5"
    config: ElmoConfig | None = None
    weights_bytes: int | None = None
    weights_sha256: str | None = None
    tokenization: str = "not stated"
    license: str = "not stated"

    @property
    def local_folder(self) -> Path | None:
        """The folder on this machine that holds the files; `None` if they are to be downloaded."""
        local = (place for place in self.locations if not _ADDRESS.match(place))
        return next(map(Path, local), None)


_MODELS = {}


def register_model(
    name: str,
    location: str | os.PathLike,
    *,
    description: str = "",
    mirrors: Iterable[str] = (),
    options_file: str = "options.json",
    weights_file: str = "weights.hdf5",
    config: ElmoConfig | None = None,
    weights_bytes: int | None = None,
    weights_sha256: str | None = None,
    tokenization: str = "not stated",
    license: str = "not stated",
) -> PretrainedModel:
    """Makes a model known by name, for this process.

    Args:
        name: The name to give to `ElmoLayer`: letters, digits, `.`, `-`, `_` and `+`.
        location: Folder of its two files: a local path, or an http(s) address.
        description: One line on the model.
        mirrors: Further addresses of such folders, tried in turn.
        options_file: Name of the options file in the folder.
        weights_file: Name of the weights file in the folder.
        config: The architecture, to show it before the files are downloaded.
        weights_bytes: Size of the weights file, which a download is checked for.
        weights_sha256: sha256 of the weights file, which a download is checked for.
        tokenization: How text is to be split for it.
        license: Terms of the weights.

    Returns:
        The `PretrainedModel`.

    Raises:
        ValueError: if the name is taken, a name is no plain name, or an address is of another kind.

    Example:

    >>> register_model("clinical", "https://example.org/elmo/clinical", license="CC BY 4.0")
    >>> elmo = ElmoLayer("clinical")
    """
    if name in _MODELS:
        raise ValueError(f"There is a model {name!r} already; known: {', '.join(list_models())}.")
    for plain in (name, options_file, weights_file):
        if not re.fullmatch(r"\w[\w.+-]*", plain):
            raise ValueError(
                f"{plain!r} becomes part of a path: expected letters, digits and '.', '-', '_', '+'."
            )
    _MODELS[name] = PretrainedModel(
        name=name,
        description=description,
        locations=tuple(map(_checked_location, (location, *mirrors))),
        options_file=options_file,
        weights_file=weights_file,
        config=config,
        weights_bytes=weights_bytes,
        weights_sha256=weights_sha256,
        tokenization=tokenization,
        license=license,
    )
    return _MODELS[name]


def _checked_location(location):
    place = os.fspath(location).rstrip("/")
    if _ADDRESS.match(place):
        return place
    if "://" in place:
        raise ValueError(
            f"{place} is no place of a model: expected a local folder, or an address that begins "
            "with http:// or https://."
        )
    return os.path.expanduser(place)


def list_models() -> list[str]:
    """Names of the models that `ElmoLayer` knows, the bundled one first.

    Example:

    >>> list_models()
    ['default', 'small', 'medium', 'original', 'original-5.5b', 'pubmed']
    """
    return list(_MODELS)


def get_model(name: str) -> PretrainedModel:
    """What is known of a model of `list_models()`: a `PretrainedModel`.

    Raises:
        ValueError: if there is no such name; the message shows close ones.
    """
    if name in _MODELS:
        return _MODELS[name]
    close = difflib.get_close_matches(str(name), _MODELS, n=3, cutoff=0.4)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ValueError(
        f"Unknown model {str(name)!r}: no model of that name, and no folder or zip file.{hint} "
        f"Known models: {', '.join(list_models())}."
    )


def _bundled_folder():
    installed = _PACKAGE / "weights" / "default"
    return installed if installed.is_dir() else _PACKAGE.parent / "weights" / "default"


def _register_published(name, folder, config, description, **known):
    stem = folder.rsplit("/", 1)[-1]
    first, *mirrors = (f"{base}/{folder}" for base in PUBLISHED)
    files = {
        "options_file": f"elmo_{stem}_options.json",
        "weights_file": f"elmo_{stem}_weights.hdf5",
    }
    register_model(
        name,
        first,
        mirrors=mirrors,
        description=description,
        config=config,
        license=_NO_LICENSE,
        **{**files, **known},
    )


def _register_known_models():
    small = ElmoConfig(lstm_dim=1024, projection_dim=128, num_highway=1)
    medium = ElmoConfig(lstm_dim=2048, projection_dim=256, num_highway=1)
    original, original_stem = ElmoConfig(), "2x4096_512_2048cnn_2xhighway"
    billion = {"tokenization": _BILLION_TOKENIZATION}
    register_model(
        "default",
        _bundled_folder(),
        description="bundled: a small biLM trained on public-domain books",
        tokenization="Penn Treebank style, case kept",
        license="Apache-2.0; trained on public-domain text",
    )
    _register_published("small", "2x1024_128_2048cnn_1xhighway", small, _BILLION, **billion)
    _register_published("medium", "2x2048_256_2048cnn_1xhighway", medium, _BILLION, **billion)
    _register_published(
        "original",
        original_stem,
        original,
        f"the paper's model, {_BILLION}",
        weights_bytes=374_434_792,  # as downloads of it report
        **billion,
    )
    _register_published(
        "original-5.5b",
        f"{original_stem}_5.5B",
        original,
        "trained on 5.5 billion tokens of Wikipedia and news",
    )
    _register_published(
        "pubmed",
        "contributed/pubmed",
        original,
        "trained on PubMed",
        options_file=f"elmo_{original_stem}_options.json",
        weights_file=f"elmo_{original_stem}_weights_PubMed_only.hdf5",
    )


_register_known_models()

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

    def __post_init__(self) -> None:
        for plain in (self.name, self.options_file, self.weights_file):
            if not re.fullmatch(r"\w[\w.+-]*", plain):
                raise ValueError(
                    f"{plain!r} becomes part of a path: expected letters, digits, - + _ and dots."
                )
        for place in self.locations:
            if "://" in place and not _ADDRESS.match(place):
                raise ValueError(
                    f"{place} is no place of a model: expected a local folder, or an address that "
                    "begins with http:// or https://."
                )

    @property
    def local_folder(self) -> Path | None:
        """The folder on this machine that holds the files; `None` if they are to be downloaded."""
        local = (place for place in self.locations if not _ADDRESS.match(place))
        return next((Path(place).expanduser() for place in local), None)


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
        name: The name to give to `ElmoLayer`: letters, digits, - + _ and dots.
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
        ValueError: if the name is another model's or no plain name, or an address is of another
            kind.

    Example:

    >>> register_model("clinical", "https://example.org/elmo/clinical", license="CC BY 4.0")
    >>> elmo = ElmoLayer("clinical")
    """
    model = PretrainedModel(
        name,
        description,
        tuple(os.fspath(place).rstrip("/") for place in (location, *mirrors)),
        options_file,
        weights_file,
        config,
        weights_bytes,
        weights_sha256,
        tokenization,
        license,
    )
    if _MODELS.setdefault(name, model) != model:
        raise ValueError(
            f"There is another model {name!r} already: choose another name than "
            f"{', '.join(list_models())}."
        )
    return model


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


def _bundled():
    installed = _PACKAGE / "weights" / "default"
    return PretrainedModel(
        "default",
        "bundled: a small biLM trained on public-domain books",
        (str(installed if installed.is_dir() else _PACKAGE.parent / "weights" / "default"),),
        tokenization="Penn Treebank style, case kept",
        license="Apache-2.0; trained on public-domain text",
    )


def _published(name, folder, config, description, stem=None, weights="weights", **known):
    stem = f"elmo_{stem or folder}"
    return PretrainedModel(
        name,
        description,
        tuple(f"{base}/{folder}" for base in PUBLISHED),
        options_file=f"{stem}_options.json",
        weights_file=f"{stem}_{weights}.hdf5",
        config=config,
        license="none stated with the weights; bilm-tf's code is Apache-2.0",
        **known,
    )


_SMALL = ElmoConfig(lstm_dim=1024, projection_dim=128, num_highway=1)
_MEDIUM = ElmoConfig(lstm_dim=2048, projection_dim=256, num_highway=1)
_ORIGINAL, _STEM = ElmoConfig(), "2x4096_512_2048cnn_2xhighway"
_TEXT = "trained on the 1 Billion Word Benchmark"
_BILLION = {
    "tokenization": "tokens of the 1 Billion Word Benchmark (Penn Treebank style, case kept)"
}
_BILLION_5 = "trained on 5.5 billion tokens of Wikipedia and news"
_PUBMED = {"stem": _STEM, "weights": "weights_PubMed_only"}
_BYTES = 374_434_792  # of `original`, as downloads of it report
_MODELS = {
    model.name: model
    for model in (
        _bundled(),
        _published("small", "2x1024_128_2048cnn_1xhighway", _SMALL, _TEXT, **_BILLION),
        _published("medium", "2x2048_256_2048cnn_1xhighway", _MEDIUM, _TEXT, **_BILLION),
        _published(
            "original",
            _STEM,
            _ORIGINAL,
            f"the paper's model, {_TEXT}",
            weights_bytes=_BYTES,
            **_BILLION,
        ),
        _published("original-5.5b", f"{_STEM}_5.5B", _ORIGINAL, _BILLION_5),
        _published("pubmed", "contributed/pubmed", _ORIGINAL, "trained on PubMed", **_PUBMED),
    )
}

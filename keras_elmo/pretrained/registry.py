"""The models known by name: their properties and the locations of their files."""

import dataclasses
import difflib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.catalog import (
    EMBEDDIA,
    EMBEDDIA_MODELS,
    MANY_LANGUAGES,
    MANY_LANGUAGES_ARCHITECTURE,
    MANY_LANGUAGES_FIRST_NUMBER,
    NLPL,
    NLPL_MODELS,
    SEQVEC,
)

_ALLENNLP = (
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
    "https://allennlp.s3.amazonaws.com/models/elmo",
)
_NLPL_VERSIONS = f"{NLPL}/11", f"{NLPL}/20"

PUBLISHED = (_ALLENNLP[0], *_NLPL_VERSIONS, EMBEDDIA, SEQVEC[0])
"""Base addresses of the published models, each of which a mirror replaces."""

_ADDRESS = re.compile("https?://", re.IGNORECASE)
_ARCHIVE = re.compile(r"\.(zip|tar\.gz|tgz)(\?.*)?\Z", re.IGNORECASE)
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class PretrainedModel:
    """A model that `ElmoLayer` knows by name: the arguments of `register_model`.

    `locations` are its location and mirrors. `architecture` has pairs of name and value, where no
    `config` can tell the architecture.
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
    language: str | None = None
    architecture: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for part in (*self.name.split("/", 1), self.options_file, self.weights_file):
            if not re.fullmatch(r"\w[\w.+-]*", part):
                raise ValueError(
                    "Expected letters, digits, - + _ and dots, and in a model's name at most one / "
                    f"between them, got {self.name!r}, {self.options_file!r} and "
                    f"{self.weights_file!r}, which become parts of paths."
                )
        addresses = [bool(_ADDRESS.match(place)) for place in self.locations]
        if not all(addresses) and (len(addresses) > 1 or "://" in self.locations[0]):
            raise ValueError(
                "Expected a local path, or URLs that begin with http:// or https://, got "
                f"{', '.join(self.locations)}."
            )
        if len({bool(_ARCHIVE.search(place)) for place in self.locations}) > 1:
            raise ValueError(
                f"Expected the locations of {self.name!r} to be all folders or all archives, got "
                f"{', '.join(self.locations)}."
            )

    @property
    def is_archive(self) -> bool:
        """Whether the files are in one zip or tar.gz file."""
        return bool(_ARCHIVE.search(self.locations[0]))

    @property
    def local_path(self) -> Path | None:
        """The folder or archive on this machine; `None` if there is something to download."""
        place = self.locations[0]
        return None if _ADDRESS.match(place) else Path(place).expanduser()


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
    language: str | None = None,
) -> PretrainedModel:
    """Registers a model under a name, for this process.

    Args:
        name: The name to pass to `ElmoLayer`: letters, digits, - + _ and dots, and at most one /.
        location: Folder of its two files, or an archive of them if it ends in .zip, .tar.gz or
            .tgz: a local path, or an http(s) URL.
        description: One line on the model.
        mirrors: Additional URLs of such folders or archives, tried in order.
        options_file, weights_file: Names of the two files in the folder; in an archive they are
            found.
        config: The architecture, to show it before the files are downloaded.
        weights_bytes, weights_sha256: Size and sha256 of the weights file or archive, to check a
            download.
        tokenization: How to split text for the model.
        license: License of the weights.
        language: ISO 639 code of its language, by which `list_models` finds it.

    Returns:
        The `PretrainedModel`.

    Raises:
        ValueError: if the name is taken or has invalid characters, a URL is not http(s), or
            mirrors are given for a local path.

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
        language,
    )
    if _MODELS.setdefault(name, model) != model:
        raise ValueError(f"A different model is registered as {name!r}: choose a different name.")
    return model


def list_models(language: str | None = None) -> list[str]:
    """Names of the models that `ElmoLayer` knows, the bundled one first.

    Args:
        language: ISO 639 code of a language, for its models only.

    Raises:
        ValueError: if no model is known for that language.

    Example:

    >>> list_models(language="tr")
    ['many-languages/tr']
    >>> list_models()[:3]
    ['default', 'small', 'medium']
    """
    if language is None:
        return list(_MODELS)
    found = _of_language(language)
    if not found:
        codes = sorted({model.language for model in list(_MODELS.values())} - {None})
        raise ValueError(f"No model for language {language!r}: expected one of {', '.join(codes)}.")
    return found


def language_of(model: object) -> str | None:
    """The ISO 639 code of the language of a model that is passed by its name, else `None`."""
    known = _MODELS.get(model) if isinstance(model, str) else None
    return None if known is None else known.language


def _of_language(code):
    """Names of the models of a language, by its ISO code or a collection's own, such as zht."""
    return [
        name
        for name, model in list(_MODELS.items())  # another thread may register one
        if model.language == code or ("/" in name and name.endswith(f"/{code}"))
    ]


def get_model(name: str) -> PretrainedModel:
    """Returns the properties of a model in `list_models()`, as a `PretrainedModel`.

    Raises:
        ValueError: if the name is unknown; the message suggests similar names.
    """
    if name in _MODELS:
        return _MODELS[name]
    raise ValueError(
        f"Unknown model {str(name)!r}: expected a known name, or a folder, zip or tar.gz file."
        f"{hint_at_models(str(name))}"
    )


def name_from_urls(pair: Sequence) -> str | None:
    """The name of the model whose options and weights have these two addresses, or `None`."""
    for model in list(_MODELS.values()):
        for place in model.locations:
            if tuple(pair) == (f"{place}/{model.options_file}", f"{place}/{model.weights_file}"):
                return model.name
    return None


def hint_at_models(name: str) -> str:
    """The end of an error message on an unknown name: similar names, and all names."""
    close = _of_language(name)[:3] or difflib.get_close_matches(name, list(_MODELS))
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    short = [known for known in list(_MODELS) if "/" not in known]
    return (
        f"{hint} Known models: {', '.join(short)}, and {len(_MODELS) - len(short)} more: see "
        "list_models() or `keras-elmo models`."
    )


def _allennlp(name, folder, description, stem=None, weights="weights", **known):
    stem = f"elmo_{stem or folder}"
    return PretrainedModel(
        name,
        description,
        tuple(f"{base}/{folder}" for base in _ALLENNLP),
        options_file=f"{stem}_options.json",
        weights_file=f"{stem}_{weights}.hdf5",
        license="none stated with the weights; bilm-tf's code is Apache-2.0",
        **{"language": "en", **known},
    )


def _catalog():
    installed = _PACKAGE / "weights" / "default"
    yield PretrainedModel(
        "default",
        "bundled: a small biLM trained on books and modern text",
        (str(installed if installed.is_dir() else _PACKAGE.parent / "weights" / "default"),),
        tokenization="Penn Treebank style, case kept",
        license="Apache-2.0; trained on text in the public domain, under CC0, CC BY or CC BY-SA, "
        "or (0.4 %) under the open terms of the American National Corpus",
        language="en",
    )
    text = "trained on the 1 Billion Word Benchmark"
    tokens = "tokens of the 1 Billion Word Benchmark (Penn Treebank style, case kept)"
    small = ElmoConfig(lstm_dim=1024, projection_dim=128, num_highway=1)
    medium = ElmoConfig(lstm_dim=2048, projection_dim=256, num_highway=1)
    original, stem = ElmoConfig(), "2x4096_512_2048cnn_2xhighway"
    yield _allennlp(
        "small", "2x1024_128_2048cnn_1xhighway", text, config=small, tokenization=tokens
    )
    yield _allennlp(
        "medium", "2x2048_256_2048cnn_1xhighway", text, config=medium, tokenization=tokens
    )
    yield _allennlp(
        "original",
        stem,
        f"the paper's model, {text}",
        config=original,
        weights_bytes=374_434_792,  # as downloads of it report
        tokenization=tokens,
    )
    text = "trained on 5.5 billion tokens of Wikipedia and news"
    yield _allennlp("original-5.5b", f"{stem}_5.5B", text, config=original)
    yield _allennlp(
        "pubmed",
        "contributed/pubmed",
        "trained on PubMed",
        stem,
        "weights_PubMed_only",
        config=original,
    )
    yield PretrainedModel(
        "seqvec",
        "SeqVec for proteins, 93 M parameters, trained on UniRef50",
        tuple(f"{base}/seqvec" for base in SEQVEC),
        tokenization="residues as tokens, upper-case letters",
        license="none stated with the weights; SeqVec's code is MIT",
    )
    text = "Portuguese, contributed to AllenNLP"
    yield _allennlp("allennlp/pt", "contributed/pt", text, "pt", language="pt")
    for code, language in EMBEDDIA_MODELS.items():
        yield PretrainedModel(
            f"embeddia/{code}",
            f"{language}, of the project EMBEDDIA",
            (f"{EMBEDDIA}/{language.lower()}-elmo.tar.gz",),
            language=code,
        )
    for code, number, text, tokenization in NLPL_MODELS:
        yield PretrainedModel(
            f"nlpl/{code}-{number}",
            f"trained on {text}",
            (f"{_NLPL_VERSIONS[1]}/{number}.zip",),
            tokenization=tokenization,
            language=code,
        )
    for number, (code, language) in enumerate(MANY_LANGUAGES.items(), MANY_LANGUAGES_FIRST_NUMBER):
        yield PretrainedModel(
            f"many-languages/{code}",
            f"{language}, trained on 20 million words of Wikipedia and web pages",
            (f"{_NLPL_VERSIONS[0]}/{number}.zip",),
            tokenization="words of a segmenter (UDPipe), not characters"
            if code in ("ja", "zht")
            else "UDPipe, into syntactic words; case kept",
            license="MIT, as the authors say; none stated with the weights",
            language="zh" if code == "zht" else code,
            architecture=MANY_LANGUAGES_ARCHITECTURE,
        )


_MODELS = {model.name: model for model in _catalog()}

CATALOG = frozenset(_MODELS)
"""Names of the models of this file, which no registered model can take."""

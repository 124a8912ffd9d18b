"""The models known by name: their properties and the URLs or paths of their files."""

import dataclasses
import difflib
import functools
import logging
import os
import re
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.catalog import (
    ALLENNLP,
    EMBEDDIA,
    EMBEDDIA_MODELS,
    MANY_LANGUAGES,
    MANY_LANGUAGES_FIRST_NUMBER,
    MIRRORS,
    NLPL,
    NLPL_MODELS,
    SEQVEC,
    SEQVEC_ARCHIVE,
)
from keras_elmo.text.languages import (
    LANGUAGES,
    PROTEINS,
    is_same_language,
    language_codes,
)

_log = logging.getLogger(__name__)

_URL = re.compile("https?://", re.IGNORECASE)
_ARCHIVE = re.compile(r"\.(zip|tar\.gz|tgz)(\?.*)?\Z", re.IGNORECASE)
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class PretrainedModel:
    """A model that `ElmoLayer` knows by name.

    Args:
        name, description, weights_bytes, weights_sha256, tokenization, license, language: As for
            `register_model`.
        files: The URLs of its options and weights, the URL of an archive, or a local path.
        config: Its architecture, if that is known before the files are downloaded.
        has_lexicon: Whether it is known to look tokens up in a lexicon, as the models of
            ELMoForManyLangs do.
        archive: The URL of an archive of the same files, if there is one to fetch by hand.
        guide: The page of the documentation on the model.
    """

    name: str
    description: str
    files: tuple[str, ...]
    config: ElmoConfig | None = None
    weights_bytes: int | None = None
    weights_sha256: str | None = None
    tokenization: str = "not stated"
    license: str = "not stated"
    language: str | None = None
    has_lexicon: bool = False
    archive: str | None = None
    guide: str = "docs/MODELS.md"

    def __post_init__(self) -> None:
        if not all(re.fullmatch(r"\w[\w.+-]*", part) for part in self.name.split("/", 1)):
            raise ValueError(
                "Expected a name of letters, digits, - + _ and dots, with at most one / between "
                f"them, since it becomes part of a path; got {self.name!r}."
            )
        if self.local_path is not None and "://" in self.files[0]:
            raise ValueError(
                "Expected a local path, or a URL that begins with http:// or https://, got "
                f"{self.files[0]}."
            )

    @property
    def local_path(self) -> Path | None:
        """The folder or archive on this machine; `None` if there is something to download."""
        place = self.files[0]
        return None if _URL.match(place) else Path(place).expanduser()


def register_model(
    name: str,
    location: str | os.PathLike,
    *,
    description: str = "",
    weights_bytes: int | None = None,
    weights_sha256: str | None = None,
    tokenization: str = "not stated",
    license: str = "not stated",
    language: str | None = None,
) -> PretrainedModel:
    """Registers a model under a name, for this process.

    Args:
        name: The name to pass to `ElmoLayer`: letters, digits, - + _ and dots, and at most one /.
        location: A local path, as for `ElmoLayer`; or an http(s) URL, of an archive if it ends in
            .zip, .tar.gz or .tgz, else of a folder with options.json and weights.hdf5.
        description: One line on the model.
        weights_bytes, weights_sha256: Size and sha256 of the weights file or archive, to check a
            download.
        tokenization: How to split text for the model.
        license: License of the weights.
        language: ISO 639 code or English name of its language, by which `list_models` finds it;
            `"zxx"` for proteins, `"xx"` for several languages.

    Returns:
        The `PretrainedModel`.

    Raises:
        ValueError: if the name is taken or has invalid characters, a URL is not http(s), or the
            language is unknown.

    Example:

    >>> register_model("clinical", "https://example.org/elmo/clinical", license="CC BY 4.0")
    >>> elmo = ElmoLayer("clinical")
    """
    # A code of two letters may be of a language that no published model has.
    if language is not None and not re.fullmatch("[a-z]{2}", language):
        codes = language_codes(language)
        if len(codes) != 1:
            known = " or ".join(map(repr, codes or ["de"]))
            raise ValueError(f"Unknown language {language!r}: pass its code, such as {known}.")
        language = codes[0]
    place = os.fspath(location).rstrip("/")
    is_single = _ARCHIVE.search(place) or not _URL.match(place)
    model = PretrainedModel(
        name,
        description,
        (place,) if is_single else (f"{place}/options.json", f"{place}/weights.hdf5"),
        weights_bytes=weights_bytes,
        weights_sha256=weights_sha256,
        tokenization=tokenization,
        license=license,
        language=language,
    )
    if _MODELS.setdefault(name, model) != model:
        raise ValueError(f"A different model is registered as {name!r}: choose a different name.")
    return model


def list_models(language: str | None = None) -> list[str]:
    """Names of the models that `ElmoLayer` knows, the bundled one first.

    Args:
        language: ISO 639 code or English name of a language, for its models only; `"proteins"`
            for models of proteins.

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


def _of_language(language):
    """Names of the models of a language, by its name, ISO code or a collection's own, as zht."""
    codes = {language, *language_codes(language)}
    return [
        name
        for name, model in list(_MODELS.items())  # another thread may register one
        if model.language in codes or ("/" in name and name.split("/")[1] in codes)
    ]


@functools.cache  # which warns once
def check_language(model: str | None, text: str | None) -> None:
    """Logs a warning, once for each pair, if a text is not in the language of the model.

    Args:
        model, text: The ISO 639 code of each, `PROTEINS`, `"xx"` for several languages, or `None`
            if it is not known.
    """
    if model is None or text is None or is_same_language(model, text):
        return
    if "xx" in (model, text) and PROTEINS not in (model, text):
        return
    names = {**LANGUAGES, "xx": "text"}
    own, other = (names.get(code, code) for code in (model, text))
    found = ", ".join(map(repr, _of_language(text)[:5]))
    models = f"Models for {other}: {found}." if found else f"No model for {other} is known by name."
    _log.warning(
        f"The model was trained on {own}, not on {other}: its vectors for this text are not "
        f"meaningful. {models}"
    )


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


def known_model(model: object) -> PretrainedModel | None:
    """The model of which this is the name, or the URLs of options and weights, else `None`.

    A name comes before a folder of that name in the working directory.
    """
    if isinstance(model, str):
        return _MODELS.get(model)
    if isinstance(model, (tuple, list)):
        known_models = list(_MODELS.values())  # another thread may register one
        return next((known for known in known_models if tuple(model) in urls_of(known)), None)
    return None


def published_base(model: PretrainedModel) -> str | None:
    """The base of a published model's URLs, which a mirror replaces; `None` for others."""
    return next((base for base in MIRRORS if model.files[0].startswith(f"{base}/")), None)


def urls_of(model: PretrainedModel) -> list[tuple[str, ...]]:
    """The URLs of a model's files, followed by those at each mirror."""
    base = published_base(model)
    return [
        tuple(mirror + url.removeprefix(base or "") for url in model.files)
        for mirror in (base or "", *MIRRORS.get(base or "", ()))
    ]


def hint_at_models(name: str) -> str:
    """The end of an error message on an unknown name: similar names, and all names."""
    collection, slash, last = name.rpartition("/")
    close = _of_language(last) or difflib.get_close_matches(
        name,
        list(_MODELS),
        cutoff=0.9 if slash else 0.6,  # the names of a collection are similar
    )
    close = sorted(close, key=lambda known: known.rpartition("/")[0] != collection)[:3]
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    short = [known for known in list(_MODELS) if "/" not in known]
    return (
        f"{hint} Known models: {', '.join(short)}, and {len(_MODELS) - len(short)} more: see "
        "list_models() or `keras-elmo models`."
    )


def _allennlp(name, folder, description, stem=None, weights="weights", **known):
    stem = f"elmo_{stem or folder}"
    place = f"{ALLENNLP}/{folder}/{stem}"
    return PretrainedModel(
        name,
        description,
        (f"{place}_options.json", f"{place}_{weights}.hdf5"),
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
        (f"{SEQVEC}/seqvec/options.json", f"{SEQVEC}/seqvec/weights.hdf5"),
        config=original,
        tokenization="residues as tokens, upper-case letters",
        license="none stated with the weights; SeqVec's code is MIT",
        language=PROTEINS,
        archive=SEQVEC_ARCHIVE,
        guide="docs/PROTEINS.md",
    )
    text = "Portuguese, contributed to AllenNLP"
    yield _allennlp("allennlp/pt", "contributed/pt", text, "pt", language="pt")
    for code, archive in EMBEDDIA_MODELS.items():
        yield PretrainedModel(
            f"embeddia/{code}",
            f"{LANGUAGES[code]}, of the project EMBEDDIA",
            (f"{EMBEDDIA}/{archive}",),
            language=code,
        )
    for code, number, text, tokenization in NLPL_MODELS:
        yield PretrainedModel(
            f"nlpl/{code}-{number}",
            f"trained on {text}",
            (f"{NLPL}/20/{number}.zip",),
            tokenization=tokenization,
            language=code,
        )
    for number, (code, language) in enumerate(MANY_LANGUAGES.items(), MANY_LANGUAGES_FIRST_NUMBER):
        yield PretrainedModel(
            f"many-languages/{code}",
            f"{language}, trained on 20 million words of Wikipedia and web pages",
            (f"{NLPL}/11/{number}.zip",),
            tokenization="words of a segmenter (UDPipe), not characters"
            if code in ("ja", "zht")
            else "UDPipe, into syntactic words; case kept",
            license="MIT, as the authors say; none stated with the weights",
            language="zh" if code == "zht" else code,
            has_lexicon=True,
        )


_MODELS = {model.name: model for model in _catalog()}

CATALOG = frozenset(_MODELS)
"""Names of the models of this file, which no registered model can take."""

"""Raw text to tokenized sentences, by syntok and spaCy: `pip install "keras-elmo[tokenize]"`."""

import functools
import hashlib
import itertools
import logging
import re
import types
import uuid
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, Literal, overload

from keras_elmo.text.abbreviations import ABBREVIATIONS, ORDINALS
from keras_elmo.text.languages import LANGUAGES, language_codes
from keras_elmo.text.tokens import token_bytes, tokens_of

Tokenize = bool | str | Callable[[str], list[list[str]]] | None
"""How raw text becomes tokens: `True` or the code of a language for `tokenize`, or a function."""

_JOINED = re.compile(rb"\w[,;:!?]$")
_JOINED_AT_END = re.compile(rb"\w[.]$")  # elsewhere it may be an abbreviation
_ABBREVIATION = re.compile(r"[^\W\d_]{2,}\.")
_NUMBER = re.compile(r"[\d.,:/-]*\d\.")
_CLOSING = re.compile("[\"'\u2018\u2019\u201c\u201d\xab\xbb)\\]]+")
# Quotes that close here and open for syntok, in German and French; the letter that follows.
_QUOTED_END = re.compile(
    r"[.!?\u2026](?:[\u201c\u2018\xab\xbb]|\s\xbb)"
    r"(?:\s+(?=[\u201e\u201a\xab\xbb]?\s?(\w))|\s*\Z)"
)
_INITIAL = r"(?<!\w)[^\W\d_]\.(?=\s+[^\W\d_]\.)"
_EMOTICONS = {"8)"}  # for spaCy, also in ls(8)
_log = logging.getLogger(__name__)


@overload
def tokenize(
    text: str, language: str = ..., *, return_offsets: Literal[False] = ...
) -> list[list[str]]: ...


@overload
def tokenize(
    text: str, language: str = ..., *, return_offsets: Literal[True]
) -> tuple[list[list[str]], list[list[int]]]: ...


def tokenize(
    text: str, language: str = "en", *, return_offsets: bool = False
) -> list[list[str]] | tuple[list[list[str]], list[list[int]]]:
    """Splits raw text into sentences and tokens, as the published models expect them.

    Punctuation and contractions become tokens ("does", "n't"); in English, hyphenated words stay
    whole, as in the Penn Treebank. The characters themselves do not change. Blank lines end a
    sentence, other line breaks do not.

    Args:
        text: The text.
        language: ISO 639 code of a language that spaCy supports; no data is downloaded. `"xx"`
            selects rules that several languages share.
        return_offsets: Whether to return where each token begins in `text`, too.

    Returns:
        List of sentences, each a list of tokens: the input of `encode_sentences` and
        `Embedder.embed`. With `return_offsets`, a pair of this and of lists alike with the offset
        of each token in characters, as spaCy's `Token.idx`: for a token at `i`,
        `text[i : i + len(token)] == token`.

    Raises:
        ImportError: if syntok, spaCy or a package that spaCy needs for the language is missing.
        ValueError: if spaCy does not support the language, or `text` is not a string.

    Example:

    >>> tokenize("The bank didn't raise its rates. He left.")
    [['The', 'bank', 'did', "n't", 'raise', 'its', 'rates', '.'], ['He', 'left', '.']]
    >>> tokenize("It didn't.", return_offsets=True)
    ([['It', 'did', "n't", '.']], [[0, 3, 6, 9]])

    Reference: https://github.com/fnl/syntok for sentences, and
    https://spacy.io/usage/linguistic-features#tokenization for tokens.
    """
    if not isinstance(text, str):
        raise ValueError(f"Expected a text as one string, got {text!r:.60}.")
    rules = _rules(language)
    sentences, offsets = [], []
    for start, stop in itertools.pairwise([*rules.sentence_starts(text), len(text)]):
        tokens = rules.tokens(text[start:stop])
        sentences.append([token for token, _ in tokens])
        offsets.append([start + offset for _, offset in tokens])
    return (sentences, offsets) if return_offsets else sentences


def make_tokenizer(how: Tokenize) -> Callable[[Any], list[list[Any]]]:
    """Returns a function from a text to its sentences, lists of tokens.

    A text is a list of tokens, which is one sentence, or a string: it is tokenized, or without
    `how` split at white space as one sentence.

    Raises:
        ImportError, ValueError: as for `tokenize`, or if `how` is none of `Tokenize`.
    """
    if how is None or how is False:
        return lambda text: [tokens_of(text)]
    if how is True or isinstance(how, str):
        language = language_of(how)
        _rules(language)  # whose errors come before a text is read or a model is loaded
        how = functools.partial(tokenize, language=language)
    if not callable(how):
        raise ValueError(
            f"tokenize must be True, the code of a language, or a function; got {how!r}."
        )

    def sentences(text):
        if not isinstance(text, (str, bytes)):
            return [tokens_of(text)]
        found = how(token_bytes(text).decode())
        found = list(found) if _is_list(found) else [found]
        if wrong := [sentence for sentence in found if not _is_list(sentence)]:
            raise ValueError(
                "The function tokenize must return a list of sentences, each a list of tokens; got "
                f"{wrong[0]!r:.60} instead of a sentence."
            )
        return list(map(tokens_of, found))

    return sentences


def language_of(how: Tokenize) -> Any:
    """The code of the language of a text that is tokenized so, `None` if it is not known."""
    return "en" if how is True else how if isinstance(how, str) else None


def _is_list(value):
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def hint_at_raw_text(sentences: Iterable[Sequence[Any]]) -> bool:
    """Logs a hint if many tokens end in punctuation, such as "rates."; returns whether they do."""
    rows = [[token_bytes(token) for token in tokens] for tokens in sentences]
    raw = [row[-1] for row in rows if row and _JOINED_AT_END.search(row[-1])]
    raw += [token for row in rows for token in filter(_JOINED.search, row)]
    if len(raw) <= sum(map(len, rows)) / 50:
        return False
    _log.warning(
        "Many tokens end in punctuation, such as %r, but the published models were trained on text "
        "in which punctuation marks are tokens. If this is raw text, pass tokenize=True.",
        raw[0].decode(),
    )
    return True


def hint_at_proteins(sentences: Iterable[Sequence[Any]]) -> bool:
    """Logs a hint if most tokens have several letters; returns whether they do."""
    tokens = [token_bytes(token) for tokens in sentences for token in tokens]
    long = [token for token in tokens if len(token) > 1]
    if len(long) <= len(tokens) / 2:
        return False
    _log.warning(
        "Most tokens have several letters, such as %r, but the model was trained on proteins, in "
        "which each residue is a token. Embed proteins as list(sequence) or from FASTA, and text "
        "with a model for its language.",
        long[0].decode()[:40],
    )
    return True


def tokenizer_name(how: Tokenize) -> Any:
    """A JSON-serializable name for `tokenize`: a function's module, name and a hash of its code.

    Functions that differ only in the data they use have the same name; one without a name gets a
    new one each time.
    """
    if not callable(how):
        return "en" if how is True else None if how is False else how
    name = getattr(how, "__qualname__", "<lambda>")
    if name.endswith("<lambda>"):
        return uuid.uuid4().hex
    code = getattr(how, "__code__", None)  # built-in functions have none
    digest = hashlib.sha256(repr(_content(code)).encode()).hexdigest()[:16]
    return f"{getattr(how, '__module__', None)}.{name} {digest}"


def _content(value):
    """What code does, or a constant of it, in a form whose `repr` is the same in any process."""
    if isinstance(value, types.CodeType):
        return value.co_code.hex(), value.co_names, list(map(_content, value.co_consts))
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def _language_error(language):
    codes = language_codes(language)
    if split := [repr(code) for code in codes if _has_rules(code)]:
        return f"Unknown language {language!r}: pass its code, {' or '.join(split)}."
    if codes:
        return (
            f"spaCy has no rules for {LANGUAGES[codes[0]]}: pass 'xx', which stands for rules that "
            "several languages share."
        )
    return f"Unknown language {language!r}: pass one of spaCy's codes, such as 'de'."


def _has_rules(code):
    return re.fullmatch("[a-z]{2,3}", code) and find_spec(f"spacy.lang.{code}") is not None


class _Rules:
    """How a language is split: into sentences by syntok, into tokens by spaCy.

    syntok knows abbreviations of English, German and Spanish; `ABBREVIATIONS` adds to them.
    """

    def __init__(self, language, segmenter, tokenizer):
        self._segmenter, self._tokenizer = segmenter, tokenizer
        self._is_english = language == "en"
        words = ABBREVIATIONS.get(language, "").split()
        words += [word[0].upper() + word[1:] for word in words]
        inner = [word for word in words if not word.endswith(".")]
        known = "|".join(inner).replace(".", r"\.\s?") or "(?!)"
        ordinal = ORDINALS.get(language, "(?!)")
        self._inner = re.compile(rf"(?<!\w)(?:{known})\.(?=\s)|{_INITIAL}|{ordinal}")
        rules = getattr(tokenizer, "rules", None) or {}
        # Where spaCy has no abbreviations, as in Czech and Polish, treebanks split off the period.
        is_joined = any(map(_ABBREVIATION.fullmatch, rules))
        self._joined = {part for word in inner for part in word.split(".")} if is_joined else set()
        if rules:
            tokenizer.rules = {word: rule for word, rule in rules.items() if word not in _EMOTICONS}
        for word in {f"{word.rstrip('.')}." for word in [*self._joined, *words] if is_joined}:
            if word not in rules:
                tokenizer.add_special_case(word, [{"ORTH": word}])

    def sentence_starts(self, text):
        """Where each sentence begins."""
        # Syntok sees a letter in place of a period that ends no sentence.
        seen = text if self._is_english else self._inner.sub(lambda end: f"{end[0][:-1]}x", text)
        paragraphs = self._segmenter.analyze(seen)
        starts = [sentence[0].offset for paragraph in paragraphs for sentence in paragraph]
        return starts if self._is_english else _after_quotes(text, starts)

    def tokens(self, sentence):
        """The tokens of a sentence, and where in it each begins."""
        found = [
            (token.text, token.idx) for token in self._tokenizer(sentence) if not token.is_space
        ]
        last = len(found) - 1
        while last > 0 and _CLOSING.fullmatch(found[last][0]):
            last -= 1
        if last > 0 and found[last][0].endswith("."):
            token, start = found[last]
            # A number or an ordinary word: the period ends the sentence.
            if _NUMBER.fullmatch(token) or token[:-1] in self._joined:
                found[last : last + 1] = [(token[:-1], start), (".", start + len(token) - 1)]
        return found


def _after_quotes(text, starts):
    """The starts of sentences, with the quotes that close one in it."""
    found = set(starts)
    for end in _QUOTED_END.finditer(text):
        found.difference_update(range(end.start() + 1, end.end()))
        if (end[1] or "").isupper():
            found.add(end.end())
    return sorted(found)


@functools.cache
def _rules(language: str) -> _Rules:
    """The rules of a language."""
    try:
        import spacy
        import syntok.segmenter
    except ImportError:
        message = 'Raw text needs two packages: pip install "keras-elmo[tokenize]"'
        raise ImportError(message) from None
    from spacy.lang.char_classes import ALPHA, HYPHENS

    language = "nb" if language == "no" else language
    if not _has_rules(language):
        raise ValueError(_language_error(language))
    pipeline: Any = spacy.blank(language)
    tokenizer = pipeline.tokenizer
    if hasattr(tokenizer, "infix_finditer"):  # not in those of Chinese and Japanese, for example
        infixes = list(pipeline.Defaults.infixes or ())
        if language == "en":
            dashes = HYPHENS.removeprefix("-|")
            infixes = [rule.replace(HYPHENS, dashes) for rule in infixes]
        infixes.append(rf"(?<=[{ALPHA}0-9])[(\[](?=[{ALPHA}0-9])")  # such as the one of ls(1)
        tokenizer.infix_finditer = spacy.util.compile_infix_regex(infixes).finditer
    return _Rules(language, syntok.segmenter, tokenizer)

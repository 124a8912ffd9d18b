"""The names of languages, by their ISO 639 codes."""

import difflib
import re

PROTEINS = "zxx"
"""The code of proteins: ISO 639's for what is not in a language."""

LANGUAGES = {
    "af": "Afrikaans",
    "am": "Amharic",
    "ar": "Arabic",
    "az": "Azerbaijani",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "bo": "Tibetan",
    "ca": "Catalan",
    "cs": "Czech",
    "cu": "Old Church Slavonic",
    "da": "Danish",
    "de": "German",
    "dsb": "Lower Sorbian",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fo": "Faroese",
    "fr": "French",
    "ga": "Irish",
    "gd": "Scottish Gaelic",
    "gl": "Galician",
    "grc": "Ancient Greek",
    "gu": "Gujarati",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hsb": "Upper Sorbian",
    "ht": "Haitian Creole",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "kmr": "Kurmanji",
    "kn": "Kannada",
    "ko": "Korean",
    "ky": "Kyrgyz",
    "la": "Latin",
    "lb": "Luxembourgish",
    "lg": "Luganda",
    "lij": "Ligurian",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "ml": "Malayalam",
    "mr": "Marathi",
    "ms": "Malay",
    "nb": "Norwegian Bokmål",
    "ne": "Nepali",
    "nl": "Dutch",
    "nn": "Norwegian Nynorsk",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sa": "Sanskrit",
    "si": "Sinhala",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "ti": "Tigrinya",
    "tl": "Tagalog",
    "tn": "Setswana",
    "tr": "Turkish",
    "tt": "Tatar",
    "ug": "Uyghur",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "yo": "Yoruba",
    "zh": "Chinese",
    PROTEINS: "proteins",
}
"""The languages of the published models and of spaCy's tokenizers."""

_OTHER_NAMES = {
    "ar": "ara",
    "cs": "ces cze čeština",
    "da": "dan dansk",
    "de": "deu ger deutsch",
    "el": "ell gre",
    "en": "eng",
    "es": "spa español espanol castellano castilian",
    "fa": "fas per farsi",
    "fi": "fin suomi",
    "fr": "fra fre français francais",
    "it": "ita italiano",
    "ja": "jpn",
    "ko": "kor",
    "nb": "bokmål bokmal",
    "nl": "nld dut nederlands flemish",
    "nn": "nynorsk",
    "no": "nor norsk",
    "pl": "pol polski",
    "pt": "por português portugues",
    "ro": "ron rum",
    "ru": "rus",
    "sl": "slv slovene",
    "sv": "swe svenska",
    "tr": "tur türkçe",
    "uk": "ukr",
    "zh": "zho chi mandarin",
    PROTEINS: "protein",
}
"""What people write in place of the code or the English name."""

_NAMES = [(name.lower(), code) for code, name in LANGUAGES.items()]
_NAMES += [(name, code) for code, names in _OTHER_NAMES.items() for name in names.split()]


def language_codes(language: str) -> list[str]:
    """The codes that a name or a code may mean.

    >>> language_codes("German"), language_codes("de_AT"), language_codes("norwegian")
    (['de'], ['de'], ['nb', 'nn', 'no'])
    """
    name = language.lower()
    if (code := re.split("[-_]", name)[0]) in LANGUAGES:
        return [code]
    return [code for known, code in _NAMES if f"{known} ".startswith(f"{name} ")]


def similar_language(language: str) -> str | None:
    """The code of the language with the most similar name, for a name with a typing error."""
    close = difflib.get_close_matches(language.lower(), [name for name, _ in _NAMES], 1, 0.75)
    return dict(_NAMES)[close[0]] if close else None


def is_same_language(one: str, other: str) -> bool:
    """Whether two codes stand for the same language. `"no"` is both kinds of Norwegian."""
    norwegian = {"no", "nb"}, {"no", "nn"}
    return one == other or {one, other} in norwegian

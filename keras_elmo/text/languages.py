"""The names of languages, by their ISO 639 codes."""

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


def language_codes(language: str) -> list[str]:
    """The codes that a code, a locale or an English name may mean.

    >>> language_codes("German"), language_codes("de_AT"), language_codes("norwegian")
    (['de'], ['de'], ['nb', 'nn', 'no'])
    """
    name = re.sub("[-_][A-Z]{2}$", "", language).lower()
    if name in LANGUAGES:
        return [name]
    return [code for code, known in LANGUAGES.items() if f"{known} ".lower().startswith(f"{name} ")]


def is_same_language(one: str, other: str) -> bool:
    """Whether two codes stand for the same language. `"no"` is both kinds of Norwegian."""
    norwegian = {"no", "nb"}, {"no", "nn"}
    return one == other or {one, other} in norwegian

import dataclasses
import os
import subprocess
import sys

import pytest

from keras_elmo import CorpusIndex, count_words, tokenize
from keras_elmo.text.reader import read_sentences
from keras_elmo.text.tokenize import hint_at_raw_text, make_tokenizer, tokenizer_name

pytestmark = pytest.mark.needs("spacy", "syntok")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        (" \n\n\t ", []),
        (
            'Mr. Smith can\'t wait... "Really?" (No.)',
            ["Mr. Smith ca n't wait ...", '" Really ? "', "( No . )"],
        ),
        (
            "A well-known bank--the oldest\nin U.S. history.",
            ["A well-known bank -- the oldest in U.S. history ."],
        ),
        ("A title\n\nIts text costs $5.", ["A title", "Its text costs $ 5 ."]),
        ("naïve café 😀", ["naïve café 😀"]),
    ],
)
def test_english_text(text, expected):
    assert [" ".join(sentence) for sentence in tokenize(text)] == expected


def test_offsets_are_places_in_the_raw_text():
    text = "\u00a0 Na\u00efve \U0001f600  caf\u00e9s can't\tgo.\r\n\n Mr. X's $5 (U.S.)\nleft... "
    sentences, offsets = tokenize(text, return_offsets=True)
    assert sentences == tokenize(text) and len(sentences) > 1
    for tokens, places in zip(sentences, offsets, strict=True):
        assert [text[i : i + len(token)] for i, token in zip(places, tokens, strict=True)] == tokens
    places = [i for places in offsets for i in places]
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    "language, text, expected",
    [
        (
            "de",
            "Das gilt u. a. für Köln. Er kam 2022. Siehe apt-get(8) und Abb. 3. Ende.",
            "Das gilt u. a. für Köln . | Er kam 2022 . | Siehe apt-get ( 8 ) und Abb. 3 . | Ende .",
        ),
        (
            "de",
            "Am 3. Mai kam Dr. med. Roth, d. h. z. B. er.",
            "Am 3. Mai kam Dr. med. Roth , d. h. z. B. er .",
        ),
        (
            "de",
            "Es gilt i. d. R. u. Ä. mehr. Vgl. S. 12 ff. oben usw. So ist es.",
            "Es gilt i. d. R. u. Ä. mehr . | Vgl. S. 12 ff. oben usw. | So ist es .",
        ),
        (
            "de",
            "Es war am 12. Er kam im 19. Jahrhundert. „Gut.“ Sie ging.",
            "Es war am 12 . | Er kam im 19. Jahrhundert . | „ Gut . “ | Sie ging .",
        ),
        (
            "de",
            "Er rief »Halt!« und kam. »Gut!« Das half.",
            "Er rief » Halt ! « und kam . | » Gut ! « | Das half .",
        ),
        (
            "fr",
            "M. Petit, p. ex. à Caen, voit Mme. Roy et MM. Roux.",
            "M. Petit , p. ex. à Caen , voit Mme. Roy et MM. Roux .",
        ),
        (
            "fr",
            "« Ça va ? » Il dit « Oui. » Elle part. « Bon. »",
            "« Ça va ? » | Il dit « Oui . » | Elle part . | « Bon . »",
        ),
        (
            "es",
            "El Sr. García vive en EE. UU. desde 2010. La Sra. López, p. ej., no.",
            "El Sr. García vive en EE. UU. desde 2010 . | La Sra. López , p. ej. , no .",
        ),
        (
            "es",
            "Véase pág. 12. El Dr. Ruiz vino en 1950.",
            "Véase pág. 12 . | El Dr. Ruiz vino en 1950 .",
        ),
        (
            "it",
            "Il sig. Rossi e il dott. Bianchi, p. es., videro Roma ecc. Ieri no.",
            "Il sig. Rossi e il dott. Bianchi , p. es. , videro Roma ecc. | Ieri no .",
        ),
        (
            "pt",
            "O Sr. Silva e a Profa. Costa, p. ex., moram na Av. Central.",
            "O Sr. Silva e a Profa. Costa , p. ex. , moram na Av. Central .",
        ),
        (
            "nl",
            "Dhr. Jansen woont bijv. in Breda. Prof. dr. Smit ook.",
            "Dhr. Jansen woont bijv. in Breda . | Prof. dr. Smit ook .",
        ),
        (
            "sv",
            "Det gäller t. ex. Stockholm, bl. a. vid kap. 3. Se dr. Ek.",
            "Det gäller t. ex. Stockholm , bl. a. vid kap. 3 . | Se dr. Ek .",
        ),
        (
            "da",
            "Det er f.eks. Hr. Hansen, den 3. maj 1950. Ja.",
            "Det er f.eks. Hr. Hansen , den 3. maj 1950 . | Ja .",
        ),
        (
            "nb",
            "Se f.eks. nr. 5 og dr. Lie. Han har to. Det er kl. 10.",
            "Se f.eks. nr. 5 og dr. Lie . | Han har to. | Det er kl. 10 .",
        ),
        (
            "ru",
            "Он живёт на ул. Ленина. См. стр. 5 и др. примеры проф. Иванова.",
            "Он живёт на ул. Ленина . | См. стр. 5 и др. примеры проф. Иванова .",
        ),
        (
            "pl",
            "Mieszka np. Jan, ul. Długa 5. Prof. Nowak, tzw. Janek.",
            "Mieszka np . Jan , ul . Długa 5 . | Prof . Nowak , tzw . Janek .",
        ),
        (
            "cs",
            "Bydlí např. v Praze, ul. Nová. Prof. Novák, tj. Jan.",
            "Bydlí např . v Praze , ul . Nová . | Prof . Novák , tj . Jan .",
        ),
        (
            "en",
            "Mr. Hill (see ls(1)) came in 2022. He left the U.S. in May.",
            "Mr. Hill ( see ls ( 1 ) ) came in 2022 . | He left the U.S. in May .",
        ),
    ],
)
def test_abbreviations_and_ends_of_sentences(language, text, expected):
    sentences, offsets = tokenize(text, language, return_offsets=True)
    assert " | ".join(map(" ".join, sentences)) == expected
    for tokens, starts in zip(sentences, offsets, strict=True):
        assert [text[i : i + len(token)] for token, i in zip(tokens, starts, strict=True)] == tokens


@pytest.mark.parametrize(
    "language, text",
    [
        ("cs", "Dal to nám. Pak odešel."),
        ("da", "De løb om kap. Hun vandt."),
        ("de", "Ich mag Köln usw. Das ist so."),
        ("es", "Vive en EE. UU. Ella no."),
        ("fi", "Kuulin sen. Hän tuli."),
        ("fr", "Il aime l'art. Elle préfère la musique."),
        ("fr", "Voici mon ex. Il part."),
        ("hr", "To je on. Ona ide."),
        ("it", "Ha detto al. Poi va."),
        ("nb", "Jeg har to. Hun har tre."),
        ("nb", "Klokka er ti. Vi går nå."),
        ("nl", "Dat is al. Hij komt."),
        ("nl", "Dat is in het dal. Ik ga."),
        ("pl", "Wziął lek. Poszedł spać."),
        ("pt", "Ele é meu ex. Ela saiu."),
        ("ro", "El are un al. Ea vine."),
        ("ru", "Там есть кот. Он чёрный."),
        ("ru", "Мы дали это им. Они ушли."),
        ("ru", "Это новый ген. Он важен."),
        ("sk", "Dal to nám. Potom odišiel."),
        ("sl", "Tam je. Ona gre."),
        ("sv", "Han är mitt ex. Hon gick."),
        ("tr", "Bu bir dal. O geldi."),
        ("uk", "Це тривало 5 хв. Він чекав."),
    ],
)
def test_words_that_are_also_abbreviations_end_sentences(language, text):
    starts = [0, text.index(". ") + 2 if language != "es" else text.index("Ella")]
    _, offsets = tokenize(text, language, return_offsets=True)
    assert [places[0] for places in offsets] == starts


def test_the_last_token_of_a_sentence():
    assert tokenize("Voici mon ex.", "fr") == [["Voici", "mon", "ex", "."]]
    assert tokenize("„Es war 2022.“", "de") == [["„", "Es", "war", "2022", ".", "“"]]
    assert [len(x) for x in tokenize("Das ist Dr.\n\nMüller kam.", "de")] == [3, 3]
    assert tokenize("Siehe ls(8) und 8)", "de") == [["Siehe", "ls", "(", "8", ")", "und", "8", ")"]]
    assert tokenize("Het a(b).", "zh")[0][-4:] == ["(", "b", ")", "."]


def test_other_languages_have_their_own_rules():
    assert tokenize("Se kl. 5.", "no") == tokenize("Se kl. 5.", "nb")
    assert tokenize("Das ist z.B. gut.", language="de") == [["Das", "ist", "z.B.", "gut", "."]]
    for language in ("qq", "", "../../etc", "de.examples"):
        with pytest.raises(ValueError, match=f"Unknown language '{language}'"):
            tokenize("?", language=language)
    for language, message in (
        ("German", "Unknown language 'German': pass its code, 'de'"),
        ("de_AT", "Unknown language 'de_AT': pass its code, 'de'"),
        ("grman", "Unknown language 'grman': pass one of spaCy's codes"),
        ("gl", "spaCy has no rules for Galician: pass 'xx'"),
        ("Galician", "spaCy has no rules for Galician: pass 'xx'"),
        ("norwegian", "Unknown language 'norwegian': pass its code, 'nb'"),
    ):
        with pytest.raises(ValueError, match=message):
            tokenize("?", language=language)
    with pytest.raises(ValueError, match="Expected a text as one string"):
        tokenize(["A list"])


def test_raw_text_to_count_and_to_train_on(tmp_path):
    raw, split = tmp_path / "raw.txt", tmp_path / "split.txt"
    raw.write_bytes(b"The bank didn't.  It left.\r\n\n\xff A t\xc3\xaftle\nNa\xefve c\xc3\xa4t")
    split.write_text("The bank did n't .\nIt left .\nA t\u00eftle\nNave c\u00e4t\n")
    index, expected = CorpusIndex.build(raw, tmp_path, tokenize=True), CorpusIndex.build(split)
    assert index.text_hash == expected.text_hash
    assert list(map(index.sentence, range(len(index)))) == list(read_sentences(split))
    assert index.stats == dataclasses.replace(
        expected.stats, blank_lines=1, invalid_lines=2, language="en"
    )
    assert count_words(raw, tokenize="en").counts == count_words(split).counts
    # Other ways to read the same file have other indexes.
    assert CorpusIndex.build(raw, tmp_path).text_hash != index.text_hash
    for size in (4, 5):
        first = CorpusIndex.build(raw, tmp_path, tokenize=lambda x, n=size: [x.split()[:n]])
        assert first.sentence(0) == [b"The", b"bank", b"didn't.", b"It", b"left."][:size]


def test_raw_text_is_hinted_at(tmp_path, caplog):
    (tmp_path / "raw.txt").write_text("It left.\nThey came.\nA title\n")
    CorpusIndex.build(tmp_path / "raw.txt", tokenize=True)
    assert not caplog.records
    count_words(tmp_path / "raw.txt")
    (record,) = caplog.records
    assert "end in punctuation, such as 'left.'" in record.message


@pytest.mark.parametrize(
    "text, is_raw",
    [
        ("We sat, then we walked. A title\nAnother title", True),
        ("We saw Mr. and Mrs. Hill , who live in the U.S. .\nWhy ?", False),
        (20 * "They came to see the Hills of Acme Inc .\n" + "A title of Acme Inc.", False),
    ],
)
def test_what_counts_as_raw(text, is_raw):
    assert hint_at_raw_text(map(str.split, text.split("\n"))) == is_raw


@pytest.mark.parametrize(
    "function, wrong",
    [(str.split, "'a'"), (str.upper, "'A B'"), (print, "None"), (lambda text: [None], "None")],
)
def test_a_function_returns_lists_of_tokens(function, wrong):
    with pytest.raises(ValueError, match=f"must return a list of sentences, .*; got {wrong}"):
        make_tokenizer(function)("a b")


def test_no_characters_are_lost_in_a_long_paragraph():
    text = "The bank's rates rose by 2.5%. " * 40_000
    sentences = tokenize(text)
    assert len(sentences) == 40_000
    assert "".join(sentences[-1]) == text[:31].replace(" ", "")


class Splitter:
    def __init__(self):
        self.calls = 0

    def split(self, text):
        self.calls += 1
        return [text.split(" ")]


FUNCTIONS = (
    "def tokenize(text): return [text.split('a')]",
    "def tokenize(text): return [text.split('b')]",
    "def tokenize(text): return [text.rsplit('a')]",
    "def tokenize(text): return [[x for x in text.split() if x != 'a']]",
    "def tokenize(text): return [[x for x in text.split() if x != 'b']]",
    "def tokenize(text): return [[x for x in text.split() if x in {'a', 'b'}]]",
    "def tokenize(text): return [[x for x in text.split() if x in {'a', 'c'}]]",
    "def tokenize(text): return [list(map(lambda x: x + 'a', text))]",
    "def tokenize(text): return [list(map(lambda x: x + 'b', text))]",
)


def _names(seed):
    """The names of `FUNCTIONS` in a new process."""
    code = (
        "import sys; from keras_elmo.text.tokenize import tokenizer_name\n"
        "for text in sys.argv[1:]: exec(text); print(tokenizer_name(tokenize))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", code, *FUNCTIONS]
    return subprocess.run(command, env=environment, capture_output=True, text=True).stdout.split(
        "\n"
    )


def test_functions_of_one_name_are_told_apart_by_their_code():
    names = _names("1")[:-1]
    assert len(set(names)) == len(FUNCTIONS) and _names("2")[:-1] == names


def test_a_method_keeps_its_name():
    splitter = Splitter()
    name = tokenizer_name(splitter.split)
    splitter.split("a b")
    assert tokenizer_name(splitter.split) == name != tokenizer_name(str.split)


def test_functions_without_a_name_are_never_the_same():
    one = lambda text: [text.split()]  # noqa: E731
    assert tokenizer_name(one) != tokenizer_name(one)
    assert tokenizer_name(str.split) == tokenizer_name(str.split) != tokenizer_name(str.upper)

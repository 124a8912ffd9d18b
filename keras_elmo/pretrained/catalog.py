"""Data about the published models of other languages, for `registry.py`."""

from keras_elmo.text.languages import LANGUAGES

ALLENNLP = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"

NLPL = "http://vectors.nlpl.eu/repository"
"""The NLPL word embeddings repository, whose URLs are permanent."""

_CODES = """
    ar bg ca cs cu da de el en es et eu fa fi fr ga gl grc he hi hr hu id it ja ko la lv nl nb
    nn pl pt ro ru sk sl sv tr ug uk ur vi
"""
MANY_LANGUAGES = {code: LANGUAGES[code] for code in _CODES.split()} | {
    "zht": "Chinese (traditional)"
}
"""Codes and languages of ELMoForManyLangs, in the order of their numbers in the repository."""

MANY_LANGUAGES_FIRST_NUMBER = 136

LEXICON_ARCHITECTURE = (
    ("words", "100 numbers each, for the words in its dictionary"),
    ("characters", "50 numbers each, for the characters in its dictionary, at most 50 per token"),
    (
        "convolutions",
        "32 of width 1, 32 of width 2, 64 of width 3, 128 of width 4, 256 of width 5, 512 of "
        "width 6, 1024 of width 7; relu",
    ),
    ("highway layers", "2"),
    ("LSTM", "2 layers of 4096 units, projected to 512, forward and backward"),
    ("clips", "cell 3, projection 3"),
    ("skip", "layers after the first add their input"),
    ("parameters", "94,066,752, and 100 for each word and 50 for each character"),
    ("word vector", "1024 numbers, in each of 3 layers"),
)
"""The architecture of ELMoForManyLangs' models, whose dictionaries are known once downloaded: names
and values, as `keras-elmo info` prints them."""

EMBEDDIA = "https://www.clarin.si/repository/xmlui/bitstream/handle/11356/1277"
"""The archives of EMBEDDIA, whose page is http://hdl.handle.net/11356/1277."""

EMBEDDIA_MODELS = {
    "hr": "croatian-elmo.tar.gz",
    "et": "estonian-elmo.tar.gz",
    "fi": "finnish-elmo.tar.gz",
    "lv": "latvian-elmo.tar.gz",
    "lt": "lithuanian-elmo.tar.gz",
    "sl": "slovenian-elmo.tar.gz",
    "sv": "swedish-elmo.tar.gz",
}
"""Codes and archives."""

SEQVEC = "http://data.bioembeddings.com/public/embeddings/embedding_models"
"""The folder of SeqVec, the protein model of Heinzinger et al. 2019."""

SEQVEC_ARCHIVE = "https://rostlab.org/~deepppi/seqvec.zip"

MIRRORS = {
    ALLENNLP: ("https://allennlp.s3.amazonaws.com/models/elmo",),
    f"{NLPL}/11": (),
    f"{NLPL}/20": (),
    EMBEDDIA: (),
    SEQVEC: ("https://rostlab.org/~deepppi/embedding_repo/embedding_models",),
}
"""Base URLs of the published models, each with others that have the same files."""

NLPL_MODELS = (
    ("ru", 195, "Russian Wikipedia and the Russian National Corpus", "words, not lemmas"),
    ("ru", 212, "lemmas of the Russian corpus Araneum", "lemmas in place of words"),
    ("no", 210, "lemmas of Norwegian Wikipedia", "lemmas in place of words, by UDPipe"),
    ("no", 211, "Norwegian Wikipedia", "UDPipe"),
    ("no", 217, "Norwegian Wikipedia and Norsk Aviskorpus (NorELMo30)", "UDPipe"),
    ("no", 218, "Norwegian Wikipedia and Norsk Aviskorpus (NorELMo100)", "UDPipe"),
)
"""Language, number in the repository, text it was trained on, and how text is to be split."""

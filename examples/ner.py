"""Named entities with ELMo: the tagger of Peters et al. 2018, section 4, in Keras.

    python examples/ner.py --train wnut17train.conll --dev emerging.dev.conll \
        --test emerging.test.annotated --output ner_output
    python examples/ner.py --model ner_output/glove+elmo.keras --tag "Ann Lee flew to Paris ."

GloVe vectors, a character CNN and a learned mix of ELMo's layers are concatenated; two
bidirectional LSTMs read them, and a CRF chooses the tags. Files have the columns of CoNLL-2003,
WNUT-17 or Universal NER (file names in .iob2), in any of the schemes IOB1, BIO and IOBES. README.md
in this folder says where to get them, and which scores to expect. A run on WNUT-17 takes at most
five minutes on two CPU cores.
"""

import re
from pathlib import Path

import keras
import numpy as np
from keras import layers
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

import experiments
from crf import CRF
from keras_elmo import CharCNNEmbedding, encode_sentences
from reading import parse_tables, sentences_of
from training import COMPILE_WITH_XLA, Batches, HalveOnPlateau, predict
from word_vectors import encode, end_to_end, inputs_of, mix_layers, mix_weights, prepare

# 1. The data: columns of a token and its tag, sentences separated by empty lines.

TAG = re.compile(r"O|[BIES]-\S+")


def read_sentences(path):
    """Reads a column file: a pair for each sentence, its tokens and their tags in BIO.

    Args:
        path: The file, plain, .gz or .xz. In .iob2 files (Universal NER), the first
            column numbers the tokens and the tag is in the third; in others the token is in the
            first column and the tag in the last.

    Raises:
        ValueError: if a line has a different format, or the file has no sentences.
    """
    is_universal = ".iob2" in Path(path).suffixes

    def parse(rows):
        if is_universal:
            tokens, tags = zip(*((token, tag) for _, token, tag, *_ in rows))
            # These are not names; the tools of Universal NER drop them, too.
            tags = ["O" if tag.endswith(("-O", "-OTH")) else tag for tag in tags]
        else:
            tokens, tags = zip(*((token, tag) for token, *_, tag in rows))
        for tag in tags:
            if not TAG.fullmatch(tag):
                raise ValueError(f"{tag!r} is not a tag")
        return list(tokens), to_bio(entities(tags), len(tags))

    expected = "tokens with tags in IOB1, BIO (IOB2) or IOBES"
    comment = "#" if is_universal else "-DOCSTART-"
    return parse_tables(path, parse, expected, comment)


def entities(tags):
    """Entities `(kind, start, end)` of tags in IOB1, BIO or IOBES, read as conlleval does."""
    return [(kind, first, last + 1) for kind, first, last in get_entities(list(tags))]


def to_bio(found, num_tokens):
    """Tags with B at the beginning of every entity and I inside."""
    tags = ["O"] * num_tokens
    for kind, start, end in found:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


def to_iobes(tags):
    """Tags that also mark the end, E, and entities of a single token, S. The model learns these."""
    found = entities(tags)
    tags = to_bio(found, len(tags))
    for kind, start, end in found:
        tags[end - 1] = f"E-{kind}" if end - start > 1 else f"S-{kind}"
    return tags


# 2. The model.

CHARACTERS = 20  # of a word, enough for the CNN; ELMo reads 50


def make_tagger(words, elmo, tag_names, settings):
    """A Functional model from words, characters and ELMo's layers to the tags."""
    inputs, vectors = inputs_of(words, elmo), []
    if words is not None:
        vectors.append(words(inputs["words"]))
    if elmo is not None:
        vectors.append(mix_layers(inputs["layers"], settings))
    if settings.character_filters:
        inputs["characters"] = keras.Input((None, CHARACTERS), dtype="int32", name="characters")
        size = settings.character_filters
        cnn = CharCNNEmbedding(filters=((3, size),), num_highway=0, projection_dim=size)
        vectors.append(cnn(inputs["characters"]))
    x = layers.Dropout(0.5)(layers.Concatenate()(vectors))
    for _ in range(2):
        x = layers.Bidirectional(layers.LSTM(settings.units, return_sequences=True))(x)
        x = layers.Dropout(0.5)(x)
    x = layers.Dense(len(tag_names))(x)
    return keras.Model(inputs, CRF(tag_names, name="crf")(x))


def add_characters(items, sentences):
    """Adds the characters of sentences, without the boundaries: int32 `(T, CHARACTERS)`."""
    for item, tokens in zip(items, sentences):
        item["characters"] = encode_sentences([tokens])[0, 1:-1, :CHARACTERS]


def find_tags(model, items, sentences, names):
    """The tags in BIO of sentences, from the items that encode them."""
    lengths = map(len, sentences)
    rows = ([names[i] for i in x["tags"][:n]] for x, n in zip(predict(model, items), lengths))
    return [to_bio(entities(row), len(row)) for row in rows]


# 3. One run: training until the F1 on the development set stops rising, then the test.


def train(settings):
    """Trains and tests a tagger; returns the scores, and the tagger with ELMo in it."""
    data = experiments.read_parts(settings, read_sentences)
    sentences = {part: [tokens for tokens, _ in data[part]] for part in data}
    tags = {part: [tags for _, tags in data[part]] for part in data}
    tag_names = sorted({tag for row in tags["train"] for tag in to_iobes(row)})
    labels = [
        {"scores": np.array([tag_names.index(tag) for tag in to_iobes(row)])}
        for row in tags["train"]
    ]

    # ELMo's layers do not change in the training, so they are computed before it.
    words, elmo, items = prepare(settings, sentences)
    if settings.character_filters:
        for part in items:
            add_characters(items[part], sentences[part])

    keras.utils.set_random_seed(settings.seed)
    model = make_tagger(words, elmo, tag_names, settings)
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0),
        loss={"scores": model.get_layer("crf").loss},
        jit_compile=COMPILE_WITH_XLA,
    )

    def find(part):
        return find_tags(model, items[part], sentences[part], tag_names)

    def score_dev():
        return float(f1_score(tags["dev"], find("dev"), zero_division=0))

    batches = Batches(items["train"], labels, settings.batch_size, settings.seed)
    dev, best_epoch = fit(model, batches, score_dev, settings)
    found = find("test")
    write_tags(sentences["test"], tags["test"], found, settings)
    scores = {
        "dev": dev,
        "test": 100 * float(f1_score(tags["test"], found, zero_division=0)),
        "best epoch": best_epoch,
        "input weights": mix_weights(model),
    }
    return scores, end_to_end(model, elmo)


def fit(model, batches, score_dev, settings):
    """Trains a compiled model until its F1 on the development set stops rising.

    Args:
        model: The model, which gets the weights of the best epoch.
        batches: The `Batches` to train on.
        score_dev: Function that returns the F1, 0 to 1.
        settings: The options.

    Returns:
        The best F1 in percent, and its epoch, from 1.
    """

    def add_score(epoch, logs):
        logs["val_f1"] = score_dev()

    score = keras.callbacks.LambdaCallback(on_epoch_end=add_score)
    halve = HalveOnPlateau("val_f1", settings.halve_after)
    best = keras.callbacks.EarlyStopping(
        "val_f1", mode="max", patience=settings.patience, restore_best_weights=True
    )
    callbacks = [score, halve, best]  # the last two read the score
    model.fit(batches, epochs=settings.epochs, callbacks=callbacks, verbose=2)
    return 100 * best.best, best.best_epoch + 1


def write_tags(sentences, tags, found, settings):
    """Writes lines of token, true tag and predicted tag, in BIO, as conlleval reads them."""
    path = Path(settings.output, f"{settings.features}-{settings.seed}.txt")
    with open(path, "w", encoding="utf-8") as file:
        for columns in zip(sentences, tags, found):
            file.writelines(f"{' '.join(line)}\n" for line in zip(*columns))
            file.write("\n")


# 4. A trained tagger, as `keras.models.load_model` loads it.


def tag(tagger, sentences):
    """The tags in BIO of sentences, lists of tokens."""
    items = encode(tagger, sentences)
    if "characters" in tagger.input:
        add_characters(items, sentences)
    names = tagger.get_layer("network").get_layer("crf").tag_names
    return find_tags(tagger, items, sentences, names)


# 5. The command line. Without --seeds and --features it is one run.


def run(settings):
    """Trains with all feature sets and seeds; returns the rows of the table."""
    return experiments.run_seeds(train, settings)


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "sentences to tag"}
    defaults = {"output": "ner_output"}
    parser = experiments.make_parser(__doc__, "tag", defaults, **options)
    parser.add_argument("--character-filters", type=int, default=64, help="0 for no character CNN")
    return experiments.parse(parser, arguments)


def show(tagger, sentences):
    """Prints sentences with their tags."""
    sentences = sentences_of(sentences)
    for tokens, tags in zip(sentences, tag(tagger, sentences)):
        print(" ".join(map("/".join, zip(tokens, tags))))


if __name__ == "__main__":
    experiments.main(parse(), run, show)

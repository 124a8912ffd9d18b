"""Named entities with ELMo: the tagger of Peters et al. 2018, section 4.

    python examples/ner.py --train train.bio --dev dev.bio --test test.bio \
        --features none glove elmo glove+elmo --seeds 5 --output ner_output
    python examples/ner.py --model ner_output/glove+elmo.keras --tag "Ann Lee flew to Paris ."

The input is GloVe vectors, a character CNN and a learned mix of ELMo's layers, with dropout; two
bidirectional LSTMs read it and a CRF chooses the tags. Files are in the columns of CoNLL-2003,
WNUT-17 or Universal NER (file names in .iob2), in any of the schemes IOB1, BIO and IOBES. README.md
in this folder says where to get them.

The first run computes ELMo's vectors and caches them in `--cache`; later runs start training at
once. The output folder gets results.md, .csv and .json (mean and deviation over the seeds), the
same for each run, the predictions on the test file, and the best model of each feature set in one
file.

With the bundled model, expect an F1 of about 38 on WNUT-17 (with only GloVe 32), 79 on Universal
NER's English EWT (77) and 68 on LitBank's entities (61). A run takes about 3, 10 and 15 minutes,
respectively, on one CPU core.
"""

import functools
import re
from pathlib import Path

import keras
import numpy as np
from keras import ops
from seqeval.metrics import f1_score

import harness
from bilstm import BiLSTM
from crf import CRF
from features import PADDING, prepare, read_lines
from keras_elmo import CharCNNEmbedding
from keras_elmo.files import atomic_write
from keras_elmo.text.tokens import split_tokens
from task_model import TaskModel

# 1. The data: columns of a token and its tag, sentences separated by empty lines.


TAG = re.compile(r"O|[BIES]-\S+")


def read_sentences(path):
    """Reads a column file.

    Args:
        path: The file, plain, .gz or .xz. In .iob2 files (Universal NER), the first
            column numbers the tokens and the tag is in the third; in others the token is in the
            first column and the tag in the last.

    Returns:
        A list of sentences, lists of tokens, and a list of their tags in BIO.

    Raises:
        ValueError: if a line has a different format, or the file has no sentences.
    """
    is_universal = ".iob2" in Path(path).suffixes
    token_column, tag_column = (1, 2) if is_universal else (0, -1)
    sentences, tags = [[]], [[]]
    for number, line in enumerate(read_lines(path), start=1):
        words = split_tokens(line)
        columns = [column.strip(" ") for column in line.split("\t")] if "\t" in line else words
        if not words or columns[0] == "-DOCSTART-":
            sentences.append([])
            tags.append([])
        elif not (line.startswith("#") and (is_universal or " = " in line)):  # a comment
            tag = columns[tag_column] if len(columns) > max(1, tag_column) else None
            if tag is None or not TAG.fullmatch(tag):
                raise ValueError(
                    f"{path}, line {number}: {line!r:.80} is not a token with its tag. Tags are O, "
                    "or B, I, E or S, a hyphen and the kind of entity: IOB1, BIO (IOB2) or IOBES."
                )
            if is_universal and tag.endswith(("-O", "-OTH")):  # not names; its tools drop them too
                tag = "O"
            sentences[-1].append(columns[token_column])
            tags[-1].append(tag)
    pairs = [(s, to_bio(entities(t), len(t))) for s, t in zip(sentences, tags) if s]
    if not pairs:
        raise ValueError(f"{path} has no sentences: expected lines of a token and its tag.")
    return tuple(map(list, zip(*pairs)))


def entities(tags):
    """Entities `(kind, start, end)` of tags in IOB1, BIO or IOBES, read as conlleval does."""
    found, kind, start = [], None, None
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, new_kind = tag.partition("-")
        if start is not None and (prefix not in "IE" or new_kind != kind):
            found.append((kind, start, i))
            start = None
        if start is None and prefix != "O":
            kind, start = new_kind, i
        if prefix in "ES":
            found.append((kind, start, i + 1))
            start = None
    return found


def to_bio(found, num_tokens):
    """Tags with B at the beginning of every entity and I inside."""
    tags = ["O"] * num_tokens
    for kind, start, end in found:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


def to_iobes(found, num_tokens):
    """Tags that also mark the end, E, and entities of a single token, S."""
    tags = to_bio(found, num_tokens)
    for kind, start, end in found:
        tags[end - 1] = f"E-{kind}" if end - start > 1 else f"S-{kind}"
    return tags


# 2. The model.

CHARACTERS = 20  # of a word, enough for the CNN; ELMo reads 50


@keras.saving.register_keras_serializable("keras_elmo_examples")
class Tagger(TaskModel):
    """Word vectors, characters and ELMo; two bidirectional LSTMs; a CRF.

    Args:
        tag_names: The tags.
        character_filters: Size of the character CNN, 0 for none.
        units: Size of the LSTMs, in each direction.
        dropout: Fraction to drop of the input, and of each LSTM's output.
        **options: Passed to `TaskModel`.

    Call arguments:
        inputs: Dict of `SentenceBatches`: "words", "characters", and "layers" or "elmo" for ELMo.

    Returns:
        Dict of float "logits" `(B, T, num_tags)` and int32 "tags" `(B, T)`, the best ones.
    """

    def __init__(self, tag_names, character_filters=64, units=100, dropout=0.5, **options):
        super().__init__(units=units, dropout=dropout, **options)
        self.tag_names = tag_names
        self.character_filters = character_filters
        self.character_cnn = None
        if character_filters:
            self.character_cnn = CharCNNEmbedding(
                filters=((3, character_filters),), num_highway=0, projection_dim=character_filters
            )
        self.encoders = [BiLSTM(units) for _ in range(2)]
        self.encoder_dropouts = [keras.layers.Dropout(dropout) for _ in range(2)]
        self.classifier = keras.layers.Dense(len(tag_names))
        self.crf = CRF(len(tag_names))
        self.build()

    def build_task(self, width, elmo_width):
        if self.character_cnn is not None:
            self.character_cnn.build((None, None, CHARACTERS))
            width += self.character_filters
        for encoder in self.encoders:
            encoder.build((None, None, width))
            width = 2 * self.units
        self.classifier.build((None, None, width))
        self.crf.build((None, None, len(self.tag_names)))

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        characters = None
        if self.character_cnn is not None:
            characters = self.character_cnn(inputs["characters"][:, 1:-1, :CHARACTERS])
        x = self.read(inputs, mask, training=training, further=characters)
        for encoder, dropout in zip(self.encoders, self.encoder_dropouts):
            x = dropout(encoder(x, mask=mask), training=training)
        logits = self.classifier(x)
        return {"logits": logits, "tags": self.crf(logits, mask=mask)}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        log_likelihood = self.crf.log_likelihood(y_pred["logits"], y, x["words"] != PADDING)
        return sum(self.losses, -ops.mean(log_likelihood))

    def tag(self, sentences):
        """Tags sentences: strings to be split at ASCII white space, or lists of tokens.

        Returns:
            A list of lists of tags.
        """
        sentences = harness.sentences_of(sentences)
        return self.predict_tags(
            self.batches_of(sentences, characters=bool(self.character_filters))
        )

    def predict_tags(self, batches):
        """Tags the sentences of `SentenceBatches`, in their order."""
        tags = [None] * len(batches.sentences)
        for rows, _, predicted in self.predictions(batches):
            for row, ids in zip(rows, predicted["tags"]):
                tags[row] = [self.tag_names[i] for i in ids[: batches.lengths[row]]]
        return tags

    def get_config(self):
        return {
            **super().get_config(),
            "tag_names": list(self.tag_names),
            "character_filters": self.character_filters,
        }


# 3. The experiment: one run with one seed.


class Experiment:
    """Trains and tests a tagger with a feature set and a seed.

    Args:
        settings: The options of the command line.
    """

    def __init__(self, settings):
        self.settings = settings
        self.encode = {"bio": to_bio, "iobes": to_iobes}[settings.scheme]
        self.sentences, self.tags = {}, {}
        for part in ("train", "dev", "test"):
            self.sentences[part], self.tags[part] = read_sentences(getattr(settings, part))
        encoded = [self.encode(entities(tags), len(tags)) for tags in self.tags["train"]]
        self.tag_names = sorted({tag for tags in encoded for tag in tags})
        numbers = {tag: i for i, tag in enumerate(self.tag_names)}
        self.labels = [np.array([numbers[tag] for tag in tags], np.int32) for tags in encoded]
        self.prepare = functools.cache(lambda name: prepare(name, settings, self.sentences))

    def __call__(self, features, seed):
        rows = harness.fraction_of(len(self.labels), self.settings.fraction, seed)
        inputs = self.prepare(features).trained_on(rows)
        model = self.make_model(features, inputs)
        options = {
            "batch_size": self.settings.batch_size,
            "characters": model.character_cnn is not None,
        }
        train = inputs.batches("train", labels=self.labels, rows=rows, seed=seed, **options)
        dev, test = inputs.batches("dev", **options), inputs.batches("test", **options)
        best, epoch = harness.train(
            model, train, lambda: self.f1("dev", model.predict_tags(dev)), self.settings
        )
        predicted = model.predict_tags(test)
        path = Path(self.settings.output) / f"{features}-{seed}.txt"
        write_predictions(path, self.sentences["test"], self.tags["test"], predicted)
        result = {
            "dev": best,
            "test": self.f1("test", predicted),
            "best epoch": epoch,
            "input weights": harness.mix_weights(model.input_mix),
        }
        return result, model

    def make_model(self, features, inputs):
        options = {
            "tag_names": self.tag_names,
            "character_filters": self.settings.character_filters,
        }
        return Tagger.of(features, inputs, self.settings, **options)

    def f1(self, part, predicted):
        """The F1 of whole entities, in percent."""
        predicted = [to_bio(entities(tags), len(tags)) for tags in predicted]
        return 100 * float(f1_score(self.tags[part], predicted, zero_division=0))


def write_predictions(path, sentences, tags, predicted):
    """Lines of token, true tag and predicted tag, in BIO, as conlleval reads them."""
    with atomic_write(path) as partial, open(partial, "w", encoding="utf-8") as file:
        for tokens, true, found in zip(sentences, tags, predicted):
            found = to_bio(entities(found), len(found))
            file.writelines(f"{' '.join(line)}\n" for line in zip(tokens, true, found))
            file.write("\n")


# 4. The command line.


def run(settings):
    """Trains with all feature sets and seeds; returns the rows of the table."""
    return harness.run_seeds(Experiment(settings), settings)


def parse(arguments=None):
    parser = harness.make_parser(__doc__.splitlines()[0], output="ner_output")
    parser.add_argument(
        "--scheme", choices=("bio", "iobes"), default="iobes", help="tags to train with"
    )
    parser.add_argument("--character-filters", type=int, default=64, help="0 for no character CNN")
    parser.add_argument("--units", type=harness.positive, default=100, help="size of each LSTM")
    parser.add_argument("--model", help="a saved model, to tag with")
    parser.add_argument("--tag", nargs="+", metavar="SENTENCE", help="sentences to tag")
    return harness.parse(parser, arguments, alone="tag")


def show_tags(path, sentences):
    """Prints sentences with the tags that a saved model gives them."""
    model = keras.models.load_model(path, compile=False)
    for sentence, tags in zip(sentences, model.tag(sentences)):
        tags = to_bio(entities(tags), len(tags))
        print(" ".join(f"{token}/{tag}" for token, tag in zip(split_tokens(sentence), tags)))


if __name__ == "__main__":
    settings = parse()
    if settings.tag is None:
        run(settings)
    else:
        show_tags(settings.model, settings.tag)

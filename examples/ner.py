"""Named entities with ELMo: the tagger of Peters et al. 2018, section 4.

    python examples/ner.py --train train.bio --dev dev.bio --test test.bio \
        --features none glove elmo glove+elmo --seeds 5 --output ner_output
    python examples/ner.py --model ner_output/glove+elmo.keras --tag "Ann Lee flew to Paris ."

The input is GloVe vectors, a character CNN and a learned mix of ELMo's layers, with dropout; two
bidirectional LSTMs read it and a CRF chooses the tags. Files are in the columns of CoNLL-2003,
WNUT-17 or Universal NER (file names in .iob2), in any of the schemes IOB1, BIO and IOBES. README.md
in this folder says where to get them, and which scores to expect.
"""

import re
from pathlib import Path

import keras
import numpy as np
from keras import ops
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

import harness
from bilstm import BiLSTM
from crf import CRF
from features import PADDING
from keras_elmo import CharCNNEmbedding
from keras_elmo.text.tokens import split_tokens
from reading import Data, parse_tables
from task_model import TaskModel

# 1. The data: columns of a token and its tag, sentences separated by empty lines.

TAG = re.compile(r"O|[BIES]-\S+")


def read_sentences(path):
    """Reads a column file: `Data` whose answers are tags in BIO.

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
    return Data(*map(list, zip(*parse_tables(path, parse, expected, comment))))


def entities(tags):
    """Entities `(kind, start, end)` of tags in IOB1, BIO or IOBES, read as conlleval does."""
    return [(kind, first, last + 1) for kind, first, last in get_entities(list(tags))]


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
        tag_names: The tags, in IOBES.
        character_filters: Size of the character CNN, 0 for none.
        **options: Passed to `TaskModel`; `units` is the size of the LSTMs, in each direction.

    Call arguments:
        inputs: Dict of `SentenceBatches`: "words", "characters", and "layers" or "elmo" for ELMo.

    Returns:
        Dict of float "logits" `(B, T, num_tags)` and int32 "tags" `(B, T)`, the best ones.
    """

    def __init__(self, tag_names, character_filters=64, dropout=0.5, **options):
        super().__init__(dropout=dropout, **options)
        self.tag_names = list(tag_names)
        self.character_filters = character_filters
        self.character_cnn = None
        if character_filters:
            self.character_cnn = CharCNNEmbedding(
                filters=((3, character_filters),), num_highway=0, projection_dim=character_filters
            )
        self.encoders = [BiLSTM(self.units) for _ in range(2)]
        self.encoder_dropouts = [keras.layers.Dropout(dropout) for _ in range(2)]
        self.classifier = keras.layers.Dense(len(tag_names))
        self.crf = CRF(len(tag_names))
        self.build()

    def example(self, words):
        characters = np.ones((len(words), words.shape[1] + 2, 50), "int32")
        return {**super().example(words), "characters": characters}

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        characters = None
        if self.character_cnn is not None:
            characters = self.character_cnn(inputs["characters"][:, 1:-1, :CHARACTERS])
        x = self.read(inputs, mask, training=training, extra=characters)
        for encoder, dropout in zip(self.encoders, self.encoder_dropouts):
            x = dropout(encoder(x, mask=mask), training=training)
        logits = self.classifier(x)
        return {"logits": logits, "tags": self.crf(logits, mask=mask)}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        log_likelihood = self.crf.log_likelihood(y_pred["logits"], y, x["words"] != PADDING)
        return sum(self.losses, -ops.mean(log_likelihood))

    def batches_of(self, data, **options):
        return super().batches_of(data, characters=self.character_cnn is not None, **options)

    def decode(self, outputs, inputs, sizes):
        """The tags in BIO."""
        for ids, size in zip(outputs["tags"], sizes):
            yield to_bio(entities([self.tag_names[i] for i in ids[:size]]), size)


# 3. The experiment: one run with one seed.


class Experiment(harness.Experiment):
    model = Tagger

    def __init__(self, settings):
        data = harness.read_parts(settings, read_sentences)
        encoded = [to_iobes(entities(tags), len(tags)) for tags in data["train"].answers]
        names = sorted({tag for tags in encoded for tag in tags})
        labels = [[names.index(tag) for tag in tags] for tags in encoded]
        filters = settings.character_filters
        super().__init__(settings, data, labels, tag_names=names, character_filters=filters)

    def score(self, data, predicted):
        """The F1 of whole entities."""
        return 100 * float(f1_score(data.answers, predicted, zero_division=0)), {}

    def write(self, path, data, predicted):
        """Lines of token, true tag and predicted tag, in BIO, as conlleval reads them."""
        with open(f"{path}.txt", "w", encoding="utf-8") as file:
            for sentence in zip(data.sentences, data.answers, predicted):
                file.writelines(f"{' '.join(line)}\n" for line in zip(*sentence))
                file.write("\n")


def run(settings):
    """Trains with all feature sets and seeds; returns the rows of the table."""
    return harness.run_seeds(Experiment(settings), settings)


# 4. The command line.


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "sentences to tag"}
    defaults = {"output": "ner_output"}
    parser = harness.make_parser(__doc__, "tag", defaults, **options)
    parser.add_argument("--character-filters", type=int, default=64, help="0 for no character CNN")
    return harness.parse(parser, arguments)


def show(model, sentences):
    """Prints sentences with their tags."""
    for sentence, tags in zip(sentences, model.predict_items(model.batches_of(sentences))):
        print(" ".join(f"{token}/{tag}" for token, tag in zip(split_tokens(sentence), tags)))


if __name__ == "__main__":
    harness.main(parse(), run, show)

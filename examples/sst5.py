"""Sentiment in five classes with ELMo: the biattentive classification network, with GloVe.

    python examples/sst5.py --train train.txt --dev dev.txt --test test.txt \
        --features none glove elmo glove+elmo --seeds 5 --output sst5_output
    python examples/sst5.py --model sst5_output/glove+elmo.keras --classify "A moving film ."

The network of McCann et al. 2017, to which Peters et al. 2018 added ELMo: a bidirectional LSTM
reads the sentence, each word attends to all the others, a second LSTM reads the result, and four
poolings of its outputs go through maxout layers. ELMo is added to the input, to the second LSTM's
output, or to both, each with its own mix. Files are the trees of the Stanford Sentiment
Treebank, with its own splits. README.md in this folder says where to get them.

The first run computes ELMo's vectors and caches them in `--cache`; later runs start training at
once. The output folder gets results.md, .csv and .json (mean and deviation over the seeds), the
same for each run, a picture of the confusion matrix and the best model of each feature set.

With the bundled model, expect an accuracy of 47 (with only GloVe 42). A run takes about 8
minutes on one CPU core.
"""

import functools
import re
from pathlib import Path

import keras
import numpy as np
from keras import ops

import harness
from attention import attend, joined
from bilstm import BiLSTM
from features import PADDING, prepare, read_lines
from keras_elmo.text.tokens import split_tokens
from task_model import TaskModel

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")

# 1. The data: one tree per line, each part with a class, such as (3 (2 It) (4 (2 's) (4 fun))).

BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


def read_trees(path, phrases=False):
    """Reads a file of trees.

    Args:
        path: The file, plain, .gz or .xz.
        phrases: Whether to return every distinct part of a tree, not only the whole sentence.

    Returns:
        A list of sentences, lists of tokens, and a list of their classes, 0 to 4.

    Raises:
        ValueError: if a line is not a tree, or there are none.
    """
    found = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not split_tokens(line):
            continue
        try:
            *parts, whole = parts_of_tree(line)
        except (IndexError, ValueError) as error:
            raise ValueError(
                f"{path}, line {number}: {line!r:.80} is not a tree such as (3 (2 It) (4 works))."
            ) from error
        found[number] = whole
        if phrases:
            found.update({tuple(tokens): (tokens, label) for tokens, label in parts})
    if not found:
        raise ValueError(f"{path} has no trees.")
    sentences, labels = map(list, zip(*found.values()))
    return sentences, labels


# White space outside ASCII is part of tokens.
TREE = re.compile(r"\(([0-4])(?=[\s(])|([^\s()]+)|(\))", re.ASCII)


def parts_of_tree(line):
    """`(tokens, class)` of every part of a tree, the whole one last."""
    tokens, begun, parts = [], [], []
    for label, token, _ in TREE.findall(line):
        if label:
            begun.append((int(label), len(tokens)))
        elif token:
            tokens.append(BRACKETS.get(token, token.replace("\\", "")))
        else:
            label, start = begun.pop()
            parts.append((tokens[start:], label))
    if begun:
        raise ValueError("A bracket is not closed.")
    return parts


# 2. The model.


class Maxout(keras.layers.Layer):
    """A dense layer of which each output is the largest of four."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(4 * units)

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, inputs):
        return ops.max(ops.reshape(self.dense(inputs), (-1, self.units, 4)), axis=-1)


@keras.saving.register_keras_serializable("keras_elmo_examples")
class BiattentiveClassifier(TaskModel):
    """The biattentive classification network, for one sentence that attends to itself.

    Args:
        num_classes: Number of classes.
        units: Size of the LSTMs, in each direction, and of the ReLU layer before them.
        dropout: Fraction to drop of the input, and of ELMo at the output.
        **options: Passed to `TaskModel`; `"output"` adds ELMo to the output of the second LSTM.

    Call arguments:
        inputs: Dict of `SentenceBatches`: "words", and "layers" or "elmo" for ELMo.

    Returns:
        Logits `(B, num_classes)`.

    Reference: McCann et al. 2017, section 5.
    """

    def __init__(self, num_classes=5, units=100, dropout=0.5, **options):
        super().__init__(units=units, dropout=dropout, **options)
        self.num_classes = num_classes
        self.projection = keras.layers.Dense(units, activation="relu")
        self.projection_dropout = keras.layers.Dropout(0.25)
        self.encoder = BiLSTM(units)
        self.integrator = BiLSTM(units)
        self.attention = keras.layers.Dense(1)
        self.maxouts = [Maxout(4 * units), Maxout(2 * units)]
        self.maxout_dropouts = [keras.layers.Dropout(rate) for rate in (0.1, 0.2, 0.3)]
        self.classifier = keras.layers.Dense(num_classes)
        self.build()

    def build_task(self, width, elmo_width):
        self.projection.build((None, None, width))
        self.encoder.build((None, None, self.units))
        self.integrator.build((None, None, 6 * self.units))
        self.attention.build((None, None, 2 * self.units + elmo_width))
        width = 4 * (2 * self.units + elmo_width)
        for maxout in self.maxouts:
            maxout.build((None, width))
            width = maxout.units
        self.classifier.build((None, width))

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        integrate = functools.partial(self._integrate, training=training)
        x = self._pool(self.read(inputs, mask, integrate, training), mask)
        for dropout, maxout in zip(self.maxout_dropouts, self.maxouts):
            x = maxout(dropout(x, training=training))
        return self.classifier(self.maxout_dropouts[-1](x, training=training))

    def _integrate(self, x, mask, training):
        x = self.projection_dropout(self.projection(x), training=training)
        x = self.encoder(x, mask=mask)
        attended = attend(x, x, mask)
        return self.integrator(joined(x, x - attended, x * attended), mask=mask)

    def _pool(self, x, mask):
        """Maximum, mean, minimum and a weighted mean over the words."""
        valid = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        none = (1 - valid) * 1e4
        shares = ops.softmax(self.attention(x) - none, axis=1)
        mean = ops.sum(x * valid, axis=1) / ops.sum(valid, axis=1)
        poolings = (
            ops.max(x - none, axis=1),
            mean,
            ops.min(x + none, axis=1),
            ops.sum(x * shares, axis=1),
        )
        return ops.concatenate(poolings, axis=-1)

    def predict_classes(self, batches):
        """The classes of the sentences of `SentenceBatches`, in their order, as an array."""
        classes = np.zeros(len(batches.sentences), int)
        for rows, _, logits in self.predictions(batches):
            classes[rows] = logits.argmax(-1)
        return classes

    def classify(self, sentences):
        """The classes of sentences: strings to be split at white space, or lists of tokens."""
        return self.predict_classes(self.batches_of(harness.sentences_of(sentences)))

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}


# 3. The experiment: one run with one seed.


class Experiment:
    """Trains and tests a classifier with a feature set and a seed.

    Args:
        settings: The options of the command line.
    """

    def __init__(self, settings):
        self.settings = settings
        self.sentences, self.labels = {}, {}
        for part in ("train", "dev", "test"):
            phrases = settings.phrases and part == "train"
            self.sentences[part], self.labels[part] = read_trees(getattr(settings, part), phrases)
        self.prepare = functools.cache(lambda name: prepare(name, settings, self.sentences))

    def __call__(self, features, seed):
        labels, batch_size = self.labels["train"], self.settings.batch_size
        rows = harness.fraction_of(len(labels), self.settings.fraction, seed)
        inputs = self.prepare(features).trained_on(rows)
        model = BiattentiveClassifier.of(
            features, inputs, self.settings, placement=self.settings.placement
        )
        train = inputs.batches("train", labels=labels, rows=rows, seed=seed, batch_size=batch_size)
        dev = inputs.batches("dev", batch_size=batch_size)
        test = inputs.batches("test", batch_size=batch_size)
        best, epoch = harness.train(
            model,
            train,
            lambda: harness.accuracy(self.labels["dev"], model.predict_classes(dev)),
            self.settings,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        predicted = model.predict_classes(test)
        path = Path(self.settings.output) / f"{features}-{seed}.csv"
        texts = map(" ".join, self.sentences["test"])
        harness.write_predictions(path, texts, self.labels["test"], predicted)
        result = {
            "dev": best,
            "test": harness.accuracy(self.labels["test"], predicted),
            "best epoch": epoch,
            "input weights": harness.mix_weights(model.input_mix),
            "output weights": harness.mix_weights(model.output_mix),
        }
        return result, model


# 4. The command line.


def run(settings):
    """Trains with all feature sets and seeds, draws confusions, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    harness.draw_confusions(settings, CLASSES)
    return summary


def parse(arguments=None):
    parser = harness.make_parser(__doc__.splitlines()[0], output="sst5_output")
    parser.add_argument("--placement", choices=("input", "output", "both"), default="input")
    parser.add_argument("--phrases", action="store_true", help="train on all parts of the trees")
    parser.add_argument("--units", type=harness.positive, default=100, help="size of each LSTM")
    parser.add_argument("--model", help="a saved model, to classify with")
    parser.add_argument("--classify", nargs="+", metavar="SENTENCE", help="sentences to classify")
    settings = harness.parse(parser, arguments, alone="classify")
    if settings.placement == "output" and not {"elmo", "elmo-tokens"}.isdisjoint(settings.features):
        parser.error("--placement output leaves those --features nothing to read at the input")
    return settings


def show_classes(path, sentences):
    """Prints the classes that a saved model gives to sentences."""
    model = keras.models.load_model(path, compile=False)
    for sentence, number in zip(sentences, model.classify(sentences)):
        print(f"{CLASSES[number]}: {sentence}")


if __name__ == "__main__":
    settings = parse()
    if settings.classify is None:
        run(settings)
    else:
        show_classes(settings.model, settings.classify)

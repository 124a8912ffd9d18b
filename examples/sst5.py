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

With the bundled model, expect an accuracy of about 46 (with GloVe alone 43). A run takes about 10
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
from features import PADDING, SentenceBatches, WordTable, elmo_layers, prepare
from keras_elmo import WeightedLayerSum

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")

# 1. The data: one tree per line, each part with a class, such as (3 (2 It) (4 (2 's) (4 fun))).

BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


def read_trees(path, phrases=False):
    """Reads a file of trees.

    Args:
        path: The file.
        phrases: Whether to return every distinct part of a tree, not only the whole sentence.

    Returns:
        A list of sentences, lists of tokens, and a list of their classes, 0 to 4.

    Raises:
        ValueError: if a line is not a tree, or there are none.
    """
    found = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
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


def parts_of_tree(line):
    """`(tokens, class)` of every part of a tree, the whole one last."""
    tokens, begun, parts = [], [], []
    for label, token, _ in re.findall(r"\((\d)|([^\s()]+)|(\))", line):
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
class BiattentiveClassifier(keras.Model):
    """The biattentive classification network, for one sentence that attends to itself.

    Args:
        num_classes: Number of classes.
        words: The words with vectors of their own; empty for no word vectors.
        word_dim: Size of these vectors.
        train_words: Whether they are trained.
        elmo: An `ElmoLayer` with `output="layers"`, or `None`. It is not trained.
        placement: Where ELMo is added: "input", "output" or "both".
        tokens_only: Whether to use only its lowest layer, which has no context.
        last_layer: Whether to use only its last layer.
        l2: The paper's lambda on the weights of the mixes, or `None`.
        units: Size of the LSTMs, in each direction, and of the ReLU layer before them.
        dropout: Fraction to drop of the input, and of ELMo at the output.

    Call arguments:
        inputs: Dict of `SentenceBatches`: "words", and "layers" or "characters" for ELMo.

    Returns:
        Logits `(B, num_classes)`.

    Reference: McCann et al. 2017, section 5.
    """

    def __init__(
        self,
        num_classes=5,
        words=(),
        word_dim=50,
        train_words=False,
        elmo=None,
        placement="input",
        tokens_only=False,
        last_layer=False,
        l2=None,
        units=100,
        dropout=0.5,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not words and (elmo is None or placement == "output"):
            raise ValueError(
                "There is nothing to read at the input: ELMo at the output needs words with "
                "vectors, such as those of --features glove+elmo."
            )
        self.num_classes = num_classes
        self.word_table = WordTable(words)
        self.word_dim = word_dim
        self.train_words = train_words
        self.elmo = elmo
        self.placement = placement
        self.tokens_only = tokens_only
        self.last_layer = last_layer
        self.l2 = l2
        self.units = units
        self.dropout = dropout

        self.word_vectors = None
        if words:
            self.word_vectors = keras.layers.Embedding(
                len(self.word_table), word_dim, trainable=train_words
            )
        self.input_mix = self._mix("output")
        self.output_mix = self._mix("input")
        self.input_dropout = keras.layers.Dropout(dropout)
        self.projection = keras.layers.Dense(units, activation="relu")
        self.projection_dropout = keras.layers.Dropout(0.25)
        self.encoder = BiLSTM(units)
        self.integrator = BiLSTM(units)
        self.attention = keras.layers.Dense(1)
        self.maxouts = [Maxout(4 * units), Maxout(2 * units)]
        self.maxout_dropouts = [keras.layers.Dropout(rate) for rate in (0.1, 0.2, 0.3)]
        self.classifier = keras.layers.Dense(num_classes)
        self.output_dropout = keras.layers.Dropout(dropout)
        self.build()

    def _mix(self, other_place):
        """The mix at one place, unless ELMo is added only at the other one."""
        if self.elmo is None or self.placement == other_place:
            return None
        return WeightedLayerSum(use_top_only=self.last_layer or self.tokens_only, l2=self.l2)

    def build(self, input_shape=None):
        if self.built:
            return
        width = self.word_dim if self.word_vectors is not None else 0
        integrated = 2 * self.units
        if self.word_vectors is not None:
            self.word_vectors.build((None, None))
        if self.elmo is not None:
            config = self.elmo.config
            num_layers = 1 if self.tokens_only else config.num_layers + 1
            for mix in filter(None, (self.input_mix, self.output_mix)):
                mix.build((None, num_layers, None, config.output_dim))
            width += config.output_dim if self.input_mix is not None else 0
            integrated += config.output_dim if self.output_mix is not None else 0
        self.projection.build((None, None, width))
        self.encoder.build((None, None, self.units))
        self.integrator.build((None, None, 6 * self.units))
        self.attention.build((None, None, integrated))
        width = 4 * integrated
        for maxout in self.maxouts:
            maxout.build((None, width))
            width = maxout.units
        self.classifier.build((None, width))
        self.built = True

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        layers = None if self.elmo is None else elmo_layers(self.elmo, inputs)
        if self.tokens_only:
            layers = layers[:, :1]

        words = None if self.word_vectors is None else self.word_vectors(inputs["words"])
        elmo = None if self.input_mix is None else self.input_mix(layers, mask=mask)
        x = self.input_dropout(joined(words, elmo), training=training)
        x = self.projection_dropout(self.projection(x), training=training)
        x = self.encoder(x, mask=mask)
        attended = attend(x, x, mask)
        x = ops.concatenate([x, x - attended, x * attended], axis=-1)
        x = self.integrator(x, mask=mask)
        if self.output_mix is not None:
            elmo = self.output_mix(layers, mask=mask)
            x = joined(x, self.output_dropout(elmo, training=training))
        x = self._pool(x, mask)
        for dropout, maxout in zip(self.maxout_dropouts, self.maxouts):
            x = maxout(dropout(x, training=training))
        return self.classifier(self.maxout_dropouts[-1](x, training=training))

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
        for number, rows in enumerate(batches.batches):
            classes[rows] = self.predict_on_batch(batches[number][0]).argmax(-1)
        return classes

    def classify(self, sentences):
        """The classes of sentences: strings to be split at white space, or lists of tokens."""
        sentences = harness.sentences_of(sentences)
        return self.predict_classes(SentenceBatches(sentences, self.word_table, characters=True))

    def get_config(self):
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "words": self.word_table.words,
            "word_dim": self.word_dim,
            "train_words": self.train_words,
            "elmo": None if self.elmo is None else keras.layers.serialize(self.elmo),
            "placement": self.placement,
            "tokens_only": self.tokens_only,
            "last_layer": self.last_layer,
            "l2": self.l2,
            "units": self.units,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config):
        elmo = config.pop("elmo")
        return cls(elmo=None if elmo is None else keras.layers.deserialize(elmo), **config)


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
        model = self.make_model(features, inputs)
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

    def make_model(self, features, inputs):
        settings = self.settings
        model = BiattentiveClassifier(
            words=inputs.words.words,
            word_dim=inputs.word_dim,
            train_words=inputs.vectors is None,
            elmo=inputs.elmo,
            placement=settings.placement,
            tokens_only=features == "elmo-tokens",
            last_layer=settings.last_layer,
            l2=settings.l2,
            units=settings.units,
        )
        if inputs.vectors is not None:
            model.word_vectors.set_weights([inputs.vectors])
        return model


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

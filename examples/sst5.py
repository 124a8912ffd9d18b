"""Sentiment in five classes with ELMo: the biattentive classification network, with GloVe.

    python examples/sst5.py --train train.txt --dev dev.txt --test test.txt \
        --features none glove elmo glove+elmo --seeds 5 --output sst5_output
    python examples/sst5.py --model sst5_output/glove+elmo.keras --classify "A moving film ."

The network of McCann et al. 2017, to which Peters et al. 2018 added ELMo: a bidirectional LSTM
reads the sentence, each word attends to all the others, a second LSTM reads the result, and four
poolings of its outputs go through maxout layers. ELMo is added to the input, to the second LSTM's
output, or to both, each with its own mix. Files are the trees of the Stanford Sentiment
Treebank, with its own splits. README.md in this folder says where to get them, and which scores to
expect.
"""

import functools
import re

import keras
import numpy as np
from keras import ops

import harness
from attention import attend, concatenate
from bilstm import BiLSTM
from features import PADDING
from reading import BRACKETS, Data, parse_lines
from task_model import TaskModel

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")

# 1. The data: one tree per line, each part with a class, such as (3 (2 It) (4 (2 's) (4 fun))).


def read_trees(path):
    """Reads a file of trees, plain, .gz or .xz: `Data` whose answers are the classes, 0 to 4.

    Raises:
        ValueError: if a line is not a tree, or there are none.
    """
    trees = parse_lines(path, parse_tree, "a tree such as (3 (2 It) (4 works))")
    sentences, labels = zip(*trees)
    return Data(list(sentences), np.array(labels))


# White space outside ASCII is part of tokens.
TREE = re.compile(r"\(([0-4])(?=[\s(])|([^\s()]+)|(\))", re.ASCII)


def parse_tree(line):
    """The tokens of a tree, and its class."""
    tokens, labels, whole = [], [], None
    for label, token, _ in TREE.findall(line):
        if label:
            labels.append(int(label))
        elif token:
            tokens.append(BRACKETS.get(token, token.replace("\\", "")))
        else:
            whole = labels.pop()
    if labels or whole is None:
        raise ValueError("a bracket is not closed")
    return tokens, whole


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
        **options: Passed to `TaskModel`; `units` is the size of the LSTMs, in each direction, and
            `placement="output"` adds ELMo to the output of the second LSTM.

    Call arguments:
        inputs: Dict of `SentenceBatches`: "words", and "layers" or "elmo" for ELMo.

    Returns:
        Logits `(B, 5)`.

    Reference: McCann et al. 2017, section 5.
    """

    def __init__(self, units=100, dropout=0.5, **options):
        super().__init__(units=units, dropout=dropout, **options)
        self.projection = keras.layers.Dense(units, activation="relu")
        self.projection_dropout = keras.layers.Dropout(0.25)
        self.encoder = BiLSTM(units)
        self.integrator = BiLSTM(units)
        self.attention = keras.layers.Dense(1)
        self.maxouts = [Maxout(4 * units), Maxout(2 * units)]
        self.maxout_dropouts = [keras.layers.Dropout(rate) for rate in (0.1, 0.2, 0.3)]
        self.classifier = keras.layers.Dense(len(CLASSES))
        self.build()

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
        return self.integrator(concatenate(x, x - attended, x * attended), mask=mask)

    def _pool(self, x, mask):
        """Maximum, mean, minimum and a weighted mean over the words."""
        valid = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        mask_penalty = (1 - valid) * 1e4
        shares = ops.softmax(self.attention(x) - mask_penalty, axis=1)
        mean = ops.sum(x * valid, axis=1) / ops.sum(valid, axis=1)
        poolings = (
            ops.max(x - mask_penalty, axis=1),
            mean,
            ops.min(x + mask_penalty, axis=1),
            ops.sum(x * shares, axis=1),
        )
        return ops.concatenate(poolings, axis=-1)


# 3. The experiment: one run with one seed.


class Experiment(harness.Classification):
    model = BiattentiveClassifier

    def __init__(self, settings):
        data = harness.read_parts(settings, read_trees)
        super().__init__(settings, data, placement=settings.placement)


def run(settings):
    """Trains with all feature sets and seeds, draws confusions, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    harness.draw_confusions(settings, CLASSES)
    return summary


# 4. The command line.


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "sentences to classify"}
    defaults = {"output": "sst5_output"}
    parser = harness.make_parser(__doc__, "classify", defaults, **options)
    parser.add_argument("--placement", choices=("input", "output", "both"), default="input")
    return harness.parse(parser, arguments)


def show(model, sentences):
    """Prints the classes of sentences."""
    for sentence, number in zip(sentences, model.predict_items(model.batches_of(sentences))):
        print(f"{CLASSES[number]}: {sentence}")


if __name__ == "__main__":
    harness.main(parse(), run, show)

"""Does one sentence follow from another? ESIM with GloVe and ELMo.

    python examples/entailment.py --train train.jsonl --dev dev.jsonl --test test.jsonl \
        --features glove glove+elmo --seeds 3 --output entailment_output
    python examples/entailment.py --model entailment_output/glove+elmo.keras \
        --classify "A man plays the guitar ." "A man makes music ."

The network of Chen et al. 2017 (their sequential model): a bidirectional LSTM reads premise and
hypothesis, each word is compared with the most similar words of the other sentence, a second LSTM
composes the comparisons, and a classifier reads their mean and maximum. ELMo is added to the input
and to the output of the first LSTM, as in Peters et al. 2018, each with its own mix.

Files are JSON Lines: SNLI's, or lines with "premise", "hypothesis" and "label" whose
sentences are tokenized. README.md in this folder says where to get them. A run on 8,340 pairs takes
at most twenty minutes on two CPU cores.
"""

import json

import keras
import numpy as np
from keras import layers, ops

import experiments
from pictures import draw_confusions
from reading import BRACKETS, parse_lines, sentences_of, split_tokens
from sst5 import fit_and_test
from training import predict
from word_vectors import (
    encode,
    end_to_end,
    inputs_of,
    mix_layers,
    prepare,
    with_prefix,
)

CLASSES = ("entailment", "neutral", "contradiction")

# 1. The data.


def read_pairs(path):
    """Reads pairs of sentences, plain, .gz or .xz: a list of pairs and their classes, 0 to 2.

    Args:
        path: A file of JSON lines, with the names of SNLI ("sentence1_binary_parse",
            "sentence2_binary_parse", "gold_label") or with "premise", "hypothesis" and "label".
            SNLI's pairs without a gold label, "-", are skipped.

    Raises:
        ValueError: if a line is not a pair, or there are none.
    """

    def parse(line):
        *pair, label = pair_of(json.loads(line))
        return sentences_of(pair), None if label == "-" else CLASSES.index(label)

    expected = 'pairs in the form of SNLI, or with "premise", "hypothesis" and "label"'
    found = parse_lines(path, parse, expected)
    return [(pair, label) for pair, label in found if label is not None]


def pair_of(record):
    """The premise, the hypothesis and the label of a line."""
    if "gold_label" not in record:
        return record["premise"], record["hypothesis"], record["label"]
    trees = record["sentence1_binary_parse"], record["sentence2_binary_parse"]
    return *map(words_of_tree, trees), record["gold_label"]


def words_of_tree(tree):
    words = [word for word in split_tokens(tree) if word not in ("(", ")")]
    return [BRACKETS.get(word, word) for word in words]


# 2. The model.


def make_classifier(words, elmo, settings):
    """A Functional model from words and ELMo's layers of both sentences to the logits."""
    encoder = make_encoder(words, elmo, settings)
    compare = layers.Dense(settings.units, activation="relu")
    compose = layers.Bidirectional(layers.LSTM(settings.units, return_sequences=True))
    pool = MeanAndMaximum()

    pair = [inputs_of(words, elmo, prefix) for prefix in ("premise_", "hypothesis_")]
    encoded = [encoder(sentence) for sentence in pair]
    pooled = []
    for x, other in (encoded, encoded[::-1]):
        aligned = layers.Attention()([x, other])  # the mean of its words, weighted by likeness
        differences = layers.Subtract()([x, aligned]), layers.Multiply()([x, aligned])
        x = compare(layers.Concatenate()([x, aligned, *differences]))
        pooled.append(pool(compose(layers.Dropout(0.3)(x))))
    x = layers.Dropout(0.3)(layers.Concatenate()(pooled))
    x = layers.Dropout(0.3)(layers.Dense(settings.units, activation="tanh")(x))
    inputs = {x.name: x for sentence in pair for x in sentence.values()}
    return keras.Model(inputs, layers.Dense(len(CLASSES))(x))


def make_encoder(words, elmo, settings):
    """The first LSTM, with ELMo at its input or output: the same for both sentences."""
    inputs, vectors = inputs_of(words, elmo), []
    if words is not None:
        vectors.append(words(inputs["words"]))
    if elmo is not None and settings.placement in ("input", "both"):
        vectors.append(mix_layers(inputs["layers"], settings))
    x = layers.Dropout(0.3)(layers.Concatenate()(vectors))
    x = layers.Bidirectional(layers.LSTM(settings.units, return_sequences=True))(x)
    if elmo is not None and settings.placement in ("output", "both"):
        mix = mix_layers(inputs["layers"], settings, "output_mix")
        x = layers.Concatenate()([x, layers.Dropout(0.3)(mix)])
    return keras.Model(inputs, x, name="encoder")


@keras.saving.register_keras_serializable("keras_elmo_examples")
class MeanAndMaximum(layers.Layer):
    """The mean and the maximum of the words: `(B, T, D)` to `(B, 2 * D)`."""

    def __init__(self, **options):
        super().__init__(**options)
        self.supports_masking = True

    def call(self, x, mask=None):
        valid = ops.ones_like(x[:, :, :1])
        if mask is not None:
            valid = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        mean = ops.sum(x * valid, axis=1) / ops.sum(valid, axis=1)
        return ops.concatenate([mean, ops.max(x - (1 - valid) * 1e4, axis=1)], axis=-1)

    def compute_mask(self, x, mask=None):
        return None


# 3. One run: training until the accuracy on the development set stops rising, then the test.


def train(settings):
    """Trains and tests a classifier; returns the scores, and the classifier with ELMo in it."""
    data = experiments.read_parts(settings, read_pairs)
    sentences = {part: [x for pair, _ in data[part] for x in pair] for part in data}
    labels = {part: np.array([label for _, label in data[part]], np.int32) for part in data}

    # ELMo's layers do not change in the training, so they are computed before it.
    words, elmo, items = prepare(settings, sentences)
    items = {part: pairs_of(items[part]) for part in items}

    keras.utils.set_random_seed(settings.seed)
    model = make_classifier(words, elmo, settings)
    texts = (" / ".join(map(" ".join, pair)) for pair, _ in data["test"])
    scores = fit_and_test(model, items, labels, texts, settings)
    return scores, end_to_end(model, elmo)


def pairs_of(items):
    """The inputs of pairs, from a list of premise, hypothesis, premise, hypothesis, ..."""
    return [
        {**with_prefix("premise_", one), **with_prefix("hypothesis_", other)}
        for one, other in zip(items[::2], items[1::2])
    ]


# 4. A trained classifier, as `keras.models.load_model` loads it.


def classify(classifier, premise, hypothesis):
    """The class of a pair of sentences, lists of tokens."""
    (logits,) = predict(classifier, pairs_of(encode(classifier, [premise, hypothesis])))
    return CLASSES[logits.argmax()]


# 5. The command line. Without --seeds and --features it is one run.


def run(settings):
    """Trains with all feature sets and seeds, draws confusions, returns the rows of the table."""
    summary = experiments.run_seeds(train, settings)
    draw_confusions(settings, CLASSES)
    return summary


def parse(arguments=None):
    options = {"nargs": 2, "metavar": ("PREMISE", "HYPOTHESIS"), "help": "sentences to classify"}
    defaults = {"output": "entailment_output", "learning_rate": 0.002}
    parser = experiments.make_parser(__doc__, "classify", defaults, **options)
    parser.add_argument("--placement", choices=("input", "output", "both"), default="both")
    return experiments.parse(parser, arguments)


def show(classifier, pair):
    """Prints the class of a pair of sentences."""
    print(classify(classifier, *sentences_of(pair)))


if __name__ == "__main__":
    experiments.main(parse(), run, show)

"""Sentiment in five classes with ELMo and GloVe: the biattentive classification network, in Keras.

    python examples/sst5.py --train train.txt --dev dev.txt --test test.txt --output sst5_output
    python examples/sst5.py --model sst5_output/glove+elmo.keras --classify "A moving film ."

The network of McCann et al. 2017, to which Peters et al. 2018 added ELMo: a bidirectional LSTM
reads the sentence, each word attends to all the others, a second LSTM reads the result, and four
poolings of its outputs go through maxout layers. ELMo is added to the input, to the second LSTM's
output, or to both, each with its own mix. Files are the trees of the Stanford Sentiment
Treebank, with its own splits. README.md in this folder says where to get them, and which scores to
expect. A run takes at most a quarter of an hour on two CPU cores.
"""

import re
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

import experiments
from pictures import draw_confusions
from reading import BRACKETS, parse_lines, sentences_of
from training import COMPILE_WITH_XLA, Batches, HalveOnPlateau, predict
from word_vectors import encode, end_to_end, inputs_of, mix_layers, mix_weights, prepare

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")

# 1. The data: one tree per line, each part with a class, such as (3 (2 It) (4 (2 's) (4 fun))).


def read_trees(path):
    """Reads a file of trees, plain, .gz or .xz: a pair for each, its tokens and its class, 0 to 4.

    Raises:
        ValueError: if a line is not a tree, or there are none.
    """
    return parse_lines(path, parse_tree, "a tree such as (3 (2 It) (4 works))")


# White space outside ASCII is part of tokens.
TREE = re.compile(r"\(([0-4])(?=[\s(])|([^\s()]+)|(\))", re.ASCII)


def parse_tree(line):
    """The tokens of a tree, and its class."""
    tokens, labels, whole = [], [], None
    for label, token, _ in TREE.findall(line):
        if whole is not None and not labels:
            raise ValueError("something follows the tree")
        if label:
            labels.append(int(label))
        elif token:
            tokens.append(BRACKETS.get(token, token.replace("\\", "")))
        else:
            whole = labels.pop()
    if labels or whole is None:
        raise ValueError("a bracket is not closed")
    if not tokens:
        raise ValueError("no words")
    return tokens, whole


# 2. The model.


def make_classifier(words, elmo, settings):
    """A Functional model from words and ELMo's layers to the logits of the classes."""
    units, placement = settings.units, settings.placement
    inputs, vectors = inputs_of(words, elmo), []
    if words is not None:
        vectors.append(words(inputs["words"]))
    if elmo is not None and placement in ("input", "both"):
        vectors.append(mix_layers(inputs["layers"], settings))
    x = layers.Dropout(0.5)(layers.Concatenate()(vectors))
    x = layers.Dropout(0.25)(layers.Dense(units, activation="relu")(x))

    x = layers.Bidirectional(layers.LSTM(units, return_sequences=True))(x)
    attended = layers.Attention()([x, x])  # the mean of the words, weighted by likeness
    x = layers.Concatenate()(
        [x, layers.Subtract()([x, attended]), layers.Multiply()([x, attended])]
    )
    x = layers.Bidirectional(layers.LSTM(units, return_sequences=True))(x)
    if elmo is not None and placement in ("output", "both"):
        mix = mix_layers(inputs["layers"], settings, "output_mix")
        x = layers.Concatenate()([x, layers.Dropout(0.5)(mix)])

    x = Poolings()(x)
    for size, dropout in ((4 * units, 0.1), (2 * units, 0.2)):
        x = layers.Dense(4 * size)(layers.Dropout(dropout)(x))
        x = layers.GlobalMaxPooling1D()(layers.Reshape((4, size))(x))  # maxout: the largest of four
    return keras.Model(inputs, layers.Dense(len(CLASSES))(layers.Dropout(0.3)(x)))


@keras.saving.register_keras_serializable("keras_elmo_examples")
class Poolings(layers.Layer):
    """The maximum, mean, minimum and a weighted mean of the words: `(B, T, D)` to `(B, 4 * D)`."""

    def __init__(self, **options):
        super().__init__(**options)
        self.supports_masking = True
        self.attention = layers.Dense(1)

    def build(self, input_shape):
        self.attention.build(input_shape)

    def call(self, x, mask=None):
        valid = ops.ones_like(x[:, :, :1])
        if mask is not None:
            valid = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        mask_penalty = (1 - valid) * 1e4
        shares = ops.softmax(self.attention(x) - mask_penalty, axis=1)
        poolings = (
            ops.max(x - mask_penalty, axis=1),
            ops.sum(x * valid, axis=1) / ops.sum(valid, axis=1),
            ops.min(x + mask_penalty, axis=1),
            ops.sum(x * shares, axis=1),
        )
        return ops.concatenate(poolings, axis=-1)

    def compute_mask(self, x, mask=None):
        return None


# 3. One run: training until the accuracy on the development set stops rising, then the test.


def train(settings):
    """Trains and tests a classifier; returns the scores, and the classifier with ELMo in it."""
    data = experiments.read_parts(settings, read_trees)
    sentences = {part: [tokens for tokens, _ in data[part]] for part in data}
    labels = {part: np.array([label for _, label in data[part]], np.int32) for part in data}

    # ELMo's layers do not change in the training, so they are computed before it.
    words, elmo, items = prepare(settings, sentences)

    keras.utils.set_random_seed(settings.seed)
    model = make_classifier(words, elmo, settings)
    texts = map(" ".join, sentences["test"])
    scores = fit_and_test(model, items, labels, texts, settings)
    return scores, end_to_end(model, elmo)


def fit_and_test(model, items, labels, texts, settings):
    """Trains a classifier until its accuracy on the development set stops rising, and tests it.

    Args:
        model: The model, which gets the weights of the best epoch.
        items, labels: For each part of the data its inputs and its classes.
        texts: The texts of the test set, which are written with the predicted classes.
        settings: The options.

    Returns:
        The scores, a dict.
    """
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=COMPILE_WITH_XLA,
    )
    best = keras.callbacks.EarlyStopping(
        "val_accuracy", mode="max", patience=settings.patience, restore_best_weights=True
    )
    model.fit(
        Batches(items["train"], labels["train"], settings.batch_size, settings.seed),
        validation_data=Batches(items["dev"], labels["dev"]),
        epochs=settings.epochs,
        callbacks=[HalveOnPlateau("val_accuracy", settings.halve_after), best],
        verbose=2,
    )

    found = [logits.argmax() for logits in predict(model, items["test"])]
    path = Path(settings.output, f"{settings.features}-{settings.seed}.csv")
    rows = zip(labels["test"], found, texts)
    experiments.write_csv(path, ("true", "predicted", "text"), rows)
    return {
        "dev": 100 * best.best,
        "test": 100 * float(np.mean(labels["test"] == found)),
        "best epoch": best.best_epoch + 1,
        "input weights": mix_weights(model, "input_mix"),
        "output weights": mix_weights(model, "output_mix"),
    }


# 4. A trained classifier, as `keras.models.load_model` loads it.


def classify(classifier, sentences):
    """The classes of sentences, lists of tokens."""
    items = encode(classifier, sentences)
    return [CLASSES[logits.argmax()] for logits in predict(classifier, items)]


# 5. The command line. Without --seeds and --features it is one run.


def run(settings):
    """Trains with all feature sets and seeds, draws confusions, returns the rows of the table."""
    summary = experiments.run_seeds(train, settings)
    draw_confusions(settings, CLASSES)
    return summary


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "sentences to classify"}
    defaults = {"output": "sst5_output"}
    parser = experiments.make_parser(__doc__, "classify", defaults, **options)
    parser.add_argument("--placement", choices=("input", "output", "both"), default="input")
    return experiments.parse(parser, arguments)


def show(classifier, sentences):
    """Prints the classes of sentences."""
    for sentence, name in zip(sentences, classify(classifier, sentences_of(sentences))):
        print(f"{name}: {sentence}")


if __name__ == "__main__":
    experiments.main(parse(), run, show)

"""Tags named entities with a short Keras model: ELMo and GloVe, a bidirectional LSTM, `fit`.

python examples/tagger.py --train train.conll --test test.conll --glove glove.6B.50d.txt

The files have a token and its BIO tag in the first and last column, and an empty line after each
sentence. This program needs the TensorFlow backend, whose models take strings.
"""

import argparse
import itertools

import keras
import tensorflow as tf
from keras import layers
from seqeval.metrics import f1_score

from keras_elmo import ElmoLayer
from reading import parse_tables
from word_vectors import glove_words


def read_column_file(path):
    """Returns lists of tokens and lists of tags, one for each sentence."""

    def parse(rows):
        return [row[0] for row in rows], [row[-1] for row in rows]

    return map(list, zip(*parse_tables(path, parse, "tokens and tags", "-DOCSTART-")))


def make_dataset(tokens, tags, glove, tag_names, batch_size=32):
    """Batches of tokens, ids of GloVe's words and tag numbers, each `(B, T)` and padded."""
    ids = [glove.ids(row) for row in tokens]
    numbers = [[tag_names.index(tag) if tag in tag_names else 0 for tag in row] for row in tags]
    columns = map(tf.ragged.constant, (tokens, ids, numbers))
    batches = tf.data.Dataset.from_tensor_slices(tuple(columns)).batch(batch_size)
    return batches.map(lambda x, w, y: ((x.to_tensor(""), w.to_tensor(0)), y.to_tensor(0)))


def make_model(glove, num_tags, elmo="default"):
    """The Functional model. Keras uses the masks of both inputs in the LSTM and in the loss."""
    tokens, ids = keras.Input((None,), dtype="string"), keras.Input((None,), dtype="int32")
    x = layers.Concatenate()([ElmoLayer(elmo, l2=0.001)(tokens), glove(ids)])
    x = layers.Bidirectional(layers.LSTM(128, return_sequences=True))(layers.Dropout(0.5)(x))
    return keras.Model([tokens, ids], layers.Dense(num_tags)(layers.Dropout(0.5)(x)))


def tag(model, dataset, lengths, tag_names):
    """The tags of each sentence of a dataset, as many as it has tokens."""
    batches = (model.predict_on_batch(inputs).argmax(-1) for inputs, _ in dataset)
    rows = itertools.chain.from_iterable(batches)
    return [[tag_names[i] for i in row[:length]] for row, length in zip(rows, lengths)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("--train", "--test", "--glove"):
        parser.add_argument(name, required=True)
    parser.add_argument("--elmo", default="default", help="a model for ElmoLayer")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()

    (tokens, tags), (test_tokens, test_tags) = map(
        read_column_file, (arguments.train, arguments.test)
    )
    tag_names = sorted({tag for row in tags for tag in row}, key=lambda tag: (tag != "O", tag))
    glove = glove_words(arguments.glove, tokens + test_tokens)
    train = make_dataset(tokens, tags, glove, tag_names).shuffle(1000)
    test = make_dataset(test_tokens, test_tags, glove, tag_names)

    model = make_model(glove, len(tag_names), arguments.elmo)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(train, epochs=arguments.epochs, shuffle=False, verbose=2)
    print(f"F1 {100 * f1_score(test_tags, tag(model, test, map(len, test_tokens), tag_names)):.2f}")


if __name__ == "__main__":
    main()

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
sentences are tokenized. README.md in this folder says where to get them.
"""

import json

import keras
import numpy as np
from keras import ops

import harness
from attention import attend, concatenate
from bilstm import BiLSTM
from features import PADDING, SentenceBatches
from keras_elmo.text.tokens import split_tokens
from reading import BRACKETS, Data, parse_lines, sentences_of
from task_model import TaskModel

CLASSES = ("entailment", "neutral", "contradiction")

# 1. The data.


def read_pairs(path):
    """Reads pairs of sentences, plain, .gz or .xz: `Data` whose answers are the classes, 0 to 2.

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
    found = [(pair, label) for pair, label in found if label is not None]
    sentences = [sentence for pair, _ in found for sentence in pair]
    items = np.arange(len(sentences)).reshape(-1, 2)
    return Data(sentences, np.array([label for _, label in found]), items)


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


class PairBatches(SentenceBatches):
    """Batches of `"premise"` and `"hypothesis"`."""

    names = ("premise", "hypothesis")


@keras.saving.register_keras_serializable("keras_elmo_examples")
class EnhancedSequentialInference(TaskModel):
    """The enhanced sequential inference model, ESIM.

    Args:
        **options: Passed to `TaskModel`; `units` is the size of the LSTMs, in each direction, and
            of the dense layers, and `placement="output"` adds ELMo to the first LSTM's output.

    Call arguments:
        inputs: Dict of `PairBatches`: "premise" and "hypothesis", each with "words", and "layers"
            or "elmo" for ELMo.

    Returns:
        Logits `(B, 3)`.

    Reference: Chen et al. 2017, section 3; Peters et al. 2018, section 4.
    """

    batches = PairBatches

    def __init__(self, units=100, placement="both", **options):
        super().__init__(units=units, placement=placement, **options)
        self.encoder = BiLSTM(units)
        self.comparison = keras.layers.Dense(units, activation="relu")
        self.composer = BiLSTM(units)
        self.hidden = keras.layers.Dense(units, activation="tanh")
        self.classifier = keras.layers.Dense(len(CLASSES))
        self.build()

    def example(self, words):
        return dict.fromkeys(PairBatches.names, super().example(words))

    def call(self, inputs, training=None):
        pair = [inputs["premise"], inputs["hypothesis"]]
        masks = [sentence["words"] != PADDING for sentence in pair]
        encoded = [self.read(*both, self.encoder, training) for both in zip(pair, masks)]
        pooled = []
        for i in range(2):
            x, mask = encoded[i], masks[i]
            aligned = attend(x, encoded[1 - i], masks[1 - i])
            x = self.comparison(concatenate(x, aligned, x - aligned, x * aligned))
            x = self.composer(self.drop(x, training=training), mask=mask)
            pooled += _mean_and_maximum(x, mask)
        x = self.hidden(self.drop(concatenate(*pooled), training=training))
        return self.classifier(self.drop(x, training=training))


def _mean_and_maximum(x, mask):
    valid = ops.expand_dims(ops.cast(mask, x.dtype), -1)
    mean = ops.sum(x * valid, axis=1) / ops.sum(valid, axis=1)
    return mean, ops.max(x - (1 - valid) * 1e4, axis=1)


# 3. The experiment: one run with one seed.


class Experiment(harness.Classification):
    model = EnhancedSequentialInference

    def __init__(self, settings):
        data = harness.read_parts(settings, read_pairs)
        super().__init__(settings, data, placement=settings.placement)


def run(settings):
    """Trains with all feature sets and seeds, draws confusions, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    harness.draw_confusions(settings, CLASSES)
    return summary


# 4. The command line.


def parse(arguments=None):
    options = {"nargs": 2, "metavar": ("PREMISE", "HYPOTHESIS"), "help": "sentences to classify"}
    defaults = {"output": "entailment_output", "learning_rate": 0.002}
    parser = harness.make_parser(__doc__, "classify", defaults, **options)
    parser.add_argument("--placement", choices=("input", "output", "both"), default="both")
    return harness.parse(parser, arguments)


def show(model, pair):
    """Prints the class of a pair of sentences."""
    data = Data(sentences_of(pair), items=np.array([[0, 1]]))
    (number,) = model.predict_items(model.batches_of(data))
    print(CLASSES[number])


if __name__ == "__main__":
    harness.main(parse(), run, show)

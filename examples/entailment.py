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

The first run computes ELMo's vectors and caches them in `--cache`. The output folder gets
results.md, .csv and .json (mean and deviation over the seeds), the same for each run, a picture of
the confusion matrix and the best model of each feature set.
"""

import functools
import json
from pathlib import Path

import keras
import numpy as np
from keras import ops

import harness
from attention import attend, joined
from bilstm import BiLSTM
from features import PADDING, PairBatches, prepare, read_lines
from keras_elmo.text.tokens import split_tokens
from task_model import TaskModel

CLASSES = ("entailment", "neutral", "contradiction")

# 1. The data.


def read_pairs(path):
    """Reads pairs of sentences, plain, .gz or .xz.

    Args:
        path: A file of JSON lines, with the names of SNLI ("sentence1_binary_parse",
            "sentence2_binary_parse", "gold_label") or with "premise", "hypothesis" and "label".
            SNLI's pairs without a gold label, "-", are skipped.

    Returns:
        A list of sentences, lists of tokens: premise and hypothesis of the first pair, then of
        the second, and so on. A list of the classes of the pairs, 0 to 2.

    Raises:
        ValueError: if a line is not a pair, or there are none.
    """
    sentences, labels = [], []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            *pair, label = pair_of(json.loads(line))
            if label != "-":
                labels.append(CLASSES.index(label))
                sentences += harness.sentences_of(pair)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}, line {number}: {line!r:.80} is not a pair such as "
                '{"premise": "A dog runs .", "hypothesis": "It moves .", "label": '
                '"entailment"}, or one of SNLI.'
            ) from error
    if not labels:
        raise ValueError(f"{path} has no pairs.")
    return sentences, labels


def pair_of(record):
    """The premise, the hypothesis and the label of a line."""
    if "gold_label" not in record:
        return record["premise"], record["hypothesis"], record["label"]
    trees = record["sentence1_binary_parse"], record["sentence2_binary_parse"]
    return *map(words_of_tree, trees), record["gold_label"]


def words_of_tree(tree):
    words = [word for word in split_tokens(tree) if word not in ("(", ")")]
    return [{"-LRB-": "(", "-RRB-": ")"}.get(word, word) for word in words]


# 2. The model.


@keras.saving.register_keras_serializable("keras_elmo_examples")
class EnhancedSequentialInference(TaskModel):
    """The enhanced sequential inference model, ESIM.

    Args:
        units: Size of the LSTMs, in each direction, and of the dense layers.
        placement: As for `TaskModel`; `"output"` adds ELMo to the output of the first LSTM.
        **options: Passed to `TaskModel`.

    Call arguments:
        inputs: Dict of `PairBatches`: "premise" and "hypothesis", each with "words", and "layers"
            or "elmo" for ELMo.

    Returns:
        Logits `(B, 3)`.

    Reference: Chen et al. 2017, section 3; Peters et al. 2018, section 4.
    """

    def __init__(self, units=100, placement="both", **options):
        super().__init__(units=units, placement=placement, **options)
        self.encoder = BiLSTM(units)
        self.comparison = keras.layers.Dense(units, activation="relu")
        self.composer = BiLSTM(units)
        self.hidden = keras.layers.Dense(units, activation="tanh")
        self.classifier = keras.layers.Dense(len(CLASSES))
        self.build()

    def build_task(self, width, elmo_width):
        self.encoder.build((None, None, width))
        self.comparison.build((None, None, 4 * (2 * self.units + elmo_width)))
        self.composer.build((None, None, self.units))
        self.hidden.build((None, 8 * self.units))
        self.classifier.build((None, self.units))

    def call(self, inputs, training=None):
        pair = [inputs["premise"], inputs["hypothesis"]]
        masks = [sentence["words"] != PADDING for sentence in pair]
        encoded = [self.read(*both, self.encoder, training) for both in zip(pair, masks)]
        pooled = []
        for i in range(2):
            x, mask = encoded[i], masks[i]
            aligned = attend(x, encoded[1 - i], masks[1 - i])
            x = self.comparison(joined(x, aligned, x - aligned, x * aligned))
            x = self.composer(self.drop(x, training=training), mask=mask)
            pooled += _mean_and_maximum(x, mask)
        x = self.hidden(self.drop(joined(*pooled), training=training))
        return self.classifier(self.drop(x, training=training))

    def predict_classes(self, batches):
        """The classes of the pairs of `PairBatches`, in their order, as an array."""
        classes = np.zeros(len(batches.rows), int)
        for rows, _, logits in self.predictions(batches):
            classes[rows] = logits.argmax(-1)
        return classes

    def classify(self, pairs):
        """The classes of pairs of sentences: strings to be split at white space, or tokens."""
        sentences = harness.sentences_of([sentence for pair in pairs for sentence in pair])
        return self.predict_classes(self.batches_of(sentences, PairBatches))


def _mean_and_maximum(x, mask):
    valid = ops.expand_dims(ops.cast(mask, x.dtype), -1)
    mean = ops.sum(x * valid, axis=1) / ops.sum(valid, axis=1)
    return mean, ops.max(x - (1 - valid) * 1e4, axis=1)


# 3. The experiment: one run with one seed.


class Experiment:
    """Trains and tests the model with a feature set and a seed.

    Args:
        settings: The options of the command line.
    """

    def __init__(self, settings):
        self.settings = settings
        self.sentences, self.labels = {}, {}
        for part in ("train", "dev", "test"):
            self.sentences[part], self.labels[part] = read_pairs(getattr(settings, part))
        self.prepare = functools.cache(lambda name: prepare(name, settings, self.sentences))

    def __call__(self, features, seed):
        labels, batch_size = self.labels["train"], self.settings.batch_size
        rows = harness.fraction_of(len(labels), self.settings.fraction, seed)
        inputs = self.prepare(features).trained_on([2 * row + i for row in rows for i in (0, 1)])
        model = EnhancedSequentialInference.of(
            features, inputs, self.settings, placement=self.settings.placement
        )
        options = {"kind": PairBatches, "batch_size": batch_size}
        train = inputs.batches("train", labels=labels, rows=rows, seed=seed, **options)
        dev, test = (inputs.batches(part, **options) for part in ("dev", "test"))
        best, epoch = harness.train(
            model,
            train,
            lambda: harness.accuracy(self.labels["dev"], model.predict_classes(dev)),
            self.settings,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        predicted = model.predict_classes(test)
        path = Path(self.settings.output) / f"{features}-{seed}.csv"
        pairs = zip(self.sentences["test"][::2], self.sentences["test"][1::2])
        texts = [" / ".join(map(" ".join, pair)) for pair in pairs]
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
    parser = harness.make_parser(__doc__.splitlines()[0], output="entailment_output")
    parser.set_defaults(learning_rate=0.002)
    parser.add_argument("--placement", choices=("input", "output", "both"), default="both")
    parser.add_argument("--units", type=harness.positive, default=100, help="size of each LSTM")
    parser.add_argument("--model", help="a saved model, to classify with")
    parser.add_argument(
        "--classify", nargs=2, metavar=("PREMISE", "HYPOTHESIS"), help="sentences to classify"
    )
    settings = harness.parse(parser, arguments, alone="classify")
    if settings.placement == "output" and not {"elmo", "elmo-tokens"}.isdisjoint(settings.features):
        parser.error("--placement output leaves those --features nothing to read at the input")
    return settings


if __name__ == "__main__":
    settings = parse()
    if settings.classify is None:
        run(settings)
    else:
        model = keras.models.load_model(settings.model, compile=False)
        print(CLASSES[model.classify([settings.classify])[0]])

r"""Who did what to whom? Semantic roles with GloVe and ELMo.

    python examples/srl.py --train train.srl --dev dev.srl --test test.srl \
        --features glove glove+elmo --seeds 3 --output srl_output
    python examples/srl.py --model srl_output/glove+elmo.keras \
        --label "The cat sat on the mat ."

The tagger of He et al. 2017: stacked LSTMs with highway connections read the sentence alternately
forward and backward, given which word is the predicate; the tags are the most likely ones that form
valid spans (BIO). ELMo is added to the input, as in Peters et al. 2018. A separate classifier of
single words, trained on the sentences that have a predicate, finds the predicates in sentences in
which they are not marked.

Files are in the format of CoNLL-2012, or have columns of index (from 0), token, predicate and BIO
tags, one column of tags per predicate, with an empty line after each sentence. README.md in this
folder says where to get them.

The first run computes ELMo's vectors and caches them in `--cache`. The output folder gets
results.md, .csv and .json (mean and deviation over the seeds), the same for each run, the
predictions on the test file as JSON lines, a picture of the scores of the roles, and the best model
of each feature set. The score is the F1 of labeled spans; predicates (V) do not count, and a
continuation (C-ARG1) is a span of its own.
"""

import functools
import json
from pathlib import Path

import keras
import numpy as np
from keras import ops
from seqeval.metrics import classification_report, f1_score

import harness
from attention import joined
from conll import Propositions
from crf import CRF
from features import PADDING, SentenceBatches, prepare
from highway_lstm import HighwayLSTM
from keras_elmo.text.tokens import split_tokens
from task_model import TaskModel

# 1. The data: sentences, and for each of their predicates the tags of all words, which
# `conll.Propositions` reads.


class PredicateBatches(SentenceBatches):
    """Batches of predicates: their sentences, and "predicate", 1 at the predicate and 0 elsewhere.

    Labels are int32 `(B, T, 2)`: the tags, and whether a word is a predicate of the sentence.

    Args:
        sentence_of, places: As for `Propositions`. Labels and `rows` refer to predicates.
    """

    def __init__(self, sentences, words, sentence_of, places, **options):
        self.sentence_of, self.places = sentence_of, places
        super().__init__(sentences, words, **options)

    def _sizes(self):
        return self.lengths[self.sentence_of]

    def _inputs(self, rows):
        inputs = super()._inputs(self.sentence_of[rows])
        inputs["predicate"] = np.zeros_like(inputs["words"])
        inputs["predicate"][np.arange(len(rows)), self.places[rows]] = 1
        return inputs

    def _labels(self, rows, inputs):
        tags = super()._labels(rows, inputs)
        is_predicate = np.zeros_like(tags)
        for place, sentence in zip(is_predicate, self.sentence_of[rows]):
            place[self.places[self.sentence_of == sentence]] = 1
        return np.stack([tags, is_predicate], axis=-1)


# 2. The model.


@keras.saving.register_keras_serializable("keras_elmo_examples")
class RoleTagger(TaskModel):
    """The tagger of semantic roles.

    Args:
        tag_names: The tags.
        num_layers: Number of LSTMs, alternately forward and backward.
        indicator_dim: Size of the vector that says whether a word is the predicate.
        units: Size of the LSTMs.
        **options: Passed to `TaskModel`.

    Call arguments:
        inputs: Dict of `PredicateBatches`: "words", "predicate", and "layers" or "elmo" for ELMo.

    Returns:
        Dict of float "logits" `(B, T, num_tags)`, int32 "tags" `(B, T)`, the most likely ones that
        form spans, and float "is predicate" `(B, T)`, the logits of words being predicates.

    Reference: He et al. 2017, section 2; Peters et al. 2018, section 4.
    """

    def __init__(self, tag_names, num_layers=4, indicator_dim=100, dropout=0.1, **options):
        super().__init__(dropout=dropout, **options)
        self.tag_names = tag_names
        self.num_layers = num_layers
        self.indicator_dim = indicator_dim
        self.indicator = keras.layers.Embedding(2, indicator_dim)
        self.readers = [
            HighwayLSTM(self.units, reverse=i % 2 == 1, dropout=dropout) for i in range(num_layers)
        ]
        self.classifier = keras.layers.Dense(len(tag_names))
        self.is_predicate = keras.layers.Dense(1)
        self.decoder = CRF(len(tag_names), trainable=False)
        self.build()

    def build_task(self, width, elmo_width):
        self.indicator.build((None, None))
        self.is_predicate.build((None, None, width))
        width += self.indicator_dim
        for reader in self.readers:
            reader.build((None, None, width))
            width = self.units
        self.classifier.build((None, None, width))
        self.decoder.build((None, None, len(self.tag_names)))
        starts, transitions = constraints(self.tag_names)
        self.decoder.set_weights([transitions, starts, np.zeros_like(starts)])

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        x = self.read(inputs, mask, training=training)
        is_predicate = self.is_predicate(ops.stop_gradient(x))[..., 0]
        x = joined(x, self.indicator(inputs["predicate"]))
        for reader in self.readers:
            x = reader(x, mask=mask, training=training)
        logits = self.classifier(x)
        tags = self.decoder(logits, mask=mask)
        return {"logits": logits, "tags": tags, "is predicate": is_predicate}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        mask = x["words"] != PADDING
        tags, is_predicate = ops.maximum(y[..., 0], 0), ops.cast(y[..., 1], "float32")
        losses = keras.losses
        of_tags = losses.sparse_categorical_crossentropy(tags, y_pred["logits"], from_logits=True)
        of_predicates = losses.binary_crossentropy(
            ops.expand_dims(is_predicate, -1),
            ops.expand_dims(y_pred["is predicate"], -1),
            from_logits=True,
        )
        valid = ops.cast(mask, of_tags.dtype)
        total = ops.sum((of_tags + of_predicates) * valid) / ops.sum(valid)
        return sum(self.losses, total)

    def predict_tags(self, batches):
        """The tags of each predicate of `PredicateBatches`, in their order."""
        tags = [None] * len(batches.rows)
        for rows, _, predicted in self.predictions(batches):
            for row, ids in zip(rows, predicted["tags"]):
                length = batches.lengths[batches.sentence_of[row]]
                tags[row] = [self.tag_names[i] for i in ids[:length]]
        return tags

    def label(self, sentences):
        """Finds the predicates of sentences, and their arguments.

        Args:
            sentences: Strings to be split at white space, or lists of tokens.

        Returns:
            For each sentence a list of predicates, each as its place and the tags of all words.
        """
        sentences = harness.sentences_of(sentences)
        numbers = np.arange(len(sentences))
        batches = self.batches_of(
            sentences, PredicateBatches, sentence_of=numbers, places=np.zeros_like(numbers)
        )
        found = []
        for rows, _, predicted in self.predictions(batches):
            for row, values in zip(rows, predicted["is predicate"]):
                places = np.flatnonzero(values[: len(sentences[row])] > 0)
                found += [(row, place) for place in places]
        labeled = [[] for _ in sentences]
        if found:
            found.sort()
            sentence_of, places = np.array(found).T
            batches = self.batches_of(
                sentences, PredicateBatches, sentence_of=sentence_of, places=places
            )
            tags = self.predict_tags(batches)
            for row, place, own in zip(sentence_of, places, tags):
                labeled[row].append((int(place), own))
        return labeled

    def get_config(self):
        return {
            **super().get_config(),
            "tag_names": list(self.tag_names),
            "num_layers": self.num_layers,
            "indicator_dim": self.indicator_dim,
        }


def constraints(tag_names):
    """Scores of beginning with a tag, and of each tag after another: -1e4 where BIO forbids it."""
    inside = np.array([tag.startswith("I-") for tag in tag_names])
    same = np.array([[a[2:] == b[2:] for b in tag_names] for a in tag_names])
    return inside * np.float32(-1e4), (inside & ~same) * np.float32(-1e4)


# 3. The experiment: one run with one seed.


class Experiment:
    """Trains and tests a tagger with a feature set and a seed.

    Args:
        settings: The options of the command line.
    """

    def __init__(self, settings):
        self.settings = settings
        self.data = {p: Propositions(getattr(settings, p)) for p in ("train", "dev", "test")}
        sentences = {part: data.sentences for part, data in self.data.items()}
        self.tag_names = sorted({tag for tags in self.data["train"].tags for tag in tags})
        numbers = {tag: i for i, tag in enumerate(self.tag_names)}
        self.labels = [[numbers[tag] for tag in tags] for tags in self.data["train"].tags]
        self.prepare = functools.cache(lambda name: prepare(name, settings, sentences))

    def __call__(self, features, seed):
        data, settings = self.data["train"], self.settings
        rows = harness.fraction_of(len(self.labels), settings.fraction, seed)
        inputs = self.prepare(features).trained_on(np.unique(data.sentence_of[rows]))
        options = {"tag_names": self.tag_names, "num_layers": settings.num_layers}
        model = RoleTagger.of(features, inputs, settings, **options)
        train = self.batches(inputs, "train", labels=self.labels, rows=rows, seed=seed)
        dev, test = (self.batches(inputs, part) for part in ("dev", "test"))
        best, epoch = harness.train(
            model, train, lambda: self.f1("dev", model.predict_tags(dev)), settings
        )
        predicted = model.predict_tags(test)
        path = Path(settings.output) / f"{features}-{seed}.jsonl"
        write_predictions(path, self.data["test"], predicted)
        result = {
            "dev": best,
            "test": self.f1("test", predicted),
            "best epoch": epoch,
            "input weights": harness.mix_weights(model.input_mix),
        }
        return result, model

    def batches(self, inputs, part, **options):
        data = self.data[part]
        return inputs.batches(
            part,
            kind=PredicateBatches,
            sentence_of=data.sentence_of,
            places=data.places,
            batch_size=self.settings.batch_size,
            **options,
        )

    def f1(self, part, predicted):
        """The F1 of labeled spans without the predicates, in percent."""
        true, found = map(without_predicates, (self.data[part].tags, predicted))
        return 100 * float(f1_score(true, found, zero_division=0))


def without_predicates(sequences):
    return [["O" if tag.endswith("-V") else tag for tag in tags] for tags in sequences]


def role_scores(paths, num_roles=12):
    """The F1 of each of the most frequent roles, in files of predictions: a list for each role."""
    scores = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        both = (without_predicates([line[x] for line in lines]) for x in ("true", "predicted"))
        report = classification_report(*both, output_dict=True, zero_division=0)
        found = {role for role in report if report[role]["support"] and " avg" not in role}
        roles = sorted(found, key=lambda role: (-report[role]["support"], role))
        for role in roles[:num_roles]:
            scores.setdefault(role, []).append(100 * float(report[role]["f1-score"]))
    return scores


def write_predictions(path, data, predicted):
    """Writes a JSON line for each predicate: its words, place, true tags and predicted tags."""
    names = ("words", "predicate", "true", "predicted")
    words = (data.sentences[sentence] for sentence in data.sentence_of)
    items = zip(words, data.places.tolist(), data.tags, predicted)
    harness.write_json_lines(path, (dict(zip(names, item)) for item in items))


# 4. The command line.


def run(settings):
    """Trains with all feature sets and seeds, draws the roles, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    output, seeds = Path(settings.output), range(1, settings.seeds + 1)
    scores = {
        features: role_scores([output / f"{features}-{seed}.jsonl" for seed in seeds])
        for features in settings.features
    }
    harness.draw_scores(scores, "The most frequent roles", output / "roles.png")
    return summary


def parse(arguments=None):
    parser = harness.make_parser(__doc__.splitlines()[0], output="srl_output")
    parser.set_defaults(batch_size=64)
    parser.add_argument("--units", type=harness.positive, default=100, help="size of each LSTM")
    parser.add_argument("--num-layers", type=harness.positive, default=4, help="number of LSTMs")
    parser.add_argument("--model", help="a saved model, to label with")
    parser.add_argument("--label", nargs="+", metavar="SENTENCE", help="sentences to label")
    return harness.parse(parser, arguments, alone="label")


def show_roles(path, sentences):
    """Prints sentences, for each of their predicates, with the arguments in brackets."""
    model = keras.models.load_model(path, compile=False)
    for sentence, predicates in zip(sentences, model.label(sentences)):
        if not predicates:
            print(f"no predicate: {sentence}")
        for _, tags in predicates:
            print(bracketed(split_tokens(sentence), tags))


def bracketed(words, tags):
    """Words with their roles, such as `[ARG0: The cat] [V: sat] [ARG2: on the mat] .`"""
    parts = []
    for word, tag in zip(words, tags):
        if tag.startswith("I-"):
            parts[-1] = f"{parts[-1][:-1]} {word}]"
        else:
            parts.append(word if tag == "O" else f"[{tag[2:]}: {word}]")
    return " ".join(parts)


if __name__ == "__main__":
    settings = parse()
    if settings.label is None:
        run(settings)
    else:
        show_roles(settings.model, settings.label)

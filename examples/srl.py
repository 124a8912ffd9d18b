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

The score is the F1 of labeled spans; predicates (V) do not count, and a continuation (C-ARG1) is a
span of its own.
"""

import json
from pathlib import Path

import keras
import numpy as np
from keras import ops
from seqeval.metrics import classification_report, f1_score

import harness
from attention import concatenate
from conll import Propositions, read_propositions
from crf import CRF
from features import PADDING, SentenceBatches
from highway_lstm import HighwayLSTM
from reading import sentences_of
from task_model import TaskModel

# 1. The data: sentences, and for each of their predicates the tags of all words, which
# `read_propositions` reads.


class PredicateBatches(SentenceBatches):
    """Batches of predicates: their sentences, and "predicate", 1 at the predicate and 0 elsewhere.

    Labels are int32 `(B, T, 2)`: the tags, and whether a word is a predicate of the sentence.
    """

    def inputs(self, rows):
        inputs = super().inputs(rows)
        inputs["predicate"] = np.zeros_like(inputs["words"])
        inputs["predicate"][np.arange(len(rows)), self.data.places[rows]] = 1
        return inputs

    def labels_of(self, rows, inputs):
        tags = super().labels_of(rows, inputs)
        is_predicate = np.zeros_like(tags)
        sentences, places = self.data.items[:, 0], self.data.places
        for row, sentence in zip(is_predicate, sentences[rows]):
            row[places[sentences == sentence]] = 1
        return np.stack([tags, is_predicate], axis=-1)


# 2. The model.


@keras.saving.register_keras_serializable("keras_elmo_examples")
class RoleTagger(TaskModel):
    """The tagger of semantic roles.

    Args:
        tag_names: The tags.
        num_layers: Number of LSTMs, alternately forward and backward.
        **options: Passed to `TaskModel`; `units` is the size of the LSTMs.

    Call arguments:
        inputs: Dict of `PredicateBatches`: "words", "predicate", and "layers" or "elmo" for ELMo.

    Returns:
        Dict of float "logits" `(B, T, num_tags)`, int32 "tags" `(B, T)`, the most likely ones that
        form spans, and float "is predicate" `(B, T)`, the logits of words being predicates.

    Reference: He et al. 2017, section 2; Peters et al. 2018, section 4.
    """

    batches = PredicateBatches

    def __init__(self, tag_names, num_layers=4, dropout=0.1, **options):
        super().__init__(dropout=dropout, **options)
        self.tag_names = list(tag_names)
        self.num_layers = num_layers
        self.indicator = keras.layers.Embedding(2, 100)  # is this word the predicate?
        self.readers = [
            HighwayLSTM(self.units, reverse=i % 2 == 1, dropout=dropout) for i in range(num_layers)
        ]
        self.classifier = keras.layers.Dense(len(tag_names))
        self.is_predicate = keras.layers.Dense(1)
        self.decoder = CRF(len(tag_names), trainable=False)
        self.build()
        starts, transitions = constraints(self.tag_names)
        self.decoder.set_weights([transitions, starts, np.zeros_like(starts)])

    def example(self, words):
        return {**super().example(words), "predicate": words}

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        x = self.read(inputs, mask, training=training)
        is_predicate = self.is_predicate(ops.stop_gradient(x))[..., 0]
        x = concatenate(x, self.indicator(inputs["predicate"]))
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

    def decode(self, outputs, inputs, sizes):
        """The tags, and the places of the words that look like predicates."""
        for tags, scores, size in zip(outputs["tags"], outputs["is predicate"], sizes):
            yield [self.tag_names[i] for i in tags[:size]], np.flatnonzero(scores[:size] > 0)

    def label(self, sentences):
        """Finds the predicates of sentences, and their arguments.

        Args:
            sentences: Strings to be split at white space, or lists of tokens.

        Returns:
            A list of predicates, each as its sentence and the tags of all words.
        """
        sentences = sentences_of(sentences)
        data = Propositions(sentences, places=np.zeros(len(sentences), int))
        places = [found for _, found in self.predict_items(self.batches_of(data))]
        items = np.array([[i] for i, found in enumerate(places) for _ in found], int)
        data = Propositions(sentences, items=items.reshape(-1, 1), places=np.concatenate(places))
        found = self.predict_items(self.batches_of(data))
        return [(sentences[i], tags) for (i,), (tags, _) in zip(data.items, found)]


def constraints(tag_names):
    """Scores of beginning with a tag, and of each tag after another: -1e4 where BIO forbids it."""
    inside = np.array([tag.startswith("I-") for tag in tag_names])
    same = np.array([[a[2:] == b[2:] for b in tag_names] for a in tag_names])
    return inside * np.float32(-1e4), (inside & ~same) * np.float32(-1e4)


# 3. The experiment: one run with one seed.


class Experiment(harness.Experiment):
    model = RoleTagger

    def __init__(self, settings):
        data = harness.read_parts(settings, read_propositions)
        names = sorted({tag for tags in data["train"].answers for tag in tags})
        numbers = {tag: i for i, tag in enumerate(names)}
        labels = [[numbers[tag] for tag in tags] for tags in data["train"].answers]
        super().__init__(settings, data, labels, tag_names=names, num_layers=settings.num_layers)

    def score(self, data, predicted):
        """The F1 of labeled spans without the predicates."""
        found = [tags for tags, _ in predicted]
        true, found = map(without_predicates, (data.answers, found))
        return 100 * float(f1_score(true, found, zero_division=0)), {}

    def write(self, path, data, predicted):
        """A JSON line for each predicate: its words, place, true tags and predicted tags."""
        names = ("words", "predicate", "true", "predicted")
        words = (data.sentences[sentence] for (sentence,) in data.items)
        items = zip(words, data.places.tolist(), data.answers, (tags for tags, _ in predicted))
        harness.write_json_lines(f"{path}.jsonl", (dict(zip(names, item)) for item in items))


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


def run(settings):
    """Trains with all feature sets and seeds, draws the roles, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    output, seeds = Path(settings.output), range(1, settings.seeds + 1)
    scores = {
        features: role_scores([output / f"{features}-{seed}.jsonl" for seed in seeds])
        for features in settings.features
    }
    harness.draw_scores(scores, "F1 of the most frequent roles", output / "roles.png")
    return summary


# 4. The command line.


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "sentences to label"}
    defaults = {"output": "srl_output", "batch_size": 64}
    parser = harness.make_parser(__doc__, "label", defaults, **options)
    parser.add_argument("--num-layers", type=harness.positive, default=4, help="number of LSTMs")
    return harness.parse(parser, arguments)


def show(model, sentences):
    """Prints sentences, once for each predicate, with the arguments in brackets."""
    print("\n".join(bracketed(*found) for found in model.label(sentences)) or "no predicate")


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
    harness.main(parse(), run, show)

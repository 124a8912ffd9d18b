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
folder says where to get them. A run on English EWT takes one to two hours on two CPU cores.

The score is the F1 of labeled spans; predicates (V) do not count, and a continuation (C-ARG1) is a
span of its own.
"""

import json
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops
from seqeval.metrics import classification_report, f1_score

import experiments
from conll import read_propositions
from crf import CRF
from highway_lstm import HighwayLSTM
from ner import fit
from pictures import draw_scores
from reading import sentences_of
from training import COMPILE_WITH_XLA, Batches, predict
from word_vectors import encode, end_to_end, inputs_of, mix_layers, mix_weights, prepare

# 1. The data: sentences, and for each of their predicates the tags of all words, which
# `read_propositions` reads. An item of a model is a predicate.


def with_predicate(item, place, num_words):
    """The inputs of a sentence, with 2 at the predicate and 1 elsewhere: 0 is padding."""
    return {**item, "predicate": 1 + indicator([place], num_words)}


def indicator(places, num_words):
    """int32 `(T,)`: 1 at some places, 0 elsewhere."""
    return np.isin(np.arange(num_words), places).astype(np.int32)


# 2. The model.


def make_tagger(words, elmo, tag_names, settings):
    """A Functional model from words, ELMo's layers and the predicate to the tags.

    Its outputs are a dict: the "scores" and "tags" of `CRF`, which finds the most likely tags that
    form spans, and "is_predicate", the logits `(B, T, 2)` of a word being no predicate or one.
    """
    inputs, vectors = inputs_of(words, elmo), []
    if words is not None:
        vectors.append(words(inputs["words"]))
    if elmo is not None:
        vectors.append(mix_layers(inputs["layers"], settings))
    inputs["predicate"] = keras.Input((None,), dtype="int32", name="predicate")
    x = layers.Dropout(0.1)(layers.Concatenate()(vectors))
    is_predicate = layers.Dense(2)(ops.stop_gradient(x))
    marks = layers.Embedding(3, 100, mask_zero=True)(inputs["predicate"])
    x = layers.Concatenate()([x, marks])
    for i in range(settings.num_layers):
        x = HighwayLSTM(settings.units, reverse=i % 2 == 1, dropout=0.1)(x)
    x = layers.Dense(len(tag_names))(x)
    crf = CRF(tag_names, trainable=False, name="crf")
    outputs = {**crf(x), "is_predicate": is_predicate}
    starts, transitions = constraints(tag_names)
    crf.set_weights([transitions, starts, np.zeros_like(starts)])
    return keras.Model(inputs, outputs)


def constraints(tag_names):
    """Scores of beginning with a tag, and of each tag after another: -1e4 where BIO forbids it."""
    inside = np.array([tag.startswith("I-") for tag in tag_names])
    same = np.array([[a[2:] == b[2:] for b in tag_names] for a in tag_names])
    return inside * np.float32(-1e4), (inside & ~same) * np.float32(-1e4)


def find_tags(model, items, sentences, names):
    """The most likely tags of the words of sentences, one for each item."""
    outputs = zip(predict(model, items), map(len, sentences))
    return [[names[i] for i in output["tags"][:length]] for output, length in outputs]


# 3. One run: training until the F1 on the development set stops rising, then the test.


def train(settings):
    """Trains and tests a tagger; returns the scores, and the tagger with ELMo in it."""
    data = experiments.read_parts(settings, read_propositions)
    sentences = {part: [words for words, _ in data[part]] for part in data}

    # ELMo's layers do not change in the training, so they are computed before it.
    words, elmo, encoded = prepare(settings, sentences)
    predicates = {
        part: [(i, *pair) for i, (_, pairs) in enumerate(data[part]) for pair in pairs]
        for part in data
    }
    texts = {part: [sentences[part][i] for i, _, _ in predicates[part]] for part in data}
    tags = {part: [tags for _, _, tags in predicates[part]] for part in data}
    items = {
        part: [
            with_predicate(encoded[part][i], place, len(tags))
            for i, place, tags in predicates[part]
        ]
        for part in data
    }
    tag_names = sorted({tag for row in tags["train"] for tag in row})
    labels = []
    for i, _, row in predicates["train"]:
        places = [place for place, _ in data["train"][i][1]]
        numbers = np.array([tag_names.index(tag) for tag in row])
        labels.append({"scores": numbers, "is_predicate": indicator(places, len(row))})

    keras.utils.set_random_seed(settings.seed)
    model = make_tagger(words, elmo, tag_names, settings)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0),
        loss={"scores": loss, "is_predicate": loss},
        jit_compile=COMPILE_WITH_XLA,
    )

    def find(part):
        return find_tags(model, items[part], texts[part], tag_names)

    def score_dev():
        return f1(tags["dev"], find("dev"))

    batches = Batches(items["train"], labels, settings.batch_size, settings.seed)
    dev, best_epoch = fit(model, batches, score_dev, settings)
    predicted = find("test")
    names = ("words", "predicate", "true", "predicted")
    places = (place for _, place, _ in predicates["test"])
    rows = zip(texts["test"], places, tags["test"], predicted)
    path = Path(settings.output, f"{settings.features}-{settings.seed}.jsonl")
    experiments.write_json_lines(path, (dict(zip(names, row)) for row in rows))
    scores = {
        "dev": dev,
        "test": 100 * f1(tags["test"], predicted),
        "best epoch": best_epoch,
        "input weights": mix_weights(model),
    }
    return scores, end_to_end(model, elmo)


def f1(true, found):
    """The F1 of labeled spans without the predicates, 0 to 1."""
    return float(f1_score(*map(without_predicates, (true, found)), zero_division=0))


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


# 4. A trained tagger, as `keras.models.load_model` loads it.


def label(tagger, sentences):
    """Finds the predicates of sentences, lists of tokens, and their arguments.

    Returns:
        A list of predicates, each as its sentence and the tags of all words.
    """
    encoded = list(zip(encode(tagger, sentences), sentences))
    items = [with_predicate(item, 0, len(tokens)) for item, tokens in encoded]
    texts, items_found = [], []
    for (item, tokens), output in zip(encoded, predict(tagger, items)):
        logits = output["is_predicate"][: len(tokens)]
        for place in np.flatnonzero(logits[:, 1] > logits[:, 0]):
            texts.append(tokens)
            items_found.append(with_predicate(item, place, len(tokens)))
    names = tagger.get_layer("network").get_layer("crf").tag_names
    return list(zip(texts, find_tags(tagger, items_found, texts, names)))


# 5. The command line. Without --seeds and --features it is one run.


def run(settings):
    """Trains with all feature sets and seeds, draws the roles, returns the rows of the table."""
    summary = experiments.run_seeds(train, settings)
    output, seeds = Path(settings.output), range(1, settings.seeds + 1)
    scores = {
        features: role_scores([output / f"{features}-{seed}.jsonl" for seed in seeds])
        for features in settings.features
    }
    if all(scores.values()):
        draw_scores(scores, "F1 of the most frequent roles", output / "roles.png")
    return summary


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "sentences to label"}
    defaults = {"output": "srl_output", "batch_size": 64}
    parser = experiments.make_parser(__doc__, "label", defaults, **options)
    parser.add_argument(
        "--num-layers", type=experiments.positive, default=4, help="number of LSTMs"
    )
    return experiments.parse(parser, arguments)


def show(tagger, sentences):
    """Prints sentences, once for each predicate, with the arguments in brackets."""
    found = label(tagger, sentences_of(sentences))
    print("\n".join(bracketed(*pair) for pair in found) or "no predicate")


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
    experiments.main(parse(), run, show)

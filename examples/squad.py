"""Answers to questions on a text, as in SQuAD: BiDAF with self-attention, GloVe and ELMo.

    python examples/squad.py --train train-v1.1.json --dev dev-v1.1.json --test dev-v1.1.json \
        --features glove glove+elmo --output squad_output
    python examples/squad.py --model squad_output/glove+elmo.keras \
        --answer "Ann was born in Paris in 1901 ." "Where was Ann born ?"

The network of Clark and Gardner 2018, to which Peters et al. 2018 added ELMo: a bidirectional GRU
reads question and context, each attends to the other, the context attends to itself, and two more
GRUs predict where the answer begins and ends. ELMo is added to the input and to the output of the
first GRU, each with its own mix. Unlike theirs it has no character CNN, and it does not drop the
same numbers at all words.

Files are in the format of SQuAD 1.1. Its test set is not public: report results on the development
set. The scores are F1 and exact match by the rules of the official script.

`tiny_squad.json` in this folder shows that the program learns (a few minutes, F1 100 on the
training text): pass it as `--train`, `--dev` and `--test`. Training on SQuAD itself needs a GPU.
"""

import collections
import json
import re
import string
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from keras import layers, ops

import experiments
from ner import fit
from reading import open_text, sentences_of
from training import COMPILE_WITH_XLA, Batches, predict
from word_vectors import (
    encode,
    end_to_end,
    inputs_of,
    mix_layers,
    mix_weights,
    prepare,
    with_prefix,
)

LONGEST_ANSWER = 17  # tokens
DROPOUT = 0.2
HIDDEN = -1e4  # a score that softmax turns into 0

# 1. The data: paragraphs, questions, and where in the text the answers begin.

TOKEN = re.compile(r"\d+(?:[.,]\d+)+|\w+(?=n't\b)|n't\b|(?<=\w)'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")


class Question(NamedTuple):
    """A question on a text, with the texts of its right answers.

    The span is the first and the last token of the first answer.
    """

    id: str
    text: str
    context: str
    answers: list
    span: tuple


def read_questions(path):
    """Reads a file of SQuAD 1.1, plain, .gz or .xz: a list of `Question`.

    Raises:
        ValueError: if the file is not in SQuAD's format, or has no questions.
    """
    questions = []
    try:
        with open_text(path) as file:
            articles = json.load(file)["data"]
        for paragraph in (x for article in articles for x in article["paragraphs"]):
            context = paragraph["context"]
            for item in paragraph["qas"]:
                name, text, answers = item["id"], item["question"], item["answers"]
                if not tokenize(text)[0]:
                    raise ValueError(f"question {name!r} has no words")
                span = span_of(context, answers[0])
                answers = [answer["text"] for answer in answers]
                questions.append(Question(name, text, context, answers, span))
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file of SQuAD 1.1, where every question has an answer: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not questions:
        raise ValueError(f"{path} has no questions.")
    return questions


def tokenize(text):
    """The tokens of a text, and the places where they begin and end in it."""
    found = list(TOKEN.finditer(text))
    return [match[0] for match in found], [match.span() for match in found]


def text_of(context, span):
    """The text of a span of tokens."""
    _, places = tokenize(context)
    return context[places[span[0]][0] : places[span[1]][1]]


def span_of(context, answer):
    """The first and last token of an answer, which begins at a character of the context."""
    start, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    inside = [i for i, (a, b) in enumerate(tokenize(context)[1]) if a < end and b > start]
    if not inside:
        raise IndexError(f"the answer {answer['text']!r} is not in its context")
    return inside[0], inside[-1]


# 2. The scores, by the rules of the official script.


def normalized(answer):
    """An answer in lower case, without punctuation, articles and extra spaces."""
    kept = "".join(char for char in answer.lower() if char not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def f1(predicted, answer):
    """The harmonic mean of precision and recall of the words; repeated words count repeatedly."""
    predicted, answer = normalized(predicted).split(), normalized(answer).split()
    common = sum((collections.Counter(predicted) & collections.Counter(answer)).values())
    return 2 * common / (len(predicted) + len(answer)) if common else 0.0


def scores(answers, predicted):
    """F1 and exact match in percent: for each question the best over its answers."""
    pairs = list(zip(predicted, answers))
    best = [max(f1(text, answer) for answer in right) for text, right in pairs]
    exact = [normalized(text) in map(normalized, right) for text, right in pairs]
    return 100 * float(np.mean(best)), 100 * float(np.mean(exact))


# 3. The model.


def make_reader(words, elmo, settings):
    """A Functional model from words and ELMo's layers to the first and last token of the answer.

    Its outputs are a dict of logits, "start" and "end", `(B, T)`.

    Reference: Clark and Gardner 2018, section 3.1; Peters et al. 2018, section 4.
    """
    units = settings.units
    encoder = make_encoder(words, elmo, settings)
    question = inputs_of(words, elmo, "question_")
    context = inputs_of(words, elmo, "context_")

    x, q = encoder(context), encoder(question)
    x = AttentionToQuestion()(x, q, Similarity()(x, q))
    x = layers.Dense(2 * units, activation="relu")(x)
    y = gru(x, units)
    y = AttentionToItself()(y, Similarity()(y, y))
    x = layers.Add()([x, layers.Dense(2 * units, activation="relu")(y)])
    start = gru(x, units)
    end = gru(layers.Concatenate()([x, start]), units)
    logits = {}
    for name, y in (("start", start), ("end", end)):
        # A bias would change nothing: it is the same for all words.
        logits[name] = Logits()(layers.Dense(1, use_bias=False)(y))
    inputs = {x.name: x for text in (question, context) for x in text.values()}
    return keras.Model(inputs, logits)


def make_encoder(words, elmo, settings):
    """The first GRU, with ELMo at its input and output: the same for question and context."""
    inputs, vectors = inputs_of(words, elmo), []
    if words is not None:
        vectors.append(words(inputs["words"]))
    if elmo is not None:
        vectors.append(mix_layers(inputs["layers"], settings))
    x = gru(layers.Concatenate()(vectors), settings.units)
    if elmo is not None:
        mix = mix_layers(inputs["layers"], settings, "output_mix")
        x = layers.Concatenate()([x, layers.Dropout(DROPOUT)(mix)])
    return keras.Model(inputs, x, name="encoder")


def gru(x, units):
    """The output of a new bidirectional GRU, whose input is dropped in part."""
    x = layers.Dropout(DROPOUT)(x)
    return layers.Bidirectional(layers.GRU(units, return_sequences=True))(x)


@keras.saving.register_keras_serializable("keras_elmo_examples")
class Similarity(layers.Layer):
    """The trilinear similarity of the words of two texts, `(B, T, U)`."""

    def build(self, first_shape, second_shape):
        self.first, self.second, self.both = (
            self.add_weight(name=name, shape=(first_shape[-1],), initializer="random_normal")
            for name in ("first", "second", "both")
        )

    def call(self, first, second):
        products = ops.einsum("btd,d,bud->btu", first, self.both, second)
        second = ops.expand_dims(ops.matmul(second, self.second), 1)
        return products + ops.expand_dims(ops.matmul(first, self.first), 2) + second

    def compute_mask(self, *inputs):
        return None


@keras.saving.register_keras_serializable("keras_elmo_examples")
class AttentionToQuestion(layers.Layer):
    """Compares context and question, by their similarity: to `(B, T, 4 * D)`."""

    supports_masking = True

    def call(self, context, question, alike, context_mask=None, question_mask=None):
        alike = hide_padding(alike, question_mask)
        attended = ops.matmul(ops.softmax(alike), question)
        # The words of the context that the question is about, in one vector.
        shares = ops.softmax(hide_padding(ops.max(alike, axis=-1), context_mask))
        about = ops.matmul(ops.expand_dims(shares, 1), context)
        parts = [context, attended, context * attended, about * attended]
        return ops.concatenate(parts, axis=-1)


@keras.saving.register_keras_serializable("keras_elmo_examples")
class AttentionToItself(layers.Layer):
    """Compares each word with all the others, by their similarity: to `(B, T, 3 * D)`."""

    supports_masking = True

    def call(self, x, alike, x_mask=None):
        alike = ops.where(ops.eye(ops.shape(x)[1], dtype="bool"), HIDDEN, alike)
        attended = ops.matmul(ops.softmax(hide_padding(alike, x_mask)), x)
        return ops.concatenate([x, attended, x * attended], axis=-1)


@keras.saving.register_keras_serializable("keras_elmo_examples")
class Logits(layers.Layer):
    """The numbers of words, -1e4 for padding: `(B, T, 1)` to `(B, T)`."""

    def call(self, x, mask=None):
        return hide_padding(ops.squeeze(x, -1), mask)

    def compute_mask(self, x, mask=None):
        return None


def hide_padding(scores, mask):
    """Scores, which are `HIDDEN` where the last axis is padding."""
    if mask is None:  # while Keras builds the model
        return scores
    return ops.where(mask if scores.ndim == 2 else ops.expand_dims(mask, 1), scores, HIDDEN)


def best_span(logits):
    """The most likely span of at most `LONGEST_ANSWER` tokens: its first and last token.

    Args:
        logits: Dict of "start" and "end", floats `(T,)`.
    """
    sums = logits["start"][:, None] + logits["end"]
    valid = np.triu(np.tri(*sums.shape, LONGEST_ANSWER - 1, dtype=bool))
    return np.unravel_index(np.where(valid, sums, -np.inf).argmax(), sums.shape)


def find_answers(model, items, contexts):
    """The answers to questions, parts of their contexts, from the items that encode them."""
    found = predict(model, items)
    return [text_of(context, best_span(logits)) for context, logits in zip(contexts, found)]


# 4. One run: training until the F1 on the development set stops rising, then the test.


def train(settings):
    """Trains and tests a reader; returns the scores, and the reader with ELMo in it."""
    data = experiments.read_parts(settings, read_questions)
    labels = [dict(zip(("start", "end"), np.array(x.span, np.int32))) for x in data["train"]]

    # ELMo's layers do not change in the training, so they are computed before it, once for each
    # text: the questions of a paragraph share it.
    texts, items = {}, {}
    for part in data:
        texts[part] = {text: tokenize(text)[0] for x in data[part] for text in (x.context, x.text)}
    sentences = {part: list(texts[part].values()) for part in data}
    words, elmo, encoded = prepare(settings, sentences)
    for part in data:
        found = dict(zip(texts[part], encoded[part]))
        items[part] = [pair_of(found[x.text], found[x.context]) for x in data[part]]

    keras.utils.set_random_seed(settings.seed)
    model = make_reader(words, elmo, settings)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0),
        loss={"start": loss, "end": loss},
        jit_compile=COMPILE_WITH_XLA,
    )

    def test(part):
        found = find_answers(model, items[part], [x.context for x in data[part]])
        return found, *scores([x.answers for x in data[part]], found)

    def score_dev():
        _, f1_of_dev, _ = test("dev")
        return f1_of_dev / 100

    batches = Batches(items["train"], labels, settings.batch_size, settings.seed)
    dev, best_epoch = fit(model, batches, score_dev, settings)
    found, f1_of_test, exact = test("test")
    write_answers(data["test"], found, settings)
    result = {
        "dev": dev,
        "test": f1_of_test,
        "exact match": exact,
        "best epoch": best_epoch,
        "input weights": mix_weights(model, "input_mix"),
        "output weights": mix_weights(model, "output_mix"),
    }
    return result, end_to_end(model, elmo)


def pair_of(question, context):
    """The inputs of a question on a context, from the inputs of the two texts."""
    return {**with_prefix("question_", question), **with_prefix("context_", context)}


def write_answers(questions, found, settings):
    """Writes the official format: JSON of `{id: answer}`."""
    path = Path(settings.output, f"{settings.features}-{settings.seed}-predictions.json")
    answers = {question.id: answer for question, answer in zip(questions, found)}
    path.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")


# 5. A trained reader, as `keras.models.load_model` loads it.


def answer(reader, context, questions):
    """The answers to questions on a context, parts of it; all are texts."""
    sentences = sentences_of([tokenize(text)[0] for text in (*questions, context)])
    *asked, read = encode(reader, sentences)
    items = [pair_of(question, read) for question in asked]
    return find_answers(reader, items, [context] * len(items))


# 6. The command line. Without --seeds and --features it is one run.


def run(settings):
    """Trains with all feature sets and seeds; returns the rows of the table."""
    return experiments.run_seeds(train, settings)


def parse(arguments=None):
    options = {"nargs": 2, "metavar": ("CONTEXT", "QUESTION"), "help": "a question"}
    defaults = {"output": "squad_output", "units": 90}
    parser = experiments.make_parser(__doc__, "answer", defaults, **options)
    return experiments.parse(parser, arguments)


def show(reader, texts):
    """Prints the answer to a question, a part of the context."""
    context, question = texts
    print(*answer(reader, context, [question]))


if __name__ == "__main__":
    experiments.main(parse(), run, show)

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
import dataclasses
import json
import re
import string

import keras
import numpy as np
from keras import ops

import harness
from attention import Similarity, concatenate
from features import PADDING, SentenceBatches
from reading import Data, open_text, sentences_of
from task_model import TaskModel

LONGEST_ANSWER = 17  # tokens

# 1. The data: paragraphs, questions, and where in the text the answers begin.

TOKEN = re.compile(r"\d+(?:[.,]\d+)+|\w+(?=n't\b)|n't\b|(?<=\w)'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")


@dataclasses.dataclass
class Questions(Data):
    """The questions of a file. The answers are texts, a list for each question.

    Args:
        ids: Their ids.
        spans: int `(N, 2)`: first and last token of the first answer.
        texts: The texts of the sentences, which are questions and contexts.
    """

    ids: list = ()
    spans: np.ndarray = ()
    texts: list = ()

    def found(self, spans):
        """The texts of spans, one in the context of each question."""
        contexts = (self.texts[context] for _, context in self.items)
        return [text_of(*pair) for pair in zip(contexts, spans)]


def read_questions(path):
    """Reads a file of SQuAD 1.1, plain, .gz or .xz.

    Raises:
        ValueError: if the file is not in SQuAD's format, or has no questions.
    """
    texts, items, answers, ids, spans = [], [], [], [], []
    try:
        with open_text(path) as file:
            articles = json.load(file)["data"]
        for paragraph in (x for article in articles for x in article["paragraphs"]):
            context = len(texts)
            texts.append(paragraph["context"])
            for question in paragraph["qas"]:
                items.append((len(texts), context))
                texts.append(question["question"])
                ids.append(question["id"])
                answers.append([answer["text"] for answer in question["answers"]])
                spans.append(span_of(texts[context], question["answers"][0]))
        sentences = sentences_of([tokenize(text)[0] for text in texts])
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file of SQuAD 1.1, where every question has an answer: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not items:
        raise ValueError(f"{path} has no questions.")
    return Questions(sentences, answers, np.array(items), ids, np.array(spans), texts)


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


class QuestionBatches(SentenceBatches):
    """Batches of `"question"` and `"context"`."""

    names = ("question", "context")


@keras.saving.register_keras_serializable("keras_elmo_examples")
class Reader(TaskModel):
    """BiDAF with self-attention.

    Args:
        **options: Passed to `TaskModel`; `units` is the size of the GRUs, in each direction, and
            `placement="output"` adds ELMo to the output of the first GRU.

    Call arguments:
        inputs: Dict of `QuestionBatches`: "question" and "context", each with "words", and
            "layers" or "elmo" for ELMo.

    Returns:
        Logits of the first and the last token of the answer, `(B, T, 2)`.

    Reference: Clark and Gardner 2018, section 3.1; Peters et al. 2018, section 4.
    """

    batches = QuestionBatches

    def __init__(self, units=90, dropout=0.2, placement="both", **options):
        super().__init__(units=units, dropout=dropout, placement=placement, **options)
        self.encoder, self.self_reader, self.start_reader, self.end_reader = (
            keras.layers.Bidirectional(keras.layers.GRU(units, return_sequences=True))
            for _ in range(4)
        )
        self.similarity, self.self_similarity = Similarity(), Similarity()
        self.compared, self.self_compared = (
            keras.layers.Dense(2 * units, activation="relu") for _ in range(2)
        )
        # A bias would change nothing: it is the same for all words.
        self.start, self.end = (keras.layers.Dense(1, use_bias=False) for _ in range(2))
        self.build()

    def example(self, words):
        return dict.fromkeys(QuestionBatches.names, super().example(words))

    def call(self, inputs, training=None):
        question, context = inputs["question"], inputs["context"]
        words, mask = (text["words"] != PADDING for text in (question, context))
        q = self.read(question, words, self.encoder, training)
        x = self.read(context, mask, self.encoder, training)
        x = self._attend_to_question(x, q, mask, words)
        x = x + self._attend_to_itself(self._read(self.self_reader, x, mask, training), mask)
        start = self._read(self.start_reader, x, mask, training)
        end = self._read(self.end_reader, concatenate(x, start), mask, training)
        logits = concatenate(self.start(start), self.end(end))
        return _where(ops.expand_dims(mask, -1), logits)

    def _read(self, reader, x, mask, training):
        return reader(self.drop(x, training=training), mask=mask, training=training)

    def _attend_to_question(self, x, q, mask, words):
        alike = _where(ops.expand_dims(words, 1), self.similarity(x, q))
        attended = ops.einsum("btu,bud->btd", ops.softmax(alike, axis=-1), q)
        # The words of the context that the question is about, in one vector.
        shares = ops.softmax(_where(mask, ops.max(alike, axis=-1)), axis=-1)
        about = ops.expand_dims(ops.einsum("bt,btd->bd", shares, x), 1)
        return self.compared(concatenate(x, attended, x * attended, about * attended))

    def _attend_to_itself(self, x, mask):
        others = ops.expand_dims(mask, 1) & ~ops.eye(ops.shape(x)[1], dtype="bool")
        alike = _where(others, self.self_similarity(x, x))
        attended = ops.einsum("btu,bud->btd", ops.softmax(alike, axis=-1), x)
        return self.self_compared(concatenate(x, attended, x * attended))

    def decode(self, outputs, inputs, sizes):
        """The most likely spans."""
        return best_spans(outputs).tolist()


def _where(mask, scores):
    return ops.where(mask, scores, ops.cast(-1e4, scores.dtype))


def best_spans(logits):
    """The most likely spans of at most `LONGEST_ANSWER` tokens, int `(B, 2)`, of logits."""
    sums = logits[:, :, None, 0] + logits[:, None, :, 1]
    valid = np.triu(np.ones(sums.shape[1:], bool))
    sums = np.where(valid & ~np.triu(valid, LONGEST_ANSWER), sums, -np.inf)
    best = sums.reshape(len(sums), -1).argmax(-1)
    return np.stack(np.unravel_index(best, sums.shape[1:]), axis=-1)


@keras.saving.register_keras_serializable("keras_elmo_examples")
def span_loss(spans, logits):
    """The cross-entropy of the first and of the last token, `(B,)`."""
    loss = keras.losses.sparse_categorical_crossentropy
    return sum(loss(spans[:, i], logits[..., i], from_logits=True) for i in range(2))


# 4. The experiment: one run with one seed.


class Experiment(harness.Experiment):
    model = Reader
    loss = staticmethod(span_loss)

    def __init__(self, settings):
        data = harness.read_parts(settings, read_questions)
        super().__init__(settings, data, data["train"].spans)

    def score(self, data, predicted):
        score, exact = scores(data.answers, data.found(predicted))
        return score, {"exact match": exact}

    def write(self, path, data, predicted):
        """The official format: JSON of `{id: answer}`."""
        answers = dict(zip(data.ids, data.found(predicted)))
        with open(f"{path}-predictions.json", "w", encoding="utf-8") as file:
            json.dump(answers, file, ensure_ascii=False)


def run(settings):
    """Trains with all feature sets and seeds, returns the rows of the table."""
    return harness.run_seeds(Experiment(settings), settings)


# 5. The command line.


def parse(arguments=None):
    options = {"nargs": 2, "metavar": ("CONTEXT", "QUESTION"), "help": "a question"}
    defaults = {"output": "squad_output", "units": 90}
    parser = harness.make_parser(__doc__, "answer", defaults, **options)
    return harness.parse(parser, arguments)


def show(model, texts):
    """Prints the answer to a question, a part of the context."""
    context, question = texts
    sentences = sentences_of([tokenize(text)[0] for text in (question, context)])
    data = Data(sentences, items=np.array([[0, 1]]))
    (span,) = model.predict_items(model.batches_of(data))
    print(text_of(context, span))


if __name__ == "__main__":
    harness.main(parse(), run, show)

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
set. The scores are F1 and exact match by the rules of the official script. The output folder
gets results.md, .csv and .json (mean and deviation over the seeds), the same for each run, the best
model of each feature set, and for each run the predictions in the official format, JSON of
`{id: answer}`.

`tiny_squad.json` in this folder shows that the program learns (a few minutes, F1 100 on the
training text): pass it as `--train`, `--dev` and `--test`. Training on SQuAD itself needs a GPU.
"""

import collections
import functools
import json
import re
import string
from pathlib import Path

import keras
import numpy as np
from keras import ops

import harness
from attention import Similarity, joined
from features import PADDING, PairBatches, open_text, prepare
from keras_elmo.files import atomic_write
from task_model import TaskModel

LONGEST_ANSWER = 17  # tokens

# 1. The data: paragraphs, questions, and where in the text the answers begin.

TOKEN = re.compile(r"\d+(?:[.,]\d+)+|\w+(?=n't\b)|n't\b|(?<=\w)'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]")


class Questions:
    """The questions of a file.

    Args:
        path: A file of SQuAD 1.1, plain, .gz or .xz.

    Attributes:
        ids, answers: For each question its id, and the texts of its answers.
        sentences: Lists of tokens: the contexts and the questions.
        pairs: int `(N, 2)`: which of the sentences are question and context.
        contexts, places: Each context's text, and where its tokens are in it, by its sentence.
        spans: int `(N, 2)`: first and last token of the first answer.

    Raises:
        ValueError: if the file is not in SQuAD's format, or has no questions.
    """

    def __init__(self, path):
        self.ids, self.answers, self.sentences = [], [], []
        self.contexts, self.places = {}, {}
        pairs, spans = [], []
        try:
            with open_text(path) as file:
                articles = json.load(file)["data"]
            for paragraph in (x for article in articles for x in article["paragraphs"]):
                context = self._add(paragraph["context"])
                for item in paragraph["qas"]:
                    answers = [(x["text"], x["answer_start"]) for x in item["answers"]]
                    spans.append(span_of(*answers[0], self.places[context], item["id"]))
                    pairs.append((self._add(item["question"]), context))
                    self.ids.append(item["id"])
                    self.answers.append([text for text, _ in answers])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a file of SQuAD 1.1, where every question has an answer: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not pairs:
            raise ValueError(f"{path} has no questions.")
        self.pairs, self.spans = np.array(pairs), np.array(spans)

    def _add(self, text):
        """The number of a text, a new sentence."""
        tokens, places = tokenize(text)
        if not tokens:
            raise IndexError(f"{text!r} has no words")
        number = len(self.sentences)
        self.sentences.append(tokens)
        self.contexts[number], self.places[number] = text, places
        return number

    def text_of(self, i, span):
        """The text of a span of tokens in the context of question `i`."""
        context = self.pairs[i, 1]
        places = self.places[context]
        return self.contexts[context][places[span[0]][0] : places[span[1]][1]]


def tokenize(text):
    """The tokens of a text, and the places where they begin and end in it."""
    found = list(TOKEN.finditer(text))
    return [match[0] for match in found], [match.span() for match in found]


def span_of(answer, start, places, name):
    """The first and last token of an answer, which begins at a character of the context."""
    inside = [i for i, (a, b) in enumerate(places) if a < start + len(answer) and b > start]
    if not inside:
        raise IndexError(f"the answer {answer!r} of question {name} is not in its context")
    return inside[0], inside[-1]


# 2. The scores, by the rules of the official script.


def normalized(answer):
    """An answer in lower case, without punctuation, articles and extra spaces."""
    kept = "".join(char for char in answer.lower() if char not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def exact_match(predicted, answer):
    return float(normalized(predicted) == normalized(answer))


def f1(predicted, answer):
    """The harmonic mean of precision and recall of the words; repeated words count repeatedly."""
    predicted, answer = normalized(predicted).split(), normalized(answer).split()
    common = sum((collections.Counter(predicted) & collections.Counter(answer)).values())
    return 2 * common / (len(predicted) + len(answer)) if common else 0.0


def scores(predicted, answers):
    """F1 and exact match in percent: for each question the best over its answers."""
    pairs = list(zip(predicted, answers))
    return tuple(
        100 * float(np.mean([max(score(text, x) for x in right) for text, right in pairs]))
        for score in (f1, exact_match)
    )


# 3. The model.


class QuestionBatches(PairBatches):
    """Batches of `"question"` and `"context"`, with the spans of the answers."""

    names = ("question", "context")

    def _labels(self, rows, inputs):
        return np.array([self.labels[row] for row in rows], np.int32)


@keras.saving.register_keras_serializable("keras_elmo_examples")
class Reader(TaskModel):
    """BiDAF with self-attention.

    Args:
        units: Size of the GRUs, in each direction.
        placement: As for `TaskModel`; `"output"` adds ELMo to the output of the first GRU.
        **options: Passed to `TaskModel`.

    Call arguments:
        inputs: Dict of `QuestionBatches`: "question" and "context", each with "words", and
            "layers" or "elmo" for ELMo.

    Returns:
        Logits of the first and the last token of the answer, `(B, T, 2)`.

    Reference: Clark and Gardner 2018, section 3.1; Peters et al. 2018, section 4.
    """

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

    def build_task(self, width, elmo_width):
        read = 2 * self.units
        encoded = read + elmo_width
        self.encoder.build((None, None, width))
        self.similarity.build((None, None, encoded), (None, None, encoded))
        self.compared.build((None, None, 4 * encoded))
        self.self_reader.build((None, None, read))
        self.self_similarity.build((None, None, read), (None, None, read))
        self.self_compared.build((None, None, 3 * read))
        self.start_reader.build((None, None, read))
        self.end_reader.build((None, None, 2 * read))
        for dense in (self.start, self.end):
            dense.build((None, None, read))

    def call(self, inputs, training=None):
        question, context = inputs["question"], inputs["context"]
        words, mask = (text["words"] != PADDING for text in (question, context))
        q = self.read(question, words, self.encoder, training)
        x = self.read(context, mask, self.encoder, training)
        x = self._attend_to_question(x, q, mask, words)
        x = x + self._attend_to_itself(self._read(self.self_reader, x, mask, training), mask)
        start = self._read(self.start_reader, x, mask, training)
        end = self._read(self.end_reader, joined(x, start), mask, training)
        logits = joined(self.start(start), self.end(end))
        return _where(ops.expand_dims(mask, -1), logits)

    def _read(self, reader, x, mask, training):
        return reader(self.drop(x, training=training), mask=mask, training=training)

    def _attend_to_question(self, x, q, mask, words):
        alike = _where(ops.expand_dims(words, 1), self.similarity(x, q))
        attended = ops.einsum("btu,bud->btd", ops.softmax(alike, axis=-1), q)
        # The words of the context that the question is about, in one vector.
        shares = ops.softmax(_where(mask, ops.max(alike, axis=-1)), axis=-1)
        about = ops.expand_dims(ops.einsum("bt,btd->bd", shares, x), 1)
        return self.compared(joined(x, attended, x * attended, about * attended))

    def _attend_to_itself(self, x, mask):
        others = ops.expand_dims(mask, 1) & ~ops.eye(ops.shape(x)[1], dtype="bool")
        alike = _where(others, self.self_similarity(x, x))
        attended = ops.einsum("btu,bud->btd", ops.softmax(alike, axis=-1), x)
        return self.self_compared(joined(x, attended, x * attended))

    def predict_spans(self, batches):
        """The most likely span for each question of `QuestionBatches`, int `(N, 2)`."""
        spans = np.zeros((len(batches.rows), 2), int)
        for rows, _, logits in self.predictions(batches):
            spans[rows] = best_spans(logits)
        return spans

    def answer(self, context, question):
        """The answer to a question, a part of the context; both are texts."""
        (tokens, places), (words, _) = tokenize(context), tokenize(question)
        sentences = harness.sentences_of([words, tokens])
        ((first, last),) = self.predict_spans(self.batches_of(sentences, QuestionBatches))
        return context[places[first][0] : places[last][1]]


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


class Experiment:
    """Trains and tests the model with a feature set and a seed.

    Args:
        settings: The options of the command line.
    """

    def __init__(self, settings):
        self.settings = settings
        self.data = {part: Questions(getattr(settings, part)) for part in ("train", "dev", "test")}
        sentences = {part: data.sentences for part, data in self.data.items()}
        self.prepare = functools.cache(lambda name: prepare(name, settings, sentences))

    def __call__(self, features, seed):
        data = self.data["train"]
        rows = harness.fraction_of(len(data.pairs), self.settings.fraction, seed)
        inputs = self.prepare(features).trained_on(np.unique(data.pairs[rows]))
        model = Reader.of(features, inputs, self.settings)
        train = self.batches(inputs, "train", labels=data.spans, rows=rows, seed=seed)
        dev, test = (self.batches(inputs, part) for part in ("dev", "test"))
        best, epoch = harness.train(
            model, train, lambda: self.scores(model, "dev", dev)[0], self.settings, loss=span_loss
        )
        path = Path(self.settings.output) / f"{features}-{seed}-predictions.json"
        score, exact = self.scores(model, "test", test, path)
        result = {
            "dev": best,
            "test": score,
            "exact match": exact,
            "best epoch": epoch,
            "input weights": harness.mix_weights(model.input_mix),
            "output weights": harness.mix_weights(model.output_mix),
        }
        return result, model

    def batches(self, inputs, part, **options):
        size = self.settings.batch_size
        pairs = self.data[part].pairs
        return inputs.batches(part, kind=QuestionBatches, pairs=pairs, batch_size=size, **options)

    def scores(self, model, part, batches, path=None):
        """F1 and exact match; with a path the answers are written there."""
        data = self.data[part]
        predicted = [data.text_of(*item) for item in enumerate(model.predict_spans(batches))]
        if path is not None:
            with atomic_write(path) as partial:
                answers = json.dumps(dict(zip(data.ids, predicted)), ensure_ascii=False)
                Path(partial).write_text(answers, encoding="utf-8")
        return scores(predicted, data.answers)


# 5. The command line.


def run(settings):
    """Trains with all feature sets and seeds, returns the rows of the table."""
    return harness.run_seeds(Experiment(settings), settings)


def parse(arguments=None):
    parser = harness.make_parser(__doc__.splitlines()[0], output="squad_output")
    parser.add_argument("--units", type=harness.positive, default=90, help="size of each GRU")
    parser.add_argument("--model", help="a saved model, to answer with")
    parser.add_argument("--answer", nargs=2, metavar=("CONTEXT", "QUESTION"), help="a question")
    return harness.parse(parser, arguments, alone="answer")


if __name__ == "__main__":
    settings = parse()
    if settings.answer is None:
        run(settings)
    else:
        model = keras.models.load_model(settings.model, compile=False)
        print(model.answer(*settings.answer))

"""Perplexity of a text: every word is scored once, by the full softmax."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.ops.compiled import CompiledFunction
from keras_elmo.pretrained.registry import check_language
from keras_elmo.text.reader import Files, TextStats
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.devices import distributed
from keras_elmo.training.evaluation_corpus import EvaluationCorpus
from keras_elmo.training.index import CorpusIndex, as_index


def _exp(mean):
    """exp, which is infinite for the mean of a model that has diverged."""
    with np.errstate(over="ignore"):
        return float(np.exp(np.float64(mean)))


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """How well each word of a sentence was predicted.

    Args:
        tokens: The tokens, `str`, without boundaries.
        forward: Negative log-likelihoods in nats, float32 `(len(tokens) + 1,)`: of each token given
            those before it, and of the sentence's end.
        backward: Of the sentence's beginning, and of each token given those after it, in the order
            of the text. `None` for a model of one direction.
    """

    tokens: list[str]
    forward: np.ndarray
    backward: np.ndarray | None

    @property
    def perplexity(self) -> float:
        """exp of the mean over both directions."""
        means = [x.mean(dtype="float64") for x in (self.forward, self.backward) if x is not None]
        return _exp(sum(means) / len(means))


@dataclasses.dataclass(frozen=True)
class PerplexityReport:
    """The perplexities of a text.

    Args:
        perplexity: exp of the mean of both directions' mean negative log-likelihood.
        forward, backward: Of each direction; `backward` is `None` for a model of one.
        sentences, tokens: Their numbers. Each direction predicts `tokens + sentences` words.
        unknown_tokens: Tokens that are not in the vocabulary, predicted as `<UNK>`.
        text: The `TextStats` of the reading.
    """

    perplexity: float
    forward: float
    backward: float | None
    sentences: int
    tokens: int
    unknown_tokens: int
    text: TextStats

    @property
    def unknown_rate(self) -> float:
        """Share of the tokens that are not in the vocabulary, 0 to 1."""
        return self.unknown_tokens / max(self.tokens, 1)


def perplexity(
    model: keras.Model,
    files: Files | CorpusIndex,
    vocabulary: Vocabulary,
    *,
    batch_size: int = 64,
    on_sentence: Callable[[SentenceScore], Any] | None = None,
) -> PerplexityReport:
    """Scores every word of a text once, each sentence separately, by the full softmax.

    LSTM states start from zero in each sentence, as in `ElmoLayer`: a score depends only on its
    sentence. For the perplexity of bilm-tf, which carries the states, see `bilm_tf_perplexity`.

    Args:
        model: A `BidirectionalLanguageModel`.
        files: Text with one tokenized sentence per line: a path, a glob pattern or a list of these;
            or a `CorpusIndex`.
        vocabulary: The model's `Vocabulary`.
        batch_size: Sentences scored together.
        on_sentence: A function called with the `SentenceScore` of each sentence, in order.

    Returns:
        A `PerplexityReport`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if the text has no sentences, or the vocabulary's size is not the model's.

    Example:

    >>> perplexity(model, "heldout.txt", vocabulary).perplexity
    118.3

    Reference: BILM_TF.md, "Language-model training".
    """
    return Scorer(model, batch_size).perplexity(files, vocabulary, on_sentence)


def bilm_tf_perplexity(
    model: keras.Model,
    files: Files | CorpusIndex,
    vocabulary: Vocabulary,
    *,
    batch_size: int = 256,
) -> tuple[float, int]:
    """The perplexity of bilm-tf's own test: LSTM states are carried from sentence to sentence.

    It depends on the batch size: when one row runs out of text, the rest of the other rows is not
    scored.

    Args:
        model, files, vocabulary: As for `perplexity`.
        batch_size: Rows.

    Returns:
        The perplexity, and the number of steps over which it is averaged.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if the text does not fill one step, or the vocabulary's size is not the model's.

    Reference: BILM_TF.md, "Language-model training".
    """
    scorer = Scorer(model, batch_size)
    corpus = scorer.corpus(files, vocabulary, carry_state=True)
    total = count = 0.0
    for _, weights, losses in scorer.scored(corpus):
        total += (losses * weights[:, None]).sum(dtype="float64") / losses.shape[1]
        count += weights.sum(dtype="float64")
    if not count:
        raise ValueError(
            f"The text is too short for one step of {batch_size} rows: use a smaller batch_size."
        )
    return _exp(total / count), round(count / batch_size)


def unigram_perplexity(
    files: Files | CorpusIndex, vocabulary: Vocabulary, counts: np.ndarray
) -> float:
    """The perplexity of word counts, which a language model should be far below.

    A word has its share of the training text, after one is added to the count of each word.

    Args:
        files: The text to score, as for `perplexity`.
        vocabulary: The `Vocabulary`.
        counts: How often each of its words occurs in the training text, from `Vocabulary.counts`.

    Returns:
        exp of the mean negative log-likelihood of a token or sentence end, in nats.

    Example:

    >>> words = count_words("shards/*")
    >>> unigram_perplexity("heldout.txt", vocabulary, vocabulary.counts(words))
    812.3
    """
    index = as_index(files)
    # No word is followed by the beginning of its sentence.
    frequencies = np.delete(counts + 1.0, vocabulary.begin_id)
    targets = np.delete(vocabulary.counts(index.word_counts), vocabulary.begin_id)
    return _exp(-np.average(np.log(frequencies / frequencies.sum()), weights=targets))


def shared_perplexities(
    models: Sequence[tuple[keras.Model, Vocabulary]],
    files: Files | CorpusIndex,
    batch_size: int = 64,
) -> tuple[list[float], float]:
    """The perplexities of several models over the words that all of them know.

    Perplexities over different vocabularies do not compare: a word that is not in a vocabulary is
    predicted as `<UNK>`, which is easy. Even these favor a smaller vocabulary a little, since each
    word has fewer competitors.

    Args:
        models: Pairs of a `BidirectionalLanguageModel` and its `Vocabulary`.
        files: The text, as for `perplexity`.
        batch_size: Sentences scored together.

    Returns:
        The perplexity of each model, and the share of the predicted words that are scored, 0 to 1:
        sentence ends and those words of the text that are in all vocabularies.

    Example:

    >>> models = [load_language_model("run"), load_language_model("default")]
    >>> shared_perplexities(models, "heldout.txt")
    ([97.5, 142.8], 0.93)
    """
    index = as_index(files)
    is_known = {word: all(word in words for _, words in models) for word in index.words}
    known = [
        np.array([*map(is_known.__getitem__, index.sentence(i)), True]) for i in range(len(index))
    ]
    perplexities = []
    for model, vocabulary in models:
        losses: list[np.ndarray] = []

        def collect(score, losses=losses):
            kept = known[len(losses)]
            found = [score.forward[kept]]
            if score.backward is not None:  # the beginning of the sentence last
                found.append(np.roll(score.backward, -1)[kept])
            losses.append(np.mean(found, axis=0))

        perplexity(model, index, vocabulary, batch_size=batch_size, on_sentence=collect)
        perplexities.append(_exp(np.concatenate(losses).mean(dtype="float64")))
    return perplexities, float(np.concatenate(known).mean())


class Scorer:
    """A language model as a compiled function of a batch and a state, to the loss of each word.

    Makes `perplexity` of several texts faster than the function, which compiles each time. Threads
    can share one.

    Args:
        language_model: A `BidirectionalLanguageModel`.
        batch_size: Sentences scored together.
    """

    def __init__(self, language_model: keras.Model, batch_size: int = 64):
        self.language_model, self.batch_size = language_model, batch_size
        self._function: CompiledFunction | None = None

    def _compiled(self, signature):
        """A function of the arrays of `signature` and the state (h, c)."""
        if self._function is None:
            model = self.language_model
            shapes = [(self.batch_size, *shape) for shape in model.backbone.state_shapes]
            state = [(shape, model.backbone.state_dtype) for shape in shapes]

            def losses(*arrays):
                *arrays, h, c = arrays
                inputs = dict(zip(signature, arrays))
                streams = model.token_vectors(inputs)
                tops, state = model.run(inputs, streams, (h, c), training=False)
                return ops.stack(model.word_losses(inputs, tops), axis=1), *state

            self._function = CompiledFunction(losses, model.variables, *signature.values(), *state)
        return self._function

    def corpus(
        self, files: Files | CorpusIndex, vocabulary: Vocabulary, **options: Any
    ) -> EvaluationCorpus:
        """A text as batches for this model."""
        self.language_model.check_vocabulary(vocabulary)
        config = self.language_model.config
        corpus = EvaluationCorpus(files, vocabulary, config, batch_size=self.batch_size, **options)
        check_language(self.language_model.language, corpus.stats.language)
        return corpus

    def scored(
        self, corpus: EvaluationCorpus
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The number of each row's sentence, weights `(B, T)` and losses `(B, D, T)`, by batch."""
        state = map(ops.convert_to_numpy, self.language_model.backbone.zero_state(self.batch_size))
        signature = {name: one for name, one in corpus.signature.items() if name != "weights"}
        function = self._compiled(signature)
        # All of a batch is on each device.
        with distributed(None):
            for numbers, batch in corpus.with_sentence_ids():
                losses, *state = function(*map(batch.get, signature), *state)
                yield numbers, batch["weights"], ops.convert_to_numpy(losses)

    def perplexity(
        self,
        files: Files | CorpusIndex,
        vocabulary: Vocabulary,
        on_sentence: Callable[[SentenceScore], Any] | None = None,
    ) -> PerplexityReport:
        """The result of the function `perplexity`."""
        corpus = self.corpus(files, vocabulary)
        totals = np.zeros(self.language_model.config.num_directions)
        for number, scores in enumerate(self._sentences(corpus)):
            totals += scores.sum(axis=1, dtype="float64")
            if on_sentence is not None:
                words = [word.decode() for word in corpus.index.sentence(number)]
                backward = scores[1][::-1] if len(scores) > 1 else None
                on_sentence(SentenceScore(words, scores[0], backward))
        stats, index = corpus.stats, corpus.index
        means = totals / stats.predictions
        return PerplexityReport(
            perplexity=_exp(means.mean()),
            forward=_exp(means[0]),
            backward=_exp(means[1]) if len(means) > 1 else None,
            sentences=stats.sentences,
            tokens=stats.tokens,
            unknown_tokens=int(vocabulary.counts(index.word_counts)[vocabulary.unknown_id]),
            text=stats,
        )

    def _sentences(self, corpus):
        """Losses of each sentence, float32 `(directions, words + 1)`, in order."""
        lengths = np.diff(corpus.index.starts) - 1
        parts, next_sentence = {}, 0
        for numbers, weights, losses in self.scored(corpus):
            for number, row, loss in zip(numbers.tolist(), weights, losses):
                if row[0]:
                    parts.setdefault(number, []).append(loss[:, : int(row.sum())])
            # A short sentence ends before a long one that began earlier.
            while next_sentence in parts:
                found = parts[next_sentence]
                if sum(part.shape[1] for part in found) < lengths[next_sentence]:
                    break
                yield np.concatenate(parts.pop(next_sentence), axis=1)
                next_sentence += 1

"""Perplexity of a text: every word is scored once, by the full softmax."""

import dataclasses
import itertools
import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.text.characters import ByteRules, distinct, pad_words, trim_characters
from keras_elmo.text.reader import Files, TextReport, find_files, read_sentences
from keras_elmo.text.vocabulary import BEGIN, END, UNKNOWN_KEY, Vocabulary, encode_vocabulary
from keras_elmo.training.batches import SUFFIXES
from keras_elmo.training.distribution import distributed
from keras_elmo.training.evaluation_corpus import EvaluationCorpus
from keras_elmo.training.files import raise_no_sentence

_WINDOW = 8  # words that are scored in one call of the compiled model
_SORTED_TOGETHER = 1024  # sentences that are sorted by length
_LOGITS_AT_ONCE = 32_000_000


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
        text: The `TextReport` of the reading.
    """

    perplexity: float
    forward: float
    backward: float | None
    sentences: int
    tokens: int
    unknown_tokens: int
    text: TextReport

    @property
    def unknown_rate(self) -> float:
        """Share of the tokens that are not in the vocabulary, 0 to 1."""
        return self.unknown_tokens / max(self.tokens, 1)


def perplexity(
    model: keras.Model,
    files: Files,
    vocabulary: Vocabulary,
    *,
    batch_size: int = 64,
    max_sentences: int | None = None,
    on_sentence: Callable[[SentenceScore], Any] | None = None,
) -> PerplexityReport:
    """Scores every word of a text once, each sentence on its own, by the full softmax.

    LSTM states start from zero in each sentence, as in `ElmoLayer`: a score depends on its sentence
    alone. For the figure of bilm-tf, which carries the states, see `bilm_tf_perplexity`.

    Args:
        model: A `BidirectionalLanguageModel`.
        files: Text of one tokenized sentence a line: a path, a glob pattern or a list of such.
        vocabulary: The model's `Vocabulary`.
        batch_size: Sentences scored together.
        max_sentences: Score only so many of the first sentences; `None` for all.
        on_sentence: A function called with the `SentenceScore` of each sentence, in order.

    Returns:
        A `PerplexityReport`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if there is no sentence, or the vocabulary has another size than the model's.

    Example:

    >>> perplexity(model, "heldout.txt", vocabulary).perplexity
    118.3

    Reference: BILM_TF.md, "Language-model training".
    """
    return Scorer(model, batch_size).perplexity(files, vocabulary, max_sentences, on_sentence)


def bilm_tf_perplexity(
    model: keras.Model, files: Files, vocabulary: Vocabulary, *, batch_size: int = 256
) -> tuple[float, int]:
    """The figure of bilm-tf's own test: LSTM states are carried from sentence to sentence.

    It depends on the batch size, and what is left in the other rows when one row runs out of text
    is not scored.

    Args:
        model, files, vocabulary: As for `perplexity`.
        batch_size: Rows.

    Returns:
        The perplexity, and the number of steps it is the mean of.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if the text does not fill one step, or the vocabulary has another size than the
            model's.

    Reference: BILM_TF.md, "Language-model training".
    """
    model.check_vocabulary(vocabulary)
    scorer = Scorer(model, batch_size)
    # bilm-tf moves one word at a time, which decides which row takes which sentence.
    corpus = EvaluationCorpus(
        files,
        vocabulary,
        batch_size=batch_size,
        unroll_steps=1,
        max_characters_per_token=model.config.row_width or None,
        distinct_words=False,
        bidirectional=model.config.bidirectional,
        remainder="drop",
    )
    steps = iter(corpus)
    state = scorer.zero_state()
    total = count = 0
    while window := list(itertools.islice(steps, _WINDOW)):
        num_steps = len(window)
        window += window[-1:] * (_WINDOW - num_steps)
        batch = {name: np.concatenate([one[name] for one in window], axis=1) for name in window[0]}
        spelled = [batch.pop(name) for name in list(batch) if name.startswith("tokens_characters")]
        if spelled:
            rows = np.concatenate([one.reshape(-1, one.shape[-1]) for one in spelled])
            words, index = distinct(map(bytes, rows))
            rows = np.frombuffer(b"".join(words), rows.dtype).reshape(-1, rows.shape[1])
            batch.update(scorer.word_arrays(rows, index))
        losses, state = scorer.score(batch, state)
        total += losses[:, :, :num_steps].sum(dtype="float64") / len(losses)
        count += num_steps
    if not count:
        raise ValueError(f"The text does not fill one step of {batch_size} rows.")
    return _exp(total / (count * batch_size)), count


class Scorer(keras.Model):
    """A language model as a compiled function of a batch and a state.

    Makes `perplexity` of several texts faster than the function, which compiles anew. Threads can
    share one.
    """

    def __init__(self, language_model: keras.Model, batch_size: int = 64):
        super().__init__(dtype=language_model.dtype_policy, name="scorer")
        self.batch_size = batch_size
        self.language_model = language_model
        self.num_directions = language_model.config.num_directions
        self.jit_compile = keras.backend.backend() == "jax"
        self.autocast = False  # Keras would round the state to the compute dtype
        self.lock = threading.Lock()  # JAX gives the buffers of a running call away
        self.built = True

    def perplexity(
        self,
        files: Files,
        vocabulary: Vocabulary,
        max_sentences: int | None = None,
        on_sentence: Callable[[SentenceScore], Any] | None = None,
    ) -> PerplexityReport:
        """What the function `perplexity` returns."""
        self.language_model.check_vocabulary(vocabulary)
        paths, text, ids = find_files(files), TextReport(), vocabulary.id_table()
        every = (tokens for path in paths for tokens in read_sentences(path, text))
        sentences = itertools.islice(every, max_sentences)
        totals = np.zeros(self.num_directions)
        num_sentences = num_tokens = num_unknown = 0
        # All of a batch is on each device; reading is not split.
        with distributed(None):
            while block := list(itertools.islice(sentences, _SORTED_TOGETHER)):
                for tokens, scores in zip(block, self._score_block(block, ids)):
                    totals += scores.sum(axis=1, dtype="float64")
                    num_sentences, num_tokens = num_sentences + 1, num_tokens + len(tokens)
                    num_unknown += vocabulary.count_unknown(tokens)
                    if on_sentence is not None:
                        words = [token.decode() for token in tokens]
                        backward = scores[1][::-1] if len(scores) > 1 else None
                        on_sentence(SentenceScore(words, scores[0], backward))
        if not num_sentences:
            raise_no_sentence(paths)
        means = totals / (num_tokens + num_sentences)
        return PerplexityReport(
            perplexity=_exp(means.mean()),
            forward=_exp(means[0]),
            backward=_exp(means[1]) if len(means) > 1 else None,
            sentences=num_sentences,
            tokens=num_tokens,
            unknown_tokens=num_unknown,
            text=text,
        )

    def _score_block(self, block, ids):
        """Losses of sentences, float32 arrays (directions, words + 1), in their order."""
        order = sorted(range(len(block)), key=lambda i: len(block[i]))
        scores = [None] * len(block)
        for start in range(0, len(order), self.batch_size):
            places = order[start : start + self.batch_size]
            for i, losses in zip(places, self._score_batch([block[i] for i in places], ids)):
                scores[i] = losses
        return scores

    def _score_batch(self, sentences, ids):
        """In windows, of which one at a time is in memory: a line may be very long."""
        rows = [[BEGIN, *tokens, END] for tokens in sentences]
        streams = (rows, [row[::-1] for row in rows])[: self.num_directions]
        parts, state = [[] for _ in rows], self.zero_state()
        for start in range(0, max(map(len, rows)) - 1, _WINDOW):
            losses, state = self.score(self._window(streams, start, ids), state)
            for row, part, loss in zip(rows, parts, np.moveaxis(losses, 1, 0)):
                if start < len(row) - 1:
                    part.append(loss[:, : len(row) - 1 - start])
        return [np.concatenate(part, axis=1) for part in parts]

    def _window(self, streams, start, ids):
        """A batch of one shape, whatever is in it: the model is compiled once."""
        shape = self.batch_size, _WINDOW + 1
        words = np.full((len(streams), *shape), END, object)
        for rows, places in zip(streams, words):
            for row, place in zip(rows, places):
                part = row[start : start + _WINDOW + 1]
                place[: len(part)] = part
        numbers = np.array([ids.get(word, ids[UNKNOWN_KEY]) for word in words.flat], np.int32)
        batch = {}
        for suffix, places in zip(SUFFIXES, numbers.reshape(words.shape)):
            batch[f"token_ids{suffix}"] = places[:, :-1]
            batch[f"next_token_id{suffix}"] = places[:, 1:]
        if width := self.language_model.config.row_width:
            found, index = distinct(words[:, :, :-1].ravel().tolist())
            batch.update(self.word_arrays(encode_vocabulary(found, ByteRules(width)), index))
        return batch

    def word_arrays(self, rows, index):
        """The characters of a batch's distinct words, and the place of each word in them."""
        rows = trim_characters(rows, self.language_model.config.widest_filter)
        parts = index.reshape(-1, self.batch_size, _WINDOW)
        indices = {f"word_index{suffix}": part for suffix, part in zip(SUFFIXES, parts)}
        return {"word_characters": pad_words(rows, index.size), **indices}

    def call(self, inputs):
        model = self.language_model
        streams = model.token_vectors(inputs)
        tops, (h, c) = model.bilm.read_streams(streams, (inputs["h"], inputs["c"]))
        return {"losses": ops.stack(self._word_losses(inputs, tops)), "h": h, "c": c}

    def _word_losses(self, inputs, tops):
        """In slices of time, since a word of the window has a logit for each of the vocabulary."""
        model = self.language_model
        num_logits = self.batch_size * _WINDOW * model.vocabulary_size
        num_slices = min(_WINDOW, -(-num_logits // _LOGITS_AT_ONCE))
        edges = [_WINDOW * i // num_slices for i in range(num_slices + 1)]
        slices = []
        for start, stop in itertools.pairwise(edges):
            part = {name: inputs[name][:, start:stop] for name in inputs if "next_token" in name}
            slices.append(model.word_losses(part, [top[:, start:stop] for top in tops]))
        return [ops.concatenate(parts, axis=1) for parts in zip(*slices)]

    def score(self, batch, state):
        """Losses `(directions, B, T)` as an array, and the state after the batch."""
        with self.lock:
            outputs = self.predict_on_batch({**batch, "h": state[0], "c": state[1]})
        return outputs["losses"], (outputs["h"], outputs["c"])

    def zero_state(self):
        return tuple(map(ops.convert_to_numpy, self.language_model.zero_state(self.batch_size)))

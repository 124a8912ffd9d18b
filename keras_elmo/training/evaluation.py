"""Perplexity of a text: every word is scored once, by the full softmax."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_elmo.text.characters import distinct, encode_sentences, pad_words, trim_characters
from keras_elmo.text.reader import TextReport, find_files, read_sentences
from keras_elmo.text.vocabulary import Vocabulary
from keras_elmo.training.batches import SUFFIXES
from keras_elmo.training.evaluation_corpus import EvaluationCorpus

_WINDOW = 8  # words that are scored in one call of the compiled model
_SORTED_TOGETHER = 1024  # sentences that are sorted by length
_LOGITS_AT_ONCE = 32_000_000


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
        return math.exp(sum(means) / len(means))


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
    files: Any,
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
    _check_vocabulary(model, vocabulary)
    scorer = _Scorer(model, batch_size)
    text = TextReport()
    every = (tokens for path in find_files(files) for tokens in read_sentences(path, text))
    sentences = itertools.islice(every, max_sentences)
    totals = np.zeros(model.config.num_directions)
    num_sentences = num_tokens = num_unknown = 0
    while block := list(itertools.islice(sentences, _SORTED_TOGETHER)):
        for tokens, scores in zip(block, _score_block(scorer, block, vocabulary)):
            totals += scores.sum(axis=1, dtype="float64")
            num_sentences, num_tokens = num_sentences + 1, num_tokens + len(tokens)
            num_unknown += vocabulary.count_unknown(tokens)
            if on_sentence is not None:
                words = [token.decode() for token in tokens]
                backward = scores[1][::-1] if len(scores) > 1 else None
                on_sentence(SentenceScore(words, scores[0], backward))
    if not num_sentences:
        raise ValueError(f"There is no sentence in {files}.")
    means = totals / (num_tokens + num_sentences)
    return PerplexityReport(
        perplexity=math.exp(means.mean()),
        forward=math.exp(means[0]),
        backward=math.exp(means[1]) if len(means) > 1 else None,
        sentences=num_sentences,
        tokens=num_tokens,
        unknown_tokens=num_unknown,
        text=text,
    )


def bilm_tf_perplexity(
    model: keras.Model, files: Any, vocabulary: Vocabulary, *, batch_size: int = 256
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
    _check_vocabulary(model, vocabulary)
    scorer = _Scorer(model, batch_size)
    # bilm-tf moves one word at a time, which decides which row takes which sentence.
    corpus = EvaluationCorpus(
        files,
        vocabulary,
        batch_size=batch_size,
        unroll_steps=1,
        max_characters_per_token=_width(model),
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
        losses, state = scorer.score(batch, state)
        total += losses[:, :, :num_steps].sum(dtype="float64") / len(losses)
        count += num_steps
    if not count:
        raise ValueError(f"The text does not fill one step of {batch_size} rows.")
    return math.exp(total / (count * batch_size)), count


def _score_block(scorer, block, vocabulary):
    """Losses of sentences, float32 arrays (directions, words + 1), in their order."""
    order = sorted(range(len(block)), key=lambda i: len(block[i]))
    scores = [None] * len(block)
    for start in range(0, len(order), scorer.batch_size):
        places = order[start : start + scorer.batch_size]
        losses = _score_batch(scorer, [block[i] for i in places], vocabulary)
        for i, row in zip(places, np.moveaxis(losses, 1, 0)):
            scores[i] = row[:, : len(block[i]) + 1]
    return scores


def _score_batch(scorer, sentences, vocabulary):
    """Losses float32 (directions, batch size, steps) of sentences."""
    streams = _streams(scorer, sentences, vocabulary)
    num_steps = streams["token_ids"].shape[1] - 1
    results, state = [], scorer.zero_state()
    for start in range(0, num_steps, _WINDOW):
        stop = start + _WINDOW
        batch = {name: stream[:, start:stop] for name, stream in streams.items()}
        for suffix in SUFFIXES:
            targets = streams[f"token_ids{suffix}"][:, start + 1 : stop + 1]
            batch[f"next_token_id{suffix}"] = targets
        losses, state = scorer.score(batch, state)
        results.append(losses)
    return np.concatenate(results, axis=2)


def _streams(scorer, sentences, vocabulary):
    """Both streams of a batch of sentences by the names of its arrays, padded to whole windows."""
    width = _width(scorer.language_model)
    num_steps = -(-(max(map(len, sentences)) + 1) // _WINDOW) * _WINDOW
    # Batches of one size, whatever is in them: the model is compiled once.
    ids = np.zeros((scorer.batch_size, num_steps + 1), np.int32)
    lengths = [len(sentence) + 2 for sentence in sentences]
    begin, end = vocabulary.begin_id, vocabulary.end_id
    for row, length, sentence in zip(ids, lengths, sentences):
        row[:length] = [begin, *vocabulary.ids(sentence), end]
    streams = {"token_ids": ids}
    if width is not None:
        streams["tokens_characters"] = np.zeros((*ids.shape, width), np.int32)
        characters = encode_sentences(sentences, width)
        streams["tokens_characters"][: len(sentences), : characters.shape[1]] = characters
    for name, stream in list(streams.items()):
        reverse = np.zeros_like(stream)
        for row, length in enumerate(lengths):
            reverse[row, :length] = stream[row, :length][::-1]
        streams[f"{name}_reverse"] = reverse
    return streams


class _Scorer(keras.Model):
    """A language model as a compiled function of a batch and a state."""

    def __init__(self, language_model, batch_size):
        super().__init__(dtype=language_model.dtype_policy, name="scorer")
        self.batch_size = batch_size
        self.language_model = language_model
        self.num_directions = language_model.config.num_directions
        self.jit_compile = keras.backend.backend() == "jax"
        self.built = True

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
        batch = dict(batch)
        names = [name for name in batch if name.startswith("tokens_characters")]
        if names:
            widest = self.language_model.config.widest_filter
            batch.update(_distinct([batch.pop(name) for name in names], widest))
        outputs = self.predict_on_batch({**batch, "h": state[0], "c": state[1]})
        return outputs["losses"], (outputs["h"], outputs["c"])

    def zero_state(self):
        return tuple(map(ops.convert_to_numpy, self.language_model.zero_state(self.batch_size)))


def _distinct(spelled, widest):
    """Characters of positions (B, T, C), one array a direction, to those of distinct words."""
    shape = spelled[0].shape[:2]
    rows = np.concatenate([one.reshape(-1, one.shape[-1]) for one in spelled])
    words, index = distinct(row.tobytes() for row in rows)
    words = np.frombuffer(b"".join(words), rows.dtype).reshape(-1, rows.shape[1])
    words = pad_words(trim_characters(words, widest), len(rows))
    parts = np.split(index, len(spelled))
    indices = {f"word_index{end}": part.reshape(shape) for end, part in zip(SUFFIXES, parts)}
    return {"word_characters": words, **indices}


def _width(model):
    return model.config.max_characters_per_token if model.config.reads_characters else None


def _check_vocabulary(model, vocabulary):
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            f"The vocabulary has {len(vocabulary):,} words, the model predicts "
            f"{model.vocabulary_size:,}. Use the vocabulary the model was trained with."
        )

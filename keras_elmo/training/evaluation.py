"""Perplexity of a text: every word scored once, by the full softmax."""

import dataclasses
import itertools
import math

import keras
import numpy as np
from keras import ops

from keras_elmo.text.characters import encode_sentences, trim_characters
from keras_elmo.text.reader import TextReport, find_files, read_sentences
from keras_elmo.training.evaluation_corpus import EvaluationCorpus

_WINDOW = 8
_SORTED_TOGETHER = 1024
_LOGITS_AT_ONCE = 32_000_000


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """How well each word of a sentence was predicted.

    Args:
        tokens: The tokens, `str`, without boundaries.
        forward: Negative log probabilities in nats, float32 `(len(tokens) + 1,)`: of each token
            from those before it, and of the sentence's end.
        backward: Of the sentence's beginning, and of each token from those behind it; in the order
            of the text. `None` for a model of one direction.
    """

    tokens: list
    forward: np.ndarray
    backward: np.ndarray | None

    @property
    def perplexity(self):
        """exp of the mean over both directions."""
        means = [x.mean(dtype="float64") for x in (self.forward, self.backward) if x is not None]
        return math.exp(sum(means) / len(means))


@dataclasses.dataclass(frozen=True)
class PerplexityReport:
    """Perplexities of a text.

    Args:
        perplexity: exp of the mean of both directions' mean negative log probability.
        forward, backward: Of each direction; `backward` is `None` for a model of one.
        sentences, tokens: What was read. Each direction predicts `tokens + sentences` words.
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
    def unknown_rate(self):
        """Share of the tokens that are not in the vocabulary, 0 to 1."""
        return self.unknown_tokens / max(self.tokens, 1)


def perplexity(model, files, vocabulary, *, batch_size=64, max_sentences=None, on_sentence=None):
    """Scores every word of a text once, each sentence for itself, by the full softmax.

    LSTMs start each sentence from zero, as `ElmoLayer` does. So a score depends on its sentence
    alone, neither on its neighbors nor on the batch size. For the figure of bilm-tf, whose LSTMs
    go on from sentence to sentence, see `bilm_tf_perplexity`.

    Args:
        model: A `BidirectionalLanguageModel`.
        files: Text of one tokenized sentence a line: a path, a glob pattern or a list of such.
        vocabulary: The model's `Vocabulary`.
        batch_size: Sentences scored together.
        max_sentences: Score only so many of the first sentences; `None` for all.
        on_sentence: Called with a `SentenceScore` for each sentence, in order, or `None`.

    Returns:
        A `PerplexityReport`.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if there is no sentence, or the vocabulary is not of the model's size.

    Example:

    >>> perplexity(model, "heldout.txt", vocabulary).perplexity
    118.3

    Reference: BILM_TF.md, "Language-model training".
    """
    _check_vocabulary(model, vocabulary)
    scorer = _Scorer(model, batch_size)
    text = TextReport()
    sentences = itertools.chain.from_iterable(
        read_sentences(path, text) for path in find_files(files)
    )
    sentences = itertools.islice(sentences, max_sentences)
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


def bilm_tf_perplexity(model, files, vocabulary, *, batch_size=256):
    """The figure that bilm-tf's own test gives: LSTMs go on from sentence to sentence.

    It depends on the batch size, and what is left in the other rows when one row runs out of text
    is not scored.

    Args:
        model: A `BidirectionalLanguageModel`.
        files: Text of one tokenized sentence a line: a path, a glob pattern or a list of such.
        vocabulary: The model's `Vocabulary`.
        batch_size: Rows.

    Returns:
        The perplexity, a float, and the number of steps it is the mean of.

    Raises:
        FileNotFoundError: if a pattern matches no file.
        ValueError: if the text does not fill one step, or the vocabulary is not of the model's
            size.

    Reference: BILM_TF.md, "Language-model training".
    """
    _check_vocabulary(model, vocabulary)
    scorer = _Scorer(model, batch_size)
    # bilm-tf moves one word at a time, which decides what row takes which sentence.
    steps = iter(
        EvaluationCorpus(
            files,
            vocabulary,
            batch_size=batch_size,
            unroll_steps=1,
            max_characters_per_token=_width(model),
            distinct_words=False,
            bidirectional=model.config.bidirectional,
            remainder="drop",
        )
    )
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
        sentences = [block[i] for i in places]
        for i, score in zip(places, _score_batch(scorer, sentences, vocabulary)):
            scores[i] = score
    return scores


def _score_batch(scorer, sentences, vocabulary):
    width = _width(scorer.language_model)
    longest = max(map(len, sentences)) + 1
    # Every batch has the same shape, whatever is in it: one is compiled.
    padded = -(-longest // _WINDOW) * _WINDOW
    ids = np.zeros((scorer.batch_size, padded + 1), np.int32)
    reverse = np.zeros_like(ids)
    for row, sentence in enumerate(sentences):
        line = [vocabulary.begin_id, *vocabulary.ids(sentence), vocabulary.end_id]
        ids[row, : len(line)] = line
        reverse[row, : len(line)] = line[::-1]
    streams = {"": ids, "_reverse": reverse}
    if width is not None:
        characters = np.zeros((scorer.batch_size, padded + 1, width), np.int32)
        rows = encode_sentences(sentences, width)
        characters[: len(rows), : rows.shape[1]] = rows[:, : padded + 1]
        backward = np.zeros_like(characters)
        for row, sentence in enumerate(sentences):
            length = len(sentence) + 2
            backward[row, :length] = rows[row, :length][::-1]
        spelled = {"": characters, "_reverse": backward}
    shape = (scorer.num_directions, scorer.batch_size, padded)
    results = np.zeros(shape, np.float32)
    state = scorer.zero_state()
    for start in range(0, padded, _WINDOW):
        stop = start + _WINDOW
        batch = {}
        for suffix, stream in streams.items():
            batch[f"token_ids{suffix}"] = stream[:, start:stop]
            batch[f"next_token_id{suffix}"] = stream[:, start + 1 : stop + 1]
            if width is not None:
                batch[f"tokens_characters{suffix}"] = spelled[suffix][:, start:stop]
        losses, state = scorer.score(batch, state)
        results[:, :, start:stop] = losses
    lengths = [len(sentence) + 1 for sentence in sentences]
    return [results[:, row, :length] for row, length in enumerate(lengths)]


class _Scorer(keras.Model):
    """A language model as a function of a batch and a state, compiled on every backend."""

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
        """In slices of time, since each word of the window has a logit for the whole vocabulary."""
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
        """Losses (directions, B, T) as an array, and the state after."""
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
    words, index = np.unique(rows, axis=0, return_inverse=True)
    words = trim_characters(words, widest)
    step = max(16, len(rows) // 32)
    words = np.pad(words, ((0, -len(words) % step), (0, 0)))
    parts = np.split(index.reshape(-1).astype(np.int32), len(spelled))
    names = ("word_index", "word_index_reverse")
    return {
        "word_characters": words,
        **{name: part.reshape(shape) for name, part in zip(names, parts)},
    }


def _width(model):
    return model.config.max_characters_per_token if model.config.reads_characters else None


def _check_vocabulary(model, vocabulary):
    if len(vocabulary) != model.vocabulary_size:
        raise ValueError(
            f"The vocabulary has {len(vocabulary):,} words, the model predicts "
            f"{model.vocabulary_size:,}. Use the vocabulary that the model was trained with."
        )

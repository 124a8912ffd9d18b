"""A complete training of a language model, from its settings: what `keras-elmo train` runs."""

import contextlib
import csv
import dataclasses
import functools
import logging
import os
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import keras
from keras import ops

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write, remove_partials
from keras_elmo.locks import locked
from keras_elmo.pretrained.folder import CHECKPOINTS, EXPORTED, LOG, last_state
from keras_elmo.pretrained.formats import VOCABULARY
from keras_elmo.pretrained.language_models import check_no_lexicon
from keras_elmo.pretrained.locate import find_model_files
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.progress import duration, progress_bar
from keras_elmo.text.reader import pluralize
from keras_elmo.text.vocabulary import VOCABULARY_LIMITS, Vocabulary
from keras_elmo.training.checkpoint import TrainingCheckpoint
from keras_elmo.training.corpus import LanguageModelCorpus
from keras_elmo.training.devices import (
    check_devices,
    is_first_process,
    join_processes,
    split_batches,
)
from keras_elmo.training.evaluation import PerplexityReport, perplexity, unigram_perplexity
from keras_elmo.training.evaluation_corpus import EvaluationCorpus
from keras_elmo.training.index import CorpusIndex
from keras_elmo.training.language_model import BidirectionalLanguageModel
from keras_elmo.training.loading import (
    copy_weights,
    load_language_model,
    saved_model,
    start_from,
    training_summary,
)
from keras_elmo.training.neighbors import word_neighbors
from keras_elmo.training.optimizer import TrapezoidSchedule, bilm_tf_optimizer
from keras_elmo.training.settings import (
    PRESETS,
    TrainingSettings,
    read_record,
    write_record,
)

_log = logging.getLogger(__name__)

_SECONDS_TO_FIRST_LINE, _SECONDS_BETWEEN_LINES = 10, 60


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """The result of a training run.

    Args:
        model: The `BidirectionalLanguageModel`.
        vocabulary: Its `Vocabulary`.
        folder: Where the model was written, for `ElmoLayer`, bilm-tf and AllenNLP.
        history: A dict for each report: `step`, `epoch` (passes over the text so far), the losses
            and perplexities, with the prefix `val_` for the held-out text.
        report: The `PerplexityReport` of the held-out text, or `None`.
        unigram_perplexity: The perplexity of word counts on it; see the function of this name.
    """

    model: BidirectionalLanguageModel
    vocabulary: Vocabulary
    folder: Path
    history: list[dict[str, float]]
    report: PerplexityReport | None
    unigram_perplexity: float | None


def train(
    settings: TrainingSettings,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    *,
    show_progress: bool | None = False,
) -> TrainingResult:
    """Trains a language model, or resumes a training run that was stopped.

    Indexes the corpus, builds the vocabulary, trains with checkpoints and reports, evaluates, and
    exports the model. Called again with the same settings, it ends with the same weights as a
    training run that was never stopped. Logs to the logger `keras_elmo`.

    Written to `settings.output`: `index/` (the text as ids, 4 bytes per token), `checkpoints/`,
    `log.csv` (a row for each report), `vocabulary.txt`, `training.json` (the settings), `model/`
    (options.json, weights.hdf5, softmax.hdf5, vocabulary.txt and a model card, README.md) and, last
    of all, an empty file `exported`.

    Args:
        settings: The `TrainingSettings`.
        callbacks: Further Keras callbacks. An epoch of theirs is `settings.checkpoint_every` steps,
            with `val_perplexity` in its logs; the last one may be shorter.
        show_progress: Whether to show progress bars; `None` if standard error is a terminal.

    Returns:
        A `TrainingResult`.

    Raises:
        BlockingIOError: if another training is running in the folder.
        FileExistsError: if the folder holds files that a run would replace, but no run.
        FileNotFoundError: if a text or a model to start from does not exist.
        ValueError: if the folder holds a training run with different settings, vocabulary or text,
            or a setting does not fit the corpus.

    Example:

    >>> result = train(TrainingSettings(files="shards/*", output="run", held_out="heldout.txt"))
    >>> result.report.perplexity
    118.3
    >>> elmo = ElmoLayer(result.folder)
    """
    settings.check_files()
    folder = Path(settings.output)
    record = read_record(folder)
    start = saved_model(settings.start_from) if settings.start_from and not record else None
    config = _architecture(settings, start, record)
    if record:
        settings = settings.resumed(record)
    if settings.tensorboard and not all(map(find_spec, ("tensorboard", "tensorflow"))):
        raise ValueError("tensorboard=True needs: pip install 'keras-elmo[tensorboard]'")
    shard = join_processes(settings.process, settings.hosts)
    check_devices(settings.devices or 1, shard[1])
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if is_first_process():
            lock = locked(folder / ".lock", f"Another training is running in {folder}")
            stack.enter_context(lock)
            remove_partials(folder)
            remove_partials(folder / "model")
        read = functools.partial(
            CorpusIndex.build, tokenize=settings.tokenize, field=settings.field
        )
        index = read(settings.files, folder / "index", show_progress=show_progress)
        for line in index.stats.lines():
            _log.info(line)
        held_out = None
        if settings.held_out:
            held_out = read(settings.held_out, folder / "index" / "held_out")
        is_chosen = settings.set_aside is not None or settings.held_out or settings.recipe
        settings = settings.with_set_aside(len(index))
        if settings.set_aside:
            size = pluralize(settings.set_aside, "sentence")
            _log.info(f"Held out: the last {size} of the text, which are not trained on")
            held_out = index.last(settings.set_aside)
            index = index.first(len(index) - settings.set_aside)
        elif not is_chosen:
            _log.warning(
                f"Held out: nothing, since the text has only {pluralize(len(index), 'sentence')}. "
                "Pass tokenize (--tokenize) to split lines of more than one sentence."
            )
        options = config.training_options if config else {}
        settings = settings.resolved(options, index.stats.predictions)
        config = dataclasses.replace(config or PRESETS[settings.preset], training_options={})
        stack.enter_context(split_batches(settings.batch_size, settings.devices, shard[1]))
        texts = index, held_out
        return _train(
            folder, settings, config, start, texts, shard, callbacks, show_progress, record
        )


def _architecture(settings, start, record):
    """The architecture with bilm-tf's options, `None` if it follows from the size of the text."""
    if record:
        return ElmoConfig.from_dict(record["config"])
    config = settings.architecture()
    if start is not None:
        config = dataclasses.replace(start.config, training_options={})
    if config is not None:
        check_no_lexicon(config)
    return config


def _train(folder, settings, config, start, texts, shard, callbacks, show_progress, record):
    index, held_out_index = texts
    vocabulary, counts = _vocabulary(settings, index.word_counts)
    num_steps = settings.steps
    batch_words = settings.batch_size * settings.unroll_steps
    steps_per_pass = index.stats.predictions // batch_words
    keras.utils.set_random_seed(settings.seed)
    model = _model(settings, config, counts)
    rate = _learning_rate(settings, num_steps)
    model.compile(_optimizer(settings, rate))
    rows = {
        "batch_size": settings.batch_size // shard[1],
        # The words of a batch that is split are in one shape for all devices.
        "distinct_words": settings.devices == shard[1] == 1,
    }
    corpus = LanguageModelCorpus(
        index,
        vocabulary,
        config,
        unroll_steps=settings.unroll_steps,
        seed=settings.seed,
        shard=shard,
        **rows,
    )
    held_out = None
    if held_out_index is not None:
        first = held_out_index.first(settings.evaluate_sentences)
        held_out = EvaluationCorpus(first, vocabulary, config, **rows)
    _log_plan(model, settings, num_steps, steps_per_pass)
    run = _Run(folder, settings, rate, steps_per_pass)
    step = run.restore(model, corpus)
    if not step and last_state(folder) == folder / "model":
        raise ValueError(
            f"{folder} holds the model of a training run that has ended, but no valid checkpoint "
            "to continue it: choose a different output, or remove the folder. To start with the "
            f"weights of that model, pass start_from={os.fspath(folder)!r}."
        )
    if step > num_steps:
        raise ValueError(
            f"{folder} holds a training run of {step:,} steps, more than steps={num_steps}: pass a "
            "larger number to continue it, or a different output."
        )
    if step:
        _check_learning_rate(rate, run, folder)
        if held_out is None and settings.patience and run.best_step and not run.has_ended:
            raise ValueError(
                "The held-out text of this training run decides when it ends: pass held_out again."
            )
    elif settings.start_from:
        source = start or settings.start_from  # which a run with only damaged checkpoints needs
        start_from(model, source, vocabulary, settings.start_vocabulary)
    else:
        vocabulary.check_order(counts)
        if not settings.recipe and _is_english(index.word_counts):
            _log.info(
                "Hint:       this text looks English; a training that starts from the bundled "
                "model reaches a lower perplexity: start_from='default'"
            )
    callbacks = list(callbacks)
    is_exported = run.has_ended and last_state(folder) == folder / "model"
    if bool(record.get("patience")) != bool(settings.patience):
        is_exported = False  # the other one of the best and the last weights
    if is_first_process():
        if not is_exported:
            (folder / EXPORTED).unlink(missing_ok=True)
        write_record(folder, settings, config)  # which makes the folder that of a run
        vocabulary.write(folder / VOCABULARY)
        if settings.tensorboard:
            callbacks.append(keras.callbacks.TensorBoard(folder / "tensorboard"))
    run.log_start()
    if not run.has_ended:
        every, first_epoch = settings.checkpoint_every, len(run.history)
        with progress_bar("training", num_steps, unit="steps", shown=show_progress) as run.bar:
            run.bar.update(step)
            model.fit(
                corpus,
                initial_epoch=first_epoch,
                epochs=first_epoch + -(-(num_steps - step) // every),
                steps_per_epoch=every,
                validation_data=held_out,
                verbose=0,
                callbacks=[*callbacks, run],
            )
    if is_exported:  # a callback may have restored the weights of an earlier step
        copy_weights(model, load_language_model(folder / "model")[0], vocabulary, vocabulary)
    else:
        step = run.restore_best(model) if settings.patience else run.step
        if held_out is not None:
            _log.info(f"Model:      the weights of step {step:,}")
    scores, unigrams, details = None, None, training_summary(folder, step)
    if held_out_index is not None:
        with progress_bar("scoring", unit="sentences", shown=show_progress) as bar:
            scores = perplexity(
                model, held_out_index, vocabulary, on_sentence=lambda _: bar.update()
            )
        unigrams = unigram_perplexity(held_out_index, vocabulary, counts)
        details["Held-out perplexity"] = f"{scores.perplexity:.2f}"
    if is_first_process() and not is_exported:
        model.export_hdf5(folder / "model", vocabulary, details)
        (folder / EXPORTED).touch()
        if shard[1] == 1:  # the other processes would have to compute with this one
            _log_neighbors(folder / "model", index)
    return TrainingResult(model, vocabulary, folder / "model", run.history, scores, unigrams)


def _check_learning_rate(rate, run, folder):
    """Raises ValueError if the last step had a different learning rate than it would have now."""
    if not callable(rate):
        return
    was, now = run.history[-1]["learning_rate"], float(rate(run.step - 1))
    if was != now:
        raise ValueError(
            f"The learning rate of step {run.step:,}, the last one of the training run, was "
            f"{was:g}; with the new length it would have been {now:g}. Pass the same length to "
            "resume. The length can change only before the learning rate starts to fall. To train "
            f"the model of a run that has ended further, pass start_from={os.fspath(folder)!r} "
            "and a different output."
        )


def _vocabulary(settings, words):
    """The given vocabulary, else one of the words of the text, and the counts of its words."""
    if settings.vocabulary is None:
        limits = {**VOCABULARY_LIMITS, "min_count": settings.min_count}
        vocabulary = Vocabulary.from_counts(words.counts, **limits)
    else:
        vocabulary = Vocabulary.from_file(settings.vocabulary)
    counts = vocabulary.counts(words)
    known = vocabulary.known_share(counts)
    _log.info(f"Vocabulary: {pluralize(len(vocabulary), 'word')}, {known:.2%} of the tokens")
    if known < 0.5:
        _log.warning(
            "            Most words of the text are not in the vocabulary: does it fit the text?"
        )
    return vocabulary, counts


def _is_english(words):
    """Whether nearly all words in lower-case letters are known to the bundled model."""
    known = Vocabulary.from_file(find_model_files("default").vocabulary)
    text = {word.decode(): count for word, count in words.counts.items()}
    text = {word: count for word, count in text.items() if word.isalpha() and word.islower()}
    share = sum(count for word, count in text.items() if word in known)
    return share > 0.9 * sum(text.values()) > 0


def _model(settings, config, counts):
    model = BidirectionalLanguageModel(
        config,
        len(counts),
        batch_size=settings.batch_size,
        unroll_steps=settings.unroll_steps,
        dropout=settings.dropout,
        num_negative_samples=settings.negatives,
        share_embedding_softmax=settings.share_embedding_softmax,
        dtype=settings.compute_dtype,
    )
    if not settings.zero_softmax_bias:
        model.softmax.initialize_bias(counts)
    return model


def _learning_rate(settings, num_steps):
    """The learning rate, or its schedule."""
    rate, warmup_steps = settings.learning_rate, settings.warmup_steps
    if settings.schedule == "cosine":
        return keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup_steps else rate,
            decay_steps=max(1, num_steps - warmup_steps),
            warmup_target=rate if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    if settings.schedule == "trapezoid":
        return TrapezoidSchedule(rate, num_steps, warmup_steps, settings.cooldown_steps)
    return rate


def _optimizer(settings, rate):
    clip_norm = settings.clip_norm or None
    if settings.optimizer == "adagrad":
        return bilm_tf_optimizer(settings.unroll_steps, rate, clip_norm)
    norm = clip_norm and clip_norm / settings.unroll_steps
    return keras.optimizers.Adam(rate, global_clipnorm=norm)


def _log_plan(model, settings, num_steps, steps_per_pass):
    bilm = count_parameters(model.config)
    softmax = model.softmax.count_params()
    compared = settings.negatives if model.is_sampled else model.vocabulary_size
    sampled = f"{compared:,} of {model.vocabulary_size:,} words sampled per step"
    size = f"{settings.batch_size} x {settings.unroll_steps} words"
    epochs = f"{num_steps / steps_per_pass:.2f} epochs, each {pluralize(steps_per_pass, 'step')}"
    _log.info(f"backend:    {keras.backend.backend()}")
    directions = "forward and backward" if model.config.bidirectional else "forward"
    _log.info(f"parameters: {bilm:,} in the biLM ({directions}), {softmax:,} in the softmax")
    _log.info(f"softmax:    {sampled if model.is_sampled else f'all {compared:,} words'}")
    rate = f"learning rate {settings.learning_rate:g}, dropout {settings.dropout:g}"
    _log.info(f"optimizer:  {settings.optimizer}, {rate}")
    _log.info(f"steps:      {num_steps:,} of {size}, {epochs}")


def _log_neighbors(model, index):
    """Logs the nearest words of a few words."""
    for word, count, layers in word_neighbors(model, index):
        rows = "; ".join(f"{layer}: {', '.join(found)}" for layer, found in layers.items())
        _log.info(f"Nearest to {word} ({pluralize(count, 'time')}): {rows}")


class _Run(TrainingCheckpoint):
    """What each epoch leaves behind: a line of the log, a checkpoint, and a row of log.csv.

    Ends the training after its last step, and shows the progress in `bar`.
    """

    async_safe = True  # JAX updates the bar in a thread, and does not wait for each step

    def __init__(self, folder, settings, rate, steps_per_pass):
        super().__init__(folder / CHECKPOINTS, keep=settings.keep, monitor="val_perplexity")
        self.bar = None
        self._path, self._rate = folder / LOG, rate
        self._num_steps, self._steps_per_pass = settings.steps, steps_per_pass
        self._patience = settings.patience
        self._next_line = None
        self._words_per_step = settings.batch_size * settings.unroll_steps

    @property
    def has_ended(self):
        """Whether the last step is done, or the held-out perplexity has stopped falling."""
        best = self.best_step
        if self.step >= self._num_steps or not self._patience or best is None:
            return self.step >= self._num_steps
        return sum(row["step"] > best for row in self.history) >= self._patience

    def log_start(self):
        """Logs from which step the training continues."""
        if self.step:
            what = "This training has already ended" if self.has_ended else "Resumed"
            _log.info(f"{what} after step {self.step:,}")
            self._write_rows()  # the process may have been killed before

    def on_epoch_begin(self, epoch, logs=None):
        self._clock = self._epoch_clock = time.monotonic(), 0  # and the steps done by then
        self._speed = None

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch, logs)
        if self.step + self._done >= self._num_steps:
            self.model.stop_training = True  # after this step: the last epoch may be shorter

    def on_train_batch_end(self, batch, logs=None):
        if self._next_line is None:  # the first step of this process was compiled
            # In this thread `self.model` would copy the state that JAX is replacing meanwhile.
            self._clock = time.monotonic(), batch + 1
            self._next_line = self._clock[0] + _SECONDS_TO_FIRST_LINE
        if not self.bar.disable:
            self.bar.set_postfix_str(f"perplexity {logs['perplexity']:.1f}", refresh=False)
            self.bar.update()
        elif time.monotonic() > self._next_line:
            self._measure()
            self._log_progress(self.step + self._done, logs)
            self._speed = None

    def on_test_begin(self, logs=None):
        ops.convert_to_numpy(self.model.optimizer.iterations)  # waits for the last step
        self._measure()

    def on_epoch_end(self, epoch, logs=None):
        if self._speed is None:
            self._measure()
        step = self.step + self._done
        is_schedule, constant = callable(self._rate), self.model.optimizer.learning_rate
        logs["epoch"] = round(step / self._steps_per_pass, 4)  # passes over the text
        logs["learning_rate"] = float(self._rate(step - 1) if is_schedule else constant)
        logs["tokens_per_second"] = self._speed
        self._log_progress(step, logs)
        super().on_epoch_end(epoch, logs)
        self._write_rows()
        if self.has_ended and self.step < self._num_steps:
            self.model.stop_training = True
            best = f"{self.best_step:,}"
            _log.info(f"Stopped: the held-out perplexity has not fallen since step {best}")

    def _measure(self):
        """Sets the words per second of the epoch, if possible without the step that is compiled."""
        began, steps = self._clock if self._done > self._clock[1] else self._epoch_clock
        seconds = max(time.monotonic() - began, 1e-9)
        self._speed = (self._done - steps) * self._words_per_step / seconds

    def _log_progress(self, step, logs):
        """Logs a line about a step."""
        shown = [f"step {step:,}", f"perplexity {logs['perplexity']:.1f}"]
        if "val_perplexity" in logs:
            shown.append(f"held-out {logs['val_perplexity']:.1f}")
        shown.append(f"{self._speed:,.0f} tokens/s")
        if step < self._num_steps:
            left = (self._num_steps - step) * self._words_per_step / self._speed
            shown.append(f"{duration(left)} left")
        _log.info(", ".join(shown))
        self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES

    def _write_rows(self):
        """Writes the history to log.csv."""
        if not is_first_process():
            return
        names = list(dict.fromkeys(name for row in self.history for name in row))
        with (
            atomic_write(self._path) as partial,
            open(partial, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(self.history)

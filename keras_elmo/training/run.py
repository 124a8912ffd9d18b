"""A whole training of a language model, from its settings: what `keras-elmo train` runs."""

import contextlib
import csv
import dataclasses
import json
import logging
import math
import os
import re
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write
from keras_elmo.locks import locked_folder
from keras_elmo.pretrained.weight_table import count_parameters
from keras_elmo.progress import progress_bar
from keras_elmo.text.reader import counted, find_files
from keras_elmo.text.vocabulary import Vocabulary, unused_lines
from keras_elmo.training.checkpoint import TrainingCheckpoint, latest_step, remove_partial_files
from keras_elmo.training.corpus import LanguageModelCorpus
from keras_elmo.training.distribution import is_first_process, split_batches
from keras_elmo.training.evaluation import PerplexityReport, Scorer
from keras_elmo.training.files import changed_files, count_corpus, fingerprints
from keras_elmo.training.language_model import BidirectionalLanguageModel, check_no_lexicon
from keras_elmo.training.loading import config_of, start_from
from keras_elmo.training.optimizer import SLOTS, ClippedAdam, TrapezoidSchedule, bilm_tf_optimizer
from keras_elmo.training.settings import (
    EXTENDABLE_SCHEDULES,
    FROM_OPTIONS,
    LEARNING_RATES,
    NOT_RECORDED,
    PRESETS,
    TrainingSettings,
    from_options,
)

_log = logging.getLogger(__name__)

_SETTINGS_FILE = "training.json"
# What a training run writes into its folder.
_OUTPUTS = {
    _SETTINGS_FILE,
    "vocabulary.txt",
    "counts.npz",
    "log.csv",
    "model",
    "checkpoints",
    "tensorboard",
}
_VOCABULARY_SIZE = 50_000


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a training run ended with.

    Args:
        model: The `BidirectionalLanguageModel`.
        vocabulary: Its `Vocabulary`.
        folder: Where the model was written, for `ElmoLayer`, bilm-tf and AllenNLP.
        history: A dict for each report: `epoch` (passes over the text so far), `step`, the losses
            and perplexities.
        report: The `PerplexityReport` of the held-out text, or `None`.
    """

    model: BidirectionalLanguageModel
    vocabulary: Vocabulary
    folder: Path
    history: list[dict[str, float]]
    report: PerplexityReport | None


def train(
    settings: TrainingSettings,
    callbacks: Iterable[keras.callbacks.Callback] = (),
    *,
    show_progress: bool | None = False,
) -> TrainingResult:
    """Trains a language model, or resumes a training run that was stopped.

    All of `keras-elmo train`: counts the corpus, makes the vocabulary, trains with checkpoints and
    reports, evaluates, and exports the model. Called again with the same settings, it ends with the
    same weights as a training run that was never stopped. Logs to the logger `keras_elmo`.

    Written to `settings.output`: `checkpoints/`, `log.csv` (a row for each report),
    `vocabulary.txt`, `counts.npz` (how often each word occurs), `training.json` (the settings) and
    `model/` (options.json, weights.hdf5, softmax.hdf5 and vocabulary.txt).

    Args:
        settings: The `TrainingSettings`.
        callbacks: Further Keras callbacks. An epoch of theirs is a report, every
            `settings.evaluate_every` steps, with `held_out_perplexity` in its logs.
        show_progress: Whether to show progress bars; `None` if standard error is a terminal.

    Returns:
        A `TrainingResult`.

    Raises:
        BlockingIOError: if another training is running in the folder.
        FileNotFoundError: if a text or a model to start from does not exist.
        ValueError: if the folder was begun with other settings or another vocabulary, or a setting
            does not fit the corpus.

    Example:

    >>> result = train(TrainingSettings(files="shards/*", output="run", held_out="heldout.txt"))
    >>> result.report.perplexity
    118.3
    >>> elmo = ElmoLayer(result.folder)
    """
    settings.check_files()
    if settings.tensorboard and not all(map(find_spec, ("tensorboard", "tensorflow"))):
        raise ValueError("tensorboard=True needs two packages: pip install tensorboard tensorflow")
    config, settings = _resolved(settings)
    split = split_batches(settings.batch_size, settings.devices, settings.process, settings.hosts)
    with split as (shard, model_scope):
        return _train(settings, config, shard, model_scope, callbacks, show_progress)


def _train(settings, config, shard, model_scope, callbacks, show_progress):
    folder = Path(settings.output)
    own = is_first_process()
    with (
        _made_folder(folder),
        locked_folder(folder, "Another training") if own else contextlib.nullcontext(),
    ):
        return _train_in(folder, settings, config, shard, model_scope, callbacks, show_progress)


@contextlib.contextmanager
def _made_folder(folder):
    """Makes a folder, which is removed again if it is empty after an error."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for path in made:
                path.rmdir()
        raise


def _train_in(folder, settings, config, shard, model_scope, callbacks, show_progress):
    settings = dataclasses.replace(settings, files=_texts(settings.files, folder))
    writes = is_first_process()
    if writes:
        # Another command may be writing here, the scores of `evaluate` say.
        remove_partial_files(folder, older_than=3600)
        remove_partial_files(folder / "model")
    recorded = _recorded(settings, config)
    begun = _checked_begun(folder, recorded)
    vocabulary, counts, predictions = _vocabulary_and_counts(settings, folder, show_progress)
    steps_per_epoch = _steps_per_epoch(settings, predictions)
    num_steps = _num_steps(settings.steps, settings.epochs, steps_per_epoch)
    _check_cooldown(folder, begun, recorded, steps_per_epoch)
    keras.utils.set_random_seed(settings.seed)
    with model_scope:
        model = _new_model(settings, config, vocabulary, counts)
        model.compile(_optimizer(settings, num_steps))
        model.optimizer.build(model.trainable_variables)
    corpus = _corpus(settings, config, vocabulary, shard)
    _log_plan(model, settings, num_steps, steps_per_epoch)
    if writes:
        with atomic_write(folder / _SETTINGS_FILE) as partial:
            Path(partial).write_text(json.dumps(recorded, indent=1), encoding="utf-8")
    checkpoint = TrainingCheckpoint(
        folder / "checkpoints", every_seconds=settings.checkpoint_seconds, keep=settings.keep
    )
    scorer, own_callbacks = Scorer(model), []
    if settings.held_out:
        own_callbacks.append(_HeldOut(settings, vocabulary, scorer))
    if settings.tensorboard and writes:
        own_callbacks.append(keras.callbacks.TensorBoard(folder / "tensorboard"))
    with progress_bar("training", total=num_steps, shown=show_progress) as bar:
        report = _Report(folder / "log.csv", checkpoint, num_steps, steps_per_epoch, bar)
        model.fit(
            corpus,
            total_steps=num_steps,
            steps_per_epoch=settings.evaluate_every,
            verbose=0,
            callbacks=[*own_callbacks, *callbacks, checkpoint, report],
        )
    if writes:
        model.export_hdf5(folder / "model", vocabulary)
    scores = None
    if settings.held_out:
        with progress_bar("scoring", unit="sentences", shown=show_progress) as bar:
            files = settings.held_out
            scores = scorer.perplexity(files, vocabulary, on_sentence=lambda _: bar.advance())
    return TrainingResult(model, vocabulary, folder / "model", report.rows(), scores)


def _texts(files, folder):
    """The paths of the text; a pattern may match the files of the training run itself as well."""
    root, found = os.path.realpath(folder), find_files(files)
    real = (Path(os.path.realpath(path)) for path in found)
    is_own = [p.is_relative_to(root) and p.relative_to(root).parts[0] in _OUTPUTS for p in real]
    texts = [path for path, own in zip(found, is_own) if not own]
    if not texts:
        raise ValueError(
            f"The files are only those that a training run wrote, no text: {', '.join(found):.200}"
        )
    return texts


def _resolved(settings):
    """The architecture, and the settings with values from its options and defaults."""
    if settings.start_from:
        config = config_of(settings.start_from)
    elif settings.options:
        config = ElmoConfig.from_json(settings.options)
    else:
        config = PRESETS[settings.preset or "tiny"]
    check_no_lexicon(config)
    values = from_options(config, **{name: getattr(settings, name) for name in FROM_OPTIONS})
    if settings.steps:
        del values["epochs"]
    values["learning_rate"] = values["learning_rate"] or LEARNING_RATES[settings.optimizer]
    config = dataclasses.replace(config, training_options={})
    return config, dataclasses.replace(settings, **values)


def _recorded(settings, config):
    """The settings that a folder is begun with, JSON-serializable."""
    values = {name: x for name, x in vars(settings).items() if name not in NOT_RECORDED}
    if settings.start_from is not None:
        values["start_from"] = os.fspath(settings.start_from)
    if settings.process is not None:
        values["process"] = re.sub(r"\d+", "*", settings.process, count=1)
    return {**values, "options": config.to_dict()}


def _checked_begun(folder, recorded):
    """The settings that the folder was begun with; raises ValueError if they have changed."""
    path = folder / _SETTINGS_FILE
    if not path.exists():
        return recorded
    defaults = {field.name: field.default for field in dataclasses.fields(TrainingSettings)}
    before = {**defaults, **json.loads(path.read_text(encoding="utf-8"))}
    free = {"cooldown_steps"}  # see `_check_cooldown`
    if recorded["schedule"] in EXTENDABLE_SCHEDULES:
        free |= {"epochs", "steps"}
    now = json.loads(json.dumps(recorded))
    changed = [name for name in now if name not in free and before[name] != now[name]]
    if changed:
        raise ValueError(
            f"The training in {folder} was begun with other settings: "
            + ", ".join(f"{name} {before[name]!r:.80}, now {now[name]!r:.80}" for name in changed)
            + ". Start it again with the same settings to resume it, or choose another output."
        )
    return before


def _check_cooldown(folder, begun, recorded, steps_per_epoch):
    """Checks that the steps done so far had the learning rate that the settings give them."""
    before, now = (_cooldown(settings, steps_per_epoch) for settings in (begun, recorded))
    if before == now:
        return
    step = latest_step(folder / "checkpoints")
    if step > before[0]:
        raise ValueError(
            f"The training in {folder} has done {step:,} steps, and its learning rate has been "
            f"falling since step {before[0]:,}: its length can no longer be changed. Give the "
            "length it had before, or continue from a copy of the folder made before the fall."
        )
    if step > now[0]:
        raise ValueError(
            f"The learning rate would fall from step {now[0]:,} on, but the training in {folder} "
            f"has done {step:,} steps: give more steps or fewer cooldown_steps."
        )


def _cooldown(settings, steps_per_epoch):
    """The steps between which the learning rate falls to zero, infinite if it never does."""
    if not settings["cooldown_steps"]:  # as in all schedules but the trapezoid
        return math.inf, math.inf
    end = _num_steps(settings["steps"], settings["epochs"], steps_per_epoch)
    return end - settings["cooldown_steps"], end


def _steps_per_epoch(settings, predictions):
    size = settings.batch_size, settings.unroll_steps
    if predictions < size[0] * size[1]:
        raise ValueError(
            f"The corpus has {counted(predictions, 'word')} to predict, less than one step of "
            f"batch_size={size[0]} rows of unroll_steps={size[1]} words: make one of them smaller."
        )
    return predictions // (size[0] * size[1])


def _num_steps(steps, epochs, steps_per_epoch):
    return steps or max(1, round((epochs or 1) * steps_per_epoch))


def _vocabulary_and_counts(settings, folder, show_progress):
    """The vocabulary, the counts of its words, and the words to predict in an epoch."""
    own, cache = folder / "vocabulary.txt", folder / "counts.npz"
    vocabulary = _begun_vocabulary(settings, own)
    paths = find_files(settings.files)
    if vocabulary is not None and own.exists() and cache.exists():
        with np.load(cache) as saved:
            earlier = json.loads(saved["files"].item())
            is_same = not changed_files(fingerprints(paths, earlier), earlier)
            if is_same and len(saved["counts"]) == len(vocabulary):
                return vocabulary, saved["counts"], int(saved["predictions"])
            was_made = settings.vocabulary is None and saved.get("was_made", False)
        if was_made and not latest_step(folder / "checkpoints"):
            vocabulary = None  # of another text, of which nothing has been learned
    words = count_corpus(paths, show_progress)
    was_made = vocabulary is None
    if was_made:
        vocabulary = Vocabulary.from_counts(words.counts, size=_VOCABULARY_SIZE)
    if not settings.start_from:  # whose vocabulary may have the order of a different corpus
        vocabulary.check_order(words)
    counts, predictions = vocabulary.counts(words), words.report.predictions
    _steps_per_epoch(settings, predictions)  # to fail before anything is written
    known = 1 - counts[vocabulary.unknown_id] / words.report.tokens
    _log.info(f"Vocabulary: {counted(len(vocabulary), 'word')}, {known:.2%} of the tokens")
    if known < 0.5:
        _log.warning("            Most of the text is unknown: is the vocabulary one for it?")
    if is_first_process():
        vocabulary.write(own)
        files = json.dumps(fingerprints(paths))
        with atomic_write(cache) as partial:
            saved = {"counts": counts, "predictions": predictions, "files": files}
            np.savez(partial, was_made=was_made, **saved)
    return vocabulary, counts, predictions


def _begun_vocabulary(settings, own):
    """The vocabulary that is given or that the folder was begun with, or `None`."""
    if settings.vocabulary is None:
        return Vocabulary.from_file(own) if own.exists() else None
    vocabulary = Vocabulary.from_file(settings.vocabulary)
    is_new = not own.exists() and settings.start_from is None
    if is_new and (problem := unused_lines(vocabulary.words)):
        raise ValueError(
            f"The vocabulary {settings.vocabulary} cannot be used for a new model. {problem}"
        )
    if own.exists() and Vocabulary.from_file(own) != vocabulary:
        raise ValueError(
            f"The training in {own.parent} was begun with another vocabulary than "
            f"{settings.vocabulary}: leave it out to resume, or choose another output."
        )
    return vocabulary


def _new_model(settings, config, vocabulary, counts):
    model = BidirectionalLanguageModel(
        config,
        len(vocabulary),
        batch_size=settings.batch_size,
        unroll_steps=settings.unroll_steps,
        dropout=settings.dropout,
        num_negative_samples=settings.negatives or None,
        share_embedding_softmax=settings.share_embedding_softmax,
        dtype=settings.dtype,
    )
    if not settings.uniform_bias:
        model.initialize_bias(counts)
    if settings.start_from:
        start_from(model, settings.start_from, vocabulary, settings.start_vocabulary)
    return model


def _optimizer(settings, num_steps):
    rate, warmup_steps = settings.learning_rate, settings.warmup_steps
    if settings.schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warmup_steps else rate,
            decay_steps=max(1, num_steps - warmup_steps),
            warmup_target=rate if warmup_steps else None,
            warmup_steps=warmup_steps,
        )
    elif settings.schedule == "trapezoid":
        rate = TrapezoidSchedule(rate, num_steps, warmup_steps, settings.cooldown_steps)
    clip_norm = settings.clip_norm or None
    if settings.optimizer == "adagrad":
        return bilm_tf_optimizer(settings.unroll_steps, rate, clip_norm)
    return ClippedAdam(rate, global_clipnorm=clip_norm and clip_norm / settings.unroll_steps)


def _corpus(settings, config, vocabulary, shard):
    is_split = settings.devices > 1 or shard[1] > 1
    return LanguageModelCorpus(
        settings.files,
        vocabulary,
        batch_size=settings.batch_size // shard[1],
        unroll_steps=settings.unroll_steps,
        max_characters_per_token=config.row_width or None,
        # A batch split over devices has its words place by place, in one shape for all.
        widest_filter=None if is_split else config.widest_filter,
        distinct_words=not is_split,
        bidirectional=config.bidirectional,
        seed=settings.seed,
        shard=shard,
    )


def _log_plan(model, settings, num_steps, steps_per_epoch):
    bilm = count_parameters(model.config)
    softmax = model.softmax.count_params()
    copies = 2 + SLOTS[settings.optimizer]  # values, gradients, slots
    compared = settings.negatives if model.is_sampled else model.vocabulary_size
    words = settings.batch_size * settings.unroll_steps
    logits = 2 * model.config.num_directions * words * compared
    megabytes = 4 * (copies * (bilm + softmax) + logits) / 1e6
    drawn = f"{compared:,} of {model.vocabulary_size:,} words drawn a step"
    size = f"{settings.batch_size} x {settings.unroll_steps} words"
    epochs = f"{num_steps / steps_per_epoch:.2f} epochs, each {counted(steps_per_epoch, 'step')}"
    _log.info(f"backend:    {keras.backend.backend()}")
    _log.info(f"parameters: {bilm:,} in the biLM, {softmax:,} in the softmax")
    _log.info(f"softmax:    {drawn if model.is_sampled else f'all {compared:,} words'}")
    _log.info(f"optimizer:  {settings.optimizer}, learning rate {settings.learning_rate:g}")
    _log.info(f"memory:     about {megabytes:,.0f} MB for weights, optimizer and logits")
    _log.info(f"steps:      {num_steps:,} of {size}, {epochs}")


class _HeldOut(keras.callbacks.Callback):
    """Adds the perplexity of held-out text to the logs."""

    def __init__(self, settings, vocabulary, scorer):
        super().__init__()
        self._settings, self._vocabulary, self._scorer = settings, vocabulary, scorer

    def on_epoch_end(self, epoch, logs=None):
        files, count = self._settings.held_out, self._settings.evaluate_sentences
        report = self._scorer.perplexity(files, self._vocabulary, max_sentences=count)
        logs["held_out_perplexity"] = report.perplexity
        logs["held_out_forward"] = report.forward
        if report.backward is not None:
            logs["held_out_backward"] = report.backward


class _Report(keras.callbacks.Callback):
    """Logs and shows how far the training is, and writes log.csv from the checkpoint's history."""

    def __init__(self, path, checkpoint, num_steps, steps_per_epoch, bar):
        super().__init__()
        self._path, self._checkpoint, self._bar = path, checkpoint, bar
        self._num_steps, self._steps_per_epoch = num_steps, steps_per_epoch

    def on_train_begin(self, logs=None):
        self._first = self._checkpoint.step
        if self._first:
            is_done = self._first >= self._num_steps
            what = "This training has ended already" if is_done else "Resumed"
            _log.info(f"{what} after step {self._first:,}")
            self._bar.update(self._first)
            self._write()  # may have been killed before

    def on_train_batch_end(self, batch, logs=None):
        done = self._checkpoint.step
        if done == self._first + 20:  # the first steps compile and are slow
            self._timed = time.monotonic()
        if done == self._first + 60:
            seconds = (time.monotonic() - self._timed) / 40 * (self._num_steps - done)
            hours, minutes = divmod(round(seconds / 60), 60)
            _log.info(f"About {hours} h {minutes} min to go")
        if self._bar.is_shown:
            speed = f"{logs['tokens_per_second']:,.0f} tokens/s"
            self._bar.update(done, f"perplexity {logs['perplexity']:.1f}, {speed}")

    def on_epoch_end(self, epoch, logs=None):
        shown = [f"step {self._checkpoint.step:,}", f"perplexity {logs['perplexity']:.1f}"]
        if "held_out_perplexity" in logs:
            shown.append(f"held-out {logs['held_out_perplexity']:.1f}")
        shown.append(f"{logs['tokens_per_second']:,.0f} tokens/s")
        _log.info(", ".join(shown))
        self._write()

    def rows(self):
        """The reports, each with the epochs of the text that were done, not Keras' number."""
        return [
            {**row, "epoch": round(row["step"] / self._steps_per_epoch, 4)}
            for row in self._checkpoint.history
        ]

    def _write(self):
        if not is_first_process():
            return
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        with (
            atomic_write(self._path) as partial,
            open(partial, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)

"""Checkpoints from which a training run is resumed as if it had never been stopped."""

import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import signal
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write
from keras_elmo.pretrained.weight_table import check_declared_bytes
from keras_elmo.training.distribution import (
    check_same_everywhere,
    is_first_process,
    is_only_process,
)

_log = logging.getLogger(__name__)

_FORMAT = 1
_STATE = "state"
_NAME = re.compile(r"step-(\d+)\.npz")


class DamagedCheckpointError(ValueError):
    """A file is not a whole checkpoint."""


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves the whole state of a training from time to time, and resumes it.

    A training killed at any moment and started again with the same arguments ends with the same
    history and the same weights, bit for bit on one machine, as one never killed.

    Give it to `BidirectionalLanguageModel.fit` together with a `LanguageModelCorpus`, behind
    callbacks that add to the logs. What other callbacks count for themselves (the patience of
    `EarlyStopping`, say) starts anew in a new process. If the latest file is damaged, the one
    before is resumed, with a warning.

    While a training run of one process is in the main thread, SIGINT (Ctrl-C) and SIGTERM wait
    until the step is done and saved, unless the program handles them itself. A second one acts at
    once.

    Args:
        folder: Where to save `step-00000123.npz`; made if it does not exist.
        every_steps: Save after so many steps, or `None`.
        every_seconds: Save when so many seconds have passed, or `None`. In any case at the end of
            each epoch.
        keep: How many of the latest checkpoints to keep.

    Attributes:
        step: Steps done, over all epochs.
        history: A dict for each epoch that ended: `epoch`, `step` and the logs.

    Raises:
        ValueError: if the latest checkpoint is of another model, optimizer or corpus, or the
            training has diverged.
        OSError: if the disk is full. In all cases earlier checkpoints stay as they are.

    Example:

    >>> corpus = LanguageModelCorpus("shards/*", vocabulary, batch_size=128, unroll_steps=20)
    >>> model.fit(corpus, epochs=10, callbacks=[TrainingCheckpoint("checkpoints")])
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        *,
        every_steps: int | None = None,
        every_seconds: float | None = 600,
        keep: int = 3,
    ):
        super().__init__()
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}.")
        self.folder = Path(folder)
        self.every_steps = every_steps
        self.every_seconds = every_seconds
        self.keep = keep
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self._signals: list[int] = []
        self.folder.mkdir(parents=True, exist_ok=True)

    def resume(self, model: keras.Model, corpus: Any) -> int:
        """Restores model and corpus from the latest whole checkpoint, if there is one.

        Called by `fit`, which continues after the number of steps returned.
        """
        if is_first_process():
            remove_partial_files(self.folder)
        # Before anything is loaded, which all processes do together.
        check_same_everywhere(
            found := latest_step(self.folder),
            f"This process found step {found:,} in {self.folder}, another one did not: give all "
            "processes the same folder. The first one writes it.",
        )
        self._corpus = corpus
        self._saved_at = time.monotonic()
        self.step, self.history = 0, []
        self._resumed, state = self._load_latest(model)
        if state is not None:
            self.step, self.history = state["step"], state["history"]
            corpus.restore(state["corpus"])
        corpus.state(corpus.num_batches)  # what the files hold is known before they are read
        self._first_batch = corpus.num_batches - self.step  # it may have been in use before
        return self.step

    def _load_latest(self, model):
        """The path and the state of the latest whole checkpoint; sets the model's variables."""
        while (path := latest_checkpoint(self.folder)) is not None:
            try:
                return path, load_checkpoint(path, model)
            except FileNotFoundError:
                if os.path.lexists(path):  # a link to nothing
                    raise
                # Another process has just put it aside.
            except DamagedCheckpointError as error:
                aside = path.with_name(f"{path.name}.damaged")
                with contextlib.suppress(FileNotFoundError):
                    path.replace(aside)
                warnings.warn(
                    f"{error} It was renamed to {aside.name}; training falls back to the "
                    "checkpoint before, if there is one.",
                    stacklevel=4,
                )
        return None, None

    def follow(self, progress: Any) -> None:
        """Takes the steps and the plan of the training from its `EpochBegin`. Called by `fit`."""
        self._progress = progress

    @contextlib.contextmanager
    def signals_held_back(self) -> Iterator[None]:
        """Keeps signals that stop the process until the next checkpoint. `fit` runs in it."""
        handled = {}
        if threading.current_thread() is threading.main_thread() and is_only_process():
            defaults = signal.default_int_handler, signal.SIG_DFL
            found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            handled = {number: one for number, one in found.items() if one in defaults}

        def hold(number, frame):
            self._signals.append(number)
            signal.signal(number, handled[number])
            _log.info("Stopping after this step, which is saved. Interrupt again to stop at once.")

        try:
            for number in handled:
                signal.signal(number, hold)
            yield
        except Exception:
            self._signals.clear()  # the error is told, not the signal
            raise
        finally:
            for number, handler in handled.items():
                signal.signal(number, handler)
            self._release_signals()

    def _release_signals(self):
        received, self._signals = self._signals, []
        for number in received:
            signal.raise_signal(number)

    def on_epoch_begin(self, epoch, logs=None):
        self._release_signals()  # those of the end of an epoch, which all callbacks have seen
        self._end = self._progress.plan.end(epoch)
        # Beginning an epoch resets states and metrics; in an epoch that was stopped they go on.
        if self._resumed is not None and self._progress.plan.begins_within_epoch:
            load_checkpoint(self._resumed, self.model, optimizer=False)
            if self.history and self.history[-1]["step"] == self.step:
                # A last epoch that is made longer: its first part has been reported.
                self.model.reset_metrics()
        self._resumed = None

    def on_train_batch_end(self, batch, logs=None):
        last, self.step = self.step, self._progress.step
        every, seconds = self.every_steps, time.monotonic() - self._saved_at
        is_due = self._signals or (every and self.step // every > last // every)
        is_due = is_due or (self.every_seconds and seconds >= self.every_seconds)
        # The last step of an epoch is saved when validation and the reports are done: a run
        # resumed there could not catch up on them.
        if is_due and self.step < self._end:
            self.save()
            self._release_signals()

    def on_epoch_end(self, epoch, logs=None):
        row = {name: float(value) for name, value in (logs or {}).items()}
        self.history.append({"epoch": epoch, "step": self.step, **row})
        self.save()

    def save(self) -> None:
        """Saves now; of several processes the first one, for all."""
        self._saved_at = time.monotonic()
        if not is_first_process():
            return
        corpus = self._corpus.state(self._first_batch + self.step)
        state = {"step": self.step, "history": self.history, "corpus": corpus}
        save_checkpoint(self.folder / f"step-{self.step:08d}.npz", self.model, state)
        for _, old in sorted(_checkpoints(self.folder))[: -self.keep]:
            old.unlink(missing_ok=True)


def latest_checkpoint(folder: str | os.PathLike) -> Path | None:
    """The path of the latest checkpoint in a folder, or `None`."""
    return max(_checkpoints(folder), default=(0, None))[1]


def latest_step(folder: str | os.PathLike) -> int:
    """The step of that checkpoint, 0 if there is none."""
    return max(_checkpoints(folder), default=(0, None))[0]


def _checkpoints(folder):
    """Pairs of step and path."""
    matches = ((_NAME.fullmatch(path.name), path) for path in Path(folder).glob("step-*.npz"))
    return [(int(match[1]), path) for match, path in matches if match]


def remove_partial_files(folder: str | os.PathLike, older_than: float = 0) -> None:
    """Removes what killed processes were writing in a folder, unchanged for so many seconds."""
    for path in filter(Path.is_file, Path(folder).glob(".partial-*")):
        with contextlib.suppress(FileNotFoundError):
            if not older_than or time.time() - path.stat().st_mtime >= older_than:
                path.unlink()


def save_checkpoint(
    path: str | os.PathLike, model: keras.Model, state: dict[str, Any] | None = None
) -> None:
    """Writes all variables of a model and its optimizer to an .npz file, whole or not at all.

    A JSON-serializable `state` is kept with them. Raises ValueError if a weight is not finite.
    """
    state = {
        "format": _FORMAT,
        "model": model.get_config(),
        "optimizer": _class_names(model.optimizer)[0],
        **(state or {}),
    }
    arrays = {}
    for name, variable in _variables(model, optimizer=True).items():
        # By a tensor: TensorFlow does not convert the copies of several replicas.
        array = keras.ops.convert_to_numpy(keras.ops.convert_to_tensor(variable))
        # .npz files do not know bfloat16.
        array = array.astype("float32") if array.dtype.name == "bfloat16" else array
        if variable.trainable and not np.isfinite(array).all():
            raise ValueError(
                f"The training has diverged: {variable.path} holds NaN or infinity. This was not "
                "saved; earlier checkpoints are as they were. Start anew with a lower learning "
                "rate, from one of them if you like."
            )
        arrays[name] = array
    arrays[_STATE] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    try:
        with atomic_write(path) as partial:
            np.savez(partial, **arrays)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"No space left to write the checkpoint {path}. Earlier checkpoints are as they were: "
            "free some space and start the same command again",
        ) from error


def load_checkpoint(
    path: str | os.PathLike, model: keras.Model, optimizer: bool = True
) -> dict[str, Any]:
    """Sets the variables of a model, and of its optimizer, from a file of `save_checkpoint`.

    Returns:
        The state that was kept with it.

    Raises:
        ValueError: if it is not a whole checkpoint (`DamagedCheckpointError`), or of another model
            or optimizer.
    """
    variables = _variables(model, optimizer)
    state, arrays = _read(path, variables)
    problems = []
    if optimizer and state["optimizer"] not in _class_names(model.optimizer):
        problems.append(f"its optimizer is {state['optimizer']}")
    if _architecture(state["model"]) != _architecture(model.get_config()):
        problems.append("its architecture is another one")
    for name, variable in variables.items():
        if name not in arrays:
            problems.append(f"it has no {variable.path} {tuple(variable.shape)}")
        elif (found := arrays[name].shape) != tuple(variable.shape):
            problems.append(f"{variable.path} is {found} there, {tuple(variable.shape)} here")
    if problems:
        raise ValueError(
            f"The checkpoint {path} is of another model or optimizer: "
            f"{'; '.join(problems[:8])}. Use the settings it was made with, or another folder."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def _architecture(model_config):
    """The `ElmoConfig` in the config of a language model, without the options of its training."""
    options = model_config.get("config")
    return options and dataclasses.replace(ElmoConfig.from_dict(options), training_options={})


def read_checkpoint_state(path: str | os.PathLike) -> dict[str, Any]:
    """The state that was kept with a checkpoint, the model's config under `"model"`."""
    return _read(path)[0]


def _read(path, names=()):
    """The state in a checkpoint, and those of the named arrays that it has."""
    try:
        # NumPy would not close a file that it opened and found damaged.
        with open(path, "rb") as opened:
            if zipfile.is_zipfile(opened):
                members = zipfile.ZipFile(opened).infolist()
                check_declared_bytes(path, sum(one.file_size for one in members))
            opened.seek(0)
            file = np.load(opened)
            if isinstance(file, np.ndarray) or _STATE not in file:
                raise DamagedCheckpointError(f"{path} is not a checkpoint of keras_elmo.")
            state = json.loads(file[_STATE].tobytes())
            arrays = {name: file[name] for name in names if name in file}
    except (ValueError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        # An error of the system, which has a number, says nothing about what is in the file.
        if isinstance(error, DamagedCheckpointError) or getattr(error, "errno", None) is not None:
            raise
        raise DamagedCheckpointError(
            f"{path} is not a checkpoint of keras_elmo, or it is cut off or damaged ({error})."
        ) from None
    if state["format"] > _FORMAT:
        raise ValueError("The checkpoint was written by a newer keras_elmo. Update keras_elmo.")
    return state, arrays


def _variables(model, optimizer):
    """All variables by their names in a checkpoint, in a fixed order."""
    groups = {"model": [*model.variables, *model.metrics_variables]}
    if optimizer and model.optimizer is not None:
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        groups["optimizer"] = model.optimizer.variables
    distinct = {id(one): (group, one) for group, found in groups.items() for one in found}
    # Keras' own names depend on how many models were made before.
    return {f"{group}/{i:04d}": one for i, (group, one) in enumerate(distinct.values())}


def _class_names(optimizer):
    """The names an optimizer may have in a checkpoint; new ones are written with the first."""
    name = None if optimizer is None else type(optimizer).__name__
    # Earlier versions used Keras' Adam, which keeps the same variables.
    return ("ClippedAdam", "Adam") if name in ("ClippedAdam", "Adam") else (name,)

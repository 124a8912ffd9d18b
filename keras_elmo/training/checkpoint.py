"""Checkpoints from which a training goes on as if it had never stopped."""

import contextlib
import errno
import json
import re
import time
import zipfile
from pathlib import Path

import keras
import numpy as np

from keras_elmo.atomic import atomic_write

_FORMAT = 1
_STATE = "state"
_NAME = re.compile(r"step-(\d+)\.npz")


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves the whole state of a training now and then, and goes on from it.

    Weights, optimizer, LSTM states, random generators, metrics and the position in the corpus: a
    training killed at any moment and started again with the same arguments ends in the same
    weights, bit for bit on one machine, as one never killed. A file takes its name when it is
    complete.

    Give it to `BidirectionalLanguageModel.fit` together with a `LanguageModelCorpus`. What other
    callbacks count for themselves (the patience of `EarlyStopping`, say) starts anew.

    Args:
        folder: Where to; made if there is none. One file for each checkpoint, `step-00000123.npz`.
        every_steps: Save after so many steps, or `None`.
        every_seconds: Save when so many seconds have passed, or `None`. In any case at the end of
            each epoch.
        keep: How many of the latest checkpoints to keep.

    Raises:
        ValueError: if the latest checkpoint is of another model, optimizer or corpus.
        OSError: if the disk is full; earlier checkpoints stay as they are.

    Example:

    >>> corpus = LanguageModelCorpus("shards/*", vocabulary, batch_size=128, unroll_steps=20)
    >>> model.fit(corpus, epochs=10, callbacks=[TrainingCheckpoint("checkpoints")])
    """

    def __init__(self, folder, *, every_steps=None, every_seconds=600, keep=3):
        super().__init__()
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}.")
        self.folder = Path(folder)
        self.every_steps = every_steps
        self.every_seconds = every_seconds
        self.keep = keep
        self.step = 0
        self.history = []
        self._corpus = None
        self._resumed = None
        self.folder.mkdir(parents=True, exist_ok=True)

    def resume(self, model, corpus):
        """Brings model and corpus to the latest checkpoint, if there is one.

        `fit` calls this.

        Returns:
            Steps done so far, over all epochs.
        """
        self._corpus = corpus
        self._saved_at = time.monotonic()
        self.step, self.history = 0, []
        path = latest_checkpoint(self.folder)
        if path is not None:
            state = load_checkpoint(path, model)
            self.step, self.history = state["step"], state["history"]
            corpus.restore(state["corpus"])
        # The corpus may have been in use before.
        self._first_batch = corpus.num_batches - self.step
        self._resumed = path
        return self.step

    def on_epoch_begin(self, epoch, logs=None):
        self._before = self.step
        # Beginning an epoch resets states and metrics. In an epoch that was stopped, what they were
        # is put back; those of the epoch before are not for this one.
        begun = {(row["step"], row["epoch"] + 1) for row in self.history}
        if self._resumed is not None and (self.step, epoch) not in begun:
            load_checkpoint(self._resumed, self.model, optimizer=False)
        self._resumed = None

    def on_train_batch_end(self, batch, logs=None):
        # The number of the last batch: there may have been several at once.
        last, self.step = self.step, self._before + batch + 1
        due = self.every_steps and self.step // self.every_steps > last // self.every_steps
        if self.every_seconds and time.monotonic() - self._saved_at >= self.every_seconds:
            due = True
        if due:
            self.save()

    def on_epoch_end(self, epoch, logs=None):
        self.history.append({"epoch": epoch, "step": self.step, **_plain(logs or {})})
        self.save()

    def save(self):
        """Saves now."""
        corpus = self._corpus.state(self._first_batch + self.step)
        state = {"step": self.step, "history": self.history, "corpus": corpus}
        path = self.folder / f"step-{self.step:08d}.npz"
        save_checkpoint(path, self.model, state)
        for _, old in sorted(_checkpoints(self.folder))[: -self.keep]:
            old.unlink(missing_ok=True)
        self._saved_at = time.monotonic()


def latest_checkpoint(folder):
    """The path of the latest checkpoint in a folder, or `None`."""
    found = sorted(_checkpoints(folder))
    return found[-1][1] if found else None


def _checkpoints(folder):
    """Pairs of step and path."""
    matches = ((_NAME.fullmatch(path.name), path) for path in Path(folder).glob("step-*.npz"))
    return [(int(match[1]), path) for match, path in matches if match]


def save_checkpoint(path, model, state=None):
    """Writes all variables of a model and its optimizer to a file, whole or not at all.

    Args:
        path: The file, in NumPy's .npz format.
        model: A `BidirectionalLanguageModel`.
        state: A dict that JSON can hold, to be kept with it.

    Raises:
        OSError: if the disk is full.
    """
    state = {
        "format": _FORMAT,
        "model": model.get_config(),
        "optimizer": _class_name(model.optimizer),
        **(state or {}),
    }
    arrays = {
        name: _storable(keras.ops.convert_to_numpy(variable.value))
        for name, variable in _variables(model, optimizer=True).items()
    }
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


def _storable(array):
    """The array in a dtype that .npz files know: bfloat16, which they do not, as float32."""
    return array.astype("float32") if array.dtype.name == "bfloat16" else array


def load_checkpoint(path, model, optimizer=True):
    """Sets the variables of a model, and of its optimizer, from a file of `save_checkpoint`.

    Args:
        path: The file.
        model: A model made like the one that was saved, and compiled likewise.
        optimizer: Whether to set the optimizer's variables too.

    Returns:
        The dict that was kept with it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no checkpoint, or of another model or optimizer.
    """
    variables = _variables(model, optimizer)
    with _open(path) as file:
        state = _read_state(file)
        problems = []
        if optimizer and state["optimizer"] != _class_name(model.optimizer):
            problems.append(f"its optimizer is {state['optimizer']}")
        arrays = {name: file[name] for name in variables if name in file}
    for name, variable in variables.items():
        if name not in arrays:
            problems.append(f"it has no {variable.path} {tuple(variable.shape)}")
        elif arrays[name].shape != tuple(variable.shape):
            problems.append(
                f"{variable.path} is {arrays[name].shape} there, {tuple(variable.shape)} here"
            )
    if problems:
        raise ValueError(
            f"The checkpoint {path} is of another model or optimizer: "
            f"{'; '.join(problems[:8])}. Use the settings it was made with, or another folder."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def read_checkpoint_state(path):
    """The dict that was kept with a checkpoint, the model's config under `"model"`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no checkpoint.
    """
    with _open(path) as file:
        return _read_state(file)


@contextlib.contextmanager
def _open(path):
    """Opens a checkpoint, with errors that say what is wrong with it."""
    damaged = f"{path} is not a checkpoint of keras_elmo, or it is cut off or damaged."
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(damaged)
    try:
        with np.load(path) as file:
            if _STATE not in file:
                raise ValueError(f"{path} is not a checkpoint of keras_elmo.")
            yield file
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{damaged} ({error})") from None


def _read_state(file):
    state = json.loads(file[_STATE].tobytes())
    if state["format"] > _FORMAT:
        raise ValueError("The checkpoint was written by a newer keras_elmo. Update keras_elmo.")
    return state


def _variables(model, optimizer):
    """All variables by their names in a checkpoint, in a fixed order."""
    groups = {"model": [*model.variables, *model.metrics_variables]}
    if optimizer and model.optimizer is not None:
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        groups["optimizer"] = model.optimizer.variables
    named, seen = {}, set()
    for group, variables in groups.items():
        for variable in variables:
            if id(variable) in seen:
                continue
            seen.add(id(variable))
            # Keras' own names depend on how many models were made before.
            named[f"{group}/{len(named):04d}"] = variable
    return named


def _class_name(optimizer):
    return None if optimizer is None else type(optimizer).__name__


def _plain(logs):
    return {name: float(value) for name, value in logs.items()}

"""Checkpoints from which a training run is resumed as if it had never been stopped."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.lib.format import read_array, write_array

from keras_elmo.config import ElmoConfig
from keras_elmo.files import atomic_write, is_damage, remove_partials
from keras_elmo.pretrained.folder import checkpoints, latest_checkpoint
from keras_elmo.training.devices import assert_same_on_all_processes, is_first_process
from keras_elmo.training.settings import checked
from keras_elmo.warn import warn

_STATE = "state.json"


class DamagedCheckpointError(ValueError):
    """A file is not a valid checkpoint."""


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves the complete state of a training run at the end of each Keras epoch, and restores it.

    A run that is killed at any moment and started again with the same arguments ends with the same
    history and the same weights, bit for bit on one machine, as one that was never killed. It loses
    the steps of the epoch in which it was killed: pass `steps_per_epoch` to `fit` to make epochs,
    and this loss, shorter. The state of other callbacks (the patience of `EarlyStopping`, for
    example) is not saved.

    Place it after callbacks that add to the logs. If the latest file is damaged, the one before it
    is restored, with a warning.

    Args:
        folder: Where to save `step-00000123.ckpt`; created if it does not exist.
        keep: How many of the latest checkpoints to keep.
        monitor: A value in the logs, such as `"val_perplexity"`: the checkpoint for which it is
            lowest is kept as well.

    Attributes:
        step: Steps done, over all epochs.
        best_step: The step for which `monitor` is lowest, of several the first; `None` without one.
        history: A dict for each epoch that ended: `epoch`, `step` and the logs.
        corpus: The `identity()` of the corpus, which `restore` and `fit` set, or `None`.

    Raises:
        ValueError: if the latest checkpoint belongs to a different model, optimizer or corpus, was
            not restored, the training has diverged, or the steps of an epoch are not a multiple of
            `steps_per_execution`.
        OSError: if the disk is full. In all cases earlier checkpoints are unchanged.

    Example:

    >>> corpus = LanguageModelCorpus(
    ...     "shards/*", vocabulary, config, batch_size=128, unroll_steps=20, seed=1
    ... )
    >>> checkpoint = TrainingCheckpoint("checkpoints")
    >>> model.fit(
    ...     corpus,
    ...     epochs=100,
    ...     steps_per_epoch=500,
    ...     initial_epoch=checkpoint.restore(model, corpus) // 500,
    ...     callbacks=[checkpoint],
    ... )
    """

    def __init__(self, folder: str | os.PathLike, *, keep: int = 3, monitor: str | None = None):
        super().__init__()
        self.folder = Path(folder)
        self.keep = checked("keep", keep)
        self.monitor = monitor
        self.step = 0
        self.history: list[dict[str, Any]] = []
        self.corpus: dict[str, Any] | None = None

    def restore(self, model: keras.Model, corpus: Any = None) -> int:
        """Restores a compiled model from the latest valid checkpoint, if there is one.

        Args:
            model: The model, with its optimizer.
            corpus: The `LanguageModelCorpus`, to check that it is the same.

        Returns:
            The number of steps done, which is the number of the next batch of the corpus.
        """
        if is_first_process():
            remove_partials(self.folder)
        # Before anything is loaded, which all processes do together.
        assert_same_on_all_processes(
            latest_checkpoint(self.folder)[0],
            f"The processes found different checkpoints in {self.folder}: pass the same folder to "
            "all of them. The first process writes it.",
        )
        self.corpus = None if corpus is None else corpus.identity()
        self.step, self.history = 0, []
        while (path := latest_checkpoint(self.folder)[1]) is not None:
            try:
                state = load_checkpoint(path, model, corpus=self.corpus)
            except DamagedCheckpointError as error:
                backup = path.with_name(f"{path.name}.damaged")
                if is_first_process():
                    path.replace(backup)
                assert_same_on_all_processes(0, "")  # the others wait
                warn(
                    f"{error} It was renamed to {backup.name}; training continues from the "
                    "checkpoint before it, if there is one."
                )
            else:
                self.step, self.history = state["step"], state["history"]
                break
        return self.step

    @property
    def best_step(self) -> int | None:
        values = [(row[self.monitor], row["step"]) for row in self.history if self.monitor in row]
        return min(values)[1] if values else None

    def restore_best(self, model: keras.Model) -> int:
        """Loads the weights of `best_step` into a model, without its optimizer.

        Returns:
            The step of these weights: the last one if it is the best, or, with a warning, if the
            checkpoint of the best one is damaged.
        """
        best = self.best_step
        if best is None or best == self.step:
            return self.step
        try:
            load_checkpoint(self._checkpoint_path(best), model, optimizer=False)
        except (DamagedCheckpointError, FileNotFoundError) as error:
            warn(f"{error} The weights of the last step are used.")
            return self.step
        return best

    def _checkpoint_path(self, step):
        return self.folder / f"step-{step:08d}.ckpt"

    def on_train_begin(self, logs=None):
        together, steps = self.model.steps_per_execution, self.params["steps"]
        if steps and steps % together:  # Keras would run more steps of an endless stream
            raise ValueError(
                f"An epoch has {steps} steps, not a multiple of steps_per_execution={together}: "
                "change steps_per_epoch or steps_per_execution."
            )

    def on_train_batch_begin(self, batch, logs=None):
        # Not at its end, for which JAX would wait.
        self._done = batch + self.model.steps_per_execution

    def on_epoch_end(self, epoch, logs=None):
        self.step += self._done
        row = {name: float(value) for name, value in (logs or {}).items()}
        self.history.append({"epoch": epoch, "step": self.step, **row})
        self.save()

    def save(self) -> None:
        """Saves now; if several processes train together, the first one does."""
        if not is_first_process():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if (latest := latest_checkpoint(self.folder)[0]) > self.step:
            raise ValueError(
                f"{self.folder} has a checkpoint of step {latest:,}, which was not restored before "
                "this training run: call restore first, or choose a different folder."
            )
        state = {"step": self.step, "history": self.history, "corpus": self.corpus}
        save_checkpoint(self._checkpoint_path(self.step), self.model, state)
        best = self.best_step
        for step, old in checkpoints(self.folder)[: -self.keep]:
            if step != best:
                old.unlink(missing_ok=True)


def save_checkpoint(
    path: str | os.PathLike, model: keras.Model, state: dict[str, Any] | None = None
) -> None:
    """Writes all variables of a model and its optimizer to a file, completely or not at all.

    The file is a zip of `.npy` arrays, whose checksums show damage, and the JSON-serializable
    `state`. Raises ValueError if a weight is not finite.
    """
    variables = _variables(model, optimizer=True)
    state = {
        "model": model.get_config(),
        "optimizer": type(model.optimizer).__name__,
        "num_arrays": len(variables),
        **(state or {}),
    }
    with atomic_write(path) as partial, zipfile.ZipFile(partial, "w") as file:
        file.writestr(_STATE, json.dumps(state))
        for name, variable in variables.items():
            array = keras.ops.convert_to_numpy(variable.value)
            # NumPy's files do not know bfloat16.
            array = array.astype("float32") if array.dtype.name == "bfloat16" else array
            if variable.trainable and not np.isfinite(array).all():
                raise ValueError(
                    f"The training has diverged: {variable.path} holds NaN or infinity. This state "
                    "was not saved; earlier checkpoints are unchanged. Start again with a lower "
                    "learning rate, for example from one of them."
                )
            with file.open(name, "w", force_zip64=True) as member:
                array = np.asarray(array, order="C")
                write_array(member, array, allow_pickle=False)


def load_checkpoint(
    path: str | os.PathLike,
    model: keras.Model,
    optimizer: bool = True,
    corpus: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Sets the variables of a model, and of its optimizer, from a file of `save_checkpoint`.

    Returns:
        The state that was saved with it.

    Raises:
        ValueError: if it is not a valid checkpoint (`DamagedCheckpointError`), or belongs to a
            different model, optimizer or corpus, which a corpus' `identity()` tells.
    """
    variables = _variables(model, optimizer)
    state, arrays = _read(path, variables)
    problems = []
    if optimizer and state["optimizer"] != (name := type(model.optimizer).__name__):
        problems.append(f"its optimizer is {state['optimizer']}, here {name}")
    before, now = map(_settings, (state["model"], model.get_config()))
    problems += [
        f"its {name} is {before.get(name)}, here {now[name]}"
        for name in now
        if before.get(name) != now[name]
    ]
    if corpus and (before := state.get("corpus")):
        for name in corpus:
            if before.get(name) != corpus[name]:
                is_hash = name in ("text", "vocabulary")
                values = "different" if is_hash else f"{before.get(name)}, here {corpus[name]}"
                problems.append(f"the {name} of its corpus is {values}")
    for name, variable in () if problems else variables.items():
        if name not in arrays:
            problems.append(f"it has no {variable.path} {tuple(variable.shape)}")
        elif (found := arrays[name].shape) != tuple(variable.shape):
            problems.append(f"{variable.path} is {found} there, {tuple(variable.shape)} here")
    if problems:
        raise ValueError(
            f"The checkpoint {path} does not match this training run: {'; '.join(problems[:8])}. "
            "Use the settings it was made with, or a different folder."
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return state


def _settings(model_config):
    """The config of a language model, without its name and bilm-tf's options; of others nothing."""
    if "vocabulary_size" not in model_config:
        return {}
    config = ElmoConfig.from_dict(model_config["config"])
    return {**model_config, "config": config, "name": None}


def read_checkpoint_state(path: str | os.PathLike) -> dict[str, Any]:
    """The state that was saved with a checkpoint, the model's config under `"model"`."""
    return _read(path)[0]


def _read(path, names=()):
    """The state in a checkpoint, and those named arrays that it contains."""
    with open(path, "rb") as opened:
        try:
            with zipfile.ZipFile(opened) as file:
                for member in file.infolist():
                    file.open(member).close()  # compares its name with the one in the directory
                state = json.loads(file.read(_STATE))
                if len(file.namelist()) != 1 + state["num_arrays"]:
                    raise ValueError("some arrays are missing")
                found = (name for name in names if name in file.NameToInfo)
                arrays = {name: read_array(io.BytesIO(file.read(name))) for name in found}
        except Exception as error:
            # Damage to the directory of names leads to invalid offsets, and so to any error.
            if not is_damage(error):
                raise
            raise DamagedCheckpointError(
                f"{path} is not a valid checkpoint of keras_elmo: it is damaged, truncated or of a "
                f"different kind ({error})."
            ) from None
    return state, arrays


def _variables(model, optimizer):
    """All variables by their names in a checkpoint, in a fixed order."""
    groups = {"model": model.variables}
    if optimizer:
        groups["optimizer"] = model.optimizer.variables
    distinct = {id(one): (group, one) for group, found in groups.items() for one in found}
    # Keras' own names depend on how many models were made before.
    return {f"{group}/{i:04d}.npy": one for i, (group, one) in enumerate(distinct.values())}

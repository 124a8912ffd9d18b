"""Loading the training checkpoints of bilm-tf, which TensorFlow 1 wrote."""

import os
import re
from pathlib import Path

import numpy as np

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.weight_table import weight_table

_LSTM_PARTS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


def find_tf1_checkpoint(path: str | os.PathLike) -> str | None:
    """The prefix of a TensorFlow 1 checkpoint, or `None` if there is none.

    `path` is the prefix, such as `"run/model.ckpt-30"`, its index file, or its folder, of which the
    checkpoint with the most steps is taken.
    """
    path = Path(path)
    if path.is_dir():
        # The folder's own `checkpoint` file may name the place where the files were made.
        found = sorted(path.glob("*.index"), key=_step)
        return str(found[-1]).removesuffix(".index") if found else None
    prefix = str(path).removesuffix(".index")
    return prefix if os.path.exists(f"{prefix}.index") else None


def _step(path):
    number = re.search(r"-(\d+)\.index$", path.name)
    return int(number[1]) if number else -1


def read_tf1_checkpoint(
    config: ElmoConfig, path: str | os.PathLike
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    """Reads a training checkpoint of bilm-tf; `path` is as for `find_tf1_checkpoint`.

    Returns:
        Two dicts of float32 arrays, values and Adagrad accumulators (empty if none were saved), and
        the number of steps. The names are as in `weight_table`, plus `"softmax/b"` and
        `"softmax/W"` (missing if it is tied to the embedding).

    Raises FileNotFoundError if the checkpoint does not exist, and ValueError if arrays are missing
    or have the wrong shape; the message lists them.
    """
    import tensorflow as tf

    prefix = find_tf1_checkpoint(path)
    if prefix is None:
        raise FileNotFoundError(
            f"The TensorFlow 1 checkpoint {path} does not exist: expected files such as "
            "model.ckpt-100.index and model.ckpt-100.data-00000-of-00001."
        )
    reader = tf.train.load_checkpoint(prefix)
    found = reader.get_variable_to_shape_map()
    shapes = {entry.name: entry.shape for entry in weight_table(config)}
    names = {name: _tf1_name(name, config, found) for name in [*shapes, "softmax/b"]}
    if "lm/softmax/W" in found or config.reads_characters:
        names["softmax/W"] = "lm/softmax/W"
    problems = []
    for name, tf1_name in names.items():
        if tf1_name not in found:
            problems.append(f"missing {tf1_name}")
        elif tuple(found[tf1_name]) != shapes.get(name, tuple(found[tf1_name])):
            problems.append(f"{tf1_name} is {tuple(found[tf1_name])}, expected {shapes[name]}")
    if problems:
        raise ValueError(
            f"The checkpoint {prefix} does not match the architecture in the options: "
            f"{'; '.join(problems[:8])}. Pass the options.json that was saved with it."
        )
    values = {name: reader.get_tensor(tf1_name) for name, tf1_name in names.items()}
    slots = {
        name: reader.get_tensor(f"{tf1_name}/Adagrad")
        for name, tf1_name in names.items()
        if f"{tf1_name}/Adagrad" in found
    }
    steps = reader.get_tensor("global_step") if "global_step" in found else 0
    return values, slots, int(np.asarray(steps))


def _tf1_name(name, config, found):
    """The name in a checkpoint of an array by its name in the hdf5 file."""
    if not name.startswith("RNN_"):
        return f"lm/{name}"
    direction, _, _, cell, _, part = name.split("/")
    # bilm-tf names the direction only if the model has two.
    scope = f"lm/{direction}/rnn" if config.bidirectional else "lm/rnn"
    several = f"{scope}/multi_rnn_cell/cell_{cell[4:]}/lstm_cell/{_LSTM_PARTS[part]}"
    # A single layer is not wrapped.
    single = f"{scope}/lstm_cell/{_LSTM_PARTS[part]}"
    return single if several not in found and single in found else several

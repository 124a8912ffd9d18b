"""Reading the training checkpoints of bilm-tf, which TensorFlow 1 wrote."""

import os
import re
from pathlib import Path

import numpy as np

from keras_elmo.files import is_damage

_LSTM = re.compile(
    r"(?:RNN_(\d)/)?rnn/(?:multi_rnn_cell/cell_(\d+)/)?lstm_cell/(kernel|bias|projection/kernel)"
)
_LSTM_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


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


def read_tf1_checkpoint(prefix: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the weights and the softmax of a training checkpoint of bilm-tf.

    Returns:
        Arrays by their names in `weight_table` and `softmax.hdf5`; the state of an optimizer is
        left out.

    Raises ImportError if TensorFlow is not installed, and ValueError if the checkpoint is damaged.
    """
    import tensorflow as tf

    prefix = os.fspath(prefix)
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = set(reader.get_variable_to_shape_map())
        # What an optimizer keeps for an array is named like a part of it.
        names = {x for x in names if x.startswith("lm/") and x.rpartition("/")[0] not in names}
        return {_own_name(name): reader.get_tensor(name) for name in names}
    except Exception as error:
        if not is_damage(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"The checkpoint {prefix} is damaged, truncated or incomplete ({reason}): copy its "
            "files again, with .index and .data at the end of their names."
        ) from None


def _own_name(name):
    """The name in an hdf5 file of an array of a checkpoint."""
    name = name.removeprefix("lm/")
    if (lstm := _LSTM.fullmatch(name)) is None:
        return name
    # bilm-tf numbers the directions and layers only if there are two or more.
    direction, layer, part = lstm.groups(default="0")
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{_LSTM_PARTS[part]}"

"""A tiny language model and corpus that the tests of the training share."""

import dataclasses
from pathlib import Path

import keras
import numpy as np

from keras_elmo import (
    BidirectionalLanguageModel,
    ElmoConfig,
    EvaluationCorpus,
    LanguageModelCorpus,
    Vocabulary,
)
from keras_elmo.pretrained.weight_table import weight_table
from keras_elmo.pretrained.weights import array_of

DATA = Path(__file__).parent / "golden" / "training" / "train_tiny_data"
CONFIG = ElmoConfig(
    filters=((1, 4), (2, 8)),
    char_embedding_dim=4,
    max_characters_per_token=20,
    num_highway=1,
    lstm_dim=16,
    projection_dim=8,
)
ONE_LAYER = dataclasses.replace(CONFIG, num_layers=1)
WORDS = ElmoConfig(filters=None, lstm_dim=16, projection_dim=8, vocabulary_size=127)
BATCH = {"batch_size": 4, "unroll_steps": 8}


def vocabulary():
    return Vocabulary.from_file(DATA / "vocab.txt")


def tiny_model(config=CONFIG, seed=0, **arguments):
    keras.utils.set_random_seed(seed)
    return BidirectionalLanguageModel(config, 127, **{**BATCH, **arguments})


def tiny_corpus(name="train.txt", config=CONFIG, **arguments):
    options = {**BATCH, "seed": 3, **arguments}
    return LanguageModelCorpus(DATA / name, vocabulary(), config, **options)


def held_out(config=CONFIG):
    return EvaluationCorpus(DATA / "heldout.txt", vocabulary(), config, **BATCH)


def write_tf1_checkpoint(model, prefix, steps):
    """Writes a model and Adagrad accumulators under the names of a training checkpoint of bilm-tf.

    An accumulator is 1 more than the absolute values of its variable.
    """
    import tensorflow as tf

    arrays = {entry.name: array_of(model.backbone, entry) for entry in weight_table(model.config)}
    named = {f"lm/{name}": array for name, array in arrays.items() if "RNN" not in name}
    for d in range(model.config.num_directions):
        for i in range(model.config.num_layers):
            scope = f"lm/RNN_{d}/rnn" if model.config.num_directions > 1 else "lm/rnn"
            cell = (
                f"multi_rnn_cell/cell_{i}/lstm_cell" if model.config.num_layers > 1 else "lstm_cell"
            )
            ours = f"RNN_{d}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            named[f"{scope}/{cell}/kernel"] = arrays[f"{ours}/W_0"]
            named[f"{scope}/{cell}/bias"] = arrays[f"{ours}/B"]
            if model.config.projects_cells:
                named[f"{scope}/{cell}/projection/kernel"] = arrays[f"{ours}/W_P_0"]
    if not model.share_embedding_softmax:
        named["lm/softmax/W"] = keras.ops.convert_to_numpy(model.softmax.kernel)
    named["lm/softmax/b"] = keras.ops.convert_to_numpy(model.softmax.bias)
    slots = {f"{name}/Adagrad": np.abs(array) + 1 for name, array in named.items()}
    saved = {**named, **slots, "global_step": np.int64(steps)}
    names, tensors = zip(*saved.items())
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
    )

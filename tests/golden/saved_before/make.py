"""Made the files beside this, with keras_elmo as of commit 54e3511, on TensorFlow.

python make.py REPOSITORY, with the root of a checkout of that commit, which is then imported.
"""

import dataclasses
import os
import shutil
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
HERE = Path(__file__).resolve().parent
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, os.path.join(sys.argv[1], "tests"))

import h5py
import keras
import numpy as np
from keras_elmo import (
    BiLMStack,
    CharCNNEmbedding,
    ElmoLayer,
    WeightedLayerSum,
    cli,
    encode_sentences,
)
from keras_elmo.layers.word_embedding import WordEmbedding
from keras_elmo.training.checkpoint import TrainingCheckpoint
from training_models import CONFIG, DATA, held_out, tiny_corpus, tiny_model

SENTENCES = [["The", "old", "sailor", "opened", "an", "empty", "house", "."], ["Hello"], []]
STEPS, EVERY, KILLED_AT = 18, 6, 9


class Killed(Exception):
    pass


def randomize(model):
    """Takes every weight away from where it starts: no mix alike, no bias 0."""
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign_add(rng.normal(scale=0.1, size=weight.shape).astype("float32"))


def save(model, name, inputs):
    model.save(HERE / f"{name}.keras")
    outputs = keras.ops.convert_to_numpy(model(inputs))
    np.savez_compressed(HERE / f"{name}.npz", inputs=inputs, outputs=outputs)


def make_elmo_layer():
    elmo = ElmoLayer(None, config=CONFIG, dropout=0.5, l2=0.001, num_mixes=1, trainable_bilm=True)
    model = keras.Sequential(
        [keras.Input((None, 20), dtype="int32"), elmo, keras.layers.Dense(3, name="dense")]
    )
    model.compile("sgd", "mse")
    randomize(model)
    save(model, "elmo_layer", encode_sentences(SENTENCES, 20))


def make_single_layers():
    ids = keras.Input((None, 20), dtype="int32")
    x = CharCNNEmbedding(
        CONFIG.filters, CONFIG.char_embedding_dim, "relu", CONFIG.n_highway, CONFIG.projection_dim
    )(ids)
    x = BiLMStack(CONFIG.lstm_dim, CONFIG.projection_dim, n_layers=2)(x)
    model = keras.Model(ids, WeightedLayerSum(layer_norm=True)(x))
    randomize(model)
    save(model, "single_layers", encode_sentences(SENTENCES, 20))


def make_words():
    ids = keras.Input((None,), dtype="int32")
    x = WordEmbedding(n_tokens_vocab=20, projection_dim=8)(ids)
    x = BiLMStack(8, 8, n_layers=1, bidirectional=False, cell_clip=None, proj_clip=None)(x)
    model = keras.Model(ids, x)
    randomize(model)
    save(model, "words", np.array([[1, 5, 7, 20, 2], [1, 9, 2, 0, 0]], "int32"))


def make_language_model():
    # One layer, for a small file.
    config = dataclasses.replace(CONFIG, n_layers=1)
    model = tiny_model(config, n_negative_samples=20, dropout=0.1)
    model.compile()
    model.fit(tiny_corpus(), epochs=1, steps_per_epoch=8, verbose=0)
    model.save(HERE / "language_model.keras")
    loss = model.evaluate(held_out(), verbose=0, return_dict=True)
    np.savez_compressed(HERE / "language_model.npz", **loss)


def make_training(name, *settings):
    """The folder of a training that was killed, and the model that it ended with."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    CONFIG.to_json(HERE / "options.json")
    os.chdir(DATA)
    arguments = ["train", "train.txt", "--vocab", "vocab.txt", "--options", HERE / "options.json"]
    arguments += ["--batch-size", 4, "--unroll-steps", 8, "--steps", STEPS, "--keep", 1]
    arguments += ["--evaluate-every", EVERY, "--output", folder, *settings]
    arguments = [str(argument) for argument in arguments]
    on_train_batch_end = TrainingCheckpoint.on_train_batch_end

    def killed(self, batch, logs=None):
        on_train_batch_end(self, batch, logs)
        if self.step == KILLED_AT:
            self.save()
            raise Killed

    TrainingCheckpoint.on_train_batch_end = killed
    try:
        cli.main(arguments)
    except Killed:
        pass
    TrainingCheckpoint.on_train_batch_end = on_train_batch_end
    begun = shutil.copytree(folder, HERE / "begun")
    assert cli.main(arguments) == 0
    arrays = {}
    for file in ("weights", "softmax"):
        with h5py.File(folder / "model" / f"{file}.hdf5") as tree:
            tree.visititems(
                lambda path, item: arrays.update({path: item[()]})
                if isinstance(item, h5py.Dataset)
                else None
            )
    np.savez_compressed(
        HERE / f"{name}.npz", log=(folder / "log.csv").read_text(encoding="utf-8"), **arrays
    )
    shutil.rmtree(folder)
    begun.rename(folder)


if __name__ == "__main__":
    make_elmo_layer()
    make_single_layers()
    make_words()
    make_language_model()
    make_training("training", "--dropout", 0, "--negatives", 0)
    make_training("training_sampled", "--dropout", 0.2, "--negatives", 40)
